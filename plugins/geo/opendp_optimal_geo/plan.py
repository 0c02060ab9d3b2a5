"""What a query will do, settled before anybody is asked: its looks, their prices, their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from opendp_optimal.extend import (
    LARGEST_DIMENSION,
    LARGEST_RATE,
    Floats,
    float_down,
    float_up,
    positive,
    smallest_rate,
    whole,
)
from opendp_optimal_geo.allowances import BLOCK, Price, Users
from opendp_optimal_geo.score import Score, score_error

METHODS = ("point", "distance")
"""What gets the noise: the data themselves, or what is to be known of them."""
MOST_LOOKS = 1024
MOST_DOUBLINGS = 30
FEWEST_TICKS = 64
SCORE_STEPS = 256
"""Scores are rounded to this many steps per grid step of the data."""
SAFE = 1.0 - 2.0**-48
"""Makes a product of floats smaller than the exact one."""


@dataclass(frozen=True, eq=False)
class Plan:
    """One query: what is estimated, from how many looks, at which prices and with which noise.

    :param score: what is estimated
    :param method: "point" or "distance"
    :param pure: Laplace noise (GP) in place of Gaussian noise (CGP)
    :param grid: length of a grid step of the points
    :param split: share of each look
    :param allotment: ticks that the query may cost each user
    :param size: number of users
    :param tick: what one tick is worth
    :param component: name of the data
    """

    score: Score
    method: str
    pure: bool
    grid: float
    split: tuple[float, ...]
    allotment: Price = field(repr=False)
    size: int
    tick: Fraction
    component: str = "data"

    def __post_init__(self) -> None:
        """Refuse looks that would be lost in rounding, and vectors without Laplace noise."""
        if self._least * min(self.split) < FEWEST_TICKS:
            raise ValueError(
                f"budget (smallest {self._least:.3g} of 2**40 parts of the whole) must be "
                f"larger for {len(self.split)} looks"
            )
        if self.pure and self.columns > LARGEST_DIMENSION:
            raise ValueError(
                f"method ('point') must be 'distance' for Laplace noise beyond "
                f"{LARGEST_DIMENSION} coordinates"
            )

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """All looks, in order."""
        return tuple(Look(self, number) for number in range(len(self.split)))

    @cached_property
    def columns(self) -> int:
        """Numbers in a value; 0 for plain numbers."""
        return self.score.dimension if self.method == "point" else 0

    @cached_property
    def step(self) -> float:
        """Values are whole multiples of this."""
        return self.grid if self.columns else self.grid / SCORE_STEPS

    @cached_property
    def stretch(self) -> float:
        """How much farther apart values can be than the points."""
        return 1.0 if self.columns else lipschitz(self.score.dimension)

    @cached_property
    def rate(self) -> float:
        """The noise's rate for one tick, per step, rounded against ourselves."""
        scale = self.step / self.stretch
        return float_down(self.tick) * (scale if self.pure else scale * scale) * SAFE

    @cached_property
    def slack(self) -> float:
        """What Laplace noise on the grid adds to the exponent of a tail."""
        largest = float(np.max(self.allotment, initial=0)) * float_up(self.tick) * self.grid
        return 1.5 * math.sqrt(self.columns or 1) * largest

    @cached_property
    def rows(self) -> int:
        """How many users are handled at a time: fewer if each has several numbers."""
        return max(64, BLOCK // max(1, self.columns))

    def given(self, users: Users) -> Price:
        """Return the allotments of some users; one number if it is the same for all.

        :param users: indices
        """
        return self.allotment if isinstance(self.allotment, int) else self.allotment[users]

    def check_noise(self) -> None:
        """Refuse prices so small, or so large, that the noise would not fit the grid."""
        largest = self.rate * float(np.max(self.allotment, initial=0)) * max(self.split)
        if largest > LARGEST_RATE[self.pure]:
            raise ValueError(f"grid ({self.grid!r}) must be finer for prices as high as this")
        least = self._least * min(self.split) * (1.0 - 1.0 / FEWEST_TICKS)
        rate = self.rate * least * SAFE
        if self.pure and self.columns:
            rate /= math.sqrt(self.columns)
        if rate < smallest_rate(pure=self.pure):
            raise ValueError(
                f"grid ({self.grid!r}) must be coarser for looks as cheap as "
                f"{least * float(self.tick):.3g}"
            )

    @cached_property
    def _least(self) -> float:
        """The smallest allotment above 0; infinite if nobody is asked."""
        given = np.asarray(self.allotment, np.float64)
        return float(given.min(initial=math.inf, where=given > 0.0))


@dataclass(frozen=True, eq=False)
class Look:
    """One look of a plan.

    :param plan: whose look it is
    :param number: from 0
    """

    plan: Plan
    number: int

    @property
    def share(self) -> float:
        """Its share of the query's price."""
        return self.plan.split[self.number]

    def price(self, users: Users) -> Price:
        """Return what the look costs some users; one number if it is the same for all.

        :param users: indices
        """
        return price_of(self.plan.given(users), self.plan.split, self.number)

    def rates(self, price: Price) -> float | Floats:
        """Return the rates of the noise, per step.

        :param price: of the look
        """
        least = int(np.min(price))
        each = float(least) if least == np.max(price) else np.asarray(price, np.float64)
        return self.plan.rate * each * SAFE

    def weight(self, price: Price) -> float | Floats:
        """Return the inverse variance of the look's values, up to a factor.

        :param price: of the look
        """
        if self.plan.pure:
            return self.share**2
        return float(price) if isinstance(price, int) else price.astype(np.float64)


def shares(looks: Any, budget: Any = None) -> tuple[float, ...]:
    """Return the share of the budget that each look costs.

    :param looks: ``("even", c)``, ``("doubling", c)``, or prices that add up to the budget
    :param budget: the budget, needed for prices

    >>> shares(("doubling", 3))
    (0.14285714285714285, 0.2857142857142857, 0.5714285714285714)
    >>> shares([1.0, 3.0], 4.0)
    (0.25, 0.75)
    """
    named = isinstance(looks, tuple) and len(looks) == 2 and isinstance(looks[0], str)
    kind, c = looks if named else ("prices", None)
    if kind == "even":
        c = whole("looks", c, most=MOST_LOOKS)
        return (1.0 / c,) * c
    if kind == "doubling":
        c = whole("looks", c, most=MOST_DOUBLINGS)
        return tuple(2**j / (2**c - 1) for j in range(c))
    listed = isinstance(looks, Sequence | np.ndarray) and not isinstance(looks, str)
    if named or not listed or not len(looks):
        raise ValueError(f"looks ({looks!r}) must be ('even', c), ('doubling', c) or prices")
    prices = [positive("looks", price) for price in looks]
    if np.ndim(budget) != 0 or budget is None:
        raise ValueError("looks given as prices need one budget for all users")
    total, wanted = sum(map(Fraction, prices)), Fraction(positive("budget", budget))
    if abs(total - wanted) > wanted / 10**12:
        raise ValueError(
            f"looks ({looks!r}) must add up to the budget ({budget!r}), not to {float(total)!r}"
        )
    return tuple(float(Fraction(price) / total) for price in prices)


def price_of(allotment: Price, split: tuple[float, ...], look: int) -> Price:
    """Return what a look costs; the looks add up to the allotment exactly.

    :param allotment: ticks for all looks
    :param split: share of each look
    :param look: number of the look, from 0

    >>> [price_of(1000, (0.3, 0.7), look) for look in (0, 1)]
    [300, 700]
    """
    return _until(allotment, split, look + 1) - _until(allotment, split, look)


def _until(allotment: Price, split: tuple[float, ...], looks: int) -> Price:
    if looks == len(split):
        return allotment
    ticks = np.floor(allotment * sum(split[:looks]))
    return int(ticks) if isinstance(allotment, int) else ticks.astype(np.int64)


def lipschitz(dimension: int) -> float:
    """Return by how much a rounded score can change per unit of distance between grid points.

    A score rounded to 1/256 of the grid, with floating-point errors of at most ``score_error(d)``
    of the largest coordinate (2^31 grid steps), changes by at most its distance plus 2^-8 and two
    such errors, in grid steps; different grid points are at least one grid step apart.

    :param dimension: length of the points
    """
    error = score_error(dimension) * 2.0**31
    return (1.0 + 1.0 / SCORE_STEPS + 2.0 * error) * (1.0 + 2.0**-40)

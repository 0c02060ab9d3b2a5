"""How the price of one query is split over several looks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_geo._checks import count, positive
from opendp_optimal_geo.allowances import Ticks

Looks = tuple[str, int] | Sequence[float]
"""``("even", c)``, ``("doubling", c)``, or the prices themselves."""

MOST_LOOKS = 1024
MOST_DOUBLINGS = 30
FEWEST_TICKS = 64


def shares(looks: Any, budget: Any = None) -> tuple[float, ...]:
    """Return the share of the budget that each look costs.

    :param looks: ``("even", c)``, ``("doubling", c)``, or prices that add up to the budget
    :param budget: the budget, needed for prices

    >>> shares(("doubling", 3))
    (0.14285714285714285, 0.2857142857142857, 0.5714285714285714)
    >>> shares([1.0, 3.0], 4.0)
    (0.25, 0.75)
    """
    if isinstance(looks, tuple) and len(looks) == 2 and isinstance(looks[0], str):
        kind, c = looks
        if kind == "even":
            c = count("looks", c, most=MOST_LOOKS)
            return (1.0 / c,) * c
        if kind == "doubling":
            c = count("looks", c, most=MOST_DOUBLINGS)
            return tuple(2**j / (2**c - 1) for j in range(c))
        raise ValueError(f"looks ({looks!r}) must be ('even', c), ('doubling', c) or prices")
    if isinstance(looks, str) or not isinstance(looks, (Sequence, np.ndarray)) or not len(looks):
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


def fewest(allotment: Ticks) -> float | None:
    """Return the smallest allotment above 0; None if nobody is asked.

    :param allotment: ticks for each user
    """
    some = allotment[:1] if allotment.strides == (0,) else allotment
    asked = some[some > 0]
    return float(asked.min()) if len(asked) else None


def check_ticks(allotment: Ticks, split: tuple[float, ...]) -> None:
    """Refuse an allotment of which a look would be lost in rounding.

    :param allotment: ticks for each user; 0 for those not asked
    :param split: share of each look
    """
    least = fewest(allotment)
    if least is not None and least * min(split) < FEWEST_TICKS:
        raise ValueError(
            f"budget (smallest {least:.3g} of 2**40 parts of the whole) must be "
            f"larger for {len(split)} looks"
        )


class Prices:
    """What a look costs each user; the looks add up to the allotment exactly.

    :param allotment: ticks for each user
    :param split: share of each look
    :param look: number of the look, from 0

    >>> allotment = np.array([1000, 500])
    >>> [Prices(allotment, (0.3, 0.7), look).of(np.array([0, 1])).tolist() for look in (0, 1)]
    [[300, 150], [700, 350]]
    """

    def __init__(self, allotment: Ticks, split: tuple[float, ...], look: int) -> None:
        """Work out the price once if it is the same for all."""
        self._allotment, self._split, self._look = allotment, split, look
        self._same: Ticks | None = None
        if allotment.strides == (0,) and len(allotment):
            self._same = self._price(allotment[:1])

    @property
    def same(self) -> bool:
        """Whether everybody pays the same."""
        return self._same is not None

    def of(self, users: NDArray[np.intp]) -> Ticks:
        """Return the prices for some users; one number repeated without memory if they agree.

        :param users: indices
        """
        if self._same is not None:
            return np.broadcast_to(self._same, (len(users),))
        return self._price(self._allotment[users])

    def _price(self, allotment: Ticks) -> Ticks:
        price: Ticks = self._until(allotment, self._look + 1) - self._until(allotment, self._look)
        return price

    def _until(self, allotment: Ticks, last: int) -> Ticks:
        if last == len(self._split):
            return allotment
        ticks: Ticks = np.floor(allotment * sum(self._split[:last])).astype(np.int64)
        return ticks

"""How a population is asked: noisy points or noisy scores, with the bounds that belong to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.sample.integers import (
    LARGEST_RATE,
    smallest_rate,
)
from opendp_optimal.sample.integers import (
    gaussian_integers as gaussian_noise,
)
from opendp_optimal.sample.integers import (
    laplace_integers as laplace_noise,
)
from opendp_optimal.sample.integers import (
    laplace_vectors as planar_laplace_noise,
)
from opendp_optimal_geo.allowances import Ledger, Ticks, Users, pick, put
from opendp_optimal_geo.elimination import Elimination
from opendp_optimal_geo.plan import FEWEST_TICKS, Prices, fewest
from opendp_optimal_geo.radius import gaussian_radius, laplace_radius
from opendp_optimal_geo.region import LARGEST
from opendp_optimal_geo.score import Score, score_error

FloatArray = NDArray[np.float64]
Grid = NDArray[np.int32]

SCORE_STEPS = 256
"""Scores are rounded to this many steps per grid step of the data."""

_SAFE = 1.0 - 2.0**-48
"""Makes a product of floats smaller than the exact one."""


@dataclass(frozen=True)
class Request:
    """What clients of their own are sent in a look.

    :param users: who is asked
    :param prices: what each is charged: at most this may be spent on the answer
    :param score: what to send a noisy value of; None for the point itself
    :param component: which data is meant
    """

    users: Users
    prices: FloatArray
    score: Score | None
    component: str


Clients = Callable[[Request], FloatArray]
"""Returns noisy scores, or noisy points as rows; NaN for no answer, and so is beyond 2^100."""


class Steward(Protocol):
    """Who keeps the budgets."""

    ledger: Ledger
    journal: Path | None

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge before a look."""

    def commit(self) -> None:
        """Make charges last."""


def lipschitz(dimension: int) -> float:
    """Return by how much a rounded score can change per unit of distance between grid points.

    A score rounded to 1/256 of the grid, with floating-point errors of at most ``score_error(d)``
    of the largest coordinate (2^31 grid steps), changes by at most its distance plus 2^-8 and two
    such errors, in grid steps; different grid points are at least one grid step apart.

    :param dimension: length of the points
    """
    error = score_error(dimension) * 2.0**31
    return (1.0 + 1.0 / SCORE_STEPS + 2.0 * error) * (1.0 + 2.0**-40)


@dataclass
class GridLooker:
    """Asks the users of one population about one score; the noise is drawn here.

    :param steward: keeps the budgets
    :param data: points in grid steps, or clients of their own
    :param grid: length of a grid step
    :param dimension: length of the points
    :param score: what is estimated
    :param method: "point" or "distance"
    :param pure: Laplace noise (GP) in place of Gaussian noise (CGP)
    :param split: share of each look
    :param allotment: ticks for each user
    :param component: name of the data
    """

    steward: Steward = field(repr=False)
    data: Grid | Clients = field(repr=False)
    grid: float
    dimension: int
    score_of: Score
    method: str
    pure: bool
    split: tuple[float, ...]
    allotment: Ticks
    component: str
    _known: FloatArray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Work out the noise for one tick, rounded against ourselves."""
        self.columns = self.dimension if self.method == "point" else 0
        self.step = self.grid if self.columns else self.grid / SCORE_STEPS
        self.stretch = 1.0 if self.columns else lipschitz(self.dimension)
        tick = self.steward.ledger.tick
        self.tick = float(tick)
        scale = self.step / self.stretch
        self.rate = float_down(tick) * (scale if self.pure else scale * scale) * _SAFE
        largest = float(self.allotment.max(initial=0)) * float_up(tick) * self.grid
        self.slack = 1.5 * math.sqrt(self.columns or 1) * largest
        self._radius: dict[tuple[int, float], float] = {}
        self.reliable = isinstance(self.data, np.ndarray)
        self._begun = 0
        ledger, self._spent = self.steward.ledger, 0
        self._same = self.allotment.strides == (0,)
        self._before = ledger.paid[:0] if self._same else ledger.paid.copy()
        self.solvent = (
            self._same
            and self.reliable
            and self.steward.journal is None
            and ledger.can_all_pay(int(self.allotment[0]))
        )

    def check_noise(self) -> None:
        """Refuse prices so small that the noise would not fit the grid; nothing is charged."""
        largest = self.rate * float(self.allotment.max(initial=0)) * max(self.split)
        if isinstance(self.data, np.ndarray) and largest > LARGEST_RATE[self.pure]:
            raise ValueError(f"grid ({self.grid!r}) must be finer for prices as high as this")
        least = fewest(self.allotment)
        if least is not None and isinstance(self.data, np.ndarray):
            least *= min(self.split) * (1.0 - 1.0 / FEWEST_TICKS)
            rate = self.rate * least * _SAFE
            if self.pure and self.columns:
                rate /= math.sqrt(self.columns)
            if rate < smallest_rate(pure=self.pure):
                raise ValueError(
                    f"grid ({self.grid!r}) must be coarser for looks as cheap as "
                    f"{least * self.tick:.3g}"
                )

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge a look before it is run."""
        charged = self.steward.charge(users, ticks)
        if self._same:
            self._spent += int(ticks[0]) * int(np.count_nonzero(charged))
        return charged

    @contextmanager
    def paying(self, state: Elimination) -> Iterator[None]:
        """Charge solvent users the whole allotment, and give back what was not begun at the end.

        Whatever happens in between, every look that was begun has been paid for.
        """
        ledger, whole = self.steward.ledger, int(self.allotment[:1].sum())
        # Somebody may have paid for another query since it was known that all can pay.
        self.solvent = self.solvent and ledger.reserve(whole)
        if not self.solvent:
            yield
            return
        try:
            yield
        finally:
            first = np.zeros(1, np.intp)
            looks = range(len(self.split))
            prices = [int(Prices(self.allotment, self.split, j).of(first)[0]) for j in looks]
            unused = whole - np.cumsum([0, *prices], dtype=np.int64)
            unused[0] = unused[state.looks]  # never decided: asked in every look that was begun
            self._spent = whole * ledger.size - ledger.give_back(state.decided_at, unused)

    def commit(self) -> None:
        """Make charges last before the look is run."""
        self._begun += 1
        self.steward.commit()

    def saving(self) -> float:
        """Return the mean share of the allotments that was not spent."""
        if self._same:
            whole = int(self.allotment[0]) * len(self.allotment)
            return 1.0 - self._spent / whole if whole else 1.0
        shares, asked = 0.0, 0
        for begin in range(0, len(self.allotment), 1 << 18):
            block = slice(begin, begin + (1 << 18))
            given = self.allotment[block]
            used = (self.steward.ledger.paid[block] - self._before[block])[given > 0]
            shares += float((used / given[given > 0]).sum())
            asked += len(used)
        return 1.0 - shares / asked if asked else 1.0

    def look(self, users: Users, ticks: Ticks) -> FloatArray:
        """Return noisy points or scores."""
        if not isinstance(self.data, np.ndarray):
            return self._ask_clients(self.data, users, ticks)
        rates: float | FloatArray
        if ticks.strides == (0,) or ticks.min() == ticks.max():
            rates = self.rate * float(ticks[0]) * _SAFE
        else:
            rates = self.rate * ticks.astype(np.float64) * _SAFE
        if not self.columns:
            values = self._scores(users)
            noise = (laplace_noise if self.pure else gaussian_noise)(rates, len(users))
            values += noise
        elif self.pure:
            values = self._points(users)
            values += planar_laplace_noise(rates, len(users), self.columns)
        else:
            values = self._points(users)
            many = np.repeat(rates, self.columns) if isinstance(rates, np.ndarray) else rates
            values += gaussian_noise(many, values.size).reshape(values.shape)
        values *= self.step
        return values

    def _ask_clients(self, clients: Clients, users: Users, ticks: Ticks) -> FloatArray:
        score = None if self.columns else self.score_of
        prices = ticks.astype(np.float64) * float_down(self.steward.ledger.tick) * _SAFE
        values = np.array(clients(Request(users, prices, score, self.component)), np.float64)
        shape = (len(users), self.columns) if self.columns else (len(users),)
        if values.shape != shape:
            raise ValueError(f"clients returned shape {values.shape}, {shape} was wanted")
        whole = np.abs(values) <= LARGEST  # False for NaN
        values[~(whole.all(axis=1) if self.columns else whole)] = np.nan
        return values

    def _scores(self, users: Users) -> FloatArray:
        """Return true scores in steps, rounded; worked out in the first look, then remembered."""
        if self._known is None:
            self._known = np.empty(len(self.allotment))
        if self._begun > 1:
            known = pick(self._known, users)
            return known.copy() if known.base is self._known else known
        exact = self.score_of(self._points(users) * self.grid)
        exact /= self.step
        put(self._known, users, np.rint(exact, out=exact))
        return exact

    def _points(self, users: Users) -> FloatArray:
        assert isinstance(self.data, np.ndarray)
        return pick(self.data, users).astype(np.float64)

    def weight(self, ticks: Ticks, look: int) -> FloatArray:
        """Return inverse variances, up to a factor."""
        if self.pure:
            return np.full(len(ticks), self.split[look] ** 2)
        return ticks.astype(np.float64)

    def score(self, averages: FloatArray) -> FloatArray:
        """Return estimated scores."""
        return self.score_of(averages) if self.columns else averages

    def scale(self, users: Users, weights: FloatArray) -> FloatArray:
        """Return the standard deviation of the averages, per coordinate."""
        if self.pure:
            squares = math.fsum(f * f for f in self.split)
            share = self.allotment[users].astype(np.float64) * (self.tick * math.sqrt(squares))
            deviation: FloatArray = math.sqrt(2.0) * self.stretch / share
            return deviation
        return self.stretch / np.sqrt(2.0 * self.tick * weights)

    def width(self, users: Users, weights: FloatArray, look: int, beta: float) -> FloatArray:
        """Return error bounds, for the average after a look (from 0)."""
        size = self.columns or 1
        spread: FloatArray
        if self.pure:
            radius = self._laplace(look, beta) / (1.0 - 1.0 / FEWEST_TICKS)
            price = self.allotment[users].astype(np.float64) * self.tick
            spread = radius * self.stretch / price
            # A user who halted on the way has fewer looks than the bound is for.
            whole = math.fsum(f * f for f in self.split[: look + 1])
            spread = np.where(weights < whole * (1.0 - 1e-9), math.inf, spread)
        else:
            spread = self.scale(users, weights) * gaussian_radius(size, beta)
        rounding = self.step * (math.sqrt(size) / 2.0 if self.columns else 1.0)
        rounding += self.grid * score_error(self.dimension) * 2.0**31
        return spread * (1.0 + 1e-9) + rounding

    def _laplace(self, look: int, beta: float) -> float:
        if (look, beta) not in self._radius:
            self._radius[look, beta] = laplace_radius(
                self.columns or 1, beta, self.split[: look + 1], slack=self.slack
            )
        return self._radius[look, beta]

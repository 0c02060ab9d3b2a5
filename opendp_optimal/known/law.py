"""Noise as a distribution: its cdf, quantiles, spread and expected loss, in floats.

These numbers are for comparison and for proposing candidates; they prove nothing by themselves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from opendp_optimal.arrays import Floats
from opendp_optimal.losses.base import Loss

_STEPS = 20_000
_TAIL = 1e-14
_RARE = 1e-12
_PARTS = 16
_MOST = 1 << 22
_MOST_ROUNDED = 1 << 20
WIDE = 1e4
"""From this spread on sums over integers are integrals."""
_FAR = 40
"""Spreads beyond which nothing is left of the noise."""


class Law(ABC):
    """What is known of a noise."""

    integer: bool = False
    """Whether the noise is an integer."""
    margin_in_spreads: ClassVar[float | None] = None
    """How many spreads beyond bounds an observation still says something of an answer within them;
    None for as far as all but a rare part of the noise reaches."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """The width over which the chances vary."""

    @property
    def margin(self) -> float:
        """How far beyond bounds an observation still says something of an answer within them."""
        if self.margin_in_spreads is None:
            return self.quantile(1 - _RARE)
        return self.margin_in_spreads * self.spread

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Floats:
        """The chance of at most x, for each x."""

    @abstractmethod
    def expected_loss(self, loss: Loss, unit: float = 1.0) -> float:
        """The expected loss of the noise, scaled by ``unit``."""

    def rounded(self) -> Law:
        """The noise rounded to integers; as it is, where there are too many of them to list."""
        reach = math.ceil(_FAR * self.spread) + 1
        if self.integer or reach > _MOST_ROUNDED:
            return self
        chances = np.diff(self.cdf(np.arange(-reach, reach + 2) - 0.5))
        return Tabulated(chances, 1.0, self.spread, integer=True)

    def quantile(self, chance: float) -> float:
        """The least x that the noise exceeds with a chance of at most ``1 - chance``.

        :param chance: in (0, 1)
        """
        if not 0 < chance < 1:
            raise ValueError(f"chance ({chance}) must be in (0, 1)")
        reach = self.spread
        while self.cdf(-reach) >= chance or self.cdf(reach) < chance:
            reach *= 2
        low, high = -reach, reach
        while low < (middle := low + (high - low) / 2) < high:
            low, high = (low, middle) if self.cdf(middle) >= chance else (middle, high)
        return high


class Symmetric(Law):
    """Noise with the law of its mirror image, given by one of its tails."""

    @abstractmethod
    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""

    @abstractmethod
    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""

    def cdf(self, x: ArrayLike) -> Floats:
        """The chance of at most x, for each x."""
        at = np.asarray(x, dtype=np.float64)
        if self.integer:
            at = np.floor(at)
        tail = self.tail(np.where(at < 0, -at - self.integer, at))
        return np.asarray(np.where(at < 0, tail, 1.0 - tail))

    def expected_loss(self, loss: Loss, unit: float = 1.0) -> float:
        """The expected loss of the noise, scaled by ``unit``."""
        if loss.power:
            return loss.even * unit**loss.power * self.moment(loss.power)
        return self._integral(loss, unit)

    def _integral(self, loss: Loss, unit: float) -> float:
        """Integrate a loss over a tail and its mirror image."""
        near = self.spread if self.spread > WIDE else 1.0
        end = near
        while float(self.tail(np.array([end]))[0]) > _TAIL and end < 1e9 * near:
            end *= 2
        far = np.geomspace(near, end, _STEPS)[1:]
        edges = np.concatenate([np.linspace(0, near, _STEPS // 4), far])
        at = self.tail(edges)
        weights = np.append(at[:-1] - at[1:], at[-1])
        middles = np.append((edges[:-1] + edges[1:]) / 2, end) * unit
        atom = max(0.0, 1.0 - 2.0 * float(at[0]))
        costs = loss.values(middles) + loss.values(-middles)
        return float((weights * costs).sum()) + atom * loss(0.0)


class SymmetricIntegers(Symmetric):
    """Symmetric noise on the integers, given by its chances."""

    integer = True

    @property
    @abstractmethod
    def reach(self) -> int:
        """Where hardly any chance is left."""

    @abstractmethod
    def chances(self, k: Floats) -> Floats:
        """The chances of the integers k >= 0."""

    @cached_property
    def _side(self) -> Floats:
        return self.chances(np.arange(self.reach + 1, dtype=np.float64))

    def pmf(self, radius: int) -> Floats:
        """The chances of -radius..radius, the rest left out."""
        if radius < 0:
            raise ValueError(f"radius ({radius!r}) must be at least 0")
        side = self.chances(np.arange(radius + 1, dtype=np.float64))
        return np.concatenate([side[:0:-1], side])

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        beyond = np.append(np.cumsum(self._side[:0:-1])[::-1], 0.0)
        return np.asarray(beyond[np.minimum(np.floor(x), len(beyond) - 1).astype(int)])

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        return float(2 * (self._side * np.arange(self.reach + 1.0) ** power).sum())

    def _integral(self, loss: Loss, unit: float) -> float:
        if self.spread > WIDE:
            return super()._integral(loss, unit)
        at = np.arange(self.reach + 1, dtype=np.float64) * unit
        costs = loss.values(at) + loss.values(-at)
        costs[0] /= 2
        return float((self._side * costs).sum())


@dataclass(frozen=True, eq=False)
class Tabulated(Law):
    """Noise from a list of chances.

    :param chances: of the lattice points -radius..radius
    :param step: between the lattice points; real noise is spread uniformly over a step around each
    :param width: over which the chances vary
    :param atom: chance of exactly 0, besides
    :param integer: whether the noise is a lattice point, and the step 1
    :param spike: chance of a uniform place within so far from 0, and how far, besides
    :param dependent: whether it is one of several numbers that depend on each other
    """

    chances: Floats
    step: float
    width: float
    atom: float = 0.0
    integer: bool = False
    spike: tuple[float, float] = (0.0, 0.0)
    dependent: bool = False

    @property
    def spread(self) -> float:
        """The width over which the chances vary."""
        return self.width

    @property
    def margin(self) -> float:
        """Where all but a rare part of the noise lies."""
        rest = np.cumsum(self.chances[::-1])[::-1]
        return (int(np.flatnonzero(rest > _RARE)[-1]) - len(self.chances) // 2 + 1) * self.step

    @cached_property
    def _below(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.chances)])

    def cdf(self, x: ArrayLike) -> Floats:
        """The chance of at most x, for each x."""
        at, radius = np.asarray(x, dtype=np.float64), len(self.chances) // 2
        if self.integer:
            place = np.clip(np.floor(at) + radius + 1, 0, len(self.chances)).astype(int)
            return np.asarray(self._below[place])
        edges = (np.arange(len(self.chances) + 1) - radius - 0.5) * self.step
        below = np.interp(at, edges, self._below) + (at >= 0) * self.atom
        chance, far = self.spike
        return np.asarray(below + (chance * np.interp(at, [-far, far], [0, 1]) if chance else 0.0))

    def rounded(self) -> Tabulated:
        """Real noise rounded to integers; as it is, where there are too many of them to list."""
        radius = math.ceil((len(self.chances) // 2 + 0.5) * self.step)
        if self.integer or radius > _MOST:
            return self
        edges = np.arange(-radius, radius + 2) - 0.5
        chances = np.diff(self.cdf(edges))
        return Tabulated(chances, 1.0, self.width, integer=True, dependent=self.dependent)

    def expected_loss(self, loss: Loss, unit: float = 1.0) -> float:
        """The expected loss of the noise, scaled by ``unit``; the middles of parts of a cell."""
        points = np.arange(len(self.chances), dtype=np.float64)[:, None] - len(self.chances) // 2
        if not self.integer:
            points = points + (np.arange(_PARTS) + 0.5) / _PARTS - 0.5
        costs = loss.values(points * self.step * unit).mean(axis=1)
        chance, far = self.spike
        inner = loss.values((2 * np.arange(_PARTS) + 1 - _PARTS) / _PARTS * far * unit).mean()
        return float((self.chances * costs).sum()) + self.atom * loss(0.0) + chance * float(inner)

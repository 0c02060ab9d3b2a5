"""Noise as a distribution: the chance of at most x, for integer or real noise, in floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["GaussianLaw", "LaplaceLaw", "LatticeLaw", "Law"]

Floats = NDArray[np.float64]

_RARE = 1e-12


class Law(Protocol):
    """What can be asked of the noise in a measurement."""

    @property
    def integer(self) -> bool:
        """Whether the noise is an integer."""

    @property
    def spread(self) -> float:
        """The width over which the noise varies."""

    @property
    def margin(self) -> float:
        """How far from 0 all but a rare part of the noise lies."""

    def cdf(self, x: Floats) -> Floats:
        """The chance of at most x."""


@dataclass(frozen=True)
class LaplaceLaw:
    """Laplace noise, or geometric noise on integers: weights exp(-|x| / scale).

    :param scale: mean size, of real noise
    :param integer: whether the noise is an integer
    """

    scale: float
    integer: bool = False

    @property
    def spread(self) -> float:
        """The scale."""
        return self.scale

    @property
    def margin(self) -> float:
        """Where all but a rare part of the noise lies."""
        return -math.log(_RARE) * self.scale

    def cdf(self, x: Floats) -> Floats:
        """The chance of at most x."""
        if self.integer:
            whole = np.floor(x)
            away = np.where(whole < 0, -whole, whole + 1)
            half = np.exp(-away / self.scale) / (1 + math.exp(-1 / self.scale))
            return np.asarray(np.where(whole < 0, half, 1.0 - half))
        half = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.asarray(np.where(np.asarray(x) < 0, half, 1.0 - half))


@dataclass(frozen=True)
class GaussianLaw:
    """Gaussian noise, or discrete Gaussian noise on integers.

    :param scale: standard deviation
    :param integer: whether the noise is an integer
    """

    scale: float
    integer: bool = False

    @property
    def spread(self) -> float:
        """The scale."""
        return self.scale

    @property
    def margin(self) -> float:
        """Where all but a rare part of the noise lies."""
        return 7.2 * self.scale

    def cdf(self, x: Floats) -> Floats:
        """The chance of at most x."""
        if not self.integer:
            from scipy.special import ndtr

            return np.asarray(ndtr(np.asarray(x) / self.scale))
        cumulative = self._cumulative
        place = np.floor(x) + len(cumulative) // 2
        return np.asarray(cumulative[np.clip(place, 0, len(cumulative) - 1).astype(int)])

    @cached_property
    def _cumulative(self) -> Floats:
        reach = math.ceil(12 * self.scale) + 1
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / self.scale) ** 2)
        return np.concatenate([[0.0], np.cumsum(weights / weights.sum())])[:-1]


@dataclass(frozen=True, eq=False)
class LatticeLaw:
    """Noise on a lattice: integers, or uniform in the cells around its points.

    :param chances: of the points -radius..radius
    :param cell: distance of neighbouring points
    :param spread: the width over which the noise varies
    :param integer: whether the noise is an integer, rounded where the lattice is not that
    :param uniform: whether a point stands for its whole cell
    :param atom: chance of exactly 0, beside the points
    :param side: chance of each tail beyond the radius
    :param block: chances of the points of a tail, which goes on with the same block otherwise
    """

    chances: Floats
    cell: float
    spread: float
    integer: bool
    uniform: bool
    atom: float = 0.0
    side: float = 0.0
    block: Floats | None = None

    @property
    def radius(self) -> int:
        """Of the points before the tails."""
        return len(self.chances) // 2

    @property
    def margin(self) -> float:
        """Where all but a rare part of the noise lies."""
        if self.block is not None and self.side > _RARE:
            again = 1.0 - float(self.block.sum())
            blocks = math.ceil(math.log(_RARE / self.side) / math.log(again))
            return (self.radius + 1 + blocks * len(self.block)) * self.cell
        rest = np.cumsum(self.chances[::-1])[::-1]
        return (int(np.flatnonzero(rest > _RARE)[-1]) - self.radius + 1) * self.cell

    def cdf(self, x: Floats) -> Floats:
        """The chance of at most x."""
        x = np.asarray(x, np.float64)
        if not self.uniform:
            return self._points(np.floor(x / self.cell))
        if self.integer:
            x = np.floor(x) + 0.5
        place = x / self.cell + 0.5
        point = np.floor(place)
        part = place - point
        inner = (1.0 - part) * self._points(point - 1) + part * self._points(point)
        return np.asarray(inner + (x >= 0) * self.atom)

    def _points(self, last: Floats) -> Floats:
        """The chance of the points up to and including one, without the atom."""
        sums = np.concatenate([[0.0], np.cumsum(self.chances)])
        at = np.clip(last + self.radius + 1, 0, len(sums) - 1).astype(int)
        inner = sums[at] + self.side
        if self.block is None:
            return np.asarray(inner)
        left = self._beyond(-last - self.radius - 1)
        right = 1.0 - self.atom - self._beyond(last - self.radius)
        return np.asarray(
            np.where(last < -self.radius, left, np.where(last > self.radius, right, inner))
        )

    def _beyond(self, passed: Floats) -> Floats:
        """The chance of a tail after so many of its points."""
        assert self.block is not None
        passed = np.maximum(passed, 0)
        sums = np.concatenate([[0.0], np.cumsum(self.block)])
        blocks, rest = np.divmod(passed, len(self.block))
        return np.asarray(self.side * (1.0 - sums[-1]) ** blocks * (1.0 - sums[rest.astype(int)]))

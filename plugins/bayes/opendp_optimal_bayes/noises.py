"""Noise as a distribution: the chance of at most x, for integer or real noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from opendp_optimal import NoiseTable
from opendp_optimal_bayes.numbers import Floats

_RARE = 1e-12


class Noise(Protocol):
    """What a law needs to know of its noise."""

    @property
    def spread(self) -> float:
        """The width over which the noise varies."""

    @property
    def margin(self) -> float:
        """How far beyond the bounds observations still tell something."""

    def below(self, x: Floats, integer: bool) -> Floats:
        """The chance of at most x; for integer noise x lies between integers."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise, or geometric noise on integers: weights exp(-rate |x|).

    Beyond the bounds it tells nothing: the posterior is that of the end.

    :param rate: privacy loss for each unit of distance
    """

    rate: float

    @property
    def spread(self) -> float:
        """The scale."""
        return 1.0 / self.rate

    @property
    def margin(self) -> float:
        """Nothing."""
        return 0.0

    def below(self, x: Floats, integer: bool) -> Floats:
        """The chance of at most x."""
        if integer:
            whole = np.floor(x)
            half = np.exp(-self.rate * np.where(whole < 0, -whole, whole + 1)) / (
                1 + math.exp(-self.rate)
            )
            return np.asarray(np.where(whole < 0, half, 1.0 - half))
        half = 0.5 * np.exp(-self.rate * np.abs(x))
        return np.asarray(np.where(x < 0, half, 1.0 - half))

    def folded(self, count: int) -> Floats:
        """Geometric noise on 0..count-1 with its tails folded onto the ends, as a channel.

        Every entry, however small, is right to about 1e-13 of itself: nothing is subtracted.

        :param count: how many answers there are
        """
        away = np.arange(count)
        powers = np.exp(-self.rate * away)
        out = powers[np.abs(np.subtract.outer(away, away))] * -math.expm1(-self.rate)
        out[:, 0], out[:, -1] = powers, powers[::-1]
        return np.asarray(out / (1 + math.exp(-self.rate)))


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise, or discrete Gaussian noise on integers.

    :param scale: standard deviation
    """

    scale: float

    @property
    def spread(self) -> float:
        """The scale."""
        return self.scale

    @property
    def margin(self) -> float:
        """Five standard deviations."""
        return 5.0 * self.scale

    def below(self, x: Floats, integer: bool) -> Floats:
        """The chance of at most x."""
        if not integer:
            return np.asarray(ndtr(x / self.scale))
        reach = math.ceil(12 * self.scale) + 1
        at = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (at / self.scale) ** 2)
        return _steps(np.concatenate([[0.0], np.cumsum(weights / weights.sum())]), x, reach)


@dataclass(frozen=True)
class TableNoise:
    """Noise from an optimised table.

    :param table: any table without tails
    :param unit: the sensitivity by which the noise of a real table is scaled; 1 for integer tables
    """

    table: NoiseTable
    unit: float = 1.0

    @property
    def spread(self) -> float:
        """One cell of a real table; half of the sensitivity over epsilon at most."""
        if self.table.kind == "integer":
            return self.unit / self.table.epsilon
        return self.unit * min(1.0, 1.0 / self.table.epsilon)

    @property
    def margin(self) -> float:
        """Where all but a rare part of the noise lies."""
        weights = self.table.weights / self.table.total
        rest = np.cumsum(weights[::-1])[::-1]
        reach = int(np.flatnonzero(rest > _RARE)[-1]) - self.table.radius + 1
        cell = 1.0 if self.table.kind == "integer" else self.unit / self.table.cells
        return reach * cell

    def below(self, x: Floats, integer: bool) -> Floats:
        """The chance of at most x."""
        table = self.table
        weights = table.weights / table.total
        if table.kind == "integer":
            return _steps(np.concatenate([[0.0], np.cumsum(weights)]), x, table.radius)
        edges = (np.arange(len(weights) + 1) - table.radius - 0.5) * self.unit / table.cells
        out = np.interp(x, edges, np.concatenate([[0.0], np.cumsum(weights)]))
        return np.asarray(out + (x >= 0) * (table.atom / table.total))


def _steps(cumulative: Floats, x: Floats, reach: int) -> Floats:
    """A cumulative distribution on -reach..reach, at places between integers."""
    place = np.clip(np.floor(x) + reach + 1, 0, len(cumulative) - 1).astype(int)
    return np.asarray(cumulative[place])

"""Integer noise in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.known.law import WIDE, SymmetricIntegers


@dataclass(frozen=True)
class Geometric(SymmetricIntegers):
    """Two-sided geometric noise (Ghosh, Roughgarden, Sundararajan 2009).

    The chance of k is proportional to exp(-rate |k|).

    :param rate: privacy loss for each unit of distance

    >>> Geometric(1.0).pmf(1).round(4).tolist()
    [0.17, 0.4621, 0.17]
    """

    rate: float
    margin_in_spreads = 0.0  # what lies beyond bounds says as much as their end

    @property
    def spread(self) -> float:
        """The scale."""
        return 1.0 / self.rate

    @property
    def reach(self) -> int:
        """Where hardly any chance is left."""
        return math.ceil(45 / self.rate) + 2

    def chances(self, k: Floats) -> Floats:
        """The chances of the integers k >= 0."""
        return math.tanh(self.rate / 2.0) * np.exp(-self.rate * k)

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        return np.asarray(np.exp(-self.rate * (np.floor(x) + 1)) / (1 + math.exp(-self.rate)))

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        if power == 1:
            return 1.0 / math.sinh(self.rate)
        return 0.5 / math.sinh(self.rate / 2.0) ** 2

    def folded(self, count: int) -> Floats:
        """The noise on 0..count-1 with its tails folded onto the ends, as a channel.

        Every entry, however small, is right to about 1e-13 of itself: nothing is subtracted.

        :param count: how many answers there are
        """
        away = np.arange(count)
        powers = np.exp(-self.rate * away)
        out = powers[np.abs(np.subtract.outer(away, away))] * -math.expm1(-self.rate)
        out[:, 0], out[:, -1] = powers, powers[::-1]
        return np.asarray(out / (1 + math.exp(-self.rate)))


def canonical_tails(epsilon: float, delta: float) -> Floats:
    """Return P(X > k + 1/2) of canonical noise for k = 0, 1, ... while positive.

    The recursion G(k) = exp(-epsilon) (G(k-1) - delta) from its fixed start (1 - delta)/(1 +
    e**epsilon) has this solution; writing it with expm1 keeps the last, smallest entries
    accurate.
    """
    if delta == 0.0:
        raise ValueError("delta (0.0) must be above 0, or the support is infinite")
    unit = delta / math.expm1(epsilon)
    length = math.log1p((1.0 - delta) * math.tanh(epsilon / 2.0) / delta) / epsilon
    k = np.arange(math.ceil(length), dtype=np.float64)
    tails: Floats = unit * np.expm1(epsilon * (length - k))
    return tails[tails > 0.0]


@dataclass(frozen=True)
class Canonical(SymmetricIntegers):
    """Canonical integer noise for sensitivity 1 and delta > 0.

    Awan, Vadhan 2023; Awan, Ramasethu 2024: no (epsilon, delta)-private integer noise is
    stochastically smaller, so it minimises every loss that grows with the distance from 0.

    :param epsilon: privacy parameter
    :param delta: privacy parameter

    >>> Canonical(1.0, 0.2).pmf(2).round(4).tolist()
    [0.0056, 0.2096, 0.5697, 0.2096, 0.0056]
    """

    epsilon: float
    delta: float

    @property
    def spread(self) -> float:
        """The scale."""
        return 1.0 / self.epsilon

    @cached_property
    def _tails(self) -> Floats:
        return canonical_tails(self.epsilon, self.delta)

    @property
    def reach(self) -> int:
        """The end of its support."""
        return len(self._tails)

    def chances(self, k: Floats) -> Floats:
        """The chances of the integers k >= 0."""
        # Away from the end they are exactly geometric; differences of tails would lose digits
        # for large supports.
        first = self._tails[0] * -math.expm1(-self.epsilon) + self.delta * math.exp(-self.epsilon)
        out = first * np.exp(-self.epsilon * (k - 1))
        out[k == 0] = self.delta + (1.0 - self.delta) * math.tanh(self.epsilon / 2.0)
        out[k == self.reach] = self._tails[-1]
        out[k > self.reach] = 0.0
        return np.asarray(out)

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        weight = 1.0 if power == 1 else 2.0 * np.arange(self.reach, dtype=np.float64) + 1.0
        return float(2.0 * (weight * self._tails).sum())


@dataclass(frozen=True)
class DiscreteGaussian(SymmetricIntegers):
    """Discrete Gaussian noise: the chance of k is proportional to exp(-k^2 / (2 scale^2)).

    :param scale: nearly the standard deviation
    """

    scale: float
    margin_in_spreads = 5.0  # standard deviations, nearly

    @property
    def spread(self) -> float:
        """The scale."""
        return self.scale

    @property
    def reach(self) -> int:
        """Where hardly any chance is left."""
        return math.ceil(12 * self.scale) + 2

    @cached_property
    def _total(self) -> float:
        if self.scale > WIDE:
            return self.scale * math.sqrt(2 * math.pi)
        weights = np.exp(-0.5 * (np.arange(self.reach + 1) / self.scale) ** 2)
        return 2 * float(weights.sum()) - 1.0

    def chances(self, k: Floats) -> Floats:
        """The chances of the integers k >= 0."""
        return np.asarray(np.exp(-0.5 * (k / self.scale) ** 2) / self._total)

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        if self.scale <= WIDE:
            return super().tail(x)
        from scipy.special import ndtr

        # The midpoint rule with its first correction; the next is of order scale^-4.
        at = (np.floor(x) + 0.5) / self.scale
        return np.asarray(ndtr(-at) - at * np.exp(-0.5 * at**2) / (24 * self.scale * self._total))

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        if self.scale <= WIDE:
            return super().moment(power)
        return 2 * (self.scale**2 - 1 / 12) / self._total if power == 1 else self.scale**2

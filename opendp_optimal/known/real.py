"""Real noise in closed form, for sensitivity 1; it scales linearly with the sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.known.integer import Geometric, canonical_tails
from opendp_optimal.known.law import Symmetric
from opendp_optimal.losses.base import Loss


@dataclass(frozen=True)
class Laplace(Symmetric):
    """Laplace noise: density proportional to exp(-rate |x|).

    :param rate: privacy loss for each unit of distance
    """

    rate: float
    margin_in_spreads = 0.0  # what lies beyond bounds says as much as their end

    @property
    def spread(self) -> float:
        """The scale."""
        return 1.0 / self.rate

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        return 0.5 * np.exp(-self.rate * x)

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        return math.factorial(power) / self.rate**power


@dataclass(frozen=True)
class Staircase(Symmetric):
    """Noise whose density drops by exp(-epsilon) once in each unit (Geng, Viswanath 2014).

    :param epsilon: privacy parameter
    :param step: where in each unit the density drops
    """

    epsilon: float
    step: float

    @property
    def spread(self) -> float:
        """A unit, or less."""
        return min(1.0, 1.0 / self.epsilon)

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        b, step = math.exp(-self.epsilon), self.step
        unit = np.floor(x)
        into = x - unit
        # Mass of one unit above x, relative to a full unit; a full unit and all after it carry
        # b**unit / 2.
        flat = np.maximum(step - into, 0.0) + b * (1.0 - np.maximum(into, step))
        share = flat / (step + b * (1.0 - step))
        tail: Floats = 0.5 * np.exp(-self.epsilon * unit) * (b - math.expm1(-self.epsilon) * share)
        return tail

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2); no term is negative."""
        b, rest, s = math.exp(-self.epsilon), -math.expm1(-self.epsilon), self.step
        # Sums of b**k, k b**k, k**2 b**k; each is multiplied by what it has in a unit.
        sums = (1 / rest, b / rest**2, b * (1 + b) / rest**3)
        parts = [(s**j + b * (1 - s**j)) / j for j in range(1, power + 2)]
        if power == 1:
            total = sums[1] * parts[0] + sums[0] * parts[1]
        else:
            total = sums[2] * parts[0] + 2 * sums[1] * parts[1] + sums[0] * parts[2]
        return rest / parts[0] * total


@dataclass(frozen=True)
class UniformBernoulli(Symmetric):
    """Noise that is 0 or uniform, (0, delta)-private (Geng, Ding, Guo, Kumar 2019).

    :param atom: chance of exactly 0, besides
    :param radius: of the interval
    """

    atom: float
    radius: float

    @staticmethod
    def best(delta: float, loss: Loss) -> UniformBernoulli:
        """The best for a loss: with the atom ``a`` the density may be ``delta - a`` high.

        Minimising over ``a`` leaves no atom below ``delta = 1/2`` (l1) or ``2/3`` (l2).
        """
        if delta == 0.0:
            raise ValueError("delta (0.0) must be above 0: no noise is (0, 0)-private")
        atom = loss.uniform_atom(delta)
        return UniformBernoulli(atom, (1.0 - atom) / (2.0 * (delta - atom)))

    @property
    def spread(self) -> float:
        """The radius."""
        return self.radius

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        return np.asarray((1.0 - self.atom) * np.maximum(0.5 - 0.5 * x / self.radius, 0.0))

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        return (1.0 - self.atom) * (self.radius**power / (power + 1))


def truncated_laplace_radius(epsilon: float, delta: float) -> float:
    """Return the half-width of the truncated Laplace density, infinite for ``delta = 0``.

    Geng, Ding, Guo, Kumar 2020.

    >>> round(truncated_laplace_radius(1.0, 0.2), 4)
    1.6669
    """
    return math.inf if delta == 0.0 else math.log1p(math.expm1(epsilon) / (2.0 * delta)) / epsilon


@dataclass(frozen=True)
class TruncatedLaplace(Symmetric):
    """Laplace noise that is cut off where delta allows it.

    :param epsilon: privacy parameter
    :param delta: privacy parameter
    """

    epsilon: float
    delta: float

    @property
    def spread(self) -> float:
        """The scale."""
        return 1.0 / self.epsilon

    @property
    def _cut(self) -> float:
        return self.epsilon * truncated_laplace_radius(self.epsilon, self.delta)

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        beyond = np.minimum(self.epsilon * x, self._cut) - self._cut
        scale = 0.5 * math.exp(-self._cut) / -math.expm1(-self._cut)
        if scale > 0.0:
            return np.asarray(scale * np.expm1(-beyond))
        return 0.5 * np.exp(-self.epsilon * x)

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        from scipy.special import gammainc

        # An exponential cut at t has moments in incomplete gamma functions; the textbook form 1 -
        # log(1+q)/q cancels.
        kept = -math.expm1(-self._cut)
        whole = math.factorial(power) * gammainc(power + 1, self._cut)
        return float(whole / kept / self.epsilon**power)


@dataclass(frozen=True)
class Tulap(Symmetric):
    """Canonical noise: canonical integer noise and a uniform part (Awan, Vadhan 2023).

    :param epsilon: privacy parameter
    :param delta: privacy parameter
    """

    epsilon: float
    delta: float

    @property
    def spread(self) -> float:
        """A unit, or the scale."""
        return max(1.0, 1.0 / self.epsilon)

    def _last_width(self, last: float) -> float:
        return last / (last * -math.expm1(-self.epsilon) + self.delta * math.exp(-self.epsilon))

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        epsilon = self.epsilon
        if self.delta == 0.0:
            unit = np.floor(x + 0.5)
            full = np.exp(-epsilon * unit) / (1.0 + math.exp(-epsilon))
            partial = 1.0 + math.expm1(-epsilon) * (x + 0.5 - unit)
            tail: Floats = np.where(unit > 0, full * partial, 0.5 - math.tanh(epsilon / 2.0) * x)
            return tail
        g = canonical_tails(epsilon, self.delta)
        end = len(g) - 0.5 + self._last_width(g[-1])
        knots = np.concatenate([[0.0], np.arange(len(g)) + 0.5, [end]])
        return np.asarray(np.interp(x, knots, np.concatenate([[0.5], g, [0.0]])))

    def moment(self, power: int) -> float:
        """Integrate the tail, which is linear between half-integers."""
        if self.delta == 0.0:
            extra = math.tanh(self.epsilon / 2.0) / 4.0 if power == 1 else 1.0 / 12.0
            return Geometric(self.epsilon).moment(power) + extra
        g = canonical_tails(self.epsilon, self.delta)
        width = self._last_width(g[-1])
        inner = (g[:-1] + g[1:]) / 2.0
        if power == 1:
            return float(2.0 * ((0.5 + g[0]) / 4.0 + inner.sum() + g[-1] * width / 2.0))
        j = np.arange(1, len(g), dtype=np.float64)
        first = 1.0 / 8.0 - (1.0 - 2.0 * g[0]) / 12.0
        middle = (2.0 * j * inner).sum() + (g[-1] - g[0]) / 6.0
        last = g[-1] * width * (len(g) - 0.5 + width / 3.0)
        return float(2.0 * (first + middle + last))

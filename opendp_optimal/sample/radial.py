"""Noise for vectors: a random radius, then a uniform point of the ball of that radius."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.exact.numbers import exp_down, exp_up, float_down
from opendp_optimal.sample.balls import ball_points, cube_points
from opendp_optimal.sample.digits import Digits
from opendp_optimal.sample.integers import decided, geometric
from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal.sample.words import Source, secure_bytes

_BATCH = 1 << 20

Radii = Callable[..., Integers]
"""Draws so many radii, from a source of random bytes."""


def chosen_radii(radii: Integers, weights: Integers) -> Radii:
    """Radii from a list, chosen by integer weights.

    :param radii: that may be drawn
    :param weights: of the radii, of 2^62
    :returns: a function that draws so many
    """
    sampler = WeightedSampler.of(weights)
    return lambda count, source=secure_bytes: np.asarray(radii[sampler.draw(count, source)])


def listed_radii(
    first: int, step: int, start: int, weights: Integers, again: int, scale: int
) -> Radii:
    """Radii ``(first + j step) scale``, j chosen by integer weights and a tail without end.

    :param first: radius of ball 0, in lattice units
    :param step: between the radii, in lattice units
    :param start: the number of the first ball that has a weight
    :param weights: of the balls from there on, then that of all others; of 2^62
    :param again: how likely, of 2^62, it is to go on from a ball beyond to the next
    :param scale: what a lattice unit is multiplied by
    :returns: a function that draws so many
    """
    sampler = WeightedSampler.of(weights)
    further = WeightedSampler.of(np.array([(1 << 62) - again, again]))

    def draw(count: int, source: Source = secure_bytes) -> Integers:
        ball = sampler.draw(count, source)
        going = np.flatnonzero(ball == len(weights) - 1)
        while len(going):
            more = further.draw(len(going), source)
            ball[going] += more
            going = going[more == 1]
        return (first + (start + ball) * step) * scale

    return draw


@dataclass(frozen=True)
class DecayRadii:
    """Radii T = 1, 2, ... with weight T^size (F(T) - F(T + 1)), F(T) = exp(-a T - b T^2).

    A uniform point of a ball of such a radius has a density proportional to F of its norm, rounded
    up. Radii are proposed as sums of ``size + 1`` geometric variables and kept with a chance below
    1: with T0 near the middle and x(T) = a + b (2 T + 1), 1 - e^-x(T) is at most
    x(T0) e^((x(T) - x(T0)) / x(T0)).

    :param size: of the vectors
    :param a: at least 0
    :param b: at least 0, not both 0
    """

    size: int
    a: Fraction
    b: Fraction

    @cached_property
    def _middle(self) -> int:
        a, b, d = float(self.a), float(self.b), self.size + 1
        return max(1, round(2 * d / (a + math.sqrt(a * a + 8 * b * d))))

    @cached_property
    def _slope(self) -> Fraction:
        """x(T0)."""
        return self.a + self.b * (2 * self._middle + 1)

    @cached_property
    def _ideal(self) -> Fraction:
        return self.a + 2 * self.b * self._middle - 2 * self.b / self._slope

    @cached_property
    def rate(self) -> float:
        """Of the geometric variables."""
        return float_down(self._ideal)

    def __call__(self, count: int, source: Source = secure_bytes) -> Integers:
        """So many radii."""
        out = np.empty(count, np.int64)
        filled = 0
        while filled < count:
            found = self._propose(count - filled, source)
            out[filled : filled + len(found)] = found
            filled += len(found)
        return out

    def _propose(self, count: int, source: Source) -> Integers:
        parts = self.size + 1
        radii = np.empty(count, np.int64)
        rows = max(1, _BATCH // parts)
        for start in range(0, count, rows):
            here = radii[start : start + rows]
            drawn = geometric(self.rate, len(here) * parts, source)
            here[:] = drawn.reshape(-1, parts).sum(axis=1) + 1
        chance = self._chances(radii)
        return radii[decided(chance, lambda i, v: self._settle(int(radii[i]), v), source)]

    def _chances(self, radii: Integers) -> Floats:
        b, x0 = float(self.b), float(self._slope)
        t, u = radii.astype(np.float64), (radii - self._middle).astype(np.float64)
        lag = float(self._ideal - Fraction(self.rate))
        # The product of T / (T + i), i < size.
        steps = np.arange(1, self.size)
        shrink = np.zeros(len(t))
        for start in range(0, len(t), 1 << 12):
            part = t[start : start + (1 << 12), None]
            shrink[start : start + (1 << 12)] = np.log1p(steps / part).sum(axis=1)
        exponent = 2 * b * u / x0 + b * u * u + lag * t + shrink
        told = -np.expm1(-(float(self.a) + b * (2 * t + 1))) / x0
        return np.asarray(told * np.exp(-exponent))

    def _settle(self, radius: int, v: Digits) -> bool:
        """Decide about a radius with the chance itself."""
        u = radius - self._middle
        factor = Fraction(1)
        for i in range(1, self.size):
            factor *= Fraction(radius, radius + i)
        factor /= self._slope
        x = self.a + self.b * (2 * radius + 1)
        exponent = 2 * self.b * u / self._slope + self.b * u * u
        exponent += (self._ideal - Fraction(self.rate)) * radius
        while True:
            bits = v.bits + 64 + _small(x)
            upper = factor * (1 - exp_down(-x, bits)) * exp_up(-exponent, bits)
            if v.low >= upper:
                return False
            if v.high <= factor * (1 - exp_up(-x, bits)) * exp_down(-exponent, bits):
                return True
            v.extend()


def _small(x: Fraction) -> int:
    """Binary digits that 1 - e^-x loses."""
    return max(0, x.denominator.bit_length() - x.numerator.bit_length() + 1)


def radial_vectors(
    norm: str,
    radii: Radii,
    size: int,
    count: int,
    *,
    whole: bool = False,
    farther: Integers | None = None,
    source: Source = secure_bytes,
) -> Integers:
    """Vectors of integers: uniform points of balls of random radii, rounded down.

    :param norm: "l1", "l2" or "linf"
    :param radii: draws radii
    :param size: of the vectors
    :param count: how many
    :param whole: under the linf norm, uniform integers on as many places as the radius says
    :param farther: how much farther balls reach in each coordinate, under the linf norm
    :param source: of random bytes
    """
    drawn = radii(count, source)
    if farther is not None:
        reached = drawn[:, None] + farther
        return cube_points(reached if whole else 2 * reached, size, source)
    return cube_points(drawn, size, source) if whole else ball_points(norm, drawn, size, source)

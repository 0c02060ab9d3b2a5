"""Noise that is the same for all answers, moved into the range: how a bounded problem is served.

An answer is brought to a grid, the noise is an exact number of grid steps, and what leaves the
range is moved to its nearer end. Moving is post-processing, and it never takes a release further
from an answer within the range: losses that do not fall as the error grows only get smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.losses.base import Loss
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.sample.bounded import Adding
from opendp_optimal.table.noise import NoiseTable

_RESOLUTION = 40
_LONGEST = 58
"""Binary logarithms of the grid steps in a lattice cell, and in the longest noise."""
_ROUNDED, _ACCURATE = 1e-11, 1 - 1e-9
"""In sensitivities, more than floats are wrong by; a part of their sum that is not above it."""
_BLOCKS, _FORGOTTEN = 100, 40.0
"""Blocks of an endless tail that are looked at: as many, or up to a mass of exp(-40)."""


def law(noise: NoiseTable) -> tuple[Floats, Floats]:
    """Lattice points and their chances; an endless tail as far as it matters."""
    points = np.arange(-noise.radius, noise.radius + 1, dtype=float)
    chances = noise.weights / TOTAL
    if noise.spike is not None:
        chances[noise.radius] += noise.spike.weight / TOTAL
    if noise.tail is None:
        return points, chances
    side = noise.beyond(_FORGOTTEN, _BLOCKS)
    beyond = noise.radius + 1 + np.arange(len(side))
    return np.concatenate([-beyond, points, beyond]), np.concatenate([side, chances, side])


@dataclass(frozen=True)
class Clamped:
    """A noise table on the grid of multiples of 2^-bits, with ``steps`` of them in a cell.

    ``reach`` grid steps are hidden: the sensitivity, and the step by which rounding to the grid
    can move two answers apart.
    """

    problem: BoundedProblem
    noise: NoiseTable
    bits: int
    steps: int

    @staticmethod
    def of(problem: BoundedProblem, noise: NoiseTable) -> Clamped:
        """The finest grid on which the noise can be drawn."""
        if problem.integer:
            return Clamped(problem, noise, 0, 1)
        fine = min(_RESOLUTION, _LONGEST - (noise.radius + 1).bit_length())
        target = problem.reach / (noise.cells << max(fine, 0))
        bits = target.denominator.bit_length() - target.numerator.bit_length()
        while Fraction(2) ** -bits > target:
            bits += 1
        moved = math.floor(problem.reach * Fraction(2) ** bits) + 1
        steps = -(-moved // noise.cells) | 1  # an odd number
        return Clamped(problem, noise, bits, steps)

    @property
    def reach(self) -> int:
        """Grid steps that the noise hides."""
        return self.noise.cells * self.steps

    def apart(self, distance: Fraction) -> int:
        """How many grid steps answers at a distance can be apart, at most."""
        if self.problem.integer:
            return max(1, math.floor(distance))
        return math.floor(distance * Fraction(2) ** self.bits) + 1

    def delta_at(self, epsilon: float, apart: int | None) -> float:
        """The exact privacy profile of answers so many grid steps apart."""
        if apart is None:
            return self.noise.delta_at(epsilon)
        apart = min(apart, self.reach)
        shift = apart if self.problem.integer else Fraction(apart, self.reach)
        return self.noise.delta_at(epsilon, shift)

    def mechanism(self) -> Adding:
        """What is drawn from, on the grid."""
        unit = Fraction(2) ** self.bits
        low, high = (round(Fraction(end) * unit) for end in (self.problem.low, self.problem.high))
        return Adding(lambda: int(self.noise.draw(steps=self.steps)), low, high)

    def mean(self) -> Fraction:
        """A bound on the expected loss over the prior: releases are moved into the range.

        Where the noise would leave the range by more than a grid step, the loss is that of the
        nearer end. For losses that grow with a power of the error what this saves is convex in the
        size of the noise, so that it is at least what the middle of a cell saves.
        """
        worst, loss = self.loss(), self.problem.loss
        if self.problem.integer or not loss.power:
            return worst
        sensitivity = self.reach / Fraction(2) ** self.bits
        less = 2 / self.reach + _ROUNDED  # two grid steps, in sensitivities
        places, chances = law(self.noise)
        saved = 0.0
        for side in (-1, 1):
            far = np.maximum(side * places / self.noise.cells - less, 0.0)
            each = float(loss.exact(Fraction(side)))
            saved += each * float(self._saved(far, sensitivity, side) @ chances)
        return worst - Fraction(saved * _ACCURATE) * sensitivity**loss.power

    def _saved(self, far: Floats, sensitivity: Fraction, side: int) -> Floats:
        """What moving saves of the power of noise so large, in sensitivities, over the prior."""
        problem, power = self.problem, self.problem.loss.power
        end = Fraction(problem.high if side > 0 else problem.low)
        out = np.zeros(len(far))
        for start, stop, density in problem.densities():
            near, away = sorted(float(abs(end - x) / sensitivity) for x in (start, stop))
            reached = np.clip(far, near, away)
            share = float(density * sensitivity)
            if power == 1:
                part = (reached - near) * (far - (reached + near) / 2)
            else:
                squares = (reached**2 + reached * near + near**2) / 3
                part = (reached - near) * (far**2 - squares)
            out += share * np.where(far > near, np.maximum(part, 0.0), 0.0)
        return out

    def loss(self) -> Fraction:
        """A bound on the expected loss at every single answer."""
        loss = self.problem.loss
        if self.problem.integer:
            return self._mean(loss)
        sensitivity = self.reach / Fraction(2) ** self.bits
        if loss.power:
            return self._mean(loss) * sensitivity**loss.power
        return self._mean(loss.scaled(float_up(sensitivity)))

    def _mean(self, loss: Loss) -> Fraction:
        noise = self.noise
        if not loss.by_samples and (noise.tail is None or loss.endless):
            return Fraction(noise.mean_loss(loss))
        if loss.power and np.array_equal(noise.weights, noise.weights[::-1]):
            return Fraction(noise.mean_loss(loss.like)) * Fraction(loss.even)
        # No error is larger than that of the other end of the range.
        cost = noise.cost_of(loss)
        left, right = (self.problem.loss.exact(side * self.problem.width) for side in (-1, 1))
        low, high = (math.ceil(end * cost.denominator) for end in (left, right))
        most = [low] * noise.radius + [max(low, high)] + [high] * noise.radius
        mean = noise.inner_loss(loss, replace(cost, upper=list(map(min, cost.upper, most))))
        return mean + (Fraction(noise.tail.weight, TOTAL) * (left + right) if noise.tail else 0)

    def verify(self) -> None:
        """Raise unless the noise is private for this very problem."""
        problem, noise = self.problem, self.noise
        wanted = math.floor(problem.reach) if problem.integer else None
        if (noise.epsilon, noise.delta) != (problem.epsilon, problem.delta):
            raise CertificateError("the noise has another epsilon or delta than the problem")
        if noise.problem.integer_sensitivity != wanted:
            raise CertificateError("the noise is for another sensitivity than the problem's")
        noise.verify()

"""Noise that is the same for all answers, moved into the range: how a bounded problem is served.

An answer is brought to a grid, the noise is an exact number of grid steps, and what leaves the
range is moved to its nearer end. Moving is post-processing, and it never takes a release further
from an answer within the range: losses that do not fall as the error grows only get smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

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
        steps = -(-moved // noise.cells)
        return Clamped(problem, noise, bits, steps + 1 - steps % 2)

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
        draw: Callable[..., Any] = self.noise.draw
        unit = Fraction(2) ** self.bits
        low, high = (round(Fraction(end) * unit) for end in (self.problem.low, self.problem.high))
        return Adding(lambda: int(draw(steps=self.steps)), low, high)

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
        if noise.tail is None or loss.endless:
            return Fraction(noise.mean_loss(loss))
        if loss.power and np.array_equal(noise.weights, noise.weights[::-1]):
            return Fraction(noise.mean_loss(loss.like)) * Fraction(loss.even)
        # Beyond the radius the error is at most that of the other end of the range.
        integer = self.problem.integer
        make = (
            loss.on_integers if integer else (lambda radius: loss.on_lattice(noise.cells, radius))
        )
        cost = make(noise.radius)
        spent = sum(w * c for w, c in zip(noise.weights.tolist(), cost.upper, strict=True))
        ends = (self.problem.loss.exact(side * self.problem.width) for side in (-1, 1))
        return Fraction(spent, TOTAL * cost.denominator) + Fraction(
            2 * noise.tail.weight, TOTAL
        ) * max(ends)

    def verify(self) -> None:
        """Raise unless the noise is private for this very problem."""
        problem, noise = self.problem, self.noise
        wanted = math.floor(problem.reach) if problem.integer else None
        if (noise.epsilon, noise.delta) != (problem.epsilon, problem.delta):
            raise CertificateError("the noise has another epsilon or delta than the problem")
        if noise.problem.integer_sensitivity != wanted:
            raise CertificateError("the noise is for another sensitivity than the problem's")
        noise.verify()

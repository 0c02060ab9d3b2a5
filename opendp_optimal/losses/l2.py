"""The squared loss x^2."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.losses.base import LatticeCost, NamedLoss
from opendp_optimal.losses.pairs import SquaredPairs


class L2(NamedLoss):
    """The squared loss."""

    endless = True
    power = 2
    pairs = SquaredPairs()
    like = "l2"

    def __init__(self) -> None:
        """There is one."""
        super().__init__("l2", symmetric=True)

    def __call__(self, x: float) -> float:
        """The loss of noise ``x``."""
        return x * x

    def values(self, errors: Floats) -> Floats:
        """The losses of an array of errors."""
        return np.square(errors)

    def value(self, z: Fraction) -> Fraction:
        """The loss of an exact error."""
        return z * z

    def halves(self, z: Fraction, h: Fraction) -> tuple[Fraction, Fraction]:
        """The integrals of (1 - s) c(z - s h) and of s c(z - s h), exactly."""
        falling = z * z / 2 - z * h / 3 + h * h / 12
        rising = z * z / 2 - 2 * z * h / 3 + h * h / 4
        return falling, rising

    def on_integers(self, radius: int) -> LatticeCost:
        """Exact costs for noise on the integers -radius..radius."""
        exact = [i * i for i in range(-radius, radius + 1)]
        return LatticeCost(exact, exact, 0, 1)

    def on_lattice(self, cells: int, radius: int) -> LatticeCost:
        """Exact costs for noise on the lattice of step 1/cells, spread uniformly over cells."""
        # Cell average (ib)^2 + b^2/12; chords of x^2 lie at most b^2/4 above it.
        square = [12 * i * i for i in range(-radius, radius + 1)]
        return LatticeCost([v + 1 for v in square], [v - 3 for v in square], 0, 12 * cells * cells)

    def tail_mean(
        self, mass: Fraction, first: Fraction, second: Fraction, cells: int, spread: bool
    ) -> Fraction:
        """The mean over one tail of noise without end, exactly."""
        return (second + (mass / 12 if spread else 0)) / cells**2

    def staircase_step(self, epsilon: float) -> float:
        """The step of the best (epsilon, 0) staircase (Geng, Viswanath 2014).

        The cubic root is rearranged so that it does not cancel for small epsilon.
        """
        b = math.exp(-epsilon)
        root = math.cbrt(b * (1.0 + b) / 2.0)
        return b * (1.0 + 2.0 * b) / (2.0 * (root**2 + root * b + b**2))

    def uniform_atom(self, delta: float) -> float:
        """The point mass at 0 of the best (0, delta) noise (Geng, Ding, Guo, Kumar 2019)."""
        return max(0.0, 3.0 * delta - 2.0)

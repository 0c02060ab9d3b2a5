"""The absolute loss |x|."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.losses.base import LatticeCost, NamedLoss
from opendp_optimal.losses.pairs import AbsolutePairs


class L1(NamedLoss):
    """The absolute loss."""

    endless = True
    power = 1
    _linear = True
    pairs = AbsolutePairs()

    def __init__(self) -> None:
        """There is one."""
        super().__init__("l1", symmetric=True)

    def __call__(self, x: float) -> float:
        """The loss of noise ``x``."""
        return abs(x)

    def values(self, errors: Floats) -> Floats:
        """The losses of an array of errors."""
        return np.abs(errors)

    def value(self, z: Fraction) -> Fraction:
        """The loss of an exact error."""
        return abs(z)

    def on_integers(self, radius: int) -> LatticeCost:
        """Exact costs for noise on the integers -radius..radius."""
        exact = [abs(i) for i in range(-radius, radius + 1)]
        return LatticeCost(exact, exact, 0, 1)

    def on_lattice(self, cells: int, radius: int) -> LatticeCost:
        """Exact costs for noise on the lattice of step 1/cells, spread uniformly over cells."""
        # Linear on each side of 0: chords are exact, and only the cell of 0 has another average.
        lower = [4 * abs(i) for i in range(-radius, radius + 1)]
        upper = list(lower)
        upper[radius] = 1
        return LatticeCost(upper, lower, 0, 4 * cells)

    def tail_mean(
        self, mass: Fraction, first: Fraction, second: Fraction, cells: int, spread: bool
    ) -> Fraction:
        """The mean over one tail of noise without end, exactly."""
        return first / cells

    def staircase_step(self, epsilon: float) -> float:
        """The step of the best (epsilon, 0) staircase (Geng, Viswanath 2014)."""
        return 1.0 / (1.0 + math.exp(epsilon / 2.0))

    def uniform_atom(self, delta: float) -> float:
        """The point mass at 0 of the best (0, delta) noise (Geng, Ding, Guo, Kumar 2019)."""
        return max(0.0, 2.0 * delta - 1.0)

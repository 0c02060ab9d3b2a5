"""Proofs about noise for vectors that falls in any steps of the l2 norm: a list of balls.

A ball is chosen by an integer weight, then a point of it. The density is a decreasing function of
the norm, f_i between the radii i - 1 and i. With the noise centred at the answers z and z', the
delta at epsilon is the integral of the positive part of f - e^epsilon f', which is, level by
level, the integral over t of the volume of A(t) outside of B(t): A(t) is the ball around z where f
is at least t, B(t) the ball around z' where e^epsilon f' is. That volume grows as z' goes away, so
only a move of full length counts. It is that of a ball less a lens, which two caps make up: their
volumes are incomplete beta functions.

A level of A is rounded up and one of B down, which makes A larger, B smaller and the volume
larger; so levels are fractions and sorted exactly. Volumes are balls of Arb, which hold the true
value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
from flint import arb

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.balls import ball, down, precision, up
from opendp_optimal.certify.noise import TOTAL, are_integers
from opendp_optimal.certify.radial import UNIT_STEPS, factor, rounded
from opendp_optimal.errors import CertificateError

MOST_BALLS = 256
_MOST_SIZE = 1 << 11
_BITS = 128


@dataclass(frozen=True, eq=False)
class Steps(Valued):
    """Balls of the l2 norm.

    :param step: the sensitivity, in lattice units
    :param radii: of the balls, ascending, in lattice units
    :param weights: of the balls, which add up to 2^62
    """

    step: int
    radii: Integers
    weights: Integers


def prove_steps(law: Steps, size: int, epsilon: float, delta: float) -> None:
    """Raise unless steps are (epsilon, delta)-private in vectors of a length."""
    if not steps_delta_up(law, size, epsilon) <= Fraction(delta):
        raise CertificateError(f"privacy: the steps spend more than delta ({delta})")


def _check_steps(law: Steps, size: int) -> None:
    whole = type(law.step) is int and type(size) is int
    if not whole or not are_integers(law.radii, law.weights):
        raise CertificateError("steps are not given by integers")
    if not (1 <= len(law.radii) == len(law.weights) <= MOST_BALLS):
        raise CertificateError("there are too few or too many steps")
    if not (0 < law.step < 1 << 40 and 1 <= size <= _MOST_SIZE):
        raise CertificateError("the lattice or the length of steps is out of range")
    if not 0 < law.radii[0] <= law.radii[-1] < 1 << 40 or np.any(law.radii[1:] <= law.radii[:-1]):
        raise CertificateError("the radii of steps do not ascend")
    if int(law.weights.min()) <= 0 or sum(law.weights.tolist()) != TOTAL:
        raise CertificateError(f"the weights of steps are not positive with a sum of {TOTAL}")


def steps_delta_up(
    law: Steps, size: int, epsilon: float, distance: Fraction = Fraction(1)
) -> Fraction:
    """An upper bound of delta at epsilon.

    :param law: the steps
    :param size: of the vectors
    :param epsilon: at least 0
    :param distance: of neighbours, in sensitivities, in (0, 1]
    """
    _check_steps(law, size)
    if not 0 <= epsilon < 64:
        raise CertificateError(f"epsilon ({epsilon}) must be in [0, 64)")
    radii, weights = law.radii.tolist(), law.weights.tolist()
    with precision(_BITS):
        # In units of the largest ball's volume, which then has volume 1.
        units = [ball(Fraction(r, radii[-1])) ** size for r in radii]
        layers = [w / unit for w, unit in zip(weights, units, strict=True)]
        heights = list(accumulate(reversed(layers)))[::-1]
        odds = ball(epsilon).exp()
        volume = _Volume(size, radii, units, distance * law.step)
        total, level, near, far = arb(0), Fraction(0), len(radii) - 1, len(radii) - 1
        inner, outer = [up(h) for h in heights], [down(odds * h) for h in heights]
        # Upwards, the balls A and B become smaller, until A is gone.
        while near >= 0:
            top = min(inner[near], outer[far]) if far >= 0 else inner[near]
            total += ball(max(Fraction(0), top - level)) * volume.outside(near, far)
            level = max(level, top)
            near -= inner[near] <= level
            far -= far >= 0 and outer[far] <= level
        return min(Fraction(1), max(Fraction(0), up(total / TOTAL)))


class _Volume:
    """Volumes of two balls whose centres are so far apart.

    :param size: of the vectors
    :param radii: of balls, in lattice units
    :param units: their volumes
    :param apart: in lattice units
    """

    def __init__(self, size: int, radii: list[int], units: list[arb], apart: Fraction) -> None:
        self.radii, self.units, self.apart = radii, units, apart
        self.half = ball(Fraction(size + 1, 2))
        ratio = (self.half + ball(Fraction(1, 2))).lgamma() - self.half.lgamma()
        self.top = ratio.exp() / (arb.pi().sqrt() * 2 * self.half)

    def outside(self, near: int, far: int) -> arb:
        """The volume of one ball outside of the other, at most; none is numbered -1."""
        if far < 0:
            return self.units[near]
        one, other, apart = self.radii[near], self.radii[far], self.apart
        if one + apart <= other:
            return arb(0)
        # Apart; or within the one, only where levels are as close as they are rounded.
        if other <= abs(one - apart):
            return self.units[near]
        # The plane where the spheres meet; the caps beyond it, seen from each centre.
        plane = (one * one + apart * apart - other * other) / (2 * apart)
        mine = self.units[near] * self._cap(-plane / one)
        return mine - self.units[far] * self._cap((apart - plane) / other)

    def _cap(self, height: Fraction) -> arb:
        """The part of a ball beyond a height in (-1, 1), of its radius."""
        # Half of an incomplete beta function, in the form that takes least time.
        x = ball(1 - height * height)
        series = x.hypgeom_2f1(self.half, ball(Fraction(1, 2)), self.half + 1)
        part = self.top * x**self.half * series
        return part if height >= 0 else 1 - part


def steps_loss_up(law: Steps, size: int, power: int) -> Fraction:
    """The expected sum of |z_i|^power of steps, from above, in sensitivities."""
    _check_steps(law, size)
    pairs = zip(law.radii.tolist(), law.weights.tolist(), strict=True)
    moment = Fraction(sum(w * r**power for r, w in pairs), TOTAL * law.step**power)
    with precision():
        mean = ball(moment * Fraction(size, size + power)) * factor("l2", size, power)
        return up(rounded(mean, size, power, Fraction(1, law.step * UNIT_STEPS)))

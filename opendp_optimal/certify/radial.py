"""Proofs about noise for vectors that falls in steps of a norm: staircases.

A staircase is a mixture of balls of the norm, so that its density falls with the norm of the noise.
Ball j has radius ``first + j step`` in lattice units, ``step`` being the sensitivity, and is chosen
with an integer weight; beyond the last weight the radii go on without end. If the density that
ball j adds is at most e^epsilon times that of ball j + 1, for all j, then the density at z is at
most e^epsilon times that at z', for all z and z' up to a sensitivity apart, since z' lies in ball
j + 1 whenever z lies in ball j.

Under the linf norm a ball may reach farther in some coordinates, each by an offset of its own, the
same for all balls: z' lies in ball j + 1 all the same, and only volumes are others.

Exponentials and powers are balls of Arb, which hold the true value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.balls import ball, precision, up
from opendp_optimal.certify.noise import TOTAL, are_integers
from opendp_optimal.errors import CertificateError

MOST_STEPS = 1 << 15
MOST_SIZE = 1 << 20
_DIGITS = 64
"""Binary digits of one over a radius."""


@dataclass(frozen=True, eq=False)
class Staircase(Valued):
    """Radii ``first + j step`` and the weight of each ball, in integers.

    :param first: radius of ball 0, in lattice units
    :param step: the sensitivity in lattice units
    :param start: the number of the first ball that has a weight
    :param weights: of the balls from there on
    :param tail: weight of all balls beyond
    :param again: how likely, out of 2^62, it is to go on from a ball beyond to the next
    :param offsets: how much farther balls reach in each coordinate; empty for none
    """

    first: int
    step: int
    start: int
    weights: Integers
    tail: int
    again: int
    offsets: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The number of the first ball of the tail."""
        return self.start + len(self.weights)

    @property
    def radii(self) -> Integers:
        """Of the balls that have a weight of their own, in lattice units."""
        return self.first + self.step * np.arange(self.start, self.end)


def prove_staircase(law: Staircase, size: int, epsilon: float) -> None:
    """Raise unless a staircase is epsilon-private in vectors of a length."""
    _check_staircase(law, size)
    weights = [int(w) for w in law.weights]
    sides = Counter(law.offsets) if law.offsets else {0: size}
    with precision():
        most = ball(epsilon).exp()
        stop = Fraction(TOTAL - law.again, TOTAL)
        outward = [ball(w) for w in weights[1:]] + [ball(law.tail * stop)]
        for j, (inner, outer) in enumerate(zip(weights, outward, strict=True), law.start):
            if not inner * _growth(law, j, sides) <= most * outer:
                raise CertificateError(f"privacy: step {j} falls by more than e^{epsilon}")
        # Farther out balls grow ever less from one to the next.
        if not _growth(law, law.end, sides) <= most * ball(Fraction(law.again, TOTAL)):
            raise CertificateError(f"privacy: the tail falls by more than e^{epsilon} a step")


def _growth(law: Staircase, j: int, sides: Mapping[int, int]) -> arb:
    """The volume of ball j + 1 over that of ball j, for so many coordinates with each offset."""
    growth = arb(1)
    for offset, count in sides.items():
        radius = law.first + j * law.step + offset
        growth *= ball(Fraction(radius + law.step, radius)) ** count
    return growth


def _check_staircase(law: Staircase, size: int) -> None:
    numbers = (law.first, law.step, law.start, law.tail, law.again, size)
    array = law.weights
    if any(type(n) is not int for n in (*numbers, *law.offsets)) or not are_integers(array):
        raise CertificateError("a staircase is not given by integers")
    if not (0 < law.first <= law.step < 1 << 40 and 0 <= law.start <= 1 << 40):
        raise CertificateError("the radii of a staircase are out of range")
    if type(law.offsets) is not tuple or len(law.offsets) not in (0, size):
        raise CertificateError("a staircase has not an offset for each coordinate")
    if not all(0 <= offset < 1 << 40 for offset in law.offsets):
        raise CertificateError("the offsets of a staircase are out of range")
    if not (1 <= len(array) <= MOST_STEPS and 1 <= size <= MOST_SIZE):
        raise CertificateError("a staircase is too long")
    if int(array.min()) <= 0 or not (law.tail > 0 and 0 < law.again < TOTAL):
        raise CertificateError("a staircase is not endless")
    if sum(array.tolist()) + law.tail != TOTAL:
        raise CertificateError(f"the weights of a staircase do not add up to {TOTAL}")


def staircase_loss_up(
    law: Staircase,
    norm: str,
    size: int,
    power: int,
    *,
    whole: bool,
    weights: tuple[float, ...] | None = None,
) -> Fraction:
    """The expected sum of |z_i|^power, from above; in sensitivities, for integers in ones.

    :param law: proved before
    :param norm: "l1", "l2" or "linf"
    :param size: of the vectors
    :param power: 1 or 2
    :param whole: for integers under the linf norm: ball j holds those up to ``(radius - 1) / 2``
    :param weights: of the coordinates in the sum; all 1 by default
    """
    first, second = _radius_moments(law)
    total = reached = Fraction(0)
    for (offset, weight), count in _sides(law, size, weights).items():
        moment = (first + offset, second + 2 * offset * first + offset**2)[power - 1]
        if whole:
            # Uniform on -t..t, t = (radius - 1) / 2: squares are (radius^2 - 1) / 12 on average,
            # absolute values t (t + 1) / (2 t + 1) = (radius - 1 / radius) / 4.
            moment -= 1 if power == 2 else _inverse_down(law, offset)
        total += count * Fraction(weight)
        reached += count * Fraction(weight) * moment
    if whole:
        return reached / (12 if power == 2 else 4)
    mean = reached / law.step**power / (size + power)
    with precision():
        found = ball(mean) * factor(norm, size, power)
        return up(rounded(found, total, power, Fraction(1, law.step * UNIT_STEPS)))


def _sides(
    law: Staircase, size: int, weights: tuple[float, ...] | None
) -> Mapping[tuple[int, float], int]:
    """The different offsets with weights, and how many coordinates have each."""
    if not law.offsets and weights is None:
        return {(0, 1.0): size}
    return Counter(zip(law.offsets or (0,) * size, weights or (1.0,) * size, strict=True))


UNIT_STEPS = 1 << 10
"""Grid steps in a lattice unit of a staircase for real vectors, at least."""


def rounded(mean: arb, size: int | Fraction, power: int, step: Fraction) -> arb:
    """An expected loss after coordinates of such a weight together moved by up to a grid step."""
    if power == 1:
        return mean + ball(size) * ball(step)
    return (mean.sqrt() + ball(size).sqrt() * ball(step)) ** 2


def _radius_moments(law: Staircase) -> tuple[Fraction, Fraction]:
    """The means of the radius and of its square, in lattice units."""
    first, second = 0, 0
    radius = law.first + law.start * law.step
    for weight in law.weights.tolist():
        first += weight * radius
        second += weight * radius * radius
        radius += law.step
    stop = Fraction(TOTAL - law.again, TOTAL)
    passed = (1 - stop) / stop
    squares = (1 - stop) * (2 - stop) / stop**2
    share, step = Fraction(law.tail, TOTAL), law.step
    return (
        Fraction(first, TOTAL) + share * (radius + step * passed),
        Fraction(second, TOTAL)
        + share * (radius**2 + 2 * radius * step * passed + step**2 * squares),
    )


def _inverse_down(law: Staircase, offset: int) -> Fraction:
    """The mean of one over the radius with an offset, from below, in lattice units."""
    first, listed = law.first + law.start * law.step + offset, law.weights.tolist()
    radii = range(first, first + len(listed) * law.step, law.step)
    near = sum((weight << _DIGITS) // radius for weight, radius in zip(listed, radii, strict=True))
    # Those beyond the list: one over their mean is at most the mean of one over them.
    farther = first + law.step * (len(listed) + Fraction(law.again, TOTAL - law.again))
    return Fraction(near, TOTAL << _DIGITS) + Fraction(law.tail, TOTAL) / farther


def factor(norm: str, size: int, power: int) -> arb:
    """E sum_i |z_i|^power over E r^power, for a vector spread evenly over balls of a norm."""
    if norm == "l1":
        return ball(Fraction(2, size + 1) if power == 2 else 1)
    if norm == "linf":
        return ball(Fraction(size + 2, 3) if power == 2 else Fraction(size + 1, 2))
    if power == 2:
        return arb(1)
    half = ball(Fraction(size, 2))
    return size * (half.lgamma() - (half + ball(Fraction(1, 2))).lgamma()).exp() / arb.pi().sqrt()

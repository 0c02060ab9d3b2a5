"""Proofs about noise for vectors that decays with the l2 norm: exp(-c r - k r^2).

The density is F of the norm rounded up to a grid of ``fine`` steps in a sensitivity, with
F(r) = exp(-c r - k r^2). Up to a radius R it lies between e^-s F and F, s = (c + k (2 R + h)) h
and h = 1 / fine; so delta at epsilon is at most e^s / (1 - t) times that of F at epsilon - s, plus
t, the chance of F beyond R - 1. Only a move of full length counts, because F falls. In prolate
coordinates x = r + r' and y = r' - r the density F(r) - e^epsilon F(r') is
exp(-c x/2 - k (x^2 + y^2)/4) (e^(g y/2) - e^(epsilon - g y/2)), g = c + k x. Its positive part,
integrated over y, is a convex function of g: chords over cells of x bound it from above.

With c = 0 that is Gaussian noise: its coordinates are drawn as real Gaussian variables and rounded.

Integrals, exponentials and powers are balls of Arb, which hold the true value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import acb, arb

from opendp_optimal.certify.balls import ball, precision, up
from opendp_optimal.certify.radial import MOST_SIZE, factor, rounded
from opendp_optimal.errors import CertificateError
from opendp_optimal.known.decay import edges, far, mode

_TOLERANCE = 2.0**-40
"""Relative accuracy of integrals; their error is part of what they return."""
_LOOKS = 16
"""Places where an integrand is looked at first."""
LEAST_GRID = 1 << 8
"""Grid steps in a sensitivity, at least."""


@dataclass(frozen=True)
class Decay:
    """The density exp(-c r - k r^2), in sensitivities, on grids of at least ``fine`` steps each."""

    c: float
    k: float
    fine: int


def prove_decay(law: Decay, size: int, epsilon: float, delta: float) -> None:
    """Raise unless a decay is (epsilon, delta)-private in vectors of a length.

    Without delta it must be exp(-c r), which is private in every norm: norms that are up to a
    sensitivity apart are, rounded up to the grid, no more than that apart.
    """
    _check_decay(law, size)
    if law.k == 0 and law.c <= epsilon:
        return
    if not decay_delta_up(law, size, epsilon) <= Fraction(delta):
        raise CertificateError(f"privacy: the decay spends more than delta ({delta})")


def _check_decay(law: Decay, size: int) -> None:
    if type(law.c) is not float or type(law.k) is not float or type(law.fine) is not int:
        raise CertificateError("a decay is not given by two floats and an integer")
    if not (0 <= law.c < 1e6 and 0 <= law.k < 1e12 and law.c + law.k > 1e-9):
        raise CertificateError("the rates of a decay are out of range")
    if not (LEAST_GRID <= law.fine < 1 << 40 and 1 <= size <= MOST_SIZE):
        raise CertificateError("the grid or the length of a decay is out of range")


def decay_delta_up(
    law: Decay, size: int, epsilon: float, distance: Fraction = Fraction(1)
) -> Fraction:
    """An upper bound of delta at epsilon.

    :param law: the decay
    :param size: of the vectors
    :param epsilon: above 0
    :param distance: of neighbours, in sensitivities, in (0, 1]
    """
    _check_decay(law, size)
    if size < 2 and law.c > 0:
        raise CertificateError("the delta of a decay is proved for vectors of length 2 or more")
    if not 0 < epsilon < 64:
        raise CertificateError(f"epsilon ({epsilon}) must be in (0, 64)")
    with precision():
        # A move of another length is a move of length 1 of noise in other units.
        c, k = ball(Fraction(law.c) * distance), ball(Fraction(law.k) * distance**2)
        if law.c == 0:
            return _gaussian_up(k, epsilon)
        return _delta_up(c, k, size, epsilon, ball(law.fine * distance))


def _gaussian_up(k: arb, epsilon: float) -> Fraction:
    """Delta of Gaussian noise exp(-k r^2), which is drawn as it is (Balle, Wang 2018)."""
    # With the scale sigma = 1 / sqrt(2 k): half = 1 / (2 sigma), shift = epsilon sigma.
    half, shift = (k / 2).sqrt(), ball(epsilon) / (2 * k).sqrt()
    root = arb(2).sqrt()
    first = ((shift - half) / root).erfc() / 2
    second = ball(epsilon).exp() * ((shift + half) / root).erfc() / 2
    return min(Fraction(1), max(Fraction(0), up(first - second)))


def _delta_up(c: arb, k: arb, size: int, epsilon: float, fine: arb) -> Fraction:
    reach = far(float(c), float(k), size)
    slack = _slack(c, k, reach, fine)
    inner = ball(epsilon) - slack
    if not inner > 0:
        raise CertificateError("the grid of a decay is too coarse for epsilon")
    whole = _mass(c, k, size, 0, reach)
    beyond = _tail(c, k, size, reach - 1) / whole
    if not beyond < 1:
        raise CertificateError("the tail of a decay cannot be bounded")
    half = ball(Fraction(size, 2))
    sphere = (half.lgamma() - (half - ball(Fraction(1, 2))).lgamma()).exp() / arb.pi().sqrt()
    told = _told(c, k, size, inner, float(epsilon), reach)
    told = told * sphere / (arb(2) ** size * whole)
    found = slack.exp() / (1 - beyond) * (told + 2 * beyond)
    return min(Fraction(1), up(found))


def _slack(c: arb, k: arb, reach: int, fine: arb) -> arb:
    """By how much F falls within a grid step, up to a radius."""
    return (c + k * (2 * reach + 1 / fine)) / fine


def _tail(c: arb, k: arb, size: int, radius: int) -> arb:
    """A bound above the integral of r^(size - 1) F(r) beyond a radius: it falls ever faster."""
    r = ball(radius)
    fall = c + 2 * k * r - (size - 1) / r
    if not fall > 0:
        raise CertificateError("the tail of a decay cannot be bounded")
    return r ** (size - 1) * (-c * r - k * r * r).exp() / fall


def _mass(c: arb, k: arb, size: int, power: int, reach: int) -> arb:
    """The integral of r^(size - 1 + power) F(r) up to a radius."""
    exponent = size - 1 + power
    c_, k_ = acb(c), acb(k)

    def at(r: acb, _: bool) -> acb:
        return r**exponent * (-(c_ + k_ * r) * r).exp()

    most = arb(mode(float(c), float(k), exponent))
    return _integral(at, arb(0), most) + _integral(at, most, arb(reach))


def _integral(at: Callable[[acb, bool], acb], low: arb, high: arb) -> arb:
    """The integral of an entire function, to a tolerance of what is largest times the width."""
    width = high - low
    places = (acb(low + width * i / _LOOKS) for i in range(_LOOKS))
    close = max(abs(at(place, False).real).mid() for place in places) * width * _TOLERANCE
    found = acb.integral(at, acb(low), acb(high), rel_tol=_TOLERANCE, abs_tol=close.mid())
    return found.real


def _told(c: arb, k: arb, size: int, epsilon: arb, near: float, reach: int) -> arb:
    """The integral over x and y of what tells neighbours apart, up to x = 2 reach + 1."""
    last = 2 * reach + 1
    places = [arb(1), *map(arb, edges(float(c), float(k), size, near, last)), arb(last)]
    told = [_over_y(c + k * x, k, size, epsilon) for x in places]
    total = arb(0)
    for i, (low, high) in enumerate(pairwise(places)):
        (inner, squares), (outer, _) = told[i], told[i + 1]
        if outer == 0:
            continue  # nor does anything up to there tell them apart
        at = _chorded(c, k, size, (low, high), (inner, outer), squares)
        total += _integral(at, low.acosh(), high.acosh())
    return total


def _chorded(
    c: arb, k: arb, size: int, ends: tuple[arb, arb], told: tuple[arb, arb], squares: arb
) -> Callable[[acb, bool], acb]:
    """What is integrated over x = cosh s: a chord between the ends of a cell stands for the y."""
    low, high, inner, outer = acb(ends[0]), acb(ends[1]), acb(told[0]), acb(told[1])
    half, quarter, width, less = acb(c) / 2, acb(k) / 4, acb(ends[1] - ends[0]), acb(squares)

    def at(s: acb, _: bool) -> acb:
        x = s.cosh()
        chord = ((high - x) * inner + (x - low) * outer) / width
        weight = (-(half + quarter * x) * x).exp() * s.sinh() ** (size - 2)
        return weight * (x * x * chord - less)

    return at


def _over_y(g: arb, k: arb, size: int, epsilon: arb) -> tuple[arb, arb]:
    """What tells neighbours apart, over y: from above; and y^2 times it, from below."""
    if g <= epsilon:
        return arb(0), arb(0)
    begin, end = (epsilon / g).asin(), arb.pi() / 2
    half, e, k_ = acb(g) / 2, acb(epsilon), acb(k) / 4

    def at(angle: acb, _: bool) -> acb:
        y = angle.sin()
        told = (half * y).exp() - (e - half * y).exp()
        return told * (-k_ * y * y).exp() * angle.cos() ** (size - 2)

    return _integral(at, begin, end), _integral(lambda z, _: at(z, _) * z.sin() ** 2, begin, end)


def decay_loss_up(law: Decay, norm: str, size: int, power: int) -> Fraction:
    """The expected sum of |z_i|^power of a decay, from above, in sensitivities."""
    _check_decay(law, size)
    step_up = Fraction(1, law.fine)
    with precision():
        c, k = ball(law.c), ball(law.k)
        if law.c == 0 and norm == "l2":
            # Each coordinate is a real Gaussian variable, rounded.
            each = 1 / (2 * k) if power == 2 else 1 / (arb.pi() * k).sqrt()
            return up(rounded(size * each, size, power, step_up))
        reach = far(law.c, law.k, size)
        whole = _mass(c, k, size, 0, reach)
        beyond = _tail(c, k, size + power, reach)
        mean = (_mass(c, k, size, power, reach) + beyond) / whole
        # Rounded up to the grid, the norm falls off faster: F is above the density, by e^s at most.
        mean *= _slack(c, k, reach, ball(law.fine)).exp() / (1 - beyond / whole)
        return up(rounded(mean * factor(norm, size, power), size, power, step_up))

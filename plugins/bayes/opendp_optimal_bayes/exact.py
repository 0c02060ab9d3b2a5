"""Logarithms and roots of fractions, with the direction of rounding in the name."""

from __future__ import annotations

import math
from fractions import Fraction

from opendp_optimal.spec.exact import BITS, exp_bounds, float_down

_LARGEST = 64


def exp_down(x: Fraction) -> Fraction:
    """A fraction not above e^x, for x >= 0, within about 2^-70 of it.

    :param x: the exponent

    >>> 2.718281828 < exp_down(Fraction(1)) < 2.718281829
    True
    """
    halvings = 0
    while x / (1 << halvings) > _LARGEST:
        halvings += 1
    part = x / (1 << halvings)
    near = float_down(part)
    value = Fraction(exp_bounds(near)[0], 1 << BITS) * (1 + (part - Fraction(near)))
    for _ in range(halvings):
        value *= value
        value = Fraction((value.numerator << 2 * BITS) // value.denominator, 1 << 2 * BITS)
    return value


def log_ratio_up(ratio: Fraction, distance: Fraction) -> float:
    """The least float epsilon that is proved to satisfy e^(epsilon * distance) >= ratio.

    :param ratio: at least 1
    :param distance: above 0

    >>> log_ratio_up(Fraction(4), Fraction(1, 2)) - 2 * math.log(4) < 1e-15
    True
    """
    if ratio <= 1:
        return 0.0

    def proved(epsilon: float) -> bool:
        return exp_down(Fraction(epsilon) * distance) >= ratio

    value = (math.log(ratio.numerator) - math.log(ratio.denominator)) / float(distance)
    while not proved(value):
        value = math.nextafter(value, math.inf)
    while value > 0 and proved(below := math.nextafter(value, 0.0)):
        value = below
    return value


def root(value: Fraction, degree: int) -> Fraction:
    """The root of a fraction: exact where it is rational, the nearest float's fraction otherwise.

    :param value: above 0
    :param degree: which root

    >>> root(Fraction(1, 16), 4)
    Fraction(1, 2)
    """
    parts = [_whole_root(n, degree) for n in (value.numerator, value.denominator)]
    if None not in parts:
        return Fraction(parts[0], parts[1])  # type: ignore[arg-type]
    return Fraction(math.exp((math.log(value.numerator) - math.log(value.denominator)) / degree))


def _whole_root(n: int, degree: int) -> int | None:
    low, high = 0, 1 << (n.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= n:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == n else None

"""Logarithms and roots of fractions, with the direction of rounding in the name."""

from __future__ import annotations

import math
import struct
import sys
from fractions import Fraction

from opendp_optimal.exact.numbers import BITS, exp_bounds, float_down

_LARGEST = 64
_SMALL = Fraction(1, 1 << 30)
"""Exponents below it are served by the first terms of the series."""


def exp_down(x: Fraction) -> Fraction:
    """A fraction not above e^x, for x >= 0; what it lacks of e^x - 1 is about 2^-56 of that.

    :param x: the exponent

    >>> 2.718281828 < exp_down(Fraction(1)) < 2.718281829
    True
    """
    if x < _SMALL:
        return 1 + x + x * x / 2 + x * x * x / 6
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


def exp_reaches(x: Fraction, ratio: Fraction) -> bool:
    """Whether e^x >= ratio is proved.

    :param x: the exponent, at least 0
    :param ratio: above 0

    >>> exp_reaches(Fraction(2), Fraction(7)), exp_reaches(Fraction(2), Fraction(8))
    (True, False)
    """
    # The ratio is below 2^bits, and e^x is at least 2^x: long exponents need no powers.
    bits = ratio.numerator.bit_length() - ratio.denominator.bit_length() + 1
    return x >= bits or exp_down(x) >= ratio


def log_near(ratio: Fraction) -> Fraction:
    """About the logarithm of a ratio, to a few parts in 2^52 of itself; proves nothing.

    :param ratio: at least 1
    """
    excess = ratio - 1
    if excess < _SMALL:
        return excess - excess * excess / 2
    if excess < 1:
        return Fraction(math.log1p(excess))
    return Fraction(math.log(ratio.numerator) - math.log(ratio.denominator))


def log_ratio_up(ratio: Fraction, distance: Fraction) -> float:
    """The least float epsilon that is proved to satisfy e^(epsilon * distance) >= ratio.

    :param ratio: above 0
    :param distance: above 0
    :returns: infinity where no float is enough

    >>> log_ratio_up(Fraction(4), Fraction(1, 2)) - 2 * math.log(4) < 1e-15
    True
    """
    if ratio <= 1:
        return 0.0

    def proved(place: int) -> bool:
        return exp_reaches(Fraction(_at(place)) * distance, ratio)

    near = log_near(ratio) / distance
    if near > _MOST:
        near = Fraction(_MOST)
    start = _place(float(near))
    low, high, step = start, start, 1
    while not proved(high):
        if high >= _LAST:
            return math.inf
        low, high, step = high, min(high + step, _LAST), 2 * step
    step = 1
    while low == high or proved(low):  # place 0 is epsilon 0, which is never enough
        high, low, step = low, max(low - step, 0), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if proved(middle) else (middle, high)
    return _at(high)


def _place(value: float) -> int:
    """The position of a float among all that are not negative."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _at(place: int) -> float:
    """The float at a position."""
    return float(struct.unpack("<d", struct.pack("<q", place))[0])


_MOST = sys.float_info.max
_LAST = _place(_MOST)


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

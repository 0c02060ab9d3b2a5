"""Logarithms of fractions, with the direction of rounding in the name."""

from __future__ import annotations

import math
import struct
import sys
from fractions import Fraction

from opendp_optimal.exact.numbers import SMALL, exp_down


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
    if excess < SMALL:
        return excess - excess * excess / 2
    if excess < 1:
        return Fraction(math.log1p(excess))
    return Fraction(math.log(ratio.numerator) - math.log(ratio.denominator))


def log_up(ratio: Fraction, distance: Fraction = Fraction(1)) -> float:
    """The least float epsilon that is proved to satisfy e^(epsilon * distance) >= ratio.

    :param ratio: above 0
    :param distance: above 0
    :returns: infinity where no float is enough

    >>> log_up(Fraction(4), Fraction(1, 2)) - 2 * math.log(4) < 1e-15
    True
    """
    if ratio <= 1:
        return 0.0

    def proved(place: int) -> bool:
        return exp_reaches(Fraction(_at(place)) * distance, ratio)

    near = min(log_near(ratio) / distance, Fraction(_MOST))
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

"""Exact arithmetic on the exponential: rational bounds that hold whatever the float unit does."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from functools import lru_cache
from numbers import Integral
from typing import Any

BITS = 96
"""Fractional bits of the bounds returned by :func:`exp_bounds`."""

_LARGEST = 64
_WIDE = BITS + 180
"""How close the exponential is taken before it is rounded to these bits: e^64 has 93 more."""


@lru_cache(maxsize=4096)
def exp_bounds(x: float) -> tuple[int, int]:
    """Integers (lo, hi) with lo <= e^x * 2^BITS <= hi, for a float 0 <= x <= 64.

    >>> lo, hi = exp_bounds(1.0)
    >>> lo / 2**BITS, hi - lo < 4
    (2.718281828459045, True)
    """
    if not 0 <= x <= _LARGEST:
        raise ValueError(f"x ({x}) must be in [0, {_LARGEST}]")
    (high, m), (low, n) = (exp_minus(Fraction(x), _WIDE, up=up) for up in (True, False))
    return (1 << BITS + m) // high, -(-(1 << BITS + n) // low)


def float_up(value: Fraction) -> float:
    """The smallest float that is not below ``value``; infinity beyond all finite ones."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float that is not above ``value``; minus infinity beyond all finite ones."""
    return 0.0 - float_up(-value)  # 0 has no sign


def exactly(value: Any) -> Fraction:
    """The value of a finite number of any type, with nothing rounded.

    >>> exactly(2**60 + 1) - 2**60
    Fraction(1, 1)
    """
    if isinstance(value, Integral):
        return Fraction(int(value))
    numerator, denominator = value.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


def exp_down(x: Fraction, bits: int = BITS) -> Fraction:
    """A fraction not above e^x, within about 2^-bits of its value.

    :param x: any exact number; below -2^20 the answer is 0
    :param bits: how close

    >>> 2.718281828 < exp_down(Fraction(1)) < 2.718281829
    True
    """
    if 0 <= x < SMALL:
        return 1 + x + x * x / 2 + x * x * x / 6  # close to e^x - 1, too
    if x > 0:
        # Beyond the farthest, a lower bound of something smaller is a lower bound too.
        mantissa, shift = exp_minus(min(x, Fraction(_FARTHEST)), bits, up=True)
        return Fraction(1 << shift, mantissa)
    if -x > _FARTHEST:
        return Fraction(0)
    mantissa, shift = exp_minus(-x, bits, up=False)
    return Fraction(mantissa, 1 << shift)


def exp_up(x: Fraction, bits: int = BITS) -> Fraction:
    """A fraction not below e^x, within about 2^-bits of its value.

    :param x: any exact number up to 2^20
    :param bits: how close

    >>> exp_up(Fraction(1)) - exp_down(Fraction(1)) < Fraction(1, 2**90)
    True
    """
    if x > _FARTHEST:
        raise ValueError(f"x ({float(x):g}) must be at most 2^20")
    if x > 0:
        mantissa, shift = exp_minus(x, bits, up=False)
        return Fraction(1 << shift, mantissa)
    mantissa, shift = exp_minus(min(-x, Fraction(_FARTHEST)), bits, up=True)
    return Fraction(mantissa, 1 << shift)


_FARTHEST = 1 << 20
SMALL = Fraction(1, 1 << 30)
"""Exponents below it are served by the first terms of the series."""


def exp_minus(x: Fraction, bits: int, *, up: bool) -> tuple[int, int]:
    """Integers (m, s) with e^-x about m / 2^s for x >= 0, rounded one way.

    A series near 0, then squares with a fixed width: each at most doubles the relative error and
    adds one unit in the last place.

    :param x: the exponent, at most 2^20
    :param bits: how close
    :param up: which way
    """
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 2)
    width = bits + 2 * halvings + 24
    one = 1 << width
    small = x / (1 << halvings)  # below 1/2
    step = small.numerator * one // small.denominator + (0 if up else 1)
    total, term, n = one, one, 0
    while term:
        n += 1
        term = term * step // (one * n)
        total += -term if n % 2 else term
    # Every term was rounded by less than one unit, and the rest is below one unit.
    mantissa, shift = (min(one, total + n + 2) if up else max(1, total - n - 2)), width
    for _ in range(halvings):
        mantissa, shift = mantissa * mantissa, 2 * shift
        extra = max(0, mantissa.bit_length() - width)
        mantissa = -(-mantissa >> extra) if up else mantissa >> extra
        shift -= extra
    return mantissa, shift


def laplace_scale_up(epsilon: float) -> float:
    """The least float scale at which Laplace noise costs at most epsilon for each unit.

    :param epsilon: a positive number, taken as the exact number it is
    :raises ValueError: if no float is large enough

    >>> laplace_scale_up(0.5)
    2.0
    """
    scale = float_up(1 / Fraction(epsilon))
    if scale == math.inf:
        raise ValueError(f"epsilon ({epsilon}) must have a finite reciprocal")
    return scale


def root_up(value: int) -> Fraction:
    """The square root of an integer, rounded up to a multiple of 2^-40.

    >>> root_up(4), float(root_up(2)) >= math.sqrt(2)
    (Fraction(2, 1), True)
    """
    root = math.isqrt(value << 80)
    return Fraction(root + (root * root < value << 80), 1 << 40)

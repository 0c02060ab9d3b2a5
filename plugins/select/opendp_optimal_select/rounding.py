"""Bounds on pi, exponentials and the like, rounded away from the truth and never towards it.

``decimal`` rounds ``exp`` correctly to 60 digits; every bound then gives away a relative 1e-40,
far more than the few roundings before it can have taken.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

CONTEXT = Context(prec=60, Emin=-999999, Emax=999999)
# Spelt out: arithmetic on these two in the default context would round them to 1.
_SHRINK = Decimal("0." + 40 * "9")
_GROW = Decimal("1." + 39 * "0" + "1")

PI_LOWER = Fraction(Decimal("3.14159265358979323846264338327950288419"))
PI_UPPER = PI_LOWER + Fraction(1, 10**38)


def decimal_of(value: Fraction) -> Decimal:
    """Return ``value`` to 60 digits.

    :param value: an exact number
    """
    return CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def exp_lower(value: Fraction) -> Fraction:
    """Return a number below ``exp(value)``.

    :param value: an exact number

    >>> float(exp_lower(Fraction(1)))
    2.718281828459045
    """
    return Fraction(CONTEXT.multiply(CONTEXT.exp(decimal_of(value)), _SHRINK))


def exp_upper(value: Fraction) -> Fraction:
    """Return a number above ``exp(value)``.

    :param value: an exact number
    """
    return Fraction(CONTEXT.multiply(CONTEXT.exp(decimal_of(value)), _GROW))


def float_below(value: Fraction) -> float:
    """Return the largest float that is at most ``value``, or the one next to it.

    :param value: an exact number
    """
    number = float(value)
    return number if Fraction(number) <= value else math.nextafter(number, -math.inf)


def float_above(value: Fraction) -> float:
    """Return the smallest float that is at least ``value``, or the one next to it.

    :param value: an exact number
    """
    return -float_below(-value)

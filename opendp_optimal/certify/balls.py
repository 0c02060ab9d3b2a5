"""Balls of Arb, which hold the true value: how they are made, and their ends as fractions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

from opendp_optimal.errors import CertificateError

_BITS = 80
_SMALLEST = -2000
"""Ends are multiples of this power of 2: a file may ask for one of 2^-(10^9)."""
_LARGEST = 1 << 17
"""And below 2 to this, which is beyond all densities of steps."""
_arithmetic = threading.RLock()


@contextmanager
def precision(bits: int = _BITS) -> Iterator[None]:
    """Arb's precision is one for the whole process: one proof at a time."""
    with _arithmetic, ctx.workprec(bits):
        yield


def ball(value: float | int | Fraction) -> arb:
    """A ball around an exact number."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def up(value: arb) -> Fraction:
    """An upper end of a ball."""
    return -down(-value)


def down(value: arb) -> Fraction:
    """A lower end of a ball."""
    if not value.is_finite():
        raise CertificateError("a bound is not finite")
    mantissa, exponent = (int(part) for part in value.lower().man_exp())
    if exponent + mantissa.bit_length() > _LARGEST:
        raise CertificateError("a bound is out of range")
    lost = max(0, _SMALLEST - exponent)
    return Fraction(mantissa >> lost) * Fraction(2) ** (exponent + lost)

"""Balls of Arb, which hold the true value: how they are made, and their ends as fractions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

from opendp_optimal.errors import CertificateError

__all__ = ["ball", "down", "precision", "up"]

_BITS = 80
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
    return _end(value, value.upper)


def down(value: arb) -> Fraction:
    """A lower end of a ball."""
    return _end(value, value.lower)


def _end(value: arb, end: Callable[[], arb]) -> Fraction:
    if not value.is_finite():
        raise CertificateError("a bound is not finite")
    mantissa, exponent = end().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)

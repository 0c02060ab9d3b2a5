"""Given random words, and the law that they should have, in eighty decimal digits."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from fractions import Fraction

EIGHTY = Context(prec=80, Emax=10**9, Emin=-(10**9))


class Given:
    """A source that gives these words in turn, then zeros without end (or what is said)."""

    def __init__(self, *words: Iterable[int], then: int = 0) -> None:
        self.data = b"".join(int(w).to_bytes(8, "little") for part in words for w in part)
        self.then, self.asked = then, 0

    def __call__(self, count: int) -> bytes:
        """So many bytes."""
        taken = self.data[self.asked : self.asked + count]
        self.asked += count
        return taken + bytes([self.then]) * (count - len(taken))


def exp_minus(x: Fraction) -> Fraction:
    """The exponential of -x, to eighty digits."""
    exponent = EIGHTY.divide(Decimal(-x.numerator), Decimal(x.denominator))
    return Fraction(EIGHTY.exp(exponent))

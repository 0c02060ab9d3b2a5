"""Exact integrals of a loss over an interval, for mechanisms that round or shift at random.

All are of the function s -> c(z - s h) on 0 <= s <= 1: the loss of an output that lies z above the
start of an interval of length h when the answer lies s of the way through. A loss is replaced by
pieces that are linear and nowhere below it: exact for l1 and pinball, chords for convex losses,
the higher end for monotone ones. The integrals of l2 are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Piece:
    """Linear from ``begin`` at s = start to ``finish`` at s = end."""

    start: Fraction
    end: Fraction
    begin: Fraction
    finish: Fraction

    def value(self, s: Fraction) -> Fraction:
        """The value at s."""
        return self.begin + (self.finish - self.begin) * (s - self.start) / (self.end - self.start)

    def integral(self, upto: Fraction) -> Fraction:
        """From the start of the piece up to s."""
        if upto <= self.start:
            return Fraction(0)
        last = min(upto, self.end)
        return (last - self.start) * (self.begin + self.value(last)) / 2

    def first_moment(self) -> Fraction:
        """The integral of s times the value."""
        length = self.end - self.start
        even = self.start * (self.begin + self.finish) / 2
        return length * (even + length * (self.begin + 2 * self.finish) / 6)


def pieces(
    value: Callable[[Fraction], Fraction],
    z: Fraction,
    h: Fraction,
    splits: int,
    level: bool = False,
) -> list[Piece]:
    """Linear pieces that are nowhere below s -> c(z - s h) on [0, 1].

    :param value: the loss, or what is not below it
    :param splits: into how many equal parts the interval is cut, besides where the error is 0
    :param level: each piece is as high as its higher end
    """
    cuts = {Fraction(i, splits) for i in range(splits + 1)}
    if 0 < z < h:
        cuts.add(z / h)  # where the error is 0
    at = sorted(cuts)
    ends = list(itertools.pairwise(value(z - s * h) for s in at))
    if level:
        ends = [(max(pair), max(pair)) for pair in ends]
    return [Piece(at[i], at[i + 1], *pair) for i, pair in enumerate(ends)]


def halves(parts: list[Piece]) -> tuple[Fraction, Fraction]:
    """The integrals of (1 - s) times and of s times what the pieces say."""
    rising = sum((p.first_moment() for p in parts), Fraction(0))
    whole = sum((p.integral(p.end) for p in parts), Fraction(0))
    return whole - rising, rising

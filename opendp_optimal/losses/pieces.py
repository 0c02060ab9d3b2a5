"""Exact integrals of a loss over an interval, for mechanisms that round or shift at random.

All are of the function s -> c(z - s h) on 0 <= s <= 1: the loss of an output that lies z above the
start of an interval of length h when the answer lies s of the way through. A loss is replaced by
pieces that are linear and nowhere below it: exact for l1 and pinball, chords for convex losses,
the higher end for monotone ones. The integrals of l2 are exact.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

from opendp_optimal.losses.base import Loss

_SPLITS = {"convex": 4, "monotone": 32}
_CHORDS = 4
_SLACK = 1 + Fraction(1, 1 << 40)


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


def exact(loss: Loss, z: Fraction) -> Fraction:
    """The loss of an error z, not below it where a user's function was rounded."""
    if loss.function is not None:
        return Fraction(loss(float(z))) * _SLACK
    if loss.name == "l1":
        return abs(z)
    if loss.name == "l2":
        return z * z
    level = Fraction(float(loss.name[len("pinball:") :]))
    return level * z if z > 0 else (level - 1) * z


def pieces(loss: Loss, z: Fraction, h: Fraction) -> list[Piece]:
    """Linear pieces that are nowhere below s -> c(z - s h) on [0, 1]."""
    cuts = {Fraction(0), Fraction(1)}
    if 0 < z < h:
        cuts.add(z / h)  # where the error is 0
    if loss.function is not None or loss.name == "l2":
        splits = _CHORDS if loss.function is None else _SPLITS[loss.shape]
        cuts |= {Fraction(i, splits) for i in range(1, splits)}
    else:
        cuts.add(Fraction(1, 2))
    at = sorted(cuts)
    values = [exact(loss, z - s * h) for s in at]
    if loss.shape == "monotone":
        tops = [max(a, b) for a, b in itertools.pairwise(values)]
        return [Piece(at[i], at[i + 1], top, top) for i, top in enumerate(tops)]
    return [Piece(at[i], at[i + 1], values[i], values[i + 1]) for i in range(len(at) - 1)]


def halves(loss: Loss, z: Fraction, h: Fraction) -> tuple[Fraction, Fraction]:
    """Upper bounds of the integrals of (1 - s) c(z - s h) and of s c(z - s h)."""
    if loss.function is None and loss.name == "l2":
        falling = z * z / 2 - z * h / 3 + h * h / 12
        rising = z * z / 2 - 2 * z * h / 3 + h * h / 4
        return falling, rising
    parts = pieces(loss, z, h)
    rising = sum((p.first_moment() for p in parts), Fraction(0))
    whole = sum((p.integral(p.end) for p in parts), Fraction(0))
    return whole - rising, rising

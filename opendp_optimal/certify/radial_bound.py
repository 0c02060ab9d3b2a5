"""A bound below the squared error of every noise for vectors, in the l2 norm.

Turning noise at random changes neither its length nor its privacy, so only lengths r count. Let
neighbours be 1 apart and r' be the distance of the noise from the answer of the neighbour. For an
increasing function T, a price and an (epsilon, delta)-private law of noise, the event r' > T(r) has

    P(r' > T(r)) - e^epsilon P(r' < S(r)) <= delta,    S the inverse of T,

where a neighbour's noise of length r has the true answer at a distance r'. So the mean of r^2 is at
least the least value over all r of

    D(r) = r^2 + price (P(r' > T(r) | r) - e^epsilon P(r' < S(r) | r)),

less price times delta. With u the first coordinate of a point of the unit sphere, r' > T means
u < (r^2 + 1 - T^2) / (2 r), whose chance is an incomplete beta function.

T is linear between knots, and takes each knot to the one ``width`` places further: so S takes it
back. Beyond the last knot that has an image nothing is priced. Between two knots D is its value in
the middle, less at most half of the width times the largest slope, in balls of Arb; where a slope
has no bound, both chances are taken at their worst ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappush, heapreplace
from typing import Any

import numpy as np
from flint import arb

from opendp_optimal.arrays import Frozen, Integers
from opendp_optimal.certify.balls import ball, down, precision
from opendp_optimal.errors import CertificateError

__all__ = ["KNOT", "MOST_COORDINATES", "RadialPrices", "additive_bound_down"]

KNOT = 1 << 40
"""Knots are multiples of a sensitivity over this."""
_BITS = 53
_MOST_KNOTS = 1 << 12
_LARGEST = 1 << 52
_HALVES = 60
"""So many times the worst piece is halved."""
MOST_COORDINATES = 1 << 11
"""Of vectors for which a bound is proved."""


@dataclass(frozen=True, eq=False)
class RadialPrices(Frozen):
    """What proves a bound: a price and knots.

    :param price: of the event, at least 0
    :param width: T takes a knot to the one so many places further
    :param radii: the knots, 0 first and a sensitivity in place ``width``; multiples of 1 / KNOT
    """

    price: float
    width: int
    radii: Integers

    def __eq__(self, other: object) -> bool:
        """Equal content."""
        return isinstance(other, RadialPrices) and self._key == other._key

    def __hash__(self) -> int:
        """By content."""
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.price, self.width, self.radii.tobytes()


def additive_bound_down(prices: RadialPrices, size: int, epsilon: float, delta: float) -> Fraction:
    """A number that the mean square of the length of no private noise is below.

    :param prices: price and knots
    :param size: of the vectors, at least 2
    :param epsilon: privacy loss between vectors 1 apart in the l2 norm
    :param delta: probability of a larger loss
    :raises CertificateError: if the prices are none
    """
    _check(prices, size)
    with precision(_BITS):
        sphere = _Sphere(size)
        knots = [arb(int(r)) / KNOT for r in prices.radii]
        width, last = prices.width, len(knots) - 1
        price, odds = ball(prices.price), ball(epsilon).exp()
        # Beyond the last knot nothing is priced, and less and less comes from below.
        told = sphere.below(-_cut(knots[last], knots[last - width]))
        beyond = down(knots[last] ** 2 - price * odds * told)
        pieces = []
        for i in range(last):
            out = _line(knots, i, i + width) if i < last - width else None
            into = _line(knots, i, i - width) if i >= width else None
            piece = _Piece(sphere, out, into, price, price * odds)
            pieces.append((piece.below(knots[i], knots[i + 1]), i, knots[i], knots[i + 1], piece))
        # The worst pieces are halved: where chances end, a slope has no bound.
        heapify(pieces)
        for i in range(_HALVES):
            found, _, low, high, piece = pieces[0]
            if found >= beyond:
                break
            middle = (low + high) / 2
            heapreplace(pieces, (piece.below(low, middle), last + 2 * i, low, middle, piece))
            heappush(pieces, (piece.below(middle, high), last + 2 * i + 1, middle, high, piece))
        return min(beyond, pieces[0][0]) - Fraction(prices.price) * Fraction(delta)


def _check(prices: RadialPrices, size: int) -> None:
    radii = prices.radii
    listed = isinstance(radii, np.ndarray) and radii.dtype == np.int64 and radii.ndim == 1
    if type(prices.price) is not float or type(prices.width) is not int or not listed:
        raise CertificateError("prices are not a float and integers")
    if not 0 <= prices.price < 1e30 or not 2 <= size <= MOST_COORDINATES:
        raise CertificateError("a price or the length of vectors is out of range")
    if not 1 <= prices.width <= (len(radii) - 1) // 2 <= _MOST_KNOTS:
        raise CertificateError("there are too few or too many knots")
    if radii[0] != 0 or radii[prices.width] != KNOT or int(radii[-1]) > _LARGEST:
        raise CertificateError("the knots do not begin at 0 and pass 1")
    if np.any(radii[1:] <= radii[:-1]):
        raise CertificateError("the knots do not increase")


class _Sphere:
    """The first coordinate of a point of the unit sphere."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.half, self.middle = arb(size - 1) / 2, arb(1) / 2
        ratio = (arb(size) / 2).lgamma() - self.half.lgamma()
        self.top = ratio.exp() / arb.pi().sqrt()

    def below(self, u: arb) -> arb:
        """The chance that it is below a number."""
        if u <= -1:
            return arb(0)
        if u >= 1:
            return arb(1)
        if not (u > -1 and u < 1):
            return self.below(u.lower()).union(self.below(u.upper()))
        # Half of an incomplete beta function, in the form that takes least time.
        x, a = (1 - u) * (1 + u), self.half
        part = self.top * x**a * x.hypgeom_2f1(a, self.middle, a + 1) / (2 * a)
        return part if u < 0 else 1 - part if u > 0 else part.union(1 - part)

    def density(self, u: arb) -> arb:
        """The density over a ball within (-1, 1)."""
        low, high = (self._density(end) for end in (u.lower(), u.upper()))
        return low.union(high) if u > 0 or u < 0 else low.union(high).union(self.top)

    def _density(self, u: arb) -> arb:
        return self.top * ((1 - u) * (1 + u)).sqrt() ** (self.size - 3)


class _Line:
    """T(r) = start + slope r, and where on the sphere r' = T(r): c r + b + a / r."""

    def __init__(self, start: arb, slope: arb, *, exact: bool) -> None:
        self.a = arb(0) if exact else (1 - start * start) / 2
        self.b = -slope * start
        self.c = (1 - slope * slope) / 2

    def at(self, r: arb) -> arb:
        """Where on the sphere r' = T(r)."""
        return self.c * r + self.b + (self.a / r if self.a != 0 else 0)

    def slope(self, r: arb) -> arb:
        """Of the same; it rises or falls with r throughout."""
        return self.c - (self.a / r / r if self.a != 0 else 0)

    def over(self, low: arb, high: arb) -> tuple[arb, arb]:
        """All places between two radii, and all slopes."""
        one, other = self.slope(low), self.slope(high)
        if (one >= 0 and other >= 0) or (one <= 0 and other <= 0):
            return self.at(low).union(self.at(high)), one.union(other)
        return self.at(low.union(high)), one.union(other)


def _line(knots: list[arb], i: int, j: int) -> _Line:
    """The line that takes the piece beyond knot i to that beyond knot j."""
    slope = (knots[j + 1] - knots[j]) / (knots[i + 1] - knots[i])
    # T(0) = 1: there is no pole.
    return _Line(knots[j] - slope * knots[i], slope, exact=i == 0)


def _cut(r: arb, target: arb) -> arb:
    return (r * r + 1 - target * target) / (2 * r)


@dataclass(frozen=True)
class _Piece:
    """D where T and S are lines, or nothing is priced.

    :param out: T
    :param into: S
    :param price: of the event
    :param back: the price times e^epsilon
    """

    sphere: _Sphere
    out: _Line | None
    into: _Line | None
    price: arb
    back: arb

    def below(self, low: arb, high: arb) -> Fraction:
        """A number below D from one radius to another."""
        middle, half = (low + high) / 2, (high - low) / 2
        value, slope = middle * middle, 2 * low.union(high)
        for line, sign, cost in self._terms():
            places, slopes = line.over(low, high)
            if not (places > -1 and places < 1):
                return self._ends(low, high)
            value += sign * cost * self.sphere.below(sign * line.at(middle))
            slope += cost * self.sphere.density(places) * slopes
        found = value - half * abs(slope)
        return down(found) if found.is_finite() else self._ends(low, high)

    def _ends(self, low: arb, high: arb) -> Fraction:
        worst = low * low
        for line, sign, cost in self._terms():
            worst += sign * cost * self.sphere.below(sign * line.over(low, high)[0].lower())
        return down(worst)

    def _terms(self) -> Iterator[tuple[_Line, int, arb]]:
        if self.out is not None:
            yield self.out, 1, self.price
        if self.into is not None:
            yield self.into, -1, self.back

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

Noise hides shorter moves as well: a further event may be one of neighbours ``length`` apart. Where
the best noise is a staircase, one event proves too little: it takes what is near 0 too far.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_poly, arb_series

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.balls import ball, down, precision
from opendp_optimal.certify.noise import are_integers
from opendp_optimal.certify.pieces import least_down
from opendp_optimal.errors import CertificateError

KNOT = 1 << 40
"""Knots are multiples of a sensitivity over this."""
_MOST_KNOTS = 1 << 12
_LARGEST = 1 << 52
_HALVES = 60
"""So many times the worst piece is halved."""
MOST_COORDINATES = 1 << 11
"""Of vectors for which a bound is proved."""


@dataclass(frozen=True, eq=False)
class RadialPrices(Valued):
    """What proves a bound: a price and knots.

    :param price: of the event, at least 0
    :param width: T takes a knot to the one so many places further
    :param radii: the knots, 0 first and ``length`` in place ``width``; multiples of 1 / KNOT
    :param length: how far apart neighbours are, at most KNOT, which is a sensitivity
    :param further: another event and its price
    """

    price: float
    width: int
    radii: Integers
    length: int = KNOT
    further: RadialPrices | None = None


def additive_bound_down(prices: RadialPrices, size: int, epsilon: float, delta: float) -> Fraction:
    """A number that the mean square of the length of no private noise is below.

    :param prices: prices and knots of one event or two
    :param size: of the vectors, at least 2
    :param epsilon: privacy loss between vectors 1 apart in the l2 norm
    :param delta: probability of a larger loss
    :raises CertificateError: if the prices are none
    """
    listed = [prices] if prices.further is None else [prices, prices.further]
    for event in listed:
        _check(event, size)
    if listed[-1].further is not None:
        raise CertificateError("there are more than two events")
    with precision():
        sphere, odds = Sphere(size), ball(epsilon).exp()
        events = [_Event(sphere, event, odds) for event in listed]
        knots = sorted({r for event in events for r in event.radii})

        def below(low: Fraction, high: Fraction) -> Fraction:
            terms = [term for event in events for term in event.terms(low)]
            return _below(sphere, terms, ball(low / KNOT), ball(high / KNOT))

        # Beyond the last knot nothing is priced, and less and less comes from below.
        beyond = below(Fraction(knots[-1]), Fraction(knots[-1]))
        # The worst pieces are halved: where chances end, a slope has no bound.
        found = least_down(below, knots, beyond, _HALVES)
        return found - Fraction(delta) * sum(Fraction(event.price) for event in listed)


def _check(prices: RadialPrices, size: int) -> None:
    radii = prices.radii
    whole = type(prices.width) is int and type(prices.length) is int
    if type(prices.price) is not float or not whole or not are_integers(radii):
        raise CertificateError("prices are not a float and integers")
    if not 0 <= prices.price < 1e30 or not 2 <= size <= MOST_COORDINATES:
        raise CertificateError("a price or the length of vectors is out of range")
    if not 1 <= prices.width <= len(radii) // 2 <= _MOST_KNOTS:
        raise CertificateError("there are too few or too many knots")
    if prices.length > KNOT:
        raise CertificateError("neighbours are farther apart than a sensitivity")
    if radii[0] != 0 or radii[prices.width] != prices.length or int(radii[-1]) > _LARGEST:
        raise CertificateError("the knots do not begin at 0 and pass the distance of neighbours")
    if np.any(radii[1:] <= radii[:-1]):
        raise CertificateError("the knots do not increase")


class Sphere:
    """The first coordinate of a point of the unit sphere."""

    def __init__(self, size: int) -> None:
        """For vectors of a length."""
        self.size = size
        half = arb(size - 1) / 2
        self.top = ((arb(size) / 2).lgamma() - half.lgamma()).exp() / arb.pi().sqrt()
        # The integral of (1 - u^2)^m from 0 to x is x (1 - x^2)^m / (2 m + 1), and of the same with
        # a power less 2 m / (2 m + 1) times as much: a polynomial, and an arc if m is not whole.
        factor, terms = self.top, []
        for double in range(size - 3, -1, -2):  # 2 m
            terms.append(factor / (double + 1))
            factor = factor * double / (double + 1)
        self.arc, self.middle = factor, arb(1) / 2
        self.powers = arb_poly(terms[::-1])

    def below(self, u: arb) -> arb:
        """The chance that it is below a number."""
        if u <= -1:
            return arb(0)
        if u >= 1:
            return arb(1)
        if not abs(u) < 1:
            return self.below(u.lower()).union(self.below(u.upper()))
        inside = (1 - u) * (1 + u)
        part = u * self.powers(inside)
        if self.size % 2 == 0:
            part = part * inside.sqrt() + self.arc * u.asin()
        return part + self.middle

    def density(self, u: arb) -> arb:
        """The density over a ball within (-1, 1)."""
        low, high = (self._density(end) for end in (u.lower(), u.upper()))
        return low.union(high).union(self.top) if u.contains(0) else low.union(high)

    def series(self, u: arb_series) -> arb_series:
        """How the chance changes along a course within (-1, 1)."""
        density = self.top * (((1 - u) * (1 + u)).log() * (arb(self.size - 3) / 2)).exp()
        return (density * u.derivative()).integral()

    def _density(self, u: arb) -> arb:
        return self.top * ((1 - u) * (1 + u)).sqrt() ** (self.size - 3)


class _Line:
    """T(r) = start + slope r, and where on the sphere r' = T(r): c r + b + a / r."""

    def __init__(self, start: arb, slope: arb, length: arb, *, exact: bool) -> None:
        self.a = None if exact else (length * length - start * start) / (2 * length)
        self.b = -slope * start / length
        self.c = (1 - slope * slope) / (2 * length)

    def at(self, r: arb) -> arb:
        """Where on the sphere r' = T(r)."""
        place = self.c * r + self.b
        return place if self.a is None else place + self.a / r

    def slope(self, r: arb) -> arb:
        """Of the same; it rises or falls with r throughout."""
        return self.c if self.a is None else self.c - self.a / r / r

    def over(self, low: arb, high: arb) -> tuple[arb, arb]:
        """All places between two radii, and all slopes."""
        slopes = self.slope(low).union(self.slope(high))
        if slopes.contains(0):
            return self.at(low.union(high)), slopes
        return self.at(low).union(self.at(high)), slopes


_Term = tuple[_Line | None, int, arb]
"""A line, the sign of its chance in D, and its price; without a line what it is worth."""


class _Event:
    """What an event adds to D."""

    def __init__(self, sphere: Sphere, prices: RadialPrices, odds: arb) -> None:
        self.radii, self.width = prices.radii.tolist(), prices.width
        self.knots = [arb(r) / KNOT for r in self.radii]
        self.length = arb(prices.length) / KNOT
        self.price, self.back = ball(prices.price), ball(prices.price) * odds
        self.last = len(self.knots) - 1
        r, target = self.knots[self.last], self.knots[self.last - self.width]
        cut = (r * r + self.length * self.length - target * target) / (2 * r * self.length)
        self.told = self.back * sphere.below(-cut)

    def terms(self, low: Fraction) -> list[_Term]:
        """What is added beyond a radius, up to the next knot."""
        i = bisect_right(self.radii, low) - 1
        if i >= self.last:
            return [(None, -1, self.told)]
        found: list[_Term] = []
        if i < self.last - self.width:
            found.append((self._line(i, i + self.width), 1, self.price))
        if i >= self.width:
            found.append((self._line(i, i - self.width), -1, self.back))
        return found

    def _line(self, i: int, j: int) -> _Line:
        """The line that takes the piece beyond knot i to that beyond knot j."""
        knots = self.knots
        slope = (knots[j + 1] - knots[j]) / (knots[i + 1] - knots[i])
        # T(0) is the length: there is no pole.
        return _Line(knots[j] - slope * knots[i], slope, self.length, exact=i == 0)


def _below(sphere: Sphere, terms: list[_Term], low: arb, high: arb) -> Fraction:
    """A number below D from one radius to another, where all that is priced is along lines."""
    middle, half = (low + high) / 2, (high - low) / 2
    value, slope = middle * middle, 2 * low.union(high)
    for line, sign, cost in terms:
        if line is None:
            value += sign * cost
            continue
        places, slopes = line.over(low, high)
        if not abs(places) < 1:
            return _ends(sphere, terms, low, high)
        value += sign * cost * sphere.below(sign * line.at(middle))
        slope += cost * sphere.density(places) * slopes
    found = value - half * abs(slope)
    return down(found) if found.is_finite() else _ends(sphere, terms, low, high)


def _ends(sphere: Sphere, terms: list[_Term], low: arb, high: arb) -> Fraction:
    """The same with chances at their worst."""
    worst = low * low
    for line, sign, cost in terms:
        chance = arb(1)
        if line is not None:
            places, _ = line.over(low, high)
            chance = sphere.below(sign * places.lower())
        worst += sign * cost * chance
    return down(worst)

"""The bound of :mod:`~opendp_optimal.certify.radial_bound` where noise is long: T without corners.

Let r = R(s) for an increasing function R with R(0) = 0, and T take R(s) to R(s + 1): then S takes
it to R(s - 1). R is a cubic between knots, given by its values and slopes there, so that a hundred
knots serve a thousand steps or a million. Nothing is priced beyond R(end - 1), end the last knot.

D is one smooth function of s wherever s, s + 1 and s - 1 do not pass a knot. It is a Taylor
polynomial there, whose last coefficient is taken over all of the piece, in balls of Arb.

The bound of shorter vectors serves longer ones. Of private noise Z for n numbers take those of m
places: neighbours that differ there only are as far apart as vectors of length m, and leaving
numbers out is post-processing, so it is private noise for vectors of length m. Its mean square is
E|Z|^2 m / n on average over all choices of m places, hence at most that for one of them. So
E|Z|^2 is at least n / m times the bound for m.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, arb_poly, arb_series

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.balls import ball, down, precision
from opendp_optimal.certify.noise import are_integers
from opendp_optimal.certify.pieces import least_down
from opendp_optimal.certify.radial_bound import KNOT, MOST_COORDINATES, Sphere
from opendp_optimal.errors import CertificateError

STEP = 1 << 30
"""Places of knots are multiples of a step of T over this."""
_MOST_KNOTS = 1 << 10
_LARGEST = 1 << 61
_ORDER = 8
"""Of the Taylor polynomials."""
_HALVES = 150
"""So many times the worst piece is halved."""


@dataclass(frozen=True, eq=False)
class SmoothPrices(Valued):
    """What proves a bound: a price, and R at knots.

    :param price: of the event, at least 0
    :param places: the knots, 0 first; multiples of 1 / STEP
    :param radii: R there, 0 first; multiples of 1 / KNOT
    :param slopes: of R there, positive; multiples of 1 / KNOT
    :param size: of the vectors that it is about, at most that of the noise; 0 for the same
    """

    price: float
    places: Integers
    radii: Integers
    slopes: Integers
    size: int = 0


def smooth_bound_down(prices: SmoothPrices, size: int, epsilon: float, delta: float) -> Fraction:
    """A number that the mean square of the length of no private noise is below.

    :param prices: a price and R
    :param size: of the vectors, at least 2
    :param epsilon: privacy loss between vectors 1 apart in the l2 norm
    :param delta: probability of a larger loss
    :raises CertificateError: if the prices are none
    """
    _check(prices, size)
    part = prices.size or size
    with precision():
        course = _Course(Sphere(part), prices, ball(prices.price), ball(epsilon).exp())
        end = course.end
        ends = {p + moved for p in course.places for moved in (-STEP, 0, STEP)}
        cuts = sorted(p for p in ends if 0 <= p <= end)
        found = least_down(course.below, cuts, course.beyond(), _HALVES)
        found -= Fraction(prices.price) * Fraction(delta)
        return max(Fraction(0), found) * Fraction(size, part)


def _check(prices: SmoothPrices, size: int) -> None:
    arrays = (prices.places, prices.radii, prices.slopes)
    listed = are_integers(*arrays) and len({len(array) for array in arrays}) == 1
    if type(prices.price) is not float or type(prices.size) is not int or not listed:
        raise CertificateError("prices are not a float and integers")
    if not 0 <= prices.size <= size:
        raise CertificateError("prices are about longer vectors than the noise")
    if not 0 <= prices.price < 1e30 or not 2 <= (prices.size or size) <= MOST_COORDINATES:
        raise CertificateError("a price or the length of vectors is out of range")
    if not 2 <= len(prices.places) <= _MOST_KNOTS:
        raise CertificateError("there are too few or too many knots")
    knots = _knots(prices)
    if knots[0][:2] != (0, 0) or max(*knots[-1], *prices.slopes.tolist()) > _LARGEST:
        raise CertificateError("the knots do not begin at 0, or go too far")
    if knots[-1][0] < 2 * STEP:
        raise CertificateError("the knots are for less than two steps")
    for (p, low, one), (q, high, other) in pairwise(knots):
        # A cubic rises throughout if it rises at both ends, by at most three times its mean slope.
        steepest = 3 * Fraction(high - low, 1) * STEP
        if not (q > p and min(one, other) > 0 and max(one, other) * (q - p) <= steepest):
            raise CertificateError("R does not increase")


def _knots(prices: SmoothPrices) -> list[tuple[int, int, int]]:
    arrays = (prices.places, prices.radii, prices.slopes)
    return list(zip(*(array.tolist() for array in arrays), strict=True))


class _Course:
    """D along s, in units of 1 / STEP."""

    def __init__(self, sphere: Sphere, prices: SmoothPrices, price: arb, odds: arb) -> None:
        self.sphere, self.price, self.back = sphere, price, price * odds
        self.places = prices.places.tolist()
        self.end = self.places[-1]
        self.cubics = []
        for (p, low, one), (q, high, other) in pairwise(_knots(prices)):
            h, rise = Fraction(q - p, STEP), Fraction(high - low, KNOT)
            first, last = Fraction(one, KNOT), Fraction(other, KNOT)
            square = (3 * rise / h - 2 * first - last) / h
            cube = (first + last - 2 * rise / h) / h**2
            self.cubics.append(
                arb_poly([ball(x) for x in (Fraction(low, KNOT), first, square, cube)])
            )

    def beyond(self) -> Fraction:
        """A number below D beyond the last knot: less and less comes from below."""
        end = Fraction(self.end)
        r, source = self._around(end)(0), self._around(end - STEP)(0)
        # P(r' < S) falls with r where r^2 + S^2 > 1.
        return self.below(end, end) if r * r + source * source > 1 else Fraction(0)

    def _around(self, place: Fraction) -> arb_poly:
        """R as a polynomial about a place, on the piece that it is within."""
        i = min(bisect_right(self.places, place), len(self.places) - 1) - 1
        return self.cubics[i](arb_poly([ball((place - self.places[i]) / STEP), 1]))

    def below(self, low: Fraction, high: Fraction) -> Fraction:
        """A number below D from one place to another, where R is smooth three times."""
        middle = (low + high) / 2
        half = ball((high - low) / 2 / STEP)
        whole = arb(0).union(half).union(-half)
        r = self._around(middle)
        out = into = None
        if high <= self.end - STEP:
            out = self._around(middle + STEP) - r
        if low >= STEP:
            into = r - self._around(middle - STEP)
        exact, over = self._series(r, out, into, arb(0)), self._series(r, out, into, whole)
        if exact is None or over is None:
            return self._ends(r, out, into, whole)
        found = exact[0] - sum(abs(exact[k]) * half**k for k in range(1, _ORDER))
        found -= abs(over[_ORDER]) * half**_ORDER
        return down(found) if found.is_finite() else self._ends(r, out, into, whole)

    def _series(
        self, r: arb_poly, out: arb_poly | None, into: arb_poly | None, at: arb
    ) -> arb_series | None:
        """The Taylor series of D at a place; None if it has none. Over more, but for D itself."""
        moved = arb_poly([at, 1])
        radius = _series(r(moved))
        if not radius[0] > 0:
            return None
        value = radius * radius
        for apart, sign, cost in ((out, 1, self.price), (into, -1, self.back)):
            if apart is None:
                continue
            t = _series(apart(moved))
            place = (1 - t * t) / (2 * radius) * sign - t
            if not abs(place[0]) < 1:
                return None
            value += sign * cost * self.sphere.series(place)
            if at.is_exact():
                value += sign * cost * self.sphere.below(place[0])
        if value.prec <= _ORDER:
            raise CertificateError("a Taylor series is cut off")
        return value

    def _ends(
        self, r: arb_poly, out: arb_poly | None, into: arb_poly | None, whole: arb
    ) -> Fraction:
        """The same with chances at their worst."""
        radius = r(whole)
        near, far = radius.lower().max(0), radius.upper()
        worst = near * near
        for apart, sign, cost in ((out, 1, self.price), (into, -1, self.back)):
            if apart is None:
                continue
            t = apart(whole)
            rest = (1 - t * t).lower()
            end = near if rest < 0 else far
            # At 0 nothing is known of the chance.
            gap = (rest / (2 * end) - t * sign).lower() if end > 0 else arb(-1)
            worst += sign * cost * self.sphere.below(sign * gap)
        return down(worst)


def _series(polynomial: arb_poly) -> arb_series:
    return arb_series(polynomial, prec=_ORDER + 1)

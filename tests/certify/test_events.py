"""Bounds below all noise for vectors: of small made-up prices, against D at many radii."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline
from scipy.special import betainc

from opendp_optimal.certify.balls import precision
from opendp_optimal.certify.radial_bound import (
    KNOT,
    MOST_COORDINATES,
    RadialPrices,
    Sphere,
    additive_bound_down,
)
from opendp_optimal.certify.radial_smooth import STEP, SmoothPrices, _Course, smooth_bound_down
from opendp_optimal.errors import CertificateError


def below(size: int, u: np.ndarray) -> np.ndarray:
    """The chance that a coordinate of a point of the unit sphere is below u."""
    u = np.clip(u, -1, 1)
    half = 0.5 * betainc((size - 1) / 2, 0.5, (1 - u) * (1 + u))
    return np.where(u < 0, half, 1 - half)


def radial(price, width, radii, length=1.0, further=None) -> RadialPrices:
    whole = np.rint(np.array(radii, float) * KNOT).astype(np.int64)
    return RadialPrices(float(price), width, whole, round(length * KNOT), further)


def least(prices: RadialPrices, size: int, epsilon: float, delta: float) -> float:
    """The least D over many radii, and beyond all knots."""
    events = [event for event in (prices, prices.further) if event is not None]
    end = max(event.radii[-1] for event in events) / KNOT
    knots = np.concatenate([event.radii[1:] / KNOT for event in events])
    r = np.concatenate([np.geomspace(1e-7, end, 600), np.linspace(1e-7, end, 2000), knots])
    value, beyond = r * r, end * end
    for event in events:
        knots, width, length = event.radii / KNOT, event.width, event.length / KNOT
        out = np.interp(r, knots[:-width], knots[width:])
        back = np.interp(r, knots[width:], knots[:-width])
        told = below(size, (r * r + length**2 - out**2) / (2 * r * length))
        untold = below(size, -(r * r + length**2 - back**2) / (2 * r * length))
        cut = (knots[-1] ** 2 + length**2 - knots[-1 - width] ** 2) / (2 * knots[-1] * length)
        last = float(below(size, -cut))
        untold = np.where(r < length, 0, np.where(r >= knots[-1], last, untold))
        told = np.where(r >= knots[-1 - width], 0, told)
        value = value + event.price * (told - math.exp(epsilon) * untold)
        beyond -= event.price * math.exp(epsilon) * last
    return min(float(value.min()), beyond) - delta * sum(event.price for event in events)


def drawn(number: int) -> tuple[RadialPrices, int, float]:
    """Prices whose bound is attained anywhere: near 0, between, at a knot, beyond the last."""
    random = np.random.default_rng(number)
    width, size = int(random.integers(1, 5)), int(random.choice([2, 3, 4, 5, 8, 21]))
    first = np.cumsum(np.append(0, random.uniform(0.3, 1, width)))
    first /= first[-1]
    second = first[-1] + np.cumsum(np.diff(first) * random.uniform(0.2, 0.9))
    more = second[-1] + np.cumsum(random.uniform(0.2, 1.3, int(random.integers(0, 3 * width))))
    knots = np.concatenate([first, second, more])
    prices = radial(random.uniform(1, 12), width, knots)
    if number % 3 == 0:
        half = radial(random.uniform(0.1, 3), width, knots / 2, 0.5)
        prices = replace(prices, further=half)
    return prices, size, float(random.uniform(0.05, 2))


@pytest.mark.parametrize("first", range(0, 100, 5))
def test_the_bound_is_the_least_over_all_radii(first):
    for number in range(first, first + 5):
        prices, size, epsilon = drawn(number)
        exact = least(prices, size, epsilon, 0.01)
        found = float(additive_bound_down(prices, size, epsilon, 0.01))
        assert found <= exact + 1e-9
        assert found >= exact - 4e-3 * max(1, abs(exact))


@pytest.mark.parametrize("size", [2, 3, 4, 9])
def test_densities_over_a_ball_are_all_of_its_densities(size):
    from flint import arb

    with precision():
        sphere = Sphere(size)
        for low, high in ((-0.5, 0.75), (-0.9, -0.2), (0.2, 0.9), (-0.25, 0.0), (0.0, 0.5)):
            over = sphere.density(arb(low).union(arb(high)))
            for u in np.linspace(low, high, 21):
                step = 2.0**-20
                rise = sphere.below(arb(u + step)) - sphere.below(arb(u - step))
                assert over.lower() <= rise / (2 * step) * (1 + 1e-9)
                assert over.upper() >= rise / (2 * step) * (1 - 1e-9)
            ends = [float(sphere.density(arb(u))) for u in (low, high)]
            if low * high >= 0:
                assert float(over.lower()) == pytest.approx(min(ends), rel=1e-6)
                assert float(over.upper()) == pytest.approx(max(ends), rel=1e-6)


SHORT = [0, 0.6, 1, 1.5, 2.2, 2.9, 3.3]


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("price", [0.5, 2.0, 5.0])
def test_an_event_that_ends_before_the_other_goes_on_to_cost(price, size):
    for far in ([0, 1, 1.4, 1.6], [0, 1, 1.7, 2.2, 2.7]):
        short = radial(price, 1, [0, 0.5, 0.8, 1.1], 0.5)
        prices = radial(6.0, 1, far, 1.0, short)
        exact = least(prices, size, 0.7, 0.0)
        found = float(additive_bound_down(prices, size, 0.7, 0.0))
        assert exact - 4e-3 * max(1, abs(exact)) <= found <= exact + 1e-9


def test_a_price_of_nothing_proves_nothing_and_delta_costs_the_price():
    free = radial(0.0, 2, SHORT)
    assert abs(additive_bound_down(free, 3, 1.0, 0.5)) < 1e-12
    priced = radial(2.0, 2, SHORT, 1.0, radial(1.0, 1, [0, 0.5, 0.9, 1.4, 2.7], 0.5))
    cost = additive_bound_down(priced, 3, 1.0, 0.0) - additive_bound_down(priced, 3, 1.0, 0.25)
    assert cost == 0.75


def test_the_least_and_the_largest_prices():
    good = radial(3.0, 2, SHORT)
    tiny = np.array([0, 1, 2])
    for prices, size in (
        (good, 2),
        (good, MOST_COORDINATES),
        (radial(0.0, 2, SHORT), 3),
        (RadialPrices(1e29, 1, np.array([0, KNOT, KNOT + 1])), 2),
        (RadialPrices(1.0, 1, np.array([0, KNOT, 1 << 52])), 2),
        (RadialPrices(1.0, 1, tiny, 1), 2),
        (RadialPrices(1.0, 1, np.array([0, KNOT])), 2),
    ):
        assert additive_bound_down(prices, size, 1.0, 0.0) <= 1 << 26
    wrong = [
        (good, 1), (good, 0), (good, MOST_COORDINATES + 1),
        (replace(good, price=1e30), 3), (replace(good, price=-5e-324), 3),
        (replace(good, price=math.nan), 3), (replace(good, price=3), 3),
        (replace(good, width=0), 3), (replace(good, width=-2), 3), (replace(good, width=2.0), 3),
        (replace(good, width=1), 3), (replace(good, width=3), 3), (replace(good, width=4), 3),
        (replace(good, length=0), 3), (replace(good, length=KNOT - 1), 3),
        (replace(good, length=float(KNOT)), 3),
        (replace(good, length=KNOT + 1, radii=good.radii + (good.radii == KNOT)), 3),
        (replace(good, radii=good.radii.astype(float)), 3),
        (replace(good, radii=good.radii[None]), 3),
        (replace(good, radii=good.radii.tolist()), 3), (replace(good, radii=good.radii + 1), 3),
        (replace(good, radii=np.append(good.radii, good.radii[-1])), 3),
        (replace(good, radii=np.append(good.radii, good.radii[-1] - 1)), 3),
        (replace(good, radii=np.append(good.radii, (1 << 52) + 1)), 3),
        (replace(good, radii=good.radii * np.where(np.arange(7) == 1, -1, 1)), 3),
        (RadialPrices(1.0, 1, np.array([0, 0]), 0), 3),
        (RadialPrices(1.0, 2, np.array([0, 5, KNOT])), 3),
        (replace(good, further=replace(good, further=good)), 3),
        (replace(good, further=replace(good, length=7)), 3),
    ]  # fmt: skip
    for prices, size in wrong:
        with pytest.raises(CertificateError):
            additive_bound_down(prices, size, 1.0, 0.0)


def knots_of(most: int) -> RadialPrices:
    knots = np.concatenate([np.arange(most) * (KNOT // most), KNOT + np.arange(most)])
    return RadialPrices(1.0, 1 << 12, knots, int(knots[1 << 12]))


def test_the_most_knots():
    additive_bound_down(knots_of(1 << 12), 2, 1.0, 0.0)


def test_too_many_knots():
    with pytest.raises(CertificateError, match="knots"):
        additive_bound_down(knots_of((1 << 12) + 1), 2, 1.0, 0.0)


def test_prices_are_equal_by_content():
    one = radial(3.0, 2, SHORT)
    assert one == replace(one)
    assert hash(one) == hash(replace(one))
    changes = {"price": 2.0, "width": 3, "radii": one.radii[:-1], "length": 5, "further": one}
    for name, value in changes.items():
        assert one != replace(one, **{name: value})
    curve = COURSES[0]
    assert curve == replace(curve)
    assert hash(curve) == hash(replace(curve))
    for name, value in {"price": 2.0, "size": 2, "places": curve.places[:-1], "radii": curve.slopes,
                        "slopes": curve.radii}.items():  # fmt: skip
        assert curve != replace(curve, **{name: value})
    assert one != curve
    assert curve != one


# --- without corners ------------------------------------------------------------------------------


def smooth(price, places, radii, slopes) -> SmoothPrices:
    units = ((places, STEP), (radii, KNOT), (slopes, KNOT))
    return SmoothPrices(
        float(price), *(np.rint(np.array(v, float) * u).astype(np.int64) for v, u in units)
    )


COURSES = [
    smooth(3.0, [0, 1, 2.5, 4], [0, 0.9, 2.4, 4.2], [0.8, 0.95, 1.1, 1.3]),
    smooth(1.5, [0, 0.5, 2, 2.75, 5], [0, 0.3, 1.7, 2.5, 4.6], [0.5, 0.9, 1.0, 0.9, 0.9]),
    smooth(9.0, [0, 2], [0, 1.75], [0.7, 1.0]),
    smooth(6.0, [0, 3, 7, 8], [0, 2.6, 6.4, 7.4], [0.8, 0.9, 1.0, 1.0]),
]


def least_along(prices: SmoothPrices, size: int, epsilon: float, delta: float) -> float:
    """The least D along the course, with another library's cubics."""
    places = prices.places / STEP
    course = CubicHermiteSpline(places, prices.radii / KNOT, prices.slopes / KNOT)
    end = places[-1]
    s = np.concatenate([np.geomspace(1e-9, end, 1500), np.linspace(1e-9, end, 3000), places[1:]])
    r, out, back = course(s), course(s + 1), course(s - 1)
    told = below(size, (1 + r * r - out * out) / (2 * r))
    untold = below(size, -(1 + r * r - back * back) / (2 * r))
    told, untold = np.where(s > end - 1, 0.0, told), np.where(s < 1, 0.0, untold)
    value = r * r + prices.price * (told - math.exp(epsilon) * untold)
    # Beyond the last knot nothing is told, and S stays.
    r = course(end) + np.geomspace(1e-9, 9, 500)
    untold = below(size, -(1 + r * r - course(end - 1) ** 2) / (2 * r))
    beyond = r * r - prices.price * math.exp(epsilon) * untold
    return max(0.0, float(min(value.min(), beyond.min())) - prices.price * delta)


@pytest.mark.parametrize("course", range(len(COURSES)))
@pytest.mark.parametrize("size", [2, 3, 5, 16])
def test_the_bound_along_a_course_is_the_least(course, size):
    for epsilon, share in ((0.05, 1.0), (0.4, 0.6), (1.3, 0.2)):
        prices = replace(COURSES[course], price=COURSES[course].price * share)
        exact = least_along(prices, size, epsilon, 0.01)
        found = float(smooth_bound_down(prices, size, epsilon, 0.01))
        assert exact - 2e-3 * max(1, abs(exact)) <= found <= exact + 1e-6


def drawn_course(number: int) -> tuple[SmoothPrices, int, float]:
    """Any course: neighbours' answers may be beyond reach of one another, or within all of it."""
    random = np.random.default_rng(number)
    places = np.cumsum(np.append(0, random.choice([0.25, 0.5, 1, 1.5], int(random.integers(4, 9)))))
    places = np.append(places, places[-1] + 1.5)
    rises = np.diff(places) * random.choice([0.3, 0.7, 0.95, 1.05, 1.6, 2.5], len(places) - 1)
    mean = rises / np.diff(places)
    slopes = np.minimum(np.append(mean, mean[-1]), np.append(mean[0], mean))
    slopes *= random.uniform(0.3, 2, len(slopes))
    radii = np.append(0, np.cumsum(rises)) * random.choice([0.41, 0.97])
    prices = smooth(random.choice([0.2, 1, 4, 15]), places, radii, slopes * radii[-1] / rises.sum())
    return prices, int(random.choice([2, 3, 4, 7, 20])), float(random.uniform(0.05, 2))


@pytest.mark.parametrize("first", range(0, 60, 3))
def test_the_bound_along_any_course_is_the_least(first):
    for number in range(first, first + 3):
        prices, size, epsilon = drawn_course(number)
        exact = least_along(prices, size, epsilon, 0.0)
        found = float(smooth_bound_down(prices, size, epsilon, 0.0))
        # What a course that ends within a sensitivity proves is not looked at closely.
        near = exact if prices.radii[-1] > KNOT else 0.0
        assert near - 0.02 * max(1, abs(exact)) <= found <= exact + 1e-6


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("end", [0.55, 0.7, 0.8, 0.95, 1.2])
@pytest.mark.parametrize("start", [0.1, 0.3, 0.5])
def test_beyond_a_course_that_is_short_neighbours_are_nearer(start, end, size):
    for price in (0.1, 0.5, 2.0, 9.0):
        inner = min(start, end - start) / 2
        prices = smooth(price, [0, 1, 2], [0, start, end], [start, inner, 0.05])
        exact = least_along(prices, size, 0.5, 0.0)
        found = smooth_bound_down(prices, size, 0.5, 0.0)
        falls = end**2 + start**2 > 1  # what comes from below does
        assert found <= exact + 1e-9
        assert found >= exact * 0.9 if falls else found == 0
        assert exact > 0.005 or price > 0.1 or not falls


def test_delta_costs_the_price_along_a_course_too():
    one = replace(COURSES[0], price=0.75)
    whole = smooth_bound_down(one, 3, 0.4, 0.0)
    assert whole > 0.1
    assert whole - smooth_bound_down(one, 3, 0.4, 0.125) == Fraction(3, 32)
    assert smooth_bound_down(one, 3, 0.4, 1.0) == 0
    assert smooth_bound_down(replace(one, price=0.0), 3, 1.0, 0.5) == 0


def test_all_terms_of_a_series_count_against_the_bound(monkeypatch):
    from flint import arb, arb_series

    def series(self, r, out, into, at):
        last = 2 if at.is_exact() else -3
        return arb_series([7, -1, 0.5, 0, 0, 0, 0, 0, last], prec=9)

    monkeypatch.setattr(_Course, "_series", series)
    with precision():
        prices = COURSES[3]
        course = _Course(Sphere(3), prices, arb(1), arb(1))
        for half in (Fraction(1, 4), Fraction(1), Fraction(3, 2)):
            found = course.below(Fraction(0), 2 * half * STEP)
            assert found == 7 - half - half**2 / 2 - 3 * half**8


def test_a_series_that_is_cut_off_proves_nothing(monkeypatch):
    from flint import arb_series

    whole = Sphere.series
    for terms in (9, 8):
        cut = lambda self, u, terms=terms: arb_series(list(whole(self, u)), prec=terms)  # noqa: E731
        monkeypatch.setattr(Sphere, "series", cut)
        if terms == 9:
            assert smooth_bound_down(COURSES[0], 3, 0.4, 0.0) >= 0
        else:
            with pytest.raises(CertificateError, match="cut off"):
                smooth_bound_down(COURSES[0], 3, 0.4, 0.0)


def test_the_bound_of_shorter_vectors_serves_longer_ones():
    one = replace(COURSES[0], price=0.75)
    for part, size in ((2, 5), (3, 3000), (5, MOST_COORDINATES + 7)):
        found = smooth_bound_down(replace(one, size=part), size, 0.4, 0.01)
        assert found == smooth_bound_down(one, part, 0.4, 0.01) * Fraction(size, part)
    for part, size in ((1, 5), (-1, 5), (6, 5), (2.0, 5), (MOST_COORDINATES + 1, 9999)):
        with pytest.raises(CertificateError):
            smooth_bound_down(replace(one, size=part), size, 0.4, 0.01)


GOOD = COURSES[2]
STEEP = replace(GOOD, slopes=GOOD.radii[-1:] * np.array([3, 3]) // 2)  # three times the mean
FLAT = replace(
    GOOD, places=np.array([0, 1 << 61]), radii=np.array([0, 1 << 61]), slopes=np.array([1, 1])
)


@pytest.mark.parametrize(
    ("prices", "size"),
    [(GOOD, 2), (GOOD, MOST_COORDINATES), (replace(GOOD, price=1e29), 2), (STEEP, 2), (FLAT, 2)],
)
def test_the_largest_courses(prices, size):
    assert smooth_bound_down(prices, size, 1.0, 0.0) <= 1 << 44


def test_courses_that_are_none():
    good, steep = GOOD, STEEP
    wrong = [
        (good, 1), (good, MOST_COORDINATES + 1),
        (replace(good, price=1e30), 3), (replace(good, price=-5e-324), 3),
        (replace(good, price=math.nan), 3), (replace(good, price=9), 3),
        (replace(good, places=good.places - np.array([0, 1])), 3),
        (replace(good, places=good.places + np.array([1, 1])), 3),
        (replace(good, radii=good.radii + np.array([1, 0])), 3),
        (replace(good, radii=good.radii + np.array([-1, 0])), 3),
        (replace(good, radii=np.array([0, 0])), 3), (replace(good, radii=-good.radii), 3),
        (replace(good, slopes=steep.slopes + np.array([1, 0])), 3),
        (replace(good, slopes=steep.slopes + np.array([0, 1])), 3),
        (replace(good, slopes=np.array([0, KNOT])), 3),
        (replace(good, slopes=np.array([KNOT, 0])), 3),
        (replace(good, slopes=np.array([KNOT, -1])), 3),
        (replace(good, slopes=good.slopes[:1]), 3), (replace(good, slopes=good.slopes[None]), 3),
        (replace(good, slopes=good.slopes.astype(float)), 3),
        (replace(good, radii=good.radii.astype(float)), 3),
        (replace(good, places=good.places.tolist()), 3),
        (replace(good, places=good.places[:1], radii=good.radii[:1], slopes=good.slopes[:1]), 3),
        (replace(good, places=np.array([0, (1 << 61) + 1]), radii=np.array([0, 1 << 61]),
                 slopes=np.array([1, 1])), 3),
        (replace(good, places=np.array([0, 1 << 61]), radii=np.array([0, (1 << 61) + 1]),
                 slopes=np.array([1, 1])), 3),
        (replace(good, places=np.array([0, 1 << 31, (1 << 61) + 1]),
                 radii=np.array([0, 1 << 40, 1 << 61]), slopes=np.array([1, 1, 1])), 3),
        (replace(good, places=np.array([0, 1 << 31, 1 << 61]),
                 radii=np.array([0, 1 << 40, (1 << 61) + 1]), slopes=np.array([1, 1, 1])), 3),
        (replace(good, places=np.array([0, 1, 1 << 31]), radii=np.array([0, 1 << 61, 1 << 61]),
                 slopes=np.array([1, 1, 1])), 3),
        (replace(good, places=np.array([0, 1, 1, 1 << 31]), radii=np.array([0, 9, 99, 1 << 41]),
                 slopes=np.array([1, 1, 1, 1])), 3),
    ]  # fmt: skip
    for prices, size in wrong:
        with pytest.raises(CertificateError):
            smooth_bound_down(prices, size, 1.0, 0.0)


def test_the_most_knots_of_a_course():
    many = np.linspace(0, 2, 1 << 10)
    smooth_bound_down(smooth(0.0, many, many, np.full(len(many), 0.9)), 2, 1.0, 0.0)


def test_too_many_knots_of_a_course():
    more = np.linspace(0, 2, (1 << 10) + 1)
    with pytest.raises(CertificateError, match="knots"):
        smooth_bound_down(smooth(0.0, more, more, np.full(len(more), 0.9)), 2, 1.0, 0.0)

"""The bound below all noise for vectors is that of its events; wrong prices prove nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline
from scipy.special import betainc

from opendp_optimal import solve_radial
from opendp_optimal.certify.radial_bound import KNOT, RadialPrices, additive_bound_down
from opendp_optimal.certify.radial_smooth import STEP, SmoothPrices, smooth_bound_down
from opendp_optimal.errors import CertificateError


def below(size: int, u: np.ndarray) -> np.ndarray:
    u = np.clip(u, -1, 1)
    half = 0.5 * betainc((size - 1) / 2, 0.5, (1 - u) * (1 + u))
    return np.where(u < 0, half, 1 - half)


def dense_bound(prices: RadialPrices, size: int, epsilon: float, delta: float) -> float:
    """The least D over many radii, with another arithmetic and T by interpolation."""
    events = [event for event in (prices, prices.further) if event is not None]
    knots = np.unique(np.concatenate([event.radii for event in events])) / KNOT
    r = np.concatenate([knots, *(knots[:-1] + np.diff(knots) * s for s in (0.2, 0.5, 0.8))])
    r = np.sort(r[r > 0])
    value = r * r
    for event in events:
        knots, width, length = event.radii / KNOT, event.width, event.length / KNOT
        out = np.interp(r, knots[:-width], knots[width:], right=math.inf)
        back = np.interp(r, knots[width:], knots[:-width], left=0.0)
        apart = 2 * r * length
        told = np.where(np.isinf(out), 0.0, below(size, (r * r + length**2 - out**2) / apart))
        untold = below(size, -(r * r + length**2 - back**2) / apart)
        untold = np.where(r < length, 0.0, untold)
        value = value + event.price * (told - math.exp(epsilon) * untold)
    return float(value.min()) - delta * sum(event.price for event in events)


def dense_smooth_bound(prices: SmoothPrices, size: int, epsilon: float, delta: float) -> float:
    """The same along R, from another library's cubics."""
    places = prices.places / STEP
    course = CubicHermiteSpline(places, prices.radii / KNOT, prices.slopes / KNOT)
    s = np.concatenate([places[:-1] + np.diff(places) * x for x in np.linspace(0, 1, 40)])
    s = np.sort(np.concatenate([s, *(places + x for x in np.linspace(-1, 1, 9))]))
    s = s[(s > 1e-3) & (s <= places[-1])]
    r, out, back = course(s), course(s + 1), course(s - 1)
    told = below(size, (1 - (out - r) ** 2) / (2 * r) - (out - r))
    untold = below(size, -(1 - (r - back) ** 2) / (2 * r) - (r - back))
    told, untold = np.where(s > places[-1] - 1, 0.0, told), np.where(s < 1, 0.0, untold)
    value = r * r + prices.price * (told - math.exp(epsilon) * untold)
    return float(value.min()) - prices.price * delta


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "gap"),
    [
        *[(10, 1.0, 1e-6, 5e-3), (2, 1.0, 1e-6, 5e-2), (12, 2.0, 1e-6, 5e-3), (6, 1.0, 0.0, 1e-2)],
        *[(4, 0.3, 1e-6, 1e-2), (3, 0.3, 1e-6, 1e-2), (2, 1.7, 1e-6, 5e-2), (10, 0.12, 1e-6, 5e-3)],
        (2, 2.0, 1e-6, 5e-2),
    ],
)
def test_the_bound_is_close_and_that_of_its_events(size, epsilon, delta, gap):
    table = solve_radial(epsilon, delta, size, cache=False)
    assert table.gap < gap
    plain = dense_bound(table.prices, size, epsilon, delta)
    assert plain * 0.995 <= table.lower <= plain * (1 + 1e-9)


@pytest.mark.parametrize(
    ("size", "epsilon", "gap"), [(10, 1e-4, 5e-3), (2, 0.003, 5e-2), (40, 0.03, 5e-3)]
)
def test_the_bound_of_long_noise_is_close_and_that_of_its_event(size, epsilon, gap):
    table = solve_radial(epsilon, 1e-6, size, cache=False)
    assert isinstance(table.prices, SmoothPrices)
    assert table.gap < gap
    plain = dense_smooth_bound(table.prices, size, epsilon, 1e-6)
    assert plain * 0.995 <= table.lower <= plain * (1 + 1e-6)
    table.verify()
    prices = table.prices
    moved = prices.slopes.copy()
    moved[len(moved) // 2] *= 2
    steep = prices.slopes.copy()
    steep[1] = steep[1] * 100 + KNOT * 100
    for wrong in (
        replace(prices, price=-1.0),
        replace(prices, places=prices.places[:-1]),
        replace(prices, places=prices.places[::-1].copy()),
        replace(prices, radii=prices.radii + 1),
        replace(prices, slopes=steep),
        replace(prices, slopes=-prices.slopes),
        replace(prices, slopes=prices.slopes.astype(float)),
    ):
        with pytest.raises(CertificateError):
            smooth_bound_down(wrong, size, epsilon, 1e-6)
    for claimed in (
        replace(table, lower=math.nextafter(table.lower, 9e99)),
        replace(table, prices=replace(prices, slopes=moved)),
    ):
        with pytest.raises(CertificateError):
            claimed.verify()


@pytest.mark.parametrize(
    ("size", "epsilon", "gap"), [(200, 2.0, 2e-3), (500, 1.0, 2e-3), (2000, 0.5, 1e-3)]
)
def test_the_bound_of_many_coordinates_is_close_and_that_of_its_event(size, epsilon, gap):
    table = solve_radial(epsilon, 1e-6, size, cache=False)
    assert table.gap < gap
    plain = dense_smooth_bound(table.prices, size, epsilon, 1e-6)
    assert plain * 0.995 <= table.lower <= plain * (1 + 1e-6)


def test_shorter_vectors_serve_longer_ones():
    table = solve_radial(2.0, 1e-6, 5000, cache=False)
    prices, table_of = table.prices, replace(table.prices, size=0)
    assert 0 < prices.size < 5000
    assert table.gap < 5e-3
    one = smooth_bound_down(table_of, prices.size, 2.0, 1e-6)
    assert smooth_bound_down(prices, 5000, 2.0, 1e-6) == one * 5000 / prices.size
    # Noise for so many is not worse for each of them than noise for more.
    assert one / prices.size < table.upper / 5000
    for size in (prices.size - 1, 1, -1, 2.0):
        with pytest.raises(CertificateError):
            smooth_bound_down(replace(prices, size=size), min(5000, prices.size - 2), 2.0, 1e-6)
    with pytest.raises(CertificateError):
        smooth_bound_down(table_of, 5000, 2.0, 1e-6)
    claimed = replace(table, prices=replace(prices, size=prices.size - 100))
    with pytest.raises(CertificateError):
        claimed.verify()


def test_any_price_and_any_knots_prove_something_true():
    random = np.random.default_rng(5)
    for size, epsilon, delta in [(2, 0.7, 1e-3), (5, 2.0, 0.1), (30, 1.0, 0.0)]:
        least = solve_radial(epsilon, delta, size, bound=False, cache=False).upper
        for _ in range(4):
            steps = random.uniform(0.3, 1.5, 12)
            steps[:4] /= steps[:4].sum()
            knots = np.rint(np.cumsum(np.append(0.0, steps)) * KNOT).astype(np.int64)
            knots[4] = KNOT
            prices = RadialPrices(float(random.uniform(0, 50) * least), 4, knots)
            assert additive_bound_down(prices, size, epsilon, delta) <= least
            further = replace(prices, radii=knots // 2, length=KNOT // 2)
            both = replace(prices, further=further)
            assert additive_bound_down(both, size, epsilon, delta) <= least


def test_prices_that_are_none_are_refused():
    table = solve_radial(1.0, 1e-3, 4, cache=False)
    prices, radii = table.prices, table.prices.radii
    swapped = radii.copy()
    swapped[[40, 41]] = swapped[[41, 40]]
    for wrong in (
        replace(prices, price=math.nan),
        replace(prices, price=-1.0),
        replace(prices, price=math.inf),
        replace(prices, width=0),
        replace(prices, width=prices.width + 1),
        replace(prices, radii=swapped),
        replace(prices, radii=radii[1:]),
        replace(prices, radii=radii.astype(float)),
        replace(prices, radii=radii[: prices.width + 2]),
        replace(prices, length=KNOT // 2),
        replace(prices, length=2 * KNOT, radii=radii * 2),
        replace(prices, further=replace(prices, width=0)),
        replace(prices, further=replace(prices, further=prices)),
    ):
        with pytest.raises(CertificateError):
            additive_bound_down(wrong, 4, 1.0, 1e-3)
    for claimed in (
        replace(table, lower=math.nextafter(table.lower, 9e9)),
        replace(table, prices=None),
        replace(table, prices=replace(prices, price=prices.price * 1.01)),
        replace(table, problem=replace(table.problem, norm="linf")),
    ):
        with pytest.raises(CertificateError):
            claimed.verify()

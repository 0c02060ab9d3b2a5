"""The bound below all noise for vectors is that of its events; wrong prices prove nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betainc

from opendp_optimal import solve_radial
from opendp_optimal.certify.radial_bound import KNOT, RadialPrices, additive_bound_down
from opendp_optimal.errors import CertificateError


def below(size: int, u: np.ndarray) -> np.ndarray:
    u = np.clip(u, -1, 1)
    half = 0.5 * betainc((size - 1) / 2, 0.5, (1 - u) * (1 + u))
    return np.where(u < 0, half, 1 - half)


def dense_bound(prices: RadialPrices, size: int, epsilon: float, delta: float) -> float:
    """The least D over many radii, with another arithmetic and T by interpolation."""
    knots, width = prices.radii / KNOT, prices.width
    r = np.concatenate([knots, *(knots[:-1] + np.diff(knots) * s for s in (0.2, 0.5, 0.8))])
    r = np.sort(r[r > 0])
    out = np.interp(r, knots[:-width], knots[width:], right=math.inf)
    back = np.interp(r, knots[width:], knots[:-width], left=0.0)
    told = np.where(np.isinf(out), 0.0, below(size, (r * r + 1 - np.square(out)) / (2 * r)))
    untold = np.where(r < 1, 0.0, below(size, -(r * r + 1 - back**2) / (2 * r)))
    value = r * r + prices.price * (told - math.exp(epsilon) * untold)
    return float(value.min()) - prices.price * delta


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "gap"),
    [
        *[(10, 1.0, 1e-6, 5e-3), (2, 1.0, 1e-6, 5e-2), (12, 2.0, 1e-6, 5e-3), (6, 1.0, 0.0, 1e-2)],
        *[(4, 0.3, 1e-6, 1e-2), (3, 0.3, 1e-6, 1e-2), (2, 1.7, 1e-6, 0.1), (10, 0.12, 1e-6, 5e-3)],
    ],
)
def test_the_bound_is_close_and_that_of_its_events(size, epsilon, delta, gap):
    table = solve_radial(epsilon, delta, size, cache=False)
    assert table.gap < gap
    plain = dense_bound(table.prices, size, epsilon, delta)
    assert plain * 0.995 <= table.lower <= plain * (1 + 1e-9)


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

"""Prices of Gaussian and Laplace noise against sums and series in sixty decimal digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opendp_optimal.certify import gaussian as prices
from opendp_optimal.certify.gaussian import (
    discrete_gaussian_delta_up,
    gaussian_delta_up,
    laplace_delta_up,
    laplace_rho_up,
    pure_rho_up,
)
from opendp_optimal.known import DiscreteGaussian, gaussian_delta

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def number(value: Any) -> Decimal:
    exact = Fraction(value)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


@pytest.fixture(autouse=True)
def digits():
    with localcontext() as context:
        context.prec = 80
        yield


def below_normal(x: Decimal) -> Decimal:
    """The chance that a standard Gaussian is below x, by its series."""
    term = total = x
    n = 0
    while abs(term) > Decimal(10) ** -75:
        n += 1
        term = -term * x * x / (2 * n)
        total += term / (2 * n + 1)
    return Decimal("0.5") + total / (2 * PI).sqrt()


def just_above(found: float, exact: Decimal) -> bool:
    """The least float that is not below, or the one after it."""
    lower = math.nextafter(math.nextafter(found, -math.inf), -math.inf)
    return number(lower) < exact <= number(found)


@pytest.mark.parametrize("square", [Fraction(1, 100), Fraction(1, 3), Fraction(4), Fraction(30)])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.5])
def test_real_gaussians(square, epsilon):
    mu, loss = number(square).sqrt(), number(epsilon)
    if loss / mu > 6:
        return
    exact = below_normal(mu / 2 - loss / mu) - loss.exp() * below_normal(-mu / 2 - loss / mu)
    assert just_above(gaussian_delta_up(square, epsilon), exact)


def test_real_gaussians_far_out():
    assert gaussian_delta_up(Fraction(0), 1.0) == 0.0
    assert gaussian_delta_up(Fraction(10**6), 1.0) == 1.0
    for mu, epsilon in ((0.3, 12.0), (0.01, 0.35)):  # many digits cancel
        found = gaussian_delta_up(Fraction(mu) ** 2, epsilon)
        assert found == pytest.approx(gaussian_delta(1 / mu, epsilon), rel=1e-6)


def discrete(rate: float, shift: int, epsilon: float) -> Decimal:
    """The delta of discrete noise by its definition."""
    reach = math.ceil(math.sqrt(170 / rate)) + shift
    weights = {k: (-number(rate) * k * k).exp() for k in range(-reach - shift, reach + shift + 1)}
    growth = number(epsilon).exp()
    short = (weights[k] - growth * weights[k + shift] for k in range(-reach, reach + 1))
    return sum(s for s in short if s > 0) / sum(weights.values())


@pytest.mark.parametrize("rate", [0.5 / 0.4**2, 0.5, 0.02])
@pytest.mark.parametrize(("shift", "epsilon"), [(1, 0.0), (1, 1.0), (3, 0.3), (3, 4.0), (25, 2.0)])
def test_discrete_gaussians(rate, shift, epsilon):
    found, exact = discrete_gaussian_delta_up(rate, shift, epsilon), discrete(rate, shift, epsilon)
    assert exact <= number(found)
    assert number(found) <= exact * (1 + Decimal("1e-12")) + Decimal("1e-60")


def test_discrete_gaussians_far_out():
    assert discrete_gaussian_delta_up(0.5, 0, 1.0) == 0.0
    assert discrete_gaussian_delta_up(0.5, 10**6, 1.0) == 1.0
    assert 0 < discrete_gaussian_delta_up(0.5, 1, 500.0) < 1e-80
    # Where the worst event is all but the last weights that are summed.
    assert discrete_gaussian_delta_up(0.5, 39, 0.0) == pytest.approx(1.0, abs=1e-12)
    assert discrete_gaussian_delta_up(0.5, 30, 1.0) == pytest.approx(1.0, abs=1e-12)
    # The analytic curve would understate it.
    assert discrete_gaussian_delta_up(0.5 / 0.65**2, 1, 8.0) > 3 * gaussian_delta(0.65, 8.0)


def test_what_is_not_summed_is_bounded():
    for rate in (0.02, 0.5, 3.0):
        tails, rest = prices._tails(rate)
        reach = len(tails) // 2
        assert len(tails) == 2 * reach + 1
        exact = number(rate)
        terms = [(-exact * k * k).exp() for k in range(reach + 1, reach + 200)]
        assert sum(terms) <= number(Fraction(float(rest))) * (1 + Decimal("1e-9"))
        assert float(rest) < 1e-80
        for k in (0, 1, reach // 2, reach):
            summed = sum((-exact * j * j).exp() for j in range(k, reach + 1))
            assert float(tails[k + reach]) == pytest.approx(float(summed), rel=1e-14)


def test_what_is_not_summed_is_bounded_where_weights_fall_slowly():
    tails, rest = prices._tails(1e-4)
    reach = len(tails) // 2
    terms = [math.exp(-1e-4 * k * k) for k in range(reach + 1, reach + 200)]
    assert sum(terms) <= float(rest) <= 1.5 * sum(terms) + math.exp(-1e-4 * reach**2)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.0, 20.0])
def test_prices_under_zcdp(epsilon):
    loss = number(epsilon)
    tanh = (loss.exp() - 1) / (loss.exp() + 1)
    assert just_above(pure_rho_up(epsilon), loss * tanh)
    assert just_above(laplace_rho_up(Fraction(epsilon)), loss + (-loss).exp() - 1)
    assert just_above(laplace_delta_up(Fraction(epsilon), epsilon / 4), 1 - (-loss * 3 / 8).exp())
    assert laplace_delta_up(Fraction(epsilon), epsilon) == 0.0
    assert laplace_delta_up(Fraction(epsilon), 2 * epsilon) == 0.0
    assert pure_rho_up(0.0) == laplace_rho_up(Fraction(0)) == 0.0


def test_the_precision_of_others_stays():
    from flint import ctx

    before = ctx.prec
    gaussian_delta_up(Fraction(1, 7), 0.77)
    prices._tails.cache_clear()
    discrete_gaussian_delta_up(0.77, 1, 0.5)
    assert ctx.prec == before


def test_an_accurate_answer_is_not_computed_again():
    from flint import arb, ctx

    for bits, times in ((39, 5), (40, 1), (41, 1)):
        tried = []

        def compute(bits: int = bits, tried: list[int] = tried) -> Any:
            tried.append(ctx.prec)
            return arb(1, 2.0 ** (-1 - bits))

        assert compute().rel_accuracy_bits() == bits
        tried.clear()
        assert prices._above(compute) >= 1 + 2.0 ** (-1 - bits)
        assert tried == [128, 256, 512, 1024, 4096][:times]
    assert prices._above(lambda: arb("inf")) == math.inf


def renyi(p: Any, q: Any, order: float) -> float:
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


def test_no_renyi_divergence_is_above_its_price() -> None:
    grid = np.arange(-500, 501) / 50  # real Laplace noise, cell by cell
    for epsilon in (0.3, 1.0, 3.0):
        tails = [0.5 * np.exp(-epsilon * np.abs(grid - x)) for x in (0.0, 1.0)]
        cdfs = [np.where(grid < x, t, 1 - t) for t, x in zip(tails, (0.0, 1.0), strict=True)]
        p, q = (np.diff(np.concatenate([[0.0], c, [1.0]])) for c in cdfs)
        response = np.array([1.0, math.exp(epsilon)]) / (1 + math.exp(epsilon))
        for order in (1.001, 1.5, 2.0, 5.0):
            assert renyi(p, q, order) <= order * laplace_rho_up(Fraction(epsilon)) * (1 + 1e-9)
            assert renyi(response, response[::-1], order) <= order * pure_rho_up(epsilon)
    p = DiscreteGaussian(1.0).pmf(14)
    for order in (1.5, 2.0, 8.0):
        assert renyi(p[1:], p[:-1], order) <= order * 0.5 * (1 + 1e-12)

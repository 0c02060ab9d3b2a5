"""Filters: exact totals below capacities that were rounded down; equation (10) of Liang and Yi."""

import copy
import math
import os
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.budget import (
    ApproxGpFilter,
    BudgetError,
    CgpFilter,
    GaussianFilter,
    GpFilter,
    approximate_loss,
    gaussian_delta,
    simple_loss,
)

budgets = st.floats(1e-6, 1e3)
deltas = st.floats(1e-12, 0.99)
reaches = st.floats(1e-2, 1e4)


@given(budgets, st.lists(st.floats(0.0, 1e3), max_size=30))
def test_the_sum_never_passes_the_budget(budget, prices):
    f = CgpFilter(budget)
    passed = [p for p in prices if f.charge(p)]
    assert sum(map(Fraction, passed)) == f.total <= Fraction(budget)


def test_a_thousand_tenths_are_not_a_hundred():
    """Floats sum 0.1 ten times to 0.9999999999999999, and would let an eleventh through."""
    f = GpFilter(1.0)
    assert sum([0.1] * 10) < 1.0
    assert [f.charge(0.1) for _ in range(10)] == [True] * 9 + [False]


@given(budgets, deltas, reaches)
@pytest.mark.slow
def test_equation_10_against_brute_force(budget, delta, reach):
    f = ApproxGpFilter(budget, delta=delta, reach=reach)
    total = float(f.capacity)
    assert approximate_loss(total, delta=delta, reach=reach) <= budget
    best = math.inf
    for k in range(1, 400):  # only where (s + 1) delta < 2
        s = 1.0 + (2.0 / delta - 2.0) ** (k / 200 - 1.0 if delta < 0.5 else 1.0) * (k / 400)
        if (s + 1.0) * delta < 2.0:
            first = s / (s - 1.0) * 2.0 * math.sqrt(total * math.log(2.0 / ((s + 1.0) * delta)))
            best = min(best, max(first, s * reach * total))
    assert approximate_loss(total, delta=delta, reach=reach) <= best * (1.0 + 1e-9)


@given(budgets, st.floats(1e-12, 0.3), reaches, st.floats(0.01, 1.0))
@pytest.mark.slow
def test_equation_10_holds_for_gaussian_noise(budget, delta, reach, part):
    """Gaussian noise is CGP: its exact delta must be below, at every distance."""
    total = float(ApproxGpFilter(budget, delta=delta, reach=reach).capacity)
    assert gaussian_delta(budget, total, distance=part * reach) <= delta


@given(budgets, st.floats(1e-12, 0.3), reaches)
@pytest.mark.slow
def test_the_exact_curve_is_tighter(budget, delta, reach):
    loose = ApproxGpFilter(budget, delta=delta, reach=reach)
    tight = GaussianFilter(budget, delta=delta, reach=reach)
    assert tight.capacity >= loose.capacity
    assert gaussian_delta(budget, float(tight.capacity), distance=reach) <= delta


def test_equation_10_leaves_a_factor_of_delta_unused():
    total = float(ApproxGpFilter(1.0, delta=1e-6, reach=1.0).capacity)
    assert gaussian_delta(1.0, total, distance=1.0) < 1e-6 / 5


@given(st.floats(1e-3, 10.0), st.floats(1e-6, 10.0), st.floats(1e-2, 10.0), st.floats(1e-2, 10.0))
def test_delta_rises_with_the_distance(epsilon, total, one, other):
    near, far = sorted((one, other))
    low = gaussian_delta(epsilon, total, distance=near)
    assert low <= gaussian_delta(epsilon, total, distance=far) + 1e-12


def test_gaussian_filter_is_for_gaussian_noise():
    f = GaussianFilter(1.0, delta=1e-6, reach=1.0)
    with pytest.raises(ValueError, match="gaussian"):
        f.charge(1e-6)
    assert f.charge(1e-6, gaussian=True)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan, "1", None, True])
def test_bad_budgets(bad):
    for make in (GpFilter, CgpFilter):
        with pytest.raises(ValueError, match="budget"):
            make(bad)
    with pytest.raises(ValueError, match="budget"):
        ApproxGpFilter(bad, delta=1e-6, reach=1.0)
    with pytest.raises(ValueError, match="reach"):
        GaussianFilter(1.0, delta=1e-6, reach=bad)
    with pytest.raises(ValueError, match="delta"):
        GaussianFilter(1.0, delta=bad if bad is not True else 2.0, reach=1.0)


@pytest.mark.process
def test_filters_stay_in_their_process_and_are_not_copied():
    kept = CgpFilter(1.0)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spent twice"):
            copied(kept)
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            kept.charge(0.5)
        except BudgetError:
            os.write(tell, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(tell)
    assert os.read(told, 100) == b"refused"
    os.close(told)
    assert kept.total == 0


def test_corollary_4_2_uses_the_total():
    """Printed with rho, which is the price of one mechanism, in place of B, the sum."""
    price, mechanisms, delta = 0.01, 4, 1e-6
    f = CgpFilter(price * mechanisms)
    for _ in range(mechanisms):
        f.charge(price)
    total = float(f.total)
    claimed = simple_loss(f.total, delta=delta, reach=1.0)
    printed = total + 2.0 * math.sqrt(price * math.log(1.0 / delta))
    assert gaussian_delta(claimed, total, distance=1.0) <= delta
    assert gaussian_delta(printed, total, distance=1.0) > delta  # the misprint is not private


def test_equation_10_stays_where_the_logarithm_is_positive():
    """Printed for all s > 1; from (s + 1) delta = 2 on the logarithm is negative."""
    delta, total = 0.9, 0.3
    s = 2.0 / delta - 1.0 + 0.5
    with pytest.raises(ValueError, match=r"domain|nonnegative"):
        math.sqrt(total * math.log(2.0 / ((s + 1.0) * delta)))
    loss = approximate_loss(total, delta=delta, reach=1.0)
    assert 0.0 < loss <= (2.0 / delta - 1.0) * total


@pytest.mark.parametrize(
    ("epsilon", "total", "distance"),
    [(1.0, 0.5, 1.0), (1e-6, 3e-14, 1.0), (2.0, 0.02, 1.0), (0.1, 5.0, 9.0), (3.0, 1.0, 0.7)],
)
def test_gaussian_delta_against_integration(epsilon, total, distance):
    """The hockey-stick divergence itself, as an integral over the releases."""
    from scipy.integrate import quad

    sigma = math.sqrt(0.5 / total)
    m = distance / sigma

    def excess(x):
        log_ratio = m * x + 0.5 * m * m - epsilon * distance  # at a release x scales above its mean
        return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * -math.expm1(-log_ratio)

    start = epsilon * sigma - 0.5 * m
    value, _ = quad(excess, start, start + 40.0, epsabs=0.0, epsrel=1e-12, limit=500)
    assert gaussian_delta(epsilon, total, distance=distance) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("make", [ApproxGpFilter, GaussianFilter])
@pytest.mark.parametrize(
    ("budget", "delta", "reach", "named"),
    [
        (1e308, 1e-6, 1.0, "budget"),
        (1e-300, 1e-6, 1e300, "budget"),
        (1.0, 5e-324, 1.0, "delta"),
        (1.0, 1e-6, 1e-300, "reach"),
        (1.0, 1e-6, 1e300, "reach"),
    ],
)
def test_filters_beyond_floats_are_refused_clearly(make, budget, delta, reach, named):
    with pytest.raises(ValueError, match=named):
        make(budget, delta=delta, reach=reach)

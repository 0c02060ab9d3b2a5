import math
from fractions import Fraction

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.budget.theorems import gaussian_delta_above
from opendp_optimal.known import gaussian_delta
from opendp_optimal_learn import NOISES, Plan, composed_delta, plan
from opendp_optimal_learn.budget import least_noise


def by_enumeration(epsilon, each, releases):
    """All 2^k outcomes of k randomised responses."""
    chance = math.exp(each) / (1 + math.exp(each))
    total = 0.0
    for outcome in range(2**releases):
        lies = outcome.bit_count()
        p = chance ** (releases - lies) * (1 - chance) ** lies
        q = chance**lies * (1 - chance) ** (releases - lies)
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


@pytest.mark.parametrize("releases", [1, 2, 5, 9])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_composition_is_that_of_randomised_responses(releases, epsilon):
    expected = by_enumeration(epsilon, 0.4, releases)
    assert composed_delta(epsilon, 0.4, 0.0, releases) == pytest.approx(expected, rel=1e-8)


def exactly(epsilon, each, each_delta, releases):
    """Kairouz, Oh and Viswanath's delta to 60 digits."""
    with mpmath.workdps(60):
        e, x, d = mpmath.mpf(epsilon), mpmath.mpf(each), mpmath.mpf(each_delta)
        beyond = mpmath.mpf(0)
        for lies in range(releases + 1):
            loss = (releases - 2 * lies) * x
            if loss > e:
                chance = math.comb(releases, lies) * mpmath.exp((releases - lies) * x)
                beyond += chance / (1 + mpmath.exp(x)) ** releases * -mpmath.expm1(e - loss)
        return 1 - (1 - d) ** releases * (1 - beyond)


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0, 50), st.floats(1e-12, 60), st.sampled_from([0.0, 1e-300, 1e-17, 1e-9, 0.3]),
    st.integers(1, 40),
)  # fmt: skip
def test_composition_is_never_below_the_truth(epsilon, each, each_delta, releases):
    found = composed_delta(epsilon, each, each_delta, releases)
    truth = exactly(epsilon, each, each_delta, releases)
    with mpmath.workdps(60):
        hair = mpmath.mpf(10) ** -50  # what the reference may be wrong by
        assert truth * (1 - hair) <= found <= truth * (1 + mpmath.mpf(10) ** -10) + 1e-290


@pytest.mark.parametrize(("epsilon", "each", "releases"), [(4.0, 0.02, 3000)])
def test_composition_of_very_many_is_not_below_the_truth(epsilon, each, releases):
    found = composed_delta(epsilon, each, 0.0, releases)
    with mpmath.workdps(40):
        # Upwards from the first lie, each chance from the one before.
        x, total = mpmath.mpf(each), mpmath.mpf(0)
        chance = (1 + mpmath.exp(-x)) ** -releases
        for lies in range(releases + 1):
            loss = (releases - 2 * lies) * x
            if loss <= epsilon:
                break
            total -= chance * mpmath.expm1(epsilon - loss)
            chance *= mpmath.mpf(releases - lies) / (lies + 1) * mpmath.exp(-x)
        assert total <= found <= total * (1 + 1e-9)


@settings(max_examples=60)
@given(st.floats(1e-3, 1e5), st.floats(0, 60))
def test_the_delta_of_gaussian_noise_is_never_below_the_truth(sigma, epsilon):
    with mpmath.workdps(60):
        s, e = mpmath.mpf(sigma), mpmath.mpf(epsilon)
        truth = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
        assert truth <= gaussian_delta_above(sigma, epsilon)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.floats(1e-6, 5), st.integers(1, 10**6), st.floats(0, 0.9))
def test_sums_are_never_below_the_sum(epsilon, releases, delta):
    spent = Plan("optimal", epsilon, delta, releases).spent()
    assert Fraction(spent[0]) >= releases * Fraction(epsilon)
    assert Fraction(spent[1]) >= min(1, releases * Fraction(delta))
    # Without delta nothing but the sum is left.
    assert Fraction(Plan("laplace", epsilon, 0.0, 7, (1.0, 0.0)).spent()[0]) >= 7 * Fraction(
        epsilon
    )


def test_arguments_of_the_composition_are_named():
    for wrong in ((-1.0, 1.0, 0.0, 1), (1.0, math.inf, 0.0, 1), (1.0, 1.0, 2.0, 1), (1, 1, 0, 0)):
        with pytest.raises(ValueError, match="must be"):
            composed_delta(*wrong)
    assert composed_delta(1.0, 1.0, 1.0, 3) == 1.0
    assert composed_delta(0.0, 800.0, 0.0, 3) == 1.0


def test_composition_of_deltas_alone():
    assert composed_delta(100.0, 0.1, 0.01, 10) == pytest.approx(1 - 0.99**10)


@given(
    st.floats(0.1, 5), st.floats(1e-9, 0.1), st.integers(1, 400), st.sampled_from(sorted(NOISES))
)
def test_no_plan_spends_more_than_its_total(epsilon, delta, releases, noise):
    made = plan(noise, epsilon, delta, releases)
    spent = made.spent()
    assert spent[1] == delta
    assert spent[0] <= epsilon
    if made.sigma is None and releases > 1:
        assert made.epsilon >= epsilon / releases * (1 - 1e-6)


def test_a_plan_that_gives_more_would_be_caught():
    made = plan("optimal", 1.0, 1e-6, 50)
    assert composed_delta(1.0, made.epsilon * 1.02, made.delta, 50) > 1e-6


def test_gaussian_noise_is_that_of_one_release_of_larger_sensitivity():
    made = plan("analytic-gaussian", 0.7, 1e-5, 16)
    assert gaussian_delta(made.sigma / 4, 0.7) <= 1e-5
    assert gaussian_delta(made.sigma / 4 * 0.999, 0.7) > 1e-5


def test_per_statistic_says_what_it_means_in_total():
    assert plan("optimal", 1.0, 0.1, 30, "per-statistic").spent() == (30.0, 1.0)
    made = plan("optimal", 1.0, 0.1, 3, "per-statistic")
    assert made.spent() == (3.0, pytest.approx(0.3))
    assert made.spent(0.2)[0] == math.inf
    assert made.spent(0.28)[0] <= 3.0


def test_pure_budgets_divide():
    assert plan("laplace", 1.0, 0.0, 10).epsilon == pytest.approx(0.1, rel=1e-6)
    assert plan("optimal", 1.0, 0.0, 10).delta == 0.0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("uniform", 1.0, 0.1, 1), "noise"),
        (("optimal", 0.0, 0.1, 1), "epsilon"),
        (("optimal", math.nan, 0.1, 1), "epsilon"),
        (("optimal", 1.0, 1.0, 1), "delta"),
        (("gaussian", 1.0, 0.0, 1), "delta"),
        (("truncated-laplace", 1.0, 0.0, 1), "delta"),
        (("optimal", 1.0, 0.1, 0), "releases"),
        (("optimal", 1.0, 0.1, 1, "all"), "budget"),
        (("optimal", 1e-3, 0.0, 100), "too small for 100 releases"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        plan(*arguments)


def test_tables_make_the_account_tighter():
    from opendp_optimal import solve

    made = plan("optimal", 1.0, 1e-6, 20)
    table = solve(made.epsilon, made.delta)
    dp.disable_features("honest-but-curious")
    with pytest.raises(dp.OpenDPException, match="honest-but-curious"):
        made.spent(tables=(table,) * 20)
    loose, tight = made.spent(), made.spent_by(None, (table,) * 20)
    assert tight[0] <= loose[0] <= 1.0
    with pytest.raises(ValueError, match=r"tables \(19 of them\)"):
        made.spent_by(None, (table,) * 19)


def test_native_maps_agree_with_plans():
    from opendp_optimal_learn.releases import StatisticReleases as Releases

    made = Releases(plan("laplace", 1.0, 1e-6, 12))
    made.number(0.5, sensitivity=0.1, low=0, high=1)
    assert made.real.map(1.0) <= made.plan.epsilon
    made = Releases(plan("analytic-gaussian", 1.0, 1e-6, 12))
    made.number(0.5, sensitivity=0.1, low=0, high=1)
    assert made.real.map(1.0) == pytest.approx(1 / (2 * made.plan.sigma**2))
    assert isinstance(made.real, dp.Measurement)
    assert np.isfinite(made.plan.sigma)


@pytest.mark.parametrize("budget", ["total", "per-statistic"])
@pytest.mark.parametrize("releases", [1, 5, 11, 12, 400])
def test_the_noise_that_is_chosen_is_the_smaller(releases, budget):
    chosen = least_noise(1.0, 1e-6, releases, budget)
    others = [plan(noise, 1.0, 1e-6, releases, budget) for noise in NOISES if noise != "laplace"]
    assert chosen.error == min(other.error for other in others)
    few = budget == "per-statistic" or releases < 12
    assert chosen.noise == ("optimal" if few else "analytic-gaussian")


def test_the_noise_that_is_chosen_where_there_is_no_choice():
    assert least_noise(1.0, 0.0, 400).noise == "optimal"
    assert least_noise(1e-3, 1e-6, 4000).noise == "analytic-gaussian"

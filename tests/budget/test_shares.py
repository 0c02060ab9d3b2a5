"""Shares of a budget: on the safe side, and tight."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import known
from opendp_optimal.budget import shares
from opendp_optimal.budget.theorems import composed_delta


def worst_delta(each: float, count: int, epsilon: float) -> float:
    """By enumeration: randomised response, the worst of all pure mechanisms."""
    p = math.exp(each) / (1 + math.exp(each))
    total = 0.0
    for bits in itertools.product((0, 1), repeat=count):
        ones = sum(bits)
        first = p**ones * (1 - p) ** (count - ones)
        second = (1 - p) ** ones * p ** (count - ones)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


@given(st.floats(0.05, 2.0), st.integers(1, 8), st.floats(0.0, 4.0))
def test_the_composition_theorem(each, count, epsilon) -> None:
    found = composed_delta(epsilon, each, 0.0, count)
    assert found == pytest.approx(worst_delta(each, count, epsilon), rel=1e-6, abs=1e-12)


@settings(max_examples=40)
@given(st.floats(0.1, 3.0), st.sampled_from([1e-8, 1e-5, 1e-2]), st.integers(2, 300))
def test_shares_keep_the_budget_and_use_it(epsilon, delta, count) -> None:
    each, rest = shares.share(epsilon, delta, count)
    assert composed_delta(epsilon, each, rest, count) <= delta
    assert each >= epsilon / count * (1 - 1e-12)
    pure = shares.epsilon_share(epsilon, delta, count)
    assert pure >= each * (1 - 2e-4)
    assert composed_delta(epsilon, pure * 1.001, 0.0, count) > delta or pure == epsilon


@pytest.mark.parametrize("count", [2, 10, 40])
def test_laplace_is_priced_below_the_worst_case(count) -> None:
    pytest.importorskip("dp_accounting")
    tight = shares.laplace_share(1.0, 1e-5, count, None)
    general = shares.epsilon_share(1.0, 1e-5, count)
    assert tight >= general
    assert count == 2 or tight > general
    whole = shares.laplace_share(1.0, 1e-5, count, 1)
    assert whole == pytest.approx(tight, rel=0.05)


@pytest.mark.parametrize("sensitivity", [1, 2, 7, 500])
def test_discrete_noise_far_beyond_lists_is_priced_above_itself(sensitivity, monkeypatch) -> None:
    pytest.importorskip("dp_accounting")
    listed = shares.laplace_share.__wrapped__(1.0, 1e-5, 10, sensitivity)
    monkeypatch.setattr(shares, "MOST_LISTED", 0)
    unlisted = shares.laplace_share.__wrapped__(1.0, 1e-5, 10, sensitivity)
    assert unlisted <= listed * (1 + 1e-3)  # the library rounds up, on a grid
    assert sensitivity < 100 or unlisted >= 0.99 * listed


def test_laplace_composition_by_simulation() -> None:
    pytest.importorskip("dp_accounting")
    epsilon, delta, count = 1.0, 0.05, 12
    each = shares.laplace_share(epsilon, delta, count, None)
    rng = np.random.default_rng(1)
    x = rng.laplace(0, 1 / each, (200_000, count))
    loss = (each * (np.abs(x - 1) - np.abs(x))).sum(axis=1)
    found = np.maximum(0.0, -np.expm1(epsilon - loss))
    error = found.std() / math.sqrt(len(found))
    assert found.mean() <= delta + 5 * error
    assert found.mean() >= 0.97 * delta - 5 * error  # and hardly anything is given away


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-5), (1.0, 1e-3), (4.0, 1e-2)])
@pytest.mark.slow
def test_gaussians(epsilon, delta) -> None:
    one = shares.gaussian_scale(epsilon, delta, 1)
    least = known.gaussian_sigma(epsilon, delta)
    assert least <= one <= least * (1 + 1e-6)
    assert shares.gaussian_scale(epsilon, delta, 9) == pytest.approx(3 * one)
    discrete = shares.discrete_gaussian_scale(epsilon, delta, 1, 1)
    assert discrete == pytest.approx(one, rel=0.35)
    # The definition, added up over a wide range of integers.
    x = np.arange(-2000, 2001)
    p = np.exp(-0.5 * (x / discrete) ** 2)
    q = np.exp(-0.5 * ((x - 1) / discrete) ** 2)
    shortfall = np.maximum(p - math.exp(epsilon) * q, 0).sum() / p.sum()
    assert shortfall <= delta
    many = shares.discrete_gaussian_scale(epsilon, delta, 9, 1)
    assert many == pytest.approx(3 * discrete, rel=0.2)


def test_without_the_extra_the_answer_is_only_looser(monkeypatch) -> None:
    monkeypatch.setattr(shares, "_library", lambda: None)
    laplace = shares.laplace_share.__wrapped__(1.0, 1e-5, 10, None)
    assert laplace == shares.epsilon_share(1.0, 1e-5, 10)
    discrete = shares.discrete_gaussian_scale.__wrapped__(1.0, 1e-5, 10, 1)
    tight = shares.gaussian_scale(1.0, 1e-5, 10)
    assert tight <= discrete <= 1.2 * tight


def full(each, count, epsilon):
    from scipy.special import gammaln

    at = np.arange(math.floor((count - epsilon / each) / 2) + 1.0)
    choose = gammaln(count + 1) - gammaln(at + 1) - gammaln(count - at + 1)
    first = choose + (count - at) * each - count * np.logaddexp(0.0, each)
    second = choose + epsilon + at * each - count * np.logaddexp(0.0, each)
    return float((np.exp(first) - np.exp(np.minimum(first, second))).sum())


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-4, 3.0), st.integers(1, 20_000), st.floats(1e-3, 20.0))
def test_the_terms_that_are_left_out_count(each, count, epsilon):
    found = composed_delta(epsilon, each, 0.0, count)
    truth = 0.0 if each * count <= epsilon else full(each, count, epsilon)
    assert truth * (1 - 1e-8) - 1e-15 <= found <= max(truth * (1 + 1e-6), truth + 1e-9)


@pytest.mark.parametrize("releases", [0, -1, 10**9 + 1, 2**62])
def test_how_many_releases_can_be_priced(releases):
    with pytest.raises(ValueError, match=rf"releases \({releases}\) must be in"):
        composed_delta(1.0, 0.1, 0.0, releases)

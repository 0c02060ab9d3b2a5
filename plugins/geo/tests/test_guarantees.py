"""The lemmas' failure probabilities, with exact binomial tails; and that the tests can fail."""

import math
from fractions import Fraction

import numpy as np
import pytest
from geo_tails import too_many
from scipy.stats import binom

from opendp_optimal.sample.integers import gaussian_integers as gaussian_noise
from opendp_optimal.sample.integers import laplace_integers as laplace_noise
from opendp_optimal.sample.integers import laplace_vectors as planar_laplace_noise
from opendp_optimal_geo import (
    Curator,
    DistanceTo,
    Population,
    SignedDistance,
    elimination,
    gaussian_radius,
    laplace_radius,
    rectangle,
)
from opendp_optimal_geo import curator as threshold
from opendp_optimal_geo.elimination import Smallest, Threshold

RUNS = 200
SQUARE = rectangle((0, 0), 1000, 1000)
BETA = 0.2


def near_border(users, rng):
    """Users on both sides of the border, where mistakes are likely."""
    return np.column_stack([rng.uniform(400.0, 600.0, users), rng.uniform(-300.0, 300.0, users)])


@pytest.mark.parametrize("privacy", ["cgp", "gp"])
@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.slow
def test_lemma_5_2(method, privacy):
    """All decisions of PIE-NI are right except with probability beta_0 (a quarter of beta)."""
    rng = np.random.default_rng(52)  # places of simulated users
    failures = sum(wrong_decision(rng, method, privacy) for _ in range(RUNS))
    assert not too_many(failures, RUNS, BETA)


def test_lemma_5_2_can_fail(monkeypatch):
    """With widths a quarter as wide, decisions are wrong far too often."""
    honest = elimination.error_radius
    monkeypatch.setattr(elimination, "error_radius", lambda *args: honest(*args) / 4.0)
    rng = np.random.default_rng(52)
    failures = sum(wrong_decision(rng, "distance", "cgp") for _ in range(RUNS))
    assert too_many(failures, RUNS, BETA)


def wrong_decision(rng, method, privacy):
    points = near_border(40, rng)
    budget = 1e-3 if privacy == "cgp" else 0.1
    people = Population(points, budget=budget, privacy=privacy)
    plan = people._plan(SignedDistance(SQUARE), budget, method, ("doubling", 6), False, "data")
    state, _, _ = people._take_looks(plan, Threshold(0.0, 0.0, BETA))
    inside = np.abs(points).max(axis=1) < 500.0
    return bool(((state.decided_at > 0) & (state.inside != inside)).any())


@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.slow
def test_lemma_5_3(method):
    """PIE-k keeps the true neighbours in every look except with probability beta_0."""
    rng = np.random.default_rng(53)
    failures = 0
    for _ in range(RUNS):
        points = rng.normal(0.0, 60.0, (40, 2))
        people = Population(points, budget=1e-3)
        plan = people._plan(DistanceTo((0.0, 0.0)), 1e-3, method, ("doubling", 6), False, "data")
        state, _, _ = people._take_looks(plan, Smallest(5, BETA))
        best = np.argsort(np.hypot(*points.T))[:5]
        failures += bool((state.decided_at[best] > 0).any())
    assert not too_many(failures, RUNS, BETA)


@pytest.mark.parametrize("baseline", [True, False], ids=["BM: 6.4, 6.5", "PM: 6.6, 6.7"])
@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.slow
def test_lemmas_6_4_to_6_7(method, baseline):
    """The s-th neighbour found is not much farther than the s-th nearest, for all s."""
    rng = np.random.default_rng(64)
    failures, trivial = 0, 0
    for _ in range(RUNS):
        points = rng.normal(0.0, 100.0, (40, 2))
        people = Population(points, budget=1e-2)
        answer = people.nearest(
            (0.0, 0.0), 5, budget=1e-2, method=method, beta=BETA, baseline=baseline
        )
        distance = np.hypot(*points.T)
        found = distance[list(answer.value)]
        failures += bool((found - np.sort(distance)[:5] > answer.error_bound).any())
        trivial += answer.error_bound > np.ptp(distance)
    assert trivial < RUNS / 2  # the bound says something
    assert not too_many(failures, RUNS, BETA)


@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.parametrize("baseline", [True, False])
@pytest.mark.slow
def test_error_bounds_of_counts_and_densities(method, baseline):
    rng = np.random.default_rng(66)
    failures = [0, 0]
    for _ in range(RUNS // 2):
        points = near_border(60, rng)
        people = Population(points, budget=1e-2)
        options = {"budget": 5e-3, "method": method, "beta": BETA, "baseline": baseline}
        answer = people.range_count(SQUARE, **options)
        truth = int((np.abs(points).max(axis=1) < 500.0).sum())
        failures[0] += abs(answer.value - truth) > answer.error_bound
        answer = people.kde((500.0, 0.0), 50.0, **options)
        squares = ((points - [500.0, 0.0]) ** 2).sum(axis=1)
        truth = float(np.exp(-squares / 5000.0).mean())
        failures[1] += abs(answer.value - truth) > answer.error_bound
    assert not too_many(failures[0], RUNS // 2, BETA)
    assert not too_many(failures[1], RUNS // 2, BETA)


CENTRAL = {"distance": 0.02, "point": 20.0}
"""Budgets with the same error: noise goes to one count, or to 1,000 truth values."""


@pytest.mark.parametrize("method", ["point", "distance"])
@pytest.mark.slow
def test_threshold_decisions(method):
    """Corollary C.1, right at the threshold's edge."""
    assert not too_many(wrong_thresholds(method, BETA), RUNS, BETA)


@pytest.mark.parametrize("method", ["point", "distance"])
def test_threshold_decisions_can_fail(method, monkeypatch):
    """With widths a tenth as wide, decisions are wrong far too often."""
    monkeypatch.setattr(threshold, "gaussian_radius", lambda *args: gaussian_radius(*args) / 10.0)
    assert too_many(wrong_thresholds(method, 0.05), RUNS, 0.05)


def wrong_thresholds(method, beta):
    curator = Curator(np.arange(1000), budget=RUNS * 20.0)
    wrong = 0
    for _ in range(RUNS):
        answer = curator.threshold(
            lambda x: x < 503, 0.5, budget=CENTRAL[method], beta=beta, method=method
        )
        decided = answer.rounds[-1].inside + answer.rounds[-1].outside
        wrong += bool(decided and answer.value)
    return wrong


@pytest.mark.parametrize("method", ["point", "distance"])
def test_threshold_baselines(method):
    """BM_0 and BM_1 look once, pay all, and state an error that they seldom exceed."""
    price, size = CENTRAL[method], 1000
    curator = Curator(np.arange(size), budget=RUNS * 20.0)
    yes = 0
    for _ in range(RUNS):
        answer = curator.threshold(
            lambda x: x < 500, 0.5, budget=price, method=method, baseline=True
        )
        assert len(answer.rounds) == 1
        assert answer.saving == 0.0
        yes += answer.value
    # The count is right at the threshold: as many answers are yes as no.
    assert binom.cdf(yes, RUNS, 0.5) > 1e-6
    assert binom.sf(yes - 1, RUNS, 0.5) > 1e-6
    released = size if method == "point" else 1
    expected = gaussian_radius(1, 0.05) * math.sqrt(released / (2.0 * price))
    assert expected <= answer.error_bound <= expected + 1.0
    answers = np.zeros(released, np.int64)
    noise = np.array([threshold._look(answers, Fraction(price)) for _ in range(RUNS)])
    beyond = int((np.abs(noise) > expected).sum())
    assert not too_many(beyond, RUNS, 0.05)
    assert too_many(int((np.abs(noise) > expected / 4.0).sum()), RUNS, 0.05)


@pytest.mark.parametrize("dimension", [1, 2, 3, 10])
@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_gaussian_radius(dimension, beta):
    z = gaussian_noise(0.5 / 1e10, 20_000 * dimension).reshape(-1, dimension) / 1e5
    lengths = np.sqrt((z**2).sum(axis=1))
    beyond = int((lengths > gaussian_radius(dimension, beta)).sum())
    assert not too_many(beyond, len(z), beta)
    shrunk = int((lengths > 0.4 * gaussian_radius(dimension, beta)).sum())
    assert too_many(shrunk, len(z), beta)


@pytest.mark.parametrize("split", [(1.0,), (0.5, 0.5), (0.1, 0.3, 0.6)])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_laplace_radius(dimension, split):
    rate, beta, draws = 1e-3, 0.1, 6000
    total = np.zeros((draws, dimension))
    for f in split:
        noise = (
            laplace_noise(rate * f, draws)[:, None]
            if dimension == 1
            else planar_laplace_noise(rate * f, draws, dimension)
        )
        total += f * f * noise
    averages = total / math.fsum(f * f for f in split) * rate
    slack = 1.5 * math.sqrt(dimension) * rate
    radius = laplace_radius(dimension, beta, split, slack=slack)
    beyond = int((np.sqrt((averages**2).sum(axis=1)) > radius).sum())
    assert not too_many(beyond, draws, beta)

"""OpenDP's own noise with its whole curve: above the truth, and hardly above it."""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import compose, make_optimal_noise
from opendp_optimal.budget.events import Approximate, Concentrated, Gaussian, Joint, Profile
from opendp_optimal.budget.theorems import (
    DiscreteGaussianDelta,
    laplace_delta,
)
from opendp_optimal.measure.anatomy import event_of

dp.enable_features("contrib")

REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def shifted(chances, shift, epsilon):
    """The delta of noise with these chances, from the definition."""
    one, two = np.pad(chances, (0, shift)), np.pad(chances, (shift, 0))
    return float(np.maximum(0, one - math.exp(epsilon) * two).sum())


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 3.0), st.integers(1, 12), st.floats(0.0, 1.2))
def test_laplace_noise_on_integers(rate, distance, part):
    reach = math.ceil(45 / rate) + distance
    chances = math.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    epsilon = part * rate * distance
    truth = shifted(chances, distance, epsilon)
    found = laplace_delta(rate * distance, epsilon, 2 * rate)
    assert truth - 1e-14 <= found <= truth * (1 + 1e-9) + 1e-12


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 2.0), st.integers(1, 6), st.integers(1, 6), st.floats(0.0, 1.1))
def test_a_vector_costs_no_more_than_one_number_that_moves_as_far(rate, one, two, part):
    """The delta of two numbers that move, from the definition, beside that of the theorem."""
    reach = math.ceil(40 / rate)
    chances = math.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    epsilon = part * rate * (one + two)
    first = [np.pad(chances, (a, one - a)) for a in (0, one)]
    second = [np.pad(chances, (b, two - b)) for b in (0, two)]
    here, there = np.outer(first[0], second[0]), np.outer(first[1], second[1])
    truth = float(np.maximum(0, here - math.exp(epsilon) * there).sum())
    assert truth <= laplace_delta(rate * (one + two), epsilon, 2 * rate) + 1e-12


@pytest.mark.parametrize("sigma", [0.5, 1.0, 7.3, 300.0])
@pytest.mark.parametrize("distance", [1, 3])
def test_discrete_gaussian_noise(sigma, distance):
    exact = DiscreteGaussianDelta(sigma, distance)
    for epsilon in (0.0, 0.01, 0.3, 1.0, 4.0):
        reach = math.ceil(20 * sigma) + distance
        chances = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
        truth = shifted(chances / chances.sum(), distance, epsilon)
        assert truth * (1 - 1e-9) - 1e-13 <= exact(epsilon) <= truth * (1 + 1e-6) + 1e-11
    assert exact(1e4) == 1.0


def test_which_noise_is_known():
    vector = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    laplace = event_of(dp.m.make_laplace(*REAL, scale=2.0), 1.0)
    assert isinstance(laplace, Profile)
    assert laplace == event_of(dp.m.make_laplace(vector, dp.l1_distance(T=float), scale=2.0), 1.0)
    assert laplace.curve(0.0) == pytest.approx(1 - math.exp(-0.25))
    gaussian = event_of(dp.m.make_gaussian(*REAL, scale=2.0), 1.0)
    assert isinstance(gaussian, Gaussian)
    assert gaussian.rho == pytest.approx(0.125)
    approximate = dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*REAL, scale=2.0)), 1e-6
    )
    assert event_of(approximate, 1.0) == gaussian
    # Coarse grids, vectors of integers that move far, single steps: no more than the map says.
    coarse = dp.m.make_gaussian(*REAL, scale=2.0, k=-3)
    assert event_of(coarse, 1.0) == Concentrated(coarse.map(1.0))
    assert event_of(dp.m.make_laplace(*WHOLE, scale=2.0), 1) == Approximate(0.5)
    many = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    assert isinstance(event_of(dp.m.make_gaussian(*many, scale=2.0), 5.0), Concentrated)
    both = dp.c.make_composition([dp.m.make_laplace(*REAL, scale=2.0)] * 2)
    assert event_of(both, 1.0) == Joint((laplace, laplace))
    assert compose([both], delta=1e-6, d_in=1.0) == compose(
        [dp.m.make_laplace(*REAL, scale=2.0)] * 2, delta=1e-6, d_in=1.0
    )


def test_against_another_accountant():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    fine = {"value_discretization_interval": 1e-3}
    truth = pld.from_laplace_mechanism(10.0, **fine).self_compose(40)
    truth = truth.compose(pld.from_gaussian_mechanism(2.0, **fine))
    truth = truth.compose(pld.from_discrete_gaussian_mechanism(5.0, 2, **fine))
    releases = [dp.m.make_laplace(*REAL, scale=10.0) for _ in range(40)]
    releases += [dp.m.make_gaussian(*REAL, scale=2.0)]
    known = compose(releases, delta=1e-6, d_in=1.0)[0]
    integers = dp.m.make_gaussian(*WHOLE, scale=5.0)
    assert known < truth.get_epsilon_for_delta(1e-6)
    from opendp_optimal.budget.accountant import total_epsilon

    events = [*(event_of(release, 1.0) for release in releases), event_of(integers, 2)]
    found = total_epsilon(events, 1e-6)
    assert found == pytest.approx(truth.get_epsilon_for_delta(1e-6), rel=2e-3)


@pytest.mark.slow
def test_distinct_releases_of_every_kind():
    """Many that differ cost little more than as many alike."""
    ours = make_optimal_noise(*REAL, 1.0, (0.1, 1e-9))
    releases = [dp.m.make_laplace(*REAL, scale=10 + i / 1e6) for i in range(40)]
    releases += [dp.m.make_gaussian(*REAL, scale=20 + i / 1e6) for i in range(40)]
    releases += [ours] * 40
    mixed, _ = compose(releases, delta=1e-6, d_in=1.0)
    alike = [dp.m.make_laplace(*REAL, scale=10.0)] * 40
    alike += [dp.m.make_gaussian(*REAL, scale=20.0)] * 40 + [ours] * 40
    assert compose(alike, delta=1e-6, d_in=1.0)[0] == pytest.approx(mixed, rel=1e-2)


def vector_truth(sigma, moves, epsilon):
    """The delta of discrete Gaussian noise on numbers that move so, from the definition."""
    reach = math.ceil(9 * sigma) + max(moves)
    x = np.arange(-reach, reach + 1)
    here = there = np.ones(())
    for move in moves:
        chances = np.exp(-0.5 * (x / sigma) ** 2), np.exp(-0.5 * ((x - move) / sigma) ** 2)
        total = np.exp(-0.5 * (np.arange(-99, 100) / sigma) ** 2).sum()
        here, there = (
            np.multiply.outer(side, c / total)
            for side, c in zip((here, there), chances, strict=True)
        )
    return float(np.maximum(0, here - math.exp(epsilon) * there).sum())


@pytest.mark.parametrize("sigma", [0.8, 1.7])
@pytest.mark.parametrize(
    ("d_in", "size", "moves"),
    [
        (1.0, None, [(1,)]),
        (1.4, None, [(1,)]),
        (math.sqrt(2.0), None, [(1,), (1, 1)]),  # its float is above the root
        (2.0, 3, [(1, 1), (2,), (1, 1, 1)]),
        (2.3, 2, [(2, 1), (1, 1), (2,)]),
    ],
)
def test_gaussian_noise_on_vectors_of_integers(sigma, d_in, size, moves):
    """No move within the distance costs more than the curve, and the farthest hardly less."""
    domain = dp.vector_domain(dp.atom_domain(T=int), size=size)
    noise = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=sigma)
    event = event_of(noise, d_in)
    assert isinstance(event, Profile)
    for epsilon in (0.0, 0.3, 1.0, 3.0):
        truth = max(vector_truth(sigma, move, epsilon) for move in moves)
        assert truth - 1e-12 <= event.curve(epsilon) <= truth * 1.03 + 1e-7
    rho = compose([dp.c.make_approximate(noise)] * 20, delta=1e-6, d_in=d_in)[0]
    assert compose([noise] * 20, delta=1e-6, d_in=d_in)[0] <= rho
    beyond = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), 9.0
    )
    assert isinstance(event_of(beyond, 9.0), Concentrated)

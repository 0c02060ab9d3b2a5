"""Every release counts, whatever it is and whoever still holds it; no price is too high."""

import copy
import gc
import math
import pickle
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import (
    compose,
    make_optimal_bounded_noise,
    make_optimal_noise,
    solve,
    solve_bounded,
)
from opendp_optimal.budget.losses import Losses, from_pair, from_profile

dp.enable_features("contrib")

REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def laplace(scale):
    return dp.m.make_laplace(*REAL, scale=scale)


@pytest.mark.slow
def test_releases_that_nobody_holds_count_like_any_others():
    def made():
        for number in range(5):
            gc.collect()  # so that the next one may take the place of one that has gone
            yield laplace(1.0 + number / 4)

    held = [laplace(1.0 + number / 4) for number in range(5)]
    assert compose(made(), delta=1e-6, d_in=1.0) == compose(held, delta=1e-6, d_in=1.0)
    alike = [laplace(2.0) for _ in range(20)]
    assert compose(alike, delta=1e-6, d_in=1.0) == compose(
        [laplace(2.0)] * 20, delta=1e-6, d_in=1.0
    )
    sizes = (1.0, 0.5, 0.25)
    one = make_optimal_noise(*REAL, 1.0, (0.5, 0.01), gap=1.0)
    ours = (make_optimal_noise(*REAL, d, (0.5, 0.01), gap=1.0) for d in sizes)
    assert compose(ours, delta=0.05) == compose([one] * 3, delta=0.05)


def test_equal_tables_are_one_mechanism():
    table = solve(0.5, 0.01, gap=1.0)
    copies = [table, copy.deepcopy(table), pickle.loads(pickle.dumps(table))]
    assert compose(copies, delta=0.05) == compose([table] * 3, delta=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e-300, 1e-308, 1e300])
def test_no_price_is_too_high_or_too_low(scale):
    one = laplace(scale)
    price = one.map(1.0)
    epsilon, _ = compose([one], delta=1e-6, d_in=1.0)
    assert price - 1e-5 * max(1.0, price) <= epsilon <= price
    assert compose([one], epsilon=price, d_in=1.0)[1] == 0.0


def test_a_release_without_privacy_has_no_epsilon():
    naked = laplace(0.0)
    assert naked.map(1.0) == math.inf
    for others in ([], [laplace(1.0)]):
        assert compose([naked, *others], delta=1e-6, d_in=1.0) == (math.inf, 1e-6)
        assert compose([naked, *others], epsilon=5.0, d_in=1.0) == (5.0, 1.0)
        assert compose([naked, *others], delta=1.0, d_in=1.0) == (0.0, 1.0)


def test_any_epsilon_can_be_asked_for():
    table = solve(1.0, 1e-6)
    _, far = compose([table] * 3, epsilon=1000)
    _, end = compose([table] * 3, epsilon=math.inf)
    assert 0 < end <= far <= 3e-6
    assert compose([], epsilon=math.inf) == (math.inf, 0.0)


def test_bounded_tables_and_measurements_are_priced():
    options = {"range": (0, 4), "bins": 4, "cache": False}
    table = solve_bounded(1.0, 0.01, sensitivity=1, **options)
    epsilon, _ = compose([table] * 8, delta=0.2)
    assert 1.0 < epsilon < 8.0
    assert compose([table], epsilon=1.0)[1] <= 0.01
    measurement = make_optimal_bounded_noise(*REAL, 1.0, (1.0, 0.01), **options)
    assert compose([measurement] * 8, delta=0.2) == (epsilon, 0.2)
    assert compose([measurement] * 8, delta=0.2, d_in=1.0) == (epsilon, 0.2)
    assert compose([measurement] * 8, delta=0.2, d_in=0.25)[0] <= epsilon
    twice, _ = compose([measurement], delta=measurement.map(2.0)[1], d_in=2.0)
    assert twice == measurement.map(2.0)[0] >= 2.0


def test_a_small_release_beside_a_large_one_costs_little():
    large, small = solve(1.0, 1e-3, gap=1.0), laplace(1e4)
    assert compose([large], delta=2e-3)[0] <= compose([large, small], delta=2e-3, d_in=1.0)[0]
    assert compose([large, small], delta=2e-3, d_in=1.0)[0] <= 1.0001


# The law behind it: a profile is nowhere below the points it is made from, and what is composed
# on the grid is nowhere below what is composed exactly.


def exact_profile(pairs, epsilon):
    """The delta of pure releases together, from all of their losses."""
    deltas = 0.0
    for signs in np.ndindex(*(2,) * len(pairs)):
        loss = sum(e if s else -e for e, s in zip(pairs, signs, strict=True))
        chance = math.prod(
            1 / (1 + math.exp(-e if s else e)) for e, s in zip(pairs, signs, strict=True)
        )
        deltas += max(0.0, -math.expm1(epsilon - loss)) * chance
    return deltas


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(1e-3, 20.0), min_size=1, max_size=6),
    st.floats(0.0, 30.0),
    st.floats(1e-9, 0.5),
)
def test_what_is_composed_is_never_below_the_truth(pairs, epsilon, delta):
    parts = sorted((from_pair(e, 0.0, 256) for e in pairs), key=lambda part: part.step)
    total = parts[0]
    for part in parts[1:]:
        total = total.together(part)
    truth = exact_profile(pairs, epsilon)
    assert total.delta_at(epsilon) >= truth * (1 - 1e-12)
    found = total.epsilon_at(delta)
    assert exact_profile(pairs, found) <= delta * (1 + 1e-12) + 1e-15
    # and not far above it
    larger = exact_profile([1.01 * e for e in pairs], epsilon - 0.02 * max(pairs))
    assert total.delta_at(epsilon) <= larger + 1e-9


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=12), st.sampled_from([2**-8, 0.25, 4.0]))
def test_a_profile_has_at_least_its_points(deltas, step):
    deltas = sorted(deltas, reverse=True)
    places = [2 * n - len(deltas) for n in range(len(deltas))]
    made = from_profile(step, places, deltas)
    for place, delta in zip(places, deltas, strict=True):
        assert made.delta_at(step * place) >= min(1.0, delta)
    assert made.total >= 1.0
    rough = made._coarser()
    for epsilon in np.linspace(step * (places[0] - 1), step * (places[-1] + 1), 25).tolist():
        assert rough.delta_at(epsilon) >= made.delta_at(epsilon)


def test_tails_that_are_cut_off_count_as_lost():
    made = Losses(1.0, -2, np.array([1e-25, 0.25, 0.5, 0.25, 1e-25]), 0.0).shortened(1e-20)
    assert made.first == -1
    assert len(made.masses) == 3
    assert 1e-25 <= made.endless <= 2e-25


def test_many_different_releases_and_many_alike():
    many = [laplace(100 + number / 8) for number in range(60)]
    epsilon, _ = compose(many, delta=1e-6, d_in=1.0)
    rough = [laplace(100.0)] * 60
    assert 0.25 < epsilon < compose(rough, delta=1e-6, d_in=1.0)[0] * 1.001
    assert compose(rough * 100, delta=1e-6, d_in=1.0)[0] < 6000 * 0.01


@pytest.mark.parametrize(
    "asked",
    [
        {"epsilon": 10**400},
        {"epsilon": "1"},
        {"delta": "x"},
        {"delta": None, "epsilon": True},
        {"delta": 1j},
        {"epsilon": Fraction(-1, 3)},
    ],
)
def test_what_is_no_number_is_refused(asked):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        compose([laplace(1.0)], d_in=1.0, **asked)


def test_numbers_of_any_kind_are_asked_for():
    one = [laplace(1.0)] * 4
    for kind in (Fraction, np.float64, np.float32):
        assert (
            compose(one, epsilon=kind(0.5), d_in=1.0)[1] == compose(one, epsilon=0.5, d_in=1.0)[1]
        )
    third = Fraction(1, 3)
    below = math.nextafter(float(third), 0.0) if float(third) > third else float(third)
    assert compose(one, epsilon=third, d_in=1.0)[1] == compose(one, epsilon=below, d_in=1.0)[1]

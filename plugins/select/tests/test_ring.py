import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal_select import laplace_ring, optimal_ring
from opendp_optimal_select.ring.certificate import RingDensity, density_from, lower_bound
from opendp_optimal_select.ring.shape import CellModel, rate_bounds

GRID = (np.arange(200_000) + 0.5) / 200_000 * 2.0 * math.pi - math.pi


def grid_cost(points, epsilon):
    weights = np.exp(-epsilon * np.abs(GRID))
    arcs = [np.abs((GRID - a + math.pi) % (2.0 * math.pi) - math.pi) for a in points]
    return float(weights @ np.min(arcs, axis=0) / weights.sum())


@pytest.fixture(scope="module")
def optimum_small():
    return optimal_ring(2, epsilon=0.375, tolerance=1e-3)


@pytest.fixture(scope="module")
def optimum_one():
    return optimal_ring(2, epsilon=1.0, tolerance=2e-3)


@pytest.mark.slow
def test_paper_laplace_is_beaten_at_three_eighths(optimum_small, golden):
    """Appendix A.4 prints 0.72 against 0.75; both are about 0.01 above the exact values."""
    printed = golden["ring, k = 2, epsilon = 3/8"]
    laplace = laplace_ring(2, epsilon=0.375)[0]
    assert optimum_small.upper - optimum_small.lower <= 1e-3
    assert optimum_small.cells == 32
    assert 0.0 < optimum_small.discretisation < 1e-4
    assert laplace == pytest.approx(printed["laplace"], abs=0.0125)
    assert optimum_small.upper == pytest.approx(printed["optimal"], abs=0.0125)
    assert optimum_small.upper < 0.96 * laplace
    # Antipodal answers and a half-ring Laplace density can be integrated by hand.
    by_hand = 1 / 0.375 - (math.pi / 2) / math.expm1(0.375 * math.pi / 2)
    assert optimum_small.lower <= by_hand
    assert optimum_small.upper <= by_hand + 1e-4


@pytest.mark.slow
def test_paper_laplace_is_almost_optimal_at_one(optimum_one):
    """Equal to the two digits of the figure: the certified optimum is 0.2 % lower."""
    laplace = laplace_ring(2, epsilon=1.0)[0]
    assert round(laplace, 2) == round(optimum_one.upper, 2) == 0.57
    assert optimum_one.upper < laplace < optimum_one.lower + 4e-3


@pytest.mark.slow
def test_the_client_found_is_private_and_costs_what_is_said(optimum_small):
    density = optimum_small.density
    rate = rate_bounds(0.375)[0]
    assert density.keeps(rate)
    assert not density.keeps(rate * Fraction(9, 10))
    # Integrate again, by brute force, on a grid in turns.
    widths = np.array([float(w) for w in density.model.widths])
    middles = np.cumsum(widths) - widths / 2
    x = (np.arange(400_000) + 0.5) / 400_000
    around = np.concatenate([middles - 1, middles, middles + 1])
    logs = np.interp(x, around, np.tile(density.logs, 3))
    answers = np.array(optimum_small.offsets) / (2 * math.pi)
    arcs = np.abs((x[:, None] - answers + 0.5) % 1.0 - 0.5).min(axis=1)
    cost = 2 * math.pi * float(np.exp(logs) @ arcs / np.exp(logs).sum())
    assert optimum_small.upper == pytest.approx(cost, abs=1e-8)


@settings(max_examples=20, deadline=None)
@given(
    gap=st.fractions(0, 1, max_denominator=10**6),
    seed=st.integers(0, 10**6),
    cells=st.integers(2, 12),
)
def test_any_private_density_costs_at_least_any_dual_bound(gap, seed, cells):
    """Weak duality, with multipliers and densities that no solver has seen."""
    rng = np.random.default_rng(seed)
    low, high = rate_bounds(0.8)
    model = CellModel((gap, 1 - gap), high, cells)
    size = len(model.widths)
    bound = lower_bound(model, rng.exponential(0.01, size), rng.exponential(0.01, size))
    density = density_from(model, rng.exponential(1.0, size) + 1e-3, low)
    assert density.keeps(low)
    assert bound <= density.cost_above()
    _, forward, backward = model.solve()
    assert lower_bound(model, forward, backward) <= density.cost_above()


def test_a_density_that_is_too_steep_is_noticed():
    low, high = rate_bounds(1.0)
    model = CellModel((Fraction(1, 2), Fraction(1, 2)), high, 2)
    span = float(low) / 8
    assert RingDensity(model, (0.0, 0.9 * span, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)).keeps(low)
    assert not RingDensity(model, (0.0, 1.1 * span, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)).keeps(low)


@pytest.mark.parametrize("k", range(1, 8))
@pytest.mark.parametrize("epsilon", [0.375, 1.0, 3.0])
@pytest.mark.slow
def test_laplace_answers_are_stationary(k, epsilon):
    value, points = laplace_ring(k, epsilon=epsilon)
    assert len(points) == k
    assert grid_cost(points, epsilon) == pytest.approx(value, abs=1e-8)
    for j in range(k):
        for step in (-1e-2, 1e-2):
            moved = [p + step * (i == j) for i, p in enumerate(points)]
            assert grid_cost(moved, epsilon) > value - 1e-8


EXTREMES = [5e-324, 1e-300, 1e-17, 1e-12, 1e-8, 1e-6, 1e-3, 0.375, 40.0, 1e3, 1e4, 1e9, 1e300]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8, 100])
def test_laplace_on_the_ring_for_every_epsilon(k):
    """Each answer halves its cell and the cost is the integral, both to 40 digits."""
    for epsilon in EXTREMES:
        value, points = laplace_ring(k, epsilon=epsilon)
        assert len(set(points)) == k
        with mpmath.workdps(40 + max(0, round(-math.log10(epsilon)))):
            # The density is uniform to all digits of a float below 1e-17.
            e = mpmath.mpf(max(epsilon, 1e-17))
            side = [mpmath.mpf(p) for p in points if p >= 0.0]
            edges = [(a + b) / 2 for a, b in itertools.pairwise(side)]
            total = mpmath.mpf(0)
            for a, low, high in zip(side, [0, *edges], [*edges, mpmath.pi], strict=True):
                mass = [mpmath.exp(-e * x) for x in (low, a, high)]
                if a > 0:
                    assert abs(mass[0] - 2 * mass[1] + mass[2]) <= 1e-12 * (mass[0] - mass[2])
                total += mass[1] * (2 / e) - mass[0] * (low - a + 1 / e)
                total -= mass[2] * (high - a + 1 / e)
            assert value == pytest.approx(
                float(total / (1 - mpmath.exp(-e * mpmath.pi))), rel=1e-13
            )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_enclosures_at_the_ends_of_the_range(k):
    for epsilon in (1e-17, 1e-6):
        optimum = optimal_ring(k, epsilon=epsilon, max_programmes=6, cells=8)
        assert optimum.lower <= laplace_ring(k, epsilon=epsilon)[0] * (1 + 1e-13)
        assert optimum.lower <= math.pi / (2 * k) <= optimum.upper * (1 + 1e-5)
    optimum = optimal_ring(k, epsilon=100.0, max_programmes=3, cells=8)
    assert 0.0 <= optimum.lower <= laplace_ring(k, epsilon=100.0)[0]
    for epsilon in (100.1, 1e4, 1e9):
        with pytest.raises(ValueError, match=r"epsilon \(.*\) must be at most 100"):
            optimal_ring(k, epsilon=epsilon)


@pytest.mark.parametrize(("k", "epsilon"), [(1, 0.5), (1, 2.0), (1, 8.0), (2, 6.0), (3, 1.0)])
@pytest.mark.slow
def test_enclosures_contain_what_laplace_reaches(k, epsilon):
    optimum = optimal_ring(k, epsilon=epsilon, tolerance=0.05, cells=12, max_programmes=600)
    laplace = laplace_ring(k, epsilon=epsilon)[0]
    assert optimum.lower <= laplace
    assert optimum.lower <= optimum.upper <= laplace + 2e-3
    if k == 1:
        # One answer: Laplace is optimal on the ring too.
        assert laplace - 2e-3 <= optimum.lower


def test_running_out_of_programmes_widens_the_enclosure():
    optimum = optimal_ring(2, epsilon=0.375, tolerance=1e-6, max_programmes=10)
    assert optimum.lower <= 0.7087 <= optimum.upper
    assert optimum.upper - optimum.lower > 1e-6


def test_bad_arguments():
    for arguments in ({"k": 0}, {"k": 7}, {"epsilon": 0.0}, {"tolerance": -1.0}, {"cells": 0}):
        merged = {"k": 2, "epsilon": 1.0} | arguments
        with pytest.raises(ValueError, match=next(iter(arguments))):
            optimal_ring(**merged)


def test_a_tolerance_beyond_reach_ends():
    found = optimal_ring(1, epsilon=8.0, tolerance=1e-9)
    assert found.upper - found.lower < 1e-4
    found.verify()

"""Closed forms, recursion and plain minimisation must tell the same story."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from opendp_optimal_select import (
    LaplaceNoise,
    cost,
    expected_cost,
    laplace_ring,
    lloyd_offsets,
    minimise_cost,
    offsets,
    placement_cost,
    quantile_offsets,
    recursion,
)

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DISUTILITIES = {"square": lambda t: t * t, "sqrt": math.sqrt, "log1p": math.log1p}


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", range(1, 51))
def test_closed_form_recursion_and_lloyd_agree(k, epsilon):
    closed = offsets(k, epsilon=epsilon)
    general = recursion(k, epsilon=epsilon, disutility=float)
    assert closed == tuple(sorted(closed))
    assert general.offsets == pytest.approx(closed, abs=1e-9)
    assert lloyd_offsets(k, LaplaceNoise(epsilon)) == pytest.approx(closed, abs=1e-9)
    assert general.cost == pytest.approx(cost(k, epsilon=epsilon), abs=1e-9)
    assert placement_cost(closed, LaplaceNoise(epsilon)) == pytest.approx(
        cost(k, epsilon=epsilon), abs=1e-9
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", range(1, 51))
@pytest.mark.slow
def test_free_minimisation_agrees(k, epsilon):
    found = minimise_cost(k, epsilon=epsilon)
    assert found.cost == pytest.approx(cost(k, epsilon=epsilon), abs=1e-9)
    # For even k the cost is flat to second order when all offsets drift sideways, so a free
    # search pins that one direction down to the square root of its accuracy only. Its symmetric
    # part has no such freedom.
    free = np.array(found.offsets)
    symmetric = free if k % 2 else 0.5 * (free - free[::-1])
    assert symmetric == pytest.approx(np.array(offsets(k, epsilon=epsilon)), abs=1e-9)


def test_printed_example(golden):
    printed = golden["offsets, k = 3, epsilon = 1"]
    assert offsets(3, epsilon=1.0) == pytest.approx((-math.log(4), 0.0, math.log(4)), abs=1e-15)
    assert offsets(3, epsilon=1.0) == pytest.approx(printed["offsets"], abs=1e-15)
    assert cost(3, epsilon=1.0) == printed["cost"]


@given(k=st.integers(1, 200), epsilon=st.floats(0.01, 100.0))
def test_costs_as_printed(k, epsilon):
    wanted = 2 / (k + 1) if k % 2 else math.log(1 + 2 / k)
    assert cost(k, epsilon=epsilon) * epsilon == pytest.approx(wanted, rel=1e-12)


@given(k=st.integers(1, 100), epsilon=st.floats(0.01, 100.0))
def test_offsets_scale_with_the_noise_and_are_symmetric(k, epsilon):
    found = np.array(offsets(k, epsilon=epsilon))
    assert found == pytest.approx(np.array(offsets(k, epsilon=1.0)) / epsilon, rel=1e-12)
    assert found == pytest.approx(-found[::-1], abs=1e-15 / epsilon)


def test_theorem_b3_as_printed_is_wrong_for_inner_points():
    """The line printed for odd k, x_i = -2 log((k+3)/2 - i)/eps, against ours."""
    for k in (5, 7, 21):
        half = (k - 1) // 2
        printed = [-2.0 * math.log((k + 3) / 2 - i) for i in range(1, half + 1)]
        misprint = [*printed, 0.0, *(-a for a in reversed(printed))]
        right = offsets(k, epsilon=1.0)
        assert right[:half] == pytest.approx(
            [-2 * math.log((k + 1) / (2 * i)) for i in range(1, half + 1)]
        )
        assert expected_cost(misprint, epsilon=1.0) > cost(k, epsilon=1.0) + 1e-3
    assert offsets(3, epsilon=1.0)[0] == pytest.approx(-2 * math.log((3 + 3) / 2 - 1))


def test_recurrence_as_printed_holds_for_the_identity_only():
    """The second printed line replaces h(s - t) by s - h(t): right for h(t) = t alone."""

    def second_step(h, printed):
        start = quad(lambda t: h(t) * math.exp(-t), 0, 60)[0]

        def value(s):
            first = quad(lambda t: h(t) * math.exp(-t), 0, s / 2)[0]
            far = (lambda t: s - h(t)) if printed else (lambda t: h(s - t))
            second = quad(lambda t: far(t) * math.exp(-t), s / 2, s)[0]
            return first + second + math.exp(-s) * start

        return float(minimize_scalar(value, bounds=(0.0, 10.0), method="bounded").fun)

    assert second_step(float, printed=True) == pytest.approx(cost(3, epsilon=1.0), abs=1e-6)
    square = DISUTILITIES["square"]
    ours = cost(3, epsilon=1.0, disutility=square)
    assert second_step(square, printed=False) == pytest.approx(ours, abs=1e-6)
    assert abs(second_step(square, printed=True) - ours) > 0.01
    assert minimise_cost(3, epsilon=1.0, disutility=square).cost == pytest.approx(ours, abs=1e-9)


@pytest.mark.parametrize("name", DISUTILITIES)
@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, 9])
@pytest.mark.slow
def test_recursion_against_free_minimisation(name, epsilon, k):
    h = DISUTILITIES[name]
    ours = recursion(k, epsilon=epsilon, disutility=h)
    found = minimise_cost(k, epsilon=epsilon, disutility=h)
    assert ours.cost == pytest.approx(found.cost, abs=1e-9)
    assert ours.cost == pytest.approx(
        expected_cost(ours.offsets, epsilon=epsilon, disutility=h), abs=1e-9
    )
    free = np.array(found.offsets)
    symmetric = free if k % 2 else 0.5 * (free - free[::-1])
    assert symmetric == pytest.approx(np.array(ours.offsets), abs=1e-7 / epsilon)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(DISUTILITIES)),
    k=st.integers(1, 7),
    moves=st.lists(st.floats(-1.0, 1.0), min_size=7, max_size=7),
    size=st.sampled_from([1.0, 0.1, 0.01]),
)
def test_no_perturbation_does_better(name, k, moves, size):
    h = DISUTILITIES[name]
    ours = recursion(k, epsilon=1.0, disutility=h)
    moved = [a + size * m for a, m in zip(ours.offsets, moves, strict=False)]
    assert expected_cost(moved, epsilon=1.0, disutility=h) >= ours.cost - 1e-12


@pytest.mark.parametrize("c", [0.1, 0.3, 0.5])
def test_the_cost_falls_until_the_pair_is_symmetric(c):
    """The derivative for the pair (-c, 2a - c) is -int_c^a sinh(t - c) dt, and a = ln 2."""
    a, step = math.log(2), 1e-5
    low, high = (expected_cost([-x, 2 * a - x], epsilon=1.0) for x in (c - step, c + step))
    assert (high - low) / (2 * step) == pytest.approx(1 - math.cosh(a - c), abs=1e-8)


def test_an_asymmetric_start_does_not_do_better_for_even_k():
    """Concave costs reward a point on the peak: check {0, a} against the symmetric pair."""
    for h in (math.sqrt, lambda t: t**0.2):
        pair = recursion(2, epsilon=1.0, disutility=h).cost
        grid = np.linspace(-0.5, 4.0, 40)
        for a in grid:
            assert expected_cost([0.0, a], epsilon=1.0, disutility=h) >= pair - 1e-12


@pytest.mark.parametrize("h", [lambda t: max(0.0, t - 0.5), lambda t: min(t, 2.0)])
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_flat_stretches_are_allowed(h, k):
    ours = recursion(k, epsilon=1.0, disutility=h)
    assert expected_cost(ours.offsets, epsilon=1.0, disutility=h) == pytest.approx(
        ours.cost, abs=1e-7
    )
    assert ours.cost <= minimise_cost(k, epsilon=1.0, disutility=h).cost + 1e-7


def test_k_answers_divide_the_error():
    for k in (1, 3, 5, 21):
        assert cost(1, epsilon=2.0) / cost(k, epsilon=2.0) == pytest.approx((k + 1) / 2)


@pytest.mark.parametrize("function", [offsets, minimise_cost])
@pytest.mark.parametrize(
    ("k", "epsilon", "message"),
    [
        (0, 1.0, r"k \(0\) must be in \[1, 1000000\]"),
        (-3, 1.0, r"k \(-3\) must be in \[1, 1000000\]"),
        (1.5, 1.0, r"k \(1.5\) must be an integer"),
        (True, 1.0, r"k \(True\) must be an integer"),
        (1, 0.0, r"epsilon \(0.0\) must be positive"),
        (1, -1.0, r"epsilon \(-1.0\) must be positive"),
        (1, math.nan, r"epsilon \(nan\) must be finite"),
        (1, math.inf, r"epsilon \(inf\) must be finite"),
        (50, 1e-308, r"epsilon \(1e-308\) must be large enough"),
        (1, "1", r"epsilon \('1'\) must be a number"),
    ],
)
def test_bad_arguments(function, k, epsilon, message):
    with pytest.raises(ValueError, match=message):
        function(k, epsilon=epsilon)


@pytest.mark.parametrize(
    "place",
    [
        lambda k: offsets(k, epsilon=1.0),
        lambda k: recursion(k, epsilon=1.0, disutility=lambda t: t),
        lambda k: cost(k, epsilon=1.0, disutility=lambda t: t),
        lambda k: minimise_cost(k, epsilon=1.0),
        lambda k: laplace_ring(k, epsilon=1.0),
        lambda k: lloyd_offsets(k, LaplaceNoise(1.0)),
        lambda k: quantile_offsets(k, LaplaceNoise(1.0)),
    ],
)
def test_more_answers_than_memory_holds_are_refused(place):
    with pytest.raises(ValueError, match=r"k .* must be in \[1, "):
        place(10**11)

"""Laws of tables: what they promise, checked by means that share no code with them."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import CertificateError, known, solve
from opendp_optimal.exact.numbers import BITS, exp_bounds
from tests.strategies import deltas, epsilons, examples, grid_law, plain_delta


@pytest.mark.slow
@given(epsilons, deltas, st.sampled_from(["l1", "l2"]))
@settings(max_examples=examples(25))
def test_feasible_at_every_shift_in_plain_fractions(epsilon, delta, loss):
    table = solve(epsilon, delta, loss=loss, cells=3, gap=10.0, cache=False)
    growth = Fraction(exp_bounds(epsilon)[0], 1 << BITS)
    for steps in (1, 3):
        law = grid_law(table, steps)
        assert sum(law) == 1
        for shift in range(-3 * steps, 3 * steps + 1):
            if shift:
                assert plain_delta(law, shift, growth) <= Fraction(delta)


@given(epsilons, deltas)
@settings(max_examples=examples(25))
def test_bounds_enclose_and_verify(epsilon, delta):
    table = solve(epsilon, delta, gap=0.02, cache=False)
    table.verify()
    assert 0 < table.lower <= table.upper
    assert table.gap == (table.upper - table.lower) / table.lower <= 0.02
    assert table.delta_at(epsilon) <= delta
    assert int(table.weights.sum()) + table.atom == table.total == 1 << 62


def test_profile_is_the_definition():
    table = solve(1.0, 0.1, cells=4, gap=1.0, cache=False)
    law = grid_law(table, 1)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        growth = Fraction(exp_bounds(epsilon)[0], 1 << BITS)
        for shift in (1, 2, 4):
            exact = max(plain_delta(law, m, growth) for m in range(1, shift + 1))
            found = table.delta_at(epsilon, Fraction(shift, 4))
            # The table counts its atom in full, as if no cell lay under it.
            slack = Fraction(1, 1 << 40) + Fraction(table.atom, table.total)
            assert exact <= Fraction(found) <= exact + slack
    assert table.delta_at(0.5, 0.3) <= table.delta_at(0.5, 0.6) <= table.delta_at(0.5)
    assert table.delta_at(1.0) <= table.delta_at(0.5)


def test_profile_inverted():
    table = solve(1.0, 0.1, gap=0.05, cache=False)
    for delta in (0.05, 0.1, 0.3):
        epsilon = table.epsilon_at(delta)
        assert table.delta_at(epsilon) <= delta
        if epsilon:
            assert table.delta_at(epsilon * (1 - 1e-6)) > delta
    assert table.epsilon_at(0.1) <= 1.0
    assert table.epsilon_at(1e-9) == math.inf
    assert table.epsilon_at(1.0) == 0.0


def test_mean_loss():
    table = solve(1.0, 0.1, gap=0.05, cache=False)
    assert table.mean_loss("l1") == table.upper
    places, density = table.density()
    spread = (1 - table.atom / table.total) / 12 / table.cells**2
    second = float((places**2 * density).sum() / table.cells + spread)
    assert table.mean_loss("l2") == pytest.approx(second, rel=1e-9)
    assert table.mean_loss(lambda x: abs(x)) == pytest.approx(table.upper, rel=1e-9)
    assert table.mean_loss("pinball:0.5") == pytest.approx(table.upper / 2, rel=1e-9)


def tampered(table, **change):
    return dataclasses.replace(table, **change)


def test_verify_says_what_failed():
    table = solve(1.0, 1e-3, gap=0.05, cache=False)
    moved = table.weights.copy()
    moved[table.radius] += 1 << 50
    moved[0] -= 0
    with pytest.raises(CertificateError, match="add up"):
        tampered(table, weights=moved).verify()
    moved = table.weights.copy()
    moved[0] += 1 << 54
    moved[table.radius] -= 1 << 54
    with pytest.raises(CertificateError, match="privacy"):
        tampered(table, weights=moved).verify()
    with pytest.raises(CertificateError, match="upper"):
        tampered(table, upper=math.nextafter(table.upper, 0)).verify()
    with pytest.raises(CertificateError, match="lower"):
        tampered(table, lower=table.lower * 1.0001).verify()
    problem = dataclasses.replace(table.problem, epsilon=0.999)
    with pytest.raises(CertificateError):
        tampered(table, problem=problem).verify()
    higher = dataclasses.replace(table.dual, budget=table.dual.budget * 2)
    with pytest.raises(CertificateError, match="lower"):
        tampered(table, dual=higher).verify()


@given(st.integers(0, 10**6), st.integers(0, 61))
@settings(max_examples=examples(60))
def test_no_single_moved_weight_goes_unnoticed(place, bits):
    table = solve(1.0, 0.1, cells=4, gap=1.0, cache=False)
    weights = table.weights.copy()
    place %= len(weights)
    weights[place] ^= 1 << bits
    with pytest.raises(CertificateError):
        tampered(table, weights=weights).verify()


def test_frozen():
    table = solve(1.0, 0.1, gap=0.05, cache=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.atom = 3
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0] = 3


@pytest.mark.parametrize("kind", [{}, {"integer_sensitivity": 3}], ids=["real", "integer"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
def test_pure_tables(kind, epsilon):
    table = solve(epsilon, 0.0, cache=False, **kind)
    table.verify()
    assert table.gap < 1e-3
    assert table.delta_at(epsilon) == 0.0
    assert table.epsilon_at(0.0) <= epsilon
    below = table.delta_at(epsilon / 2)
    assert 0 < below <= table.delta_at(0.0) <= 1
    heavier = dataclasses.replace(table.tail, again=table.tail.again + 1)
    with pytest.raises(CertificateError, match="add up"):
        tampered(table, tail=heavier).verify()
    weights = table.tail.weights.copy()
    weights[0] += 1 << 48
    weights[-1] -= 1 << 48
    with pytest.raises(CertificateError):
        tampered(table, tail=dataclasses.replace(table.tail, weights=weights)).verify()


@pytest.mark.slow
def test_pure_staircase_is_the_known_optimum():
    for loss in ("l1", "l2"):
        for epsilon in (0.5, 1.0, 3.0):
            table = solve(epsilon, 0.0, loss=loss, cache=False)
            best = known.expected_loss("staircase", epsilon, 0.0, loss)
            assert table.lower <= best <= table.upper * (1 + 1e-9)
            assert table.upper <= best * 1.002
    integer = solve(1.0, 0.0, integer_sensitivity=1, cache=False)
    best = known.expected_loss("discrete_laplace", 1.0, 0.0, "l1")
    assert integer.lower <= best <= integer.upper * (1 + 1e-12)
    assert np.isclose(integer.upper, best, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda t: t.delta_at(-1.0), "epsilon"),
        (lambda t: t.delta_at(math.nan), "epsilon"),
        (lambda t: t.delta_at(1.0, 0.0), "shift"),
        (lambda t: t.delta_at(1.0, 1.5), "shift"),
        (lambda t: t.epsilon_at(-0.1), "delta"),
        (lambda t: t.epsilon_at(math.nan), "delta"),
    ],
)
def test_bad_arguments(call, complaint):
    table = solve(1.0, 0.1, gap=0.05, cache=False)
    with pytest.raises(ValueError, match=complaint):
        call(table)

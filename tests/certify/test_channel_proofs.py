"""Proofs about channels: what is true passes, what is not raises."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.certify import channel as proofs
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.model.channel import ChannelProgram
from opendp_optimal.problem.channel import CapRow, ChannelProblem
from opendp_optimal.round import channel as rounding
from opendp_optimal.solvers import run_channel


def line(inputs=4, delta=0.05, epsilon=0.7, revealing=(), cap=None):
    cost = [[abs(x - y) for y in range(inputs)] for x in range(inputs)]
    apart = np.argwhere(np.abs(np.subtract.outer(np.arange(inputs), np.arange(inputs))) == 1)
    exponents = np.full(len(apart), epsilon)
    caps = ()
    if cap is not None:
        caps = tuple(CapRow((x,), [[inputs * c for c in cost[x]]]) for x in range(inputs))
    return ChannelProblem(
        cost, inputs, apart, exponents, exponents, delta, revealing=revealing, caps=caps, cap=cap
    )


def solved(problem):
    program = ChannelProgram.of(problem)
    solution = run_channel(program, tolerance=1e-6)
    weights = rounding.private_rows(program.unfold(solution.weights), problem)
    return weights, rounding.round_prices(solution, program, problem)


def plain_shortfall(weights, problem):
    """By the definition, in fractions."""
    rows = weights.tolist()
    worst = Fraction(0)
    for (x, z), epsilon in zip(problem.pairs.tolist(), problem.low, strict=True):
        growth = Fraction(exp_bounds(float(epsilon))[0], 1 << BITS)
        terms = [
            max(Fraction(0), w - (0 if y in problem.revealing else growth * v))
            for y, (w, v) in enumerate(zip(rows[x], rows[z], strict=True))
        ]
        worst = max(worst, sum(terms))
    return worst / TOTAL


def plain_bound(dual, problem):
    """By the definition, in fractions, without caps."""
    reduced = [[Fraction(c, problem.denominator) for c in row] for row in problem.cost]
    unit = Fraction(1, 2) ** dual.scale
    for r, row in zip(dual.pairs.tolist(), dual.slack.tolist(), strict=True):
        x, z = problem.pairs[r].tolist()
        growth = Fraction(exp_bounds(float(problem.high[r]))[1], 1 << BITS)
        for y, price in enumerate(row):
            reduced[x][y] += price * unit
            if y not in problem.revealing:
                reduced[z][y] -= growth * price * unit
    paid = Fraction(problem.delta) * sum(dual.budget.tolist()) * unit
    return sum(min(row) for row in reduced) - paid


@settings(max_examples=20)
@given(
    st.integers(2, 6), st.sampled_from([0.3, 1e-3, 1e-9, 0.0]), st.floats(0.05, 5.0), st.booleans()
)
def test_proofs_agree_with_the_definitions(inputs, delta, epsilon, tells):
    revealing = (0, inputs - 1) if tells and delta and inputs > 2 else ()
    problem = line(inputs, delta, epsilon, revealing)
    weights, dual = solved(problem)
    proofs.prove_private(weights, problem)
    assert all(sum(row) == TOTAL for row in weights.tolist())
    assert plain_shortfall(weights, problem) <= Fraction(delta)
    bound = proofs.prove_bound(dual, problem)
    assert bound == plain_bound(dual, problem)
    cost = proofs.expected_cost(weights, problem)
    assert bound <= cost
    assert float(cost - bound) <= 2e-4 * max(1e-2, float(cost))


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=8).filter(lambda w: sum(w) > 1e-3))
def test_rounded_rows_add_up(row):
    integers = rounding.round_rows(np.array([row, row[::-1]]))
    assert [sum(r) for r in integers.tolist()] == [TOTAL, TOTAL]
    assert integers.min() >= 0


def test_a_channel_that_is_not_private_is_refused():
    problem = line()
    weights, _ = solved(problem)
    with pytest.raises(CertificateError, match="worst shortfall exceeds delta"):
        proofs.prove_private(weights, replace(problem, delta=0.04))
    identity = rounding.round_rows(np.eye(4))
    with pytest.raises(CertificateError, match="privacy"):
        proofs.prove_private(identity, problem)
    with pytest.raises(CertificateError, match="too far from private"):
        rounding.private_rows(np.eye(4), problem)


def test_weights_that_are_no_distributions_are_refused():
    problem = line()
    weights, _ = solved(problem)
    less = weights.copy()
    less[0, 0] -= 1
    with pytest.raises(CertificateError, match="does not add up"):
        proofs.prove_private(less, problem)
    negative = weights.copy()
    negative[0, 0], negative[0, 1] = -1, negative[0, 1] + negative[0, 0] + 1
    with pytest.raises(CertificateError, match="negative"):
        proofs.prove_private(negative, problem)
    with pytest.raises(CertificateError, match="64-bit integers"):
        proofs.prove_private(weights[:, :-1], problem)


def test_prices_out_of_bounds_are_refused():
    problem = line()
    _, dual = solved(problem)
    room = 61 - int(dual.slack.max()).bit_length()
    for change, words in (
        ({"budget": dual.budget - 1}, "above its budget"),
        ({"slack": -dual.slack}, "negative"),
        ({"pairs": dual.pairs + len(problem.pairs)}, "no pair"),
        ({"pairs": np.zeros_like(dual.pairs)}, "two prices"),
        ({"slack": dual.slack[:, :-1]}, "shape"),
        ({"caps": np.ones(3, np.int64)}, "caps"),
        ({"slack": dual.slack.astype(float)}, "64-bit"),
        ({"scale": 4097}, "scale"),
        ({"scale": -4097}, "scale"),
        ({"slack": dual.slack << room, "budget": dual.budget << room}, "too large"),
    ):
        with pytest.raises(CertificateError, match=words):
            proofs.prove_bound(replace(dual, **change), problem)


def test_larger_units_of_prices_prove_the_same():
    problem = replace(line(), denominator=1)
    _, dual = solved(problem)
    larger = ChannelProblem(
        [[c << 80 for c in row] for row in problem.cost],
        1,
        problem.pairs,
        problem.low,
        problem.high,
        problem.delta,
    )
    moved = replace(dual, scale=dual.scale - 80)
    assert moved.scale < 0
    assert proofs.prove_bound(moved, larger) == proofs.prove_bound(dual, problem) * 2**80


def test_no_prices_prove_that_losses_are_not_negative():
    assert proofs.prove_bound(proofs.no_prices(line()), line()) == 0


def test_caps_are_kept_and_priced():
    free, _ = solved(line(5, 0.05, 1.0))
    losses = [float(v) for v in proofs.cap_values(free, line(5, 0.05, 1.0, cap=Fraction(1)))]
    worst = Fraction(max(losses)) * Fraction(97, 100)
    problem = line(5, 0.05, 1.0, cap=worst)
    weights, dual = solved(replace(problem, cap=worst * (1 - Fraction(1, 10**6))))
    proofs.prove_caps(weights, problem)
    with pytest.raises(CertificateError, match="exceeds the cap"):
        proofs.prove_caps(free, problem)
    bound = proofs.prove_bound(dual, problem)
    cost = proofs.expected_cost(weights, problem)
    assert bound <= cost
    assert float(cost - bound) < 1e-4
    assert float(bound) > float(proofs.expected_cost(free, line(5, 0.05, 1.0))) + 1e-4

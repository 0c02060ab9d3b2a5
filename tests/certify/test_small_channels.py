"""Proofs of channels on small cases, number by number against the definitions."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import channel, noise
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import exp_bounds
from tests.certify.small_laws import ONE, law, random_problem


def rows_of(rng, problem):
    return np.array([law(rng, problem.outputs) for _ in range(problem.inputs)])


@pytest.mark.parametrize("revealing", [(), (0, 3)])
def test_shortfalls_to_the_last_unit(revealing):
    rng = random.Random(f"shortfalls {revealing}")
    for _ in range(40):
        problem = random_problem(rng, revealing=revealing)
        weights = rows_of(rng, problem)
        found = channel.shortfall_units(weights, problem).tolist()
        rows = weights.tolist()
        for r, (x, z) in enumerate(problem.pairs.tolist()):
            low = exp_bounds(min(float(problem.low[r]), 64.0))[0]
            expected = 0
            for y, (mine, other) in enumerate(zip(rows[x], rows[z], strict=True)):
                grown = 0 if y in revealing else min(TOTAL, other * low // ONE)
                expected += max(0, mine - grown)
            assert found[r] == expected


def test_only_a_lower_bound_of_the_exponential_counts(monkeypatch):
    problem = replace(random_problem(random.Random(1)), low=np.ones(6))
    weights = rows_of(random.Random(2), problem)
    with monkeypatch.context() as patch:
        patch.setattr(noise, "exp_bounds", lambda epsilon: (ONE, 1000 * ONE))
        found = channel.shortfall_units(weights, problem)
    as_if_zero = channel.shortfall_units(weights, replace(problem, low=np.zeros(6)))
    assert np.array_equal(found, as_if_zero)


def test_exactly_delta_is_private():
    problem = random_problem(random.Random(1), delta=0.25)
    same = np.array([[TOTAL // 4] * 4] * 3, np.int64)
    apart = same.copy()
    apart[0] = [TOTAL // 2, TOTAL // 4, TOTAL // 4, 0]
    pure = replace(problem, low=np.zeros(6), high=np.zeros(6))
    channel.prove_private(apart, pure)
    apart[0] = [TOTAL // 2 + 1, TOTAL // 4, TOTAL // 4 - 1, 0]
    with pytest.raises(CertificateError, match="exceeds delta"):
        channel.prove_private(apart, pure)


def test_costs_and_caps_by_the_definition():
    rng = random.Random(2)
    for _ in range(20):
        problem = random_problem(rng, caps=3)
        weights = rows_of(rng, problem)
        chance = [[Fraction(w, TOTAL) for w in row] for row in weights.tolist()]
        expected = sum(
            chance[x][y] * Fraction(problem.cost[x][y], 5) for x in range(3) for y in range(4)
        )
        assert channel.expected_cost(weights, problem) == expected
        for wrong in (weights[:, :3], weights[:2]):
            with pytest.raises(ValueError, match="zip"):
                channel.expected_cost(wrong, problem)
        with pytest.raises(ValueError, match="zip"):
            channel.cap_values(weights[:, :3], problem)
        values = [
            sum(
                chance[x][y] * Fraction(costs[y], 5)
                for x, costs in zip(cap.rows, cap.cost, strict=True)
                for y in range(4)
            )
            for cap in problem.caps
        ]
        assert channel.cap_values(weights, problem) == values
        channel.prove_caps(weights, replace(problem, cap=max(values)))
        channel.prove_caps(weights, replace(problem, cap=None))
        if max(values):
            with pytest.raises(CertificateError, match="cap"):
                channel.prove_caps(weights, replace(problem, cap=max(values) * Fraction(99, 100)))
    channel.prove_caps(weights, replace(problem, caps=()))


def random_dual(rng, problem, scale):
    """Prices of some of the pairs, in any order."""
    pairs = rng.sample(range(len(problem.pairs)), rng.randrange(1, 5))
    budget = [rng.randrange(40) for _ in pairs]
    slack = [[rng.randrange(b + 1) for _ in range(problem.outputs)] for b in budget]
    caps = [rng.randrange(5) for _ in problem.caps] if rng.random() < 0.8 else []
    arrays = (np.array(v, np.int64) for v in (pairs, budget, slack, caps))
    return channel.ChannelDual(*arrays, scale)


def plain_bound(dual, problem):
    """The bound by the formula in the module's words, in fractions."""
    unit = Fraction(2) ** -dual.scale
    value = [[Fraction(c, problem.denominator) for c in row] for row in problem.cost]
    prices = dual.caps.tolist()
    for cap, price in zip(problem.caps, prices, strict=False):
        for x, costs in zip(cap.rows, cap.cost, strict=True):
            for y, c in enumerate(costs):
                value[x][y] += price * unit * Fraction(c, problem.denominator)
    for r, slack in zip(dual.pairs.tolist(), dual.slack.tolist(), strict=True):
        x, z = problem.pairs[r].tolist()
        growth = Fraction(exp_bounds(float(problem.high[r]))[1], ONE)
        for y, price in enumerate(slack):
            value[x][y] += price * unit
            value[z][y] -= 0 if y in problem.revealing else growth * price * unit
    paid = Fraction(problem.delta) * sum(dual.budget.tolist()) * unit
    if problem.cap is not None:
        paid += problem.cap * sum(prices) * unit
    return sum(min(row) for row in value) - paid


@pytest.mark.parametrize("caps", [0, 3])
@pytest.mark.parametrize("scale", [4, 0, -3])
@pytest.mark.parametrize("revealing", [(), (1,)])
def test_bounds_by_the_formula(caps, scale, revealing):
    rng = random.Random(f"{caps} {scale} {revealing}")
    for _ in range(40):
        problem = random_problem(rng, caps=caps, revealing=revealing)
        dual = random_dual(rng, problem, scale)
        assert channel.prove_bound(dual, problem) == plain_bound(dual, problem)


def test_prices_that_prove_nothing():
    rng = random.Random(3)
    problem = random_problem(rng, caps=3)

    def dual(pairs=(0, 1), budget=(9, 9), slack=((1, 2, 3, 4),) * 2, caps=(1, 1, 1), scale=3):
        arrays = (np.array(v, np.int64) for v in (pairs, budget, slack, caps))
        return channel.ChannelDual(*arrays, scale)

    channel.prove_bound(dual(), problem)
    channel.prove_bound(dual(caps=()), problem)
    channel.prove_bound(dual(pairs=(0, 5)), problem)
    for change, words in (
        ({"pairs": (0, 6)}, "no pair"),
        ({"pairs": (-1, 2)}, "no pair"),
        ({"pairs": (2, 2)}, "two prices"),
        ({"caps": (1,)}, "caps"),
        ({"caps": (1, 1)}, "caps"),
        ({"caps": (1, -1, 1)}, "negative"),
        ({"slack": ((1, 2, 3, -4), (1, 2, 3, 4))}, "negative"),
        ({"budget": (9, -9)}, "negative"),
        ({"budget": (9, 3)}, "above its budget"),
        ({"slack": ((1, 2, 3),) * 2}, "shape"),
        ({"budget": (9, 9, 9)}, "shape"),
    ):
        with pytest.raises(CertificateError, match=words):
            channel.prove_bound(dual(**change), problem)
    with pytest.raises(CertificateError, match="caps"):
        channel.prove_bound(dual(caps=(1,)), replace(problem, caps=(), cap=None))
    pure = replace(problem, delta=0.0)
    channel.prove_bound(dual(budget=(0, 0)), pure)  # no budget to pay from, none needed
    with pytest.raises(CertificateError, match="delta is 0"):
        channel.prove_bound(dual(budget=(0, 1)), pure)
    for count, largest in ((1, 1 << 58), (2, 1 << 57), (3, 1 << 57), (4, 1 << 56)):
        rows = {"pairs": range(count), "budget": [4 * largest] * count}
        fits = [[largest, 0, 0, 0]] * count
        channel.prove_bound(dual(**rows, slack=fits), problem)
        with pytest.raises(CertificateError, match="large"):
            channel.prove_bound(dual(**rows, slack=[[2 * largest, 0, 0, 0]] * count), problem)
    far = replace(problem, high=np.full(6, 64.0))
    channel.prove_bound(dual(), far)
    beyond = replace(problem, high=np.full(6, 64.5))
    with pytest.raises(CertificateError, match="above 64"):
        channel.prove_bound(dual(), beyond)
    nothing = channel.no_prices(problem)
    assert (len(nothing.pairs), nothing.slack.shape, nothing.scale) == (0, (0, 4), 0)
    least = sum(Fraction(min(row), 5) for row in problem.cost)
    assert channel.prove_bound(nothing, problem) == least


def test_rows_that_are_no_distribution():
    rng = random.Random(4)
    problem = random_problem(rng, delta=1.0)
    good = rows_of(rng, problem)
    channel.prove_private(good, problem)
    negative = good.copy()
    negative[1] = [-1, TOTAL + 1, 0, 0]
    for bad, words in (
        (good.astype(np.int32), "64-bit"),
        (good[:2], "64-bit"),
        (good[:, :3], "64-bit"),
        (negative, "negative"),
        (good + np.array([[0, 0, 0, 1], [0] * 4, [0] * 4]), "add up"),
    ):
        with pytest.raises(CertificateError, match=words):
            channel.prove_private(bad, problem)

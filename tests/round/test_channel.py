"""From floats to integers, for channels: what rounding promises, whatever its heuristics do."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import channel
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution
from opendp_optimal.problem.channel import CapRow, ChannelProblem
from opendp_optimal.round import channel as rounding
from tests.certify.small_laws import random_problem


def test_rounded_rows_are_never_above_their_share():
    weights = np.array([[0.9, 0.06, 0.04 - 1e-25, 1e-25], [3.0, -1.0, 1.0, 0.0]])
    found = rounding.round_rows(weights)
    for row, given in zip(found.tolist(), np.maximum(weights, 0.0).tolist(), strict=True):
        exact = [Fraction(w) / sum(map(Fraction, given)) * TOTAL for w in given]
        assert sum(row) == TOTAL
        assert row[0] == max(row) >= exact[0] * (1 - Fraction(1, 2**49))
        for value, share in zip(row[1:], exact[1:], strict=True):
            assert share * (1 - Fraction(1, 2**49)) - 1 < value <= share


def near(problem, part):
    """A channel that is private but for a part of delta, and its mixing row."""
    weights = np.full((problem.inputs, problem.outputs), 0.25)
    weights[0] = [0.25 + part, 0.25, 0.25, 0.25 - part]
    common = weights.mean(axis=0) + weights.max(axis=0)
    return weights, common / common.sum()


def flat(delta):
    problem = random_problem(random.Random(5), delta=delta)
    return replace(problem, low=np.zeros(6), high=np.zeros(6))


def test_rows_are_repaired_a_little_or_refused():
    problem = flat(0.125)
    exact, _ = near(problem, 0.125 - 1e-12)
    assert np.array_equal(rounding.private_rows(exact, problem), rounding.round_rows(exact))
    assert np.array_equal(
        rounding.private_rows(exact, problem, largest_mix=0.0), rounding.round_rows(exact)
    )
    for part in (1e-14, 1e-9, 1e-5):
        weights, _ = near(problem, 0.125 + part)
        found = rounding.private_rows(weights, problem)
        channel.prove_private(found, problem)
        assert np.abs(found / TOTAL - weights).max() <= 100 * part
    weights, _ = near(problem, 0.14)
    with pytest.raises(CertificateError, match="too far"):
        rounding.private_rows(weights, problem)  # a mixture of a tenth would do
    rounding.private_rows(weights, problem, largest_mix=1.0)


def mirrored_problem(inputs=4, delta=0.0, epsilon=0.5, revealing=()):
    cost = [[abs(x - y) for y in range(inputs)] for x in range(inputs)]
    pairs = np.array([(x, z) for x in range(inputs) for z in range(inputs) if abs(x - z) == 1])
    exponents = np.full(len(pairs), epsilon)
    problem = ChannelProblem(cost, 1, pairs, exponents, exponents, delta, revealing=revealing)
    assert problem.mirrored
    return problem


def test_mixing_keeps_mirror_images():
    problem = replace(mirrored_problem(4, 0.125), low=np.zeros(6), high=np.zeros(6))
    row = np.array([0.375 + 1e-9, 0.25, 0.25, 0.125 - 1e-9])
    weights = np.array([row, [0.25] * 4, [0.25] * 4, row[::-1]])
    found = rounding.private_rows(weights, problem)
    channel.prove_private(found, problem)
    off = np.abs(found - found[::-1, ::-1]).max()
    assert off <= 2**13  # but for what the largest entry takes up
    told = replace(mirrored_problem(4, 0.25, revealing=(0, 3)), low=np.zeros(6), high=np.zeros(6))
    row = np.array([0.25 + 1e-12, 0.5 - 1e-12, 0.25 - 1e-12, 1e-12])
    weights = np.array([row, [0.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.5, 0.0], row[::-1]])
    found = rounding.private_rows(weights, told)
    channel.prove_private(found, told)
    assert not found[1:3, [0, 3]].any()  # revealing outputs are not mixed in


@pytest.mark.parametrize("mirrored", [False, True])
def test_lifted_rows_are_private_and_add_up(mirrored):
    rng = np.random.default_rng(6)
    for _ in range(20):
        problem = mirrored_problem(5, 0.0, float(rng.uniform(0.3, 1.5)))
        if not mirrored:
            between = [*rng.uniform(0.2, 1.5, 3).tolist(), 0.0]  # one pair is not told apart
            low = np.array([between[min(x, z)] for x, z in problem.pairs.tolist()])
            problem = replace(problem, low=low, high=low)
        weights = rng.dirichlet(np.ones(5) * 0.5, 5)
        weights[:, 2] = 2.0**-37  # dust
        weights[:, 4] = 2.0**-36  # just not
        weights[0, 0] -= 2.0  # a solver's slip
        if mirrored:
            weights = (weights + weights[::-1, ::-1]) / 2
        found = rounding._lifted(weights, problem)
        first, second = problem.pairs.T
        assert np.all(found[first] <= np.exp(problem.low)[:, None] * found[second] * (1 + 1e-12))
        assert found.sum(axis=1) == pytest.approx(np.ones(5), rel=1e-12)


def test_pure_channels_are_lifted_before_they_are_rounded():
    problem = mirrored_problem(4, 0.0, 0.5)
    weights = np.eye(4) * 0.2 + 0.2
    found = rounding.private_rows(weights, problem)
    channel.prove_private(found, problem)
    lifted = rounding._lifted(weights, problem)
    assert np.abs(found / TOTAL - lifted).max() < 1e-9
    # Where delta is not 0, nothing is lifted.
    loose = replace(problem, delta=0.4)
    assert np.array_equal(rounding.private_rows(weights, loose), rounding.round_rows(weights))


def solution(budget, slack, caps=(), dual=1.0):
    arrays = [np.array(v, float) for v in (budget, slack, caps)]
    return ChannelSolution(np.zeros((0, 0)), *arrays, dual, dual, 0.0, "optimal")


def test_rounded_prices():
    problem = replace(random_problem(random.Random(7)), high=np.array([1.0, 64.0, 65.0, 1, 1, 1]))
    program = ChannelProgram.of(problem)
    slack = [
        [0.3, 0.9, -0.5, 0.1],
        [0.2, 0.1, 0.0, 0.7],
        [0.5, 0.5, 0.5, 0.5],
        [0.0, 0.0, 1e-15, 0.0],
        [0.1 + 1e-13, 0.2, 0.3, 0.4],
        [0.0, 0.0, -1.0, 0.0],
    ]
    budget = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    for value in (0.37, 1.0, 5.3, -5.3):
        found = rounding.round_prices(solution(budget, slack, dual=value), program, problem)
        assert found.pairs.tolist() == [0, 1, 3, 4]  # no price, or a growth beyond proof
        kept, unit = [0, 1, 3, 4], 2.0**found.scale
        clipped = np.clip(np.array(slack)[kept], 0.0, np.array(budget)[kept, None])
        assert np.array_equal(found.slack, np.floor(clipped * unit))
        assert np.array_equal(found.budget, found.slack.max(axis=1))
        channel.prove_bound(found, problem)
    # Without delta there is no budget, and no bound on the terms.
    pure = replace(problem, delta=0.0)
    found = rounding.round_prices(solution(budget, slack), ChannelProgram.of(pure), pure)
    assert not found.budget.any()
    assert found.slack[0, 1] == math.floor(0.9 * 2.0**found.scale)


@pytest.mark.parametrize("size", [1e-30, 1.0, 3e9, 1e300])
@pytest.mark.parametrize("value", [0.0, 1e-30, 1.0])
def test_prices_of_any_size_can_be_added_exactly(size, value):
    problem = random_problem(random.Random(8), caps=1)
    slack = np.zeros((6, 4))
    slack[:3, 0] = [1.0 * size, 0.3 * size, 0.7 * size]
    given = solution([2 * size] * 6, slack, caps=[size], dual=value)
    found = rounding.round_prices(given, ChannelProgram.of(problem), problem)
    channel.prove_bound(found, problem)


def test_prices_of_folded_programmes_go_to_both_images():
    problem = mirrored_problem(5, 0.1)
    program = ChannelProgram.of(problem)
    assert program.folded
    rng = np.random.default_rng(9)
    count = len(program.first)
    given = solution(rng.uniform(1, 2, count), rng.uniform(0, 1, (count, 5)))
    slack = rounding._unfold_prices(given.slack_price, program, problem)
    assert len(slack) == len(problem.pairs)
    assert slack.sum() == pytest.approx(given.slack_price.sum())
    index = {tuple(p): r for r, p in enumerate(problem.pairs.tolist())}
    for (x, z), r in index.items():
        image = index[4 - x, 4 - z]
        assert np.array_equal(slack[r], slack[image][::-1])
    # The same bound, by weak duality at any channel that is its own mirror image.
    p = rng.dirichlet(np.ones(5), len(program.cost))
    p[-1] = (p[-1] + p[-1][::-1]) / 2
    whole = program.unfold(p)
    folded = float((given.slack_price * program.terms(p)).sum())
    p_first, p_second = whole[problem.pairs[:, 0]], whole[problem.pairs[:, 1]]
    growth = np.exp(problem.high)[:, None]
    assert float((slack * (p_first - growth * p_second)).sum()) == pytest.approx(folded)
    flat_program = ChannelProgram.of(replace(problem, cost=[[1, 2, 3, 4, 5]] * 5))
    assert not flat_program.folded


def test_prices_of_caps():
    inputs = 4
    base = mirrored_problem(inputs, 0.1)
    single = tuple(CapRow((x,), [[abs(x - y) for y in range(4)]]) for x in range(4))
    problem = replace(base, caps=single, cap=Fraction(1))
    program = ChannelProgram.of(problem)
    assert program.folded
    given = solution([], [], caps=[0.4, 0.6])
    found = rounding._unfold_caps(given, program, problem)
    order = [int(np.flatnonzero(row.any(axis=1))[0]) for row in program.caps]
    expected = np.zeros(4)
    for x, price in zip(order, (0.4, 0.6), strict=True):
        expected[x] += price / 2
        expected[3 - x] += price / 2
    assert np.allclose(found, expected)
    skew = replace(problem, cost=[[1, 2, 3, 4]] * 4)
    program = ChannelProgram.of(skew)
    assert not program.folded
    prices = [0.1, 0.2, 0.3, 0.4]
    order = [int(np.flatnonzero(row.any(axis=1))[0]) for row in program.caps]
    found = rounding._unfold_caps(solution([], [], caps=prices), program, skew)
    assert [found[x] for x in order] == prices
    assert not rounding._unfold_caps(solution([], []), program, skew).any()
    joint = replace(skew, caps=(*single[:3], CapRow((0, 3), [[1, 2, 3, 4]] * 2)))
    assert not rounding._unfold_caps(
        solution([], [], caps=prices), ChannelProgram.of(joint), joint
    ).any()
    rounded = rounding.round_prices(
        solution([1.0] * 6, np.full((6, 4), 0.1), caps=[-1.0, 0.2, 0.3, 0.4]), program, skew
    )
    expected = [0.0] * 4
    for x, price in zip(order, (0.0, 0.2, 0.3, 0.4), strict=True):
        expected[x] = price
    assert np.array_equal(rounded.caps, np.rint(np.array(expected) * 2.0**rounded.scale))

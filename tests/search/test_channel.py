"""The general channel solver: metric privacy, any prior and loss."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opendp_optimal import CertificateError, solve_channel
from opendp_optimal.problem.metric import direct_pairs


def distances(count):
    return np.abs(np.subtract.outer(np.arange(count), np.arange(count))).astype(float)


def geometric(count, epsilon):
    """The truncated geometric mechanism on 0..count-1."""
    a = math.exp(-epsilon)
    law = a ** distances(count) * (1 - a) / (1 + a)
    law[:, [0, -1]] /= 1 - a
    return law


def remapped(prior, loss, channel):
    """Expected loss of the best decision for every output."""
    return float((loss @ (prior[:, None] * channel)).min(axis=0).sum())


@settings(max_examples=25)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=9).filter(lambda w: sum(w) > 0.1),
    st.floats(0.1, 4.0),
    st.sampled_from([1.0, 2.0, 0.5]),
)
@example([0.5, 1.0, 0.125, 0.0, 0.0, 0.375, 0.625, 0.8125, 0.5625], 0.78125, 1.0)  # dust
@example([1e-38, 1.0, 0.0], 1.0, 1.0)  # a mirror image only once costs are rounded
def test_the_geometric_mechanism_is_optimal_for_every_prior(weights, epsilon, power):
    """Ghosh, Roughgarden, Sundararajan: LP optimum = geometric noise and the best remap."""
    prior = np.array(weights) / sum(weights)
    line = distances(len(prior))
    loss = line**power
    table = solve_channel(prior, loss, epsilon, line)
    best = remapped(prior, loss, geometric(len(prior), epsilon))
    assert table.lower <= best * (1 + 1e-9) + 1e-12
    assert table.upper == pytest.approx(best, rel=1e-5, abs=1e-9)
    assert table.lower == pytest.approx(best, rel=1e-5, abs=1e-7)
    table.verify()


def test_thirty_one_inputs():
    draw = np.random.default_rng(7)
    prior = draw.dirichlet(np.ones(31))
    table = solve_channel(prior, distances(31), 1.0, distances(31))
    best = remapped(prior, distances(31), geometric(31, 1.0))
    assert table.upper == pytest.approx(best, rel=1e-6)
    assert table.gap < 1e-6
    assert table.channel.sum(axis=1) == pytest.approx(np.ones(31))
    assert 0 <= table.draw(3) < 31


def test_neighbours_and_delta():
    line = distances(4)
    neighbours = np.where(line <= 1, line, np.inf)
    table = solve_channel([0.25] * 4, line, 1.0, neighbours, delta=0.1)
    pure = solve_channel([0.25] * 4, line, 1.0, neighbours)
    assert table.upper < pure.lower
    assert table.gap < 1e-3
    assert "4 x 4" in repr(table)


def test_inputs_at_distance_zero_have_the_same_row():
    metric = distances(5)
    metric[0, 1] = metric[1, 0] = 0
    metric[0], metric[:, 0] = metric[1], metric[:, 1]
    loss = np.abs(np.subtract.outer(np.arange(3) * 2.0, np.arange(5)))
    table = solve_channel([0.2] * 5, loss, 1.0, metric)
    assert np.array_equal(table.weights[0], table.weights[1])
    assert table.gap < 1e-6
    # With delta, inputs at distance 0 may still differ by it.
    near = solve_channel([0.5, 0.5], distances(2), 1.0, np.zeros((2, 2)), delta=0.5)
    assert near.lower <= 0.25 <= near.upper
    assert near.gap < 1e-4
    # Members of a group are as far from others as the nearest of them.
    apart = [[0, 0, 9], [0, 0, 1], [9, 1, 0]]
    joined = solve_channel([0.4, 0.2, 0.4], 1 - np.eye(3), 1.0, apart)
    assert joined.gap < 1e-6
    far = np.full((2, 2), np.inf)
    assert solve_channel([0.5, 0.5], distances(2), 1.0, far).upper == 0


def test_negative_losses_and_tampering():
    line = distances(3)
    table = solve_channel([0.2, 0.3, 0.5], line - 5, 1.0, line)
    assert -5 < table.lower <= table.upper < -4
    assert table.upper - table.lower < 1e-6
    assert table.gap == math.inf
    object.__setattr__(table, "lower", table.upper + 1e-3)
    with pytest.raises(CertificateError, match="prices prove"):
        table.verify()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prior": [0.5, 0.6, 0.1]}, "prior must not be negative and must add up to 1"),
        ({"prior": [[0.5]]}, "prior .* must have 1 dimensions"),
        ({"loss": np.ones((2, 4))}, r"loss \(of shape \(2, 4\)\) must have a column for each of"),
        ({"loss": np.full((3, 3), np.nan)}, "loss must be finite"),
        ({"loss": "x"}, "loss must be numbers"),
        ({"loss": np.ones((18000, 3))}, "makes a programme of 54000 weights"),
        ({"metric": np.ones((2, 3))}, "metric .* must be 3 x 3"),
        ({"metric": -np.ones((3, 3))}, "metric must not be negative"),
        ({"epsilon": 0}, r"epsilon \(0\) must be in"),
        ({"delta": 2}, r"delta \(2\) must be 0 or in"),
        ({"method": "x"}, r"method \('x'\)"),
    ],
)
def test_bad_input(changes, words):
    options = {"prior": [0.2, 0.3, 0.5], "loss": distances(3), "epsilon": 1.0}
    options["metric"] = distances(3)
    with pytest.raises(ValueError, match=words):
        solve_channel(**{**options, **changes})


def test_numbers_are_taken_exactly():
    third = Fraction(1, 3)
    line = [[Fraction(abs(x - z), 3) for z in range(3)] for x in range(3)]
    table = solve_channel([third] * 3, line, Fraction(7, 10), line)
    assert table.request.prior == (third,) * 3
    assert table.request.epsilon == Fraction(7, 10)
    assert table.above.cost == table.below.cost
    assert table.gap < 1e-6


@pytest.mark.parametrize("power", [-400, -150, 0, 150, 290])
def test_losses_of_any_size(power):
    """Doubling a loss doubles its bounds, as far as floats go."""
    unit = Fraction(2) ** power
    line = [[abs(x - z) for z in range(4)] for x in range(4)]
    plain = solve_channel([0.25] * 4, line, 1.0, line)
    table = solve_channel([0.25] * 4, [[unit * v for v in row] for row in line], 1.0, line)
    assert np.array_equal(table.weights, plain.weights)
    assert (table.lower, table.upper) == (plain.lower * 2.0**power, plain.upper * 2.0**power)
    with pytest.raises(
        ValueError, match=r"loss \(times prior, up to about 1e399\) must be at most"
    ):
        solve_channel([0.5, 0.5], [[0, 10**400], [10**400, 0]], 1.0, [[0, 1], [1, 0]])


@given(st.integers(2, 6), st.randoms(use_true_random=False), st.booleans())
def test_direct_pairs_imply_all_others(size, random, whole):
    numbers = [random.randint(0, 6) if whole else Fraction(random.randint(0, 40), 7) for _ in "abc"]
    table = [
        [0 if x == z else random.choice([*numbers, math.inf]) for z in range(size)]
        for x in range(size)
    ]
    kept = set(direct_pairs(table))
    shortest = [
        [0 if x == z else table[x][z] if (x, z) in kept else math.inf for z in range(size)]
        for x in range(size)
    ]
    for y in range(size):
        for x in range(size):
            for z in range(size):
                shortest[x][z] = min(shortest[x][z], shortest[x][y] + shortest[y][z])
    assert all(shortest[x][z] <= table[x][z] for x in range(size) for z in range(size))
    # None can be left out: no path of two positive steps is as short.
    for x, z in kept:
        assert table[x][z] < math.inf
        assert not any(
            table[x][y] > 0 < table[y][z] and table[x][y] + table[y][z] <= table[x][z]
            for y in range(size)
            if y not in (x, z)
        )

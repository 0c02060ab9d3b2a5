"""The general channel solver: metric privacy, any prior and loss."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opendp_optimal import CertificateError, solve_channel


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
        ({"loss": np.ones((9000, 3))}, "makes a programme of 27000 weights"),
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

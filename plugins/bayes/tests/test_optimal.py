"""The certified optimum for one consumer."""

import copy
import math
import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import solve_channel
from opendp_optimal.certify.channel import no_prices
from opendp_optimal.errors import CertificateError
from opendp_optimal_bayes import (
    OptimalChannel,
    geometric_channel,
    loss_matrix,
    make_optimal_channel,
    optimal_channel,
    then_optimal_channel,
)


def test_the_channel_is_private_and_its_loss_is_the_upper_bound():
    prior = [Fraction(1, 4), Fraction(1, 2), Fraction(1, 4)]
    loss = loss_matrix("l2", range(3))
    best = optimal_channel(prior=prior, loss=loss, epsilon=0.75)
    assert best.channel.epsilon() <= 0.75
    assert float(best.channel.raw_loss(prior, loss)) == pytest.approx(best.upper, rel=1e-12)
    assert best.channel.exact_loss(prior, loss) <= Fraction(best.upper)
    best.verify()


def test_other_metrics():
    # Everyone at distance 1: k-ary randomised response for the Bayes risk.
    size, epsilon = 5, 1.3
    everyone = [[int(x != z) for z in range(size)] for x in range(size)]
    best = optimal_channel(
        prior=[0.2] * size,
        loss=[[int(w != x) for x in range(size)] for w in range(size)],
        epsilon=epsilon,
        metric=everyone,
    )
    truth = math.exp(epsilon) / (math.exp(epsilon) + size - 1)
    assert best.upper == pytest.approx(1 - truth, rel=1e-6)
    assert best.channel.epsilon(everyone) <= epsilon
    # Answers at distance 0 cannot be told apart.
    blind = optimal_channel(
        prior=[0.5, 0.5], loss=[[0, 1], [1, 0]], epsilon=1.0, metric=lambda x, z: 0
    )
    assert blind.upper == pytest.approx(0.5)
    assert blind.channel.rows[0] == blind.channel.rows[1]


def test_more_actions_than_answers_and_fewer():
    prior = [0.3, 0.3, 0.4]
    halves = optimal_channel(
        prior=prior, loss=loss_matrix("l2", range(3), [0, 0.5, 1, 1.5, 2]), epsilon=1.0
    )
    whole = optimal_channel(prior=prior, loss=loss_matrix("l2", range(3)), epsilon=1.0)
    assert halves.upper <= whole.upper * (1 + 1e-9)
    one = optimal_channel(prior=prior, loss=[[1, 2, 3]], epsilon=1.0)
    assert one.upper == pytest.approx(0.3 + 0.6 + 1.2)
    assert one.gap < 1e-9


def test_more_privacy_never_costs_less():
    prior, loss = [0.1, 0.2, 0.3, 0.4], loss_matrix("l1", range(4))
    losses = [optimal_channel(prior=prior, loss=loss, epsilon=e).lower for e in (0.1, 0.5, 1, 2)]
    assert losses == sorted(losses, reverse=True)


def test_awkward_numbers_are_covered_by_the_bounds():
    prior = [Fraction(1, p) for p in (3, 5, 7, 11, 13)]
    prior.append(1 - sum(prior))
    loss = [[abs(w - x) ** 0.7 / (x + 3) for x in range(6)] for w in range(6)]
    best = optimal_channel(prior=prior, loss=loss, epsilon=0.9)
    exact = geometric_channel(5, epsilon=0.9).exact_loss(prior, loss)
    assert Fraction(best.lower) <= exact
    assert best.gap < 1e-6


def tampered(optimum, **changes):
    """The same with other fields of its table, its request or its prices."""
    table = optimum.table
    request = {k: changes.pop(k) for k in list(changes) if hasattr(table.request, k)}
    if request:
        changes["request"] = replace(table.request, **request)
    return replace(optimum, table=replace(table, **changes))


def test_a_certificate_that_was_tampered_with_is_refused():
    best = optimal_channel(prior=[0.5, 0.5], loss=[[0, 1], [1, 0]], epsilon=1.0)
    identity = np.diag([1 << 62, 1 << 62])
    with pytest.raises(CertificateError, match="privacy"):
        tampered(best, weights=identity).verify()
    with pytest.raises(CertificateError, match="privacy"):
        tampered(best, epsilon=Fraction(1, 2)).verify()
    with pytest.raises(CertificateError, match="is not what the prices prove"):
        tampered(best, epsilon=Fraction(2)).verify()
    with pytest.raises(CertificateError, match="delta"):
        tampered(best, delta=0.5, weights=identity).verify()
    with pytest.raises(CertificateError, match="is not what the prices prove"):
        tampered(best, dual=no_prices(best.table.above)).verify()
    with pytest.raises(CertificateError, match="lower"):
        tampered(best, lower=best.upper + 5).verify()
    with pytest.raises(CertificateError, match="is not the expected loss"):
        tampered(best, loss=((Fraction(0), Fraction(2)), (Fraction(2), Fraction(0)))).verify()
    with pytest.raises(CertificateError, match="not a ChannelTable"):
        replace(best, table=None).verify()
    far = math.inf
    with pytest.raises(CertificateError, match="price"):
        tampered(best, distances=((0, far), (far, 0))).verify()
    best.verify()


def test_delta_cannot_be_written_into_an_optimum():
    best = optimal_channel(prior=[0.5, 0.5], loss=[[0, 1], [1, 0]], epsilon=1.0)
    object.__setattr__(best.table.request, "delta", 1.0)
    object.__setattr__(best.table, "weights", np.diag([1 << 62, 1 << 62]))
    with pytest.raises(CertificateError, match="delta"):
        best.verify()
    pretended = solve_channel([0.5, 0.5], [[0, 1], [1, 0]], 1.0, [[0, 1], [1, 0]], delta=0.25)
    with pytest.raises(CertificateError, match=r"delta \(0.25\) is not 0"):
        OptimalChannel(pretended).verify()


def test_epsilon_as_a_fraction(integers):
    best = optimal_channel(
        prior=[Fraction(1, 3)] * 3, loss=loss_matrix("l1", range(3)), epsilon=Fraction(1, 3)
    )
    assert best.epsilon == Fraction(1, 3)
    assert Fraction(best.channel.epsilon()) <= Fraction(1, 3) + Fraction(1, 2**50)
    meas = make_optimal_channel(*integers, best)
    assert Fraction(meas.map(1)) >= Fraction(1, 3)
    assert meas.map(2) == pytest.approx(2 / 3)
    half = optimal_channel(prior=[0.5, 0.5], loss=[[0, 1], [1, 0]], epsilon=Fraction(1, 2))
    assert isinstance(half.epsilon, float)


@pytest.mark.parametrize(
    "copied", [lambda v: v, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))]
)
def test_nobody_writes_to_what_was_proved(copied):
    best = optimal_channel(prior=[0.5, 0.5], loss=[[0, 1], [1, 0]], epsilon=1.0)
    assert best.channel.matrix.shape == (2, 2)
    other = copied(best)
    other.verify()
    for array in (
        other.weights,
        other.table.dual.slack,
        other.channel.matrix,
        copied(best.channel).matrix,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)


def test_releases(integers):
    prior = [0.4, 0.3, 0.2, 0.1]
    best = optimal_channel(prior=prior, loss=loss_matrix("l1", range(4)), epsilon=1.0)
    meas = make_optimal_channel(*integers, best, lo=10)
    assert [meas.map(d) for d in (0, 1, 2, 3, 50)] == [0.0, 1.0, 2.0, 3.0, 3.0]
    counted = Counter(meas(11) for _ in range(4000))
    for y, chance in enumerate(best.channel.matrix[1]):
        # 5.5 standard deviations: false alarms once in ten million runs.
        assert abs(counted[10 + y] - 4000 * chance) <= 5.5 * math.sqrt(4000 * chance + 1)
    named = integers >> then_optimal_channel(best, actions=["none", "few", "some", "many"])
    assert named(2) in {"none", "few", "some", "many"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior": [0.5, 0.6]}, "prior must add up to 1, not to 1.1"),
        ({"prior": [1]}, r"prior \(of length 1\) must have at least 2 chances"),
        ({"loss": [[0, 1, 2]]}, r"loss \(of shape \(1, 3\)\) must have a column for each"),
        ({"epsilon": 0}, r"epsilon \(0\) must be in \(0, 64\]"),
        ({"epsilon": 100}, r"epsilon \(100\) must be in \(0, 64\]"),
        ({"metric": [[0, 1], [2, 0]]}, "metric must be symmetric"),
        ({"metric": [[0, 100], [100, 0]]}, "must be at most 64"),
    ],
)
def test_bad_input(change, message):
    good = {"prior": [0.5, 0.5], "loss": [[0, 1], [1, 0]], "epsilon": 1.0}
    with pytest.raises(ValueError, match=message):
        optimal_channel(**{**good, **change})


def test_bad_releases(integers, line):
    best = optimal_channel(prior=[0.5, 0.5], loss=[[0, 1], [1, 0]], epsilon=1.0)
    with pytest.raises(ValueError, match="must hold single integers"):
        make_optimal_channel(*line, best)
    with pytest.raises(ValueError, match="must come from optimal_channel"):
        make_optimal_channel(*integers, [[1]])
    with pytest.raises(ValueError, match=r"actions \(of length 1\) must be 2"):
        make_optimal_channel(*integers, best, actions=["a"])
    small = dp.atom_domain(T="u8"), dp.absolute_distance(T="u32")
    with pytest.raises(ValueError, match="must leave room"):
        make_optimal_channel(*small, best, lo=255)


@pytest.mark.parametrize("size", [50, 200])
def test_many_answers_are_solved_with_progress(size):
    lines = []
    best = optimal_channel(
        prior=[Fraction(1, size)] * size,
        loss=loss_matrix("l1", range(size)),
        epsilon=0.5,
        progress=lines.append,
    )
    assert len(lines) > 1
    assert best.lower <= best.upper <= best.lower * (1 + 1e-6)
    best.verify()

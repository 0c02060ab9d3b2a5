"""Remapping: the best decision, the same privacy."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import Loss, make_optimal_noise
from opendp_optimal.exact.numbers import exp_down
from opendp_optimal.extend import known
from opendp_optimal_bayes import (
    clamp,
    geometric_channel,
    law_of,
    loss_matrix,
    make_bounded_geometric,
    make_bounded_laplace,
    optimal_channel,
    remap,
)
from opendp_optimal_bayes.grid import Law
from opendp_optimal_bayes.remapping import decision_rule, prior_weights


def test_printed_gains(golden, integers):
    for hi, epsilon, _, clamped, remapped in golden["measured"]["rows"]:
        meas = make_bounded_geometric(*integers, 0, hi, epsilon)
        rule = (meas >> remap(loss="l1")).rule
        assert rule.before == pytest.approx(clamped, abs=6e-4)
        assert rule.after == pytest.approx(remapped, abs=6e-4)


def test_the_privacy_map_is_the_same(integers):
    meas = make_bounded_geometric(*integers, 0, 9, 0.3)
    best = meas >> remap([0.1] * 10, "l2")
    assert [best.map(d) for d in (1, 2, 5)] == [meas.map(d) for d in (1, 2, 5)]
    assert str(best.output_measure) == str(meas.output_measure)


def test_releases_are_the_decisions(integers):
    meas = make_bounded_geometric(*integers, 10, 14, 0.5)
    best = meas >> remap([0.0, 0.0, 1.0, 0.0, 0.0])  # she knows already
    assert {best(x) for x in (10, 12, 14) for _ in range(10)} == {12}
    assert best.rule.after == 0.0
    assert isinstance(best(11), int)


@settings(max_examples=30)
@given(
    st.integers(1, 12),
    st.floats(0.05, 4.0),
    st.sampled_from(["l1", "l2", "pinball:0.8"]),
    st.integers(0, 2**32),
)
def test_deciding_is_never_worse_and_agrees_with_channels(n, epsilon, loss, seed):
    prior = np.random.default_rng(seed).dirichlet(np.ones(n + 1)).tolist()
    rule = decision_rule(law(n, epsilon), prior, loss)
    assert rule.after <= rule.before + 1e-12
    channel = geometric_channel(n, epsilon=epsilon)
    table = loss_matrix(loss, range(n + 1))
    assert rule.after == pytest.approx(channel.expected_loss(prior, table), abs=1e-9)
    assert rule.before == pytest.approx(channel.raw_loss(prior, table), abs=1e-9)


def law(n, epsilon):
    return Law(Fraction(0), Fraction(n), True, known.Geometric(epsilon))


def test_no_private_mechanism_does_better(integers):
    prior = [0.4, 0.05, 0.05, 0.1, 0.1, 0.3]
    rule = (make_bounded_geometric(*integers, 0, 5, 0.8) >> remap(prior)).rule
    best = optimal_channel(prior=prior, loss=loss_matrix("l1", range(6)), epsilon=0.8)
    assert best.lower <= rule.after * (1 + 1e-12)
    assert rule.after <= best.upper * (1 + 1e-9)


def test_continuous_priors(line):
    meas = make_bounded_laplace(*line, 0.0, 1.0, 3.0)
    flat = (meas >> remap(loss="l2")).rule
    peaked = (meas >> remap(lambda x: math.exp(-50 * (x - 0.3) ** 2), "l2")).rule
    histogram = (meas >> remap([0.0, 1.0, 0.0, 0.0], "l2")).rule
    assert flat.after < flat.before
    assert peaked.after < flat.after
    # Uniform on [1/4, 1/2] and then some information: below its variance.
    assert histogram.after < 1 / 16 / 12
    assert all(0.25 <= a <= 0.5 for a in histogram.decisions)


def test_continuous_loss_against_quadrature(line):
    # Without a remap: the mean |clamped noise| for the uniform prior, integrated by hand.
    epsilon = 2.0
    x = (np.arange(2000) + 0.5) / 2000
    exact = np.mean((2 - np.exp(-epsilon * x) - np.exp(-epsilon * (1 - x))) / (2 * epsilon))
    rule = (make_bounded_laplace(*line, 0.0, 1.0, epsilon) >> remap()).rule
    assert rule.before == pytest.approx(exact, rel=1e-3)


def test_actions_and_functions(integers):
    meas = make_bounded_geometric(*integers, 0, 9, 0.5)
    prior = [0.1] * 10
    alarm = meas >> remap(
        prior, lambda w, x: 5.0 * (x >= 7) if w == 0 else 1.0 * (x < 7), actions=[0, 1]
    )
    assert alarm(9) in (0, 1)
    assert list(alarm.rule.decisions) == sorted(alarm.rule.decisions)
    table = meas >> remap(prior, loss_matrix("l1", range(10)))
    named = meas >> remap(prior, "l1")
    assert table.rule.decisions == named.rule.decisions
    custom = meas >> remap(prior, Loss(lambda e: abs(e) ** 1.5, "three halves"))
    assert custom.rule.after < custom.rule.before


def test_after_native_and_optimised_noise(integers, line):
    bounds = (0, 20)
    laplace = dp.m.make_laplace(*integers, scale=5.0)
    geometric = make_bounded_geometric(*integers, 0, 20, 0.2)
    same = (laplace >> remap(bounds=bounds)).rule
    assert same.after == pytest.approx((geometric >> remap()).rule.after, abs=1e-12)
    best = make_optimal_noise(*integers, 1, (0.2, 1e-3)) >> remap(bounds=bounds)
    assert best.rule.after < same.after
    assert best.map(1) == (0.2, 1e-3)
    assert best(3) in range(21)
    real = make_optimal_noise(*line, 1.0, (0.5, 1e-2)) >> remap(loss="l2", bounds=(0.0, 5.0))
    assert real.rule.after < real.rule.before
    gauss = dp.m.make_gaussian(*line, scale=2.0) >> remap(loss="l2", bounds=(0.0, 5.0))
    assert 0 <= gauss(2.0) <= 5


def test_behind_a_transformation():
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    count = space >> dp.t.then_count() >> dp.m.then_laplace(2.0)
    best = count >> remap(bounds=(0, 30))
    assert best.map(1) == 0.5
    assert best(["x"] * 4) in range(31)


def test_large_integers_stay_exact():
    space = dp.atom_domain(T="u64"), dp.absolute_distance(T="u64")
    lo = 2**63 + 1
    best = make_bounded_geometric(*space, lo, lo + 4, 1.0) >> remap([0.1, 0.1, 0.6, 0.1, 0.1])
    assert best(lo + 2) in range(lo, lo + 5)


def test_gaussian_law_is_a_distribution():
    for noise in (known.DiscreteGaussian(3.0), known.Gaussian(3.0)):
        gauss = Law(Fraction(0), Fraction(10), noise.integer, noise)
        assert np.allclose(gauss.matrix.sum(axis=1), 1.0)
        assert gauss.matrix.min() >= 0
        assert gauss.place(-1e9) == 0
        assert gauss.place(1e9) == len(gauss.observations) - 1


def test_a_remap_waits():
    waiting = remap()
    assert "waiting" in repr(waiting)
    with pytest.raises(TypeError, match="waits for its mechanism"):
        waiting(5)
    with pytest.raises(TypeError, match="waits for its mechanism"):
        waiting.map(1)
    with pytest.raises(ValueError, match="goes after a measurement"):
        5 >> waiting


@pytest.mark.parametrize(
    ("prior", "loss", "message"),
    [
        ([0.5, 0.5], "l1", r"prior \(of length 2\) must have 6"),
        ([0.2] * 6, "l1", "prior must add up to 1, not to 1.2"),
        ([2, -1, 0, 0, 0, 0], "l1", "negative chance"),
        (lambda x: -1.0, "l1", "must be a density"),
        (None, [[0, 1], [1, 0]], r"loss \(of shape 2 x 2\) must be of shape 6 x 6"),
        (None, "l7", "must be 'l1', 'l2'"),
    ],
)
def test_bad_consumers(integers, prior, loss, message):
    with pytest.raises(ValueError, match=message):
        make_bounded_geometric(*integers, 0, 5, 1.0) >> remap(prior, loss)


def test_bad_mechanisms(integers):
    native = dp.m.make_laplace(*integers, scale=1.0)
    with pytest.raises(ValueError, match="bounds must be given"):
        native >> remap()
    with pytest.raises(ValueError, match=r"lo \(3\) must be below hi \(3\)"):
        native >> remap(bounds=(3, 3))
    with pytest.raises(ValueError, match="must be a pair"):
        remap(bounds=3)
    with pytest.raises(ValueError, match="actions must not be empty"):
        make_bounded_geometric(*integers, 0, 5, 1.0) >> remap(actions=[])
    with pytest.raises(ValueError, match="at most 4096"):
        make_bounded_geometric(*integers, 0, 10**6, 1.0) >> remap()
    vector = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    with pytest.raises(ValueError, match="measurement must be bounded noise"):
        law_of(dp.m.make_laplace(*vector, scale=1.0), (0, 1))
    with pytest.raises(ValueError, match="measurement must be bounded noise"):
        native >> clamp(0, 5) >> clamp(1, 2)


def test_uniform_priors(integers):
    assert prior_weights(law(3, 1.0), None).tolist() == [0.25] * 4


@pytest.mark.parametrize("epsilon", [0.5, 24.0, 32.0])
def test_small_losses_keep_their_digits(integers, epsilon):
    rule = (make_bounded_geometric(*integers, lo=0, hi=20, epsilon=epsilon) >> remap()).rule
    channel = geometric_channel(20, decay=1 / exp_down(Fraction(epsilon)))
    exact = channel.exact_loss([Fraction(1, 21)] * 21, loss_matrix("l1", range(21)))
    assert rule.after == pytest.approx(float(exact), rel=1e-12)


def test_after_pure_optimal_noise(integers):
    """Noise without end: its law is cut where floats no longer see it."""
    line = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    for space, d_in in ((integers, 1), (line, 1.0)):
        noisy = make_optimal_noise(*space, d_in, 1.0)
        best = noisy >> remap(bounds=(0, 10))
        assert np.allclose(best.rule.law.matrix.sum(axis=1), 1.0)
        assert best.rule.after <= best.rule.before
        assert best.map(d_in) == noisy.map(d_in)
        assert 0 <= best(7 * d_in) <= 10
        assert 0 <= (noisy >> clamp(0, 10))(7 * d_in) <= 10

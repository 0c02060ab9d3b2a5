"""Vectors under every norm: never refused, never worse than native, the guarantee as stated."""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from opendp_optimal import compose, make_optimal_noise
from opendp_optimal.known.gaussian import gaussian_sigma
from opendp_optimal.measure.anatomy import event_of

dp.enable_features("contrib", "honest-but-curious")
METRICS = {"l1": dp.l1_distance, "l2": dp.l2_distance, "linf": dp.linf_distance}


def space(norm: str, size: int | None, kind: type = float, distance: type | None = None):
    atom = dp.atom_domain(T=float, nan=False) if kind is float else dp.atom_domain(T=kind)
    return dp.vector_domain(atom, size=size), METRICS[norm](T=distance or kind)


@pytest.mark.parametrize("norm", METRICS)
@pytest.mark.parametrize("kind", [float, int])
@pytest.mark.parametrize("target", [1.0, (2.0, 1e-6)])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_never_refused_and_never_worse_than_laplace(norm, kind, target, loss):
    meas = make_optimal_noise(*space(norm, 4, kind), 3, target, loss=loss)
    epsilon = target if isinstance(target, float) else target[0]
    assert meas.map(3) == target
    assert len(meas([kind(5)] * 4)) == 4
    scale = 3 * {"l1": 1, "l2": 2, "linf": 4}[norm] / epsilon
    laplace = 4 * (scale if loss == "l1" else 2 * scale**2)
    if kind is int:
        q = math.exp(-1 / scale)
        laplace = 4 * (2 * q / (1 - q * q) if loss == "l1" else 2 * q / (1 - q) ** 2)
    if hasattr(meas.guarantee, "expected_loss"):
        assert meas.guarantee.expected_loss <= laplace * 1.001
        assert meas.guarantee.chosen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "less"), [(2, 0.25), (5, 0.41), (10, 0.52), (20, 0.37), (40, 0.25)]
)
def test_squared_error_under_l2_against_the_best_of_opendp(size, less):
    meas = make_optimal_noise(*space("l2", size), 1.0, (1.0, 1e-6), loss="l2")
    laplace = 2.0 * size * size
    gaussian = 1.15 * size * gaussian_sigma(1.0, 1e-6) ** 2
    assert meas.guarantee.expected_loss <= (1 - less) * min(laplace, gaussian)


def test_what_is_drawn_has_the_expected_loss():
    meas = make_optimal_noise(*space("l2", 10), 1.0, (1.0, 1e-6), loss="l2")
    noise = meas.guarantee.only
    drawn = noise.vectors(20_000) / 2.0**noise.grid.bits
    squares = (drawn**2).sum(axis=1)
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - meas.guarantee.expected_loss) < 5 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "target"), [("l2", (1.0, 1e-2)), ("linf", (1.0, 1e-2)), ("l1", (2.0, 1e-2))]
)
def test_audits(norm, target):
    meas = make_optimal_noise(*space(norm, 3), 1.0, target, loss="l2")
    far = {"l1": [1.0, 0, 0], "l2": [1.0, 0, 0], "linf": [1.0, 1.0, 1.0]}[norm]
    noise = meas.guarantee.only
    one = noise.vectors(30_000) / 2.0**noise.grid.bits
    other = noise.vectors(30_000) / 2.0**noise.grid.bits + np.array(far)
    # The likelihood ratio depends on the norms of the noise alone.
    order = {"l1": 1, "l2": 2, "linf": np.inf}[noise.norm]
    for drawn, moved in ((one, other), (other, one)):
        here = np.linalg.norm(drawn, order, 1) - np.linalg.norm(drawn - far, order, 1)
        there = np.linalg.norm(moved, order, 1) - np.linalg.norm(moved - far, order, 1)
        for place in np.quantile(here, [0.02, 0.1, 0.3, 0.7, 0.9, 0.98]):
            for sign in (1, -1):
                a, b = (sign * here >= sign * place).sum(), (sign * there >= sign * place).sum()
                low = stats.beta.ppf(1e-6, a, len(here) - a + 1) if a else 0.0
                left = len(there) - b
                high = stats.beta.ppf(1 - 1e-6, b + 1, left) if left else 1.0
                assert low <= math.exp(target[0]) * high + target[1]


def test_maps():
    meas = make_optimal_noise(*space("l2", 3), 2.0, (1.0, 1e-6))
    assert meas.map(0.0) == (0.0, 0.0)
    assert meas.map(2.0) == (1.0, 1e-6)
    assert meas.map(2.0 * (1 + 2**-16)) == (1.0, 1e-6)
    epsilon, delta = meas.map(4.0)
    assert epsilon == 2.0
    assert delta == pytest.approx(1e-6 * (1 + math.e))
    assert meas.map(2.1)[0] == 2.0
    assert meas.map(1e6)[1] == 1.0
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises((ValueError, dp.OpenDPException)):
            meas.map(wrong)


@pytest.mark.slow
def test_lengths_are_designed_when_they_come():
    meas = make_optimal_noise(*space("l2", None), 1.0, (1.0, 1e-6), loss="l2")
    assert [len(meas([0.0] * n)) for n in (0, 1, 2, 7)] == [0, 1, 2, 7]
    assert meas.guarantee.noise(2).name != meas.guarantee.noise(7).name
    assert meas.map(1.0) == (1.0, 1e-6)


@pytest.mark.slow
def test_events_have_a_curve():
    meas = make_optimal_noise(*space("l2", 5), 1.0, (1.0, 1e-6), loss="l2")
    event = event_of(meas)
    assert (event.epsilon, event.delta) == (1.0, 1e-6)
    curve = [event.curve(e) for e in (0.0, 0.5, 0.9, 1.0, 2.0)]
    assert curve == sorted(curve, reverse=True)
    assert curve[3] <= 1e-6
    epsilon, _ = compose([meas] * 8, delta=1e-5)
    assert epsilon < 8.0


@pytest.mark.parametrize("value", [1e308, -1e308, math.inf, math.nan, 5e-324, 2.0**53 + 2])
def test_any_float_is_released_as_one(value):
    for d_in in (1e-300, 1.0, 1e300):
        meas = make_optimal_noise(*space("linf", 2), d_in, 1.0)
        assert all(math.isfinite(v) for v in meas([value, 0.0]))


def test_integers_stop_at_the_ends_of_their_type():
    meas = make_optimal_noise(*space("linf", 2, int), 1000, 0.01)
    for end in (2**31 - 1, -(2**31)):
        assert all(-(2**31) <= v <= 2**31 - 1 for v in meas([end, end]))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="d_in"):
        make_optimal_noise(*space("l2", 3), 0.0, 1.0)
    with pytest.raises(ValueError, match="d_in"):
        make_optimal_noise(*space("l1", 3, int), 0, 1.0)
    with pytest.raises(ValueError, match="loss"):
        make_optimal_noise(*space("l2", 3), 1.0, 1.0, loss="l3")


@pytest.mark.slow
@pytest.mark.parametrize("norm", METRICS)
@pytest.mark.parametrize("kind", [float, int])
def test_what_is_designed_can_be_drawn(norm, kind):
    for size in (1, 2, 7, 100, 700):
        for target in (1.0, (1.0, 1e-6), (1e-2, 1e-9), (4.0, 0.1)):
            meas = make_optimal_noise(*space(norm, size, kind), kind(3), target, loss="l2")
            assert len(meas([kind(0)] * size)) == size


def test_integers_under_l2_move_farther_than_whole_steps():
    """The move (1, 1) has a length of 1.41; (2, 2, 1) one of 3, and of 5 in the l1 distance."""
    zcdp = dp.zero_concentrated_divergence()
    meas = make_optimal_noise(*space("l2", 4, int, float), 1.5, 0.05, output_measure=zcdp)
    assert 2 * meas.noise.rate <= 0.05
    pure = make_optimal_noise(*space("l2", 4, int, float), 1.5, 1.0, loss="l2")
    assert pure.guarantee.chosen == "Laplace noise"
    assert pure.map(3.0) >= 5 * pure.guarantee.only.rate
    anything = make_optimal_noise(*space("l2", None, int, float), 3.0, 1.0, loss="l2")
    assert anything.map(9.0) >= 27.0


@pytest.mark.parametrize("norm", METRICS)
def test_vectors_of_any_length_under_zcdp(norm):
    """No more noise than OpenDP's Gaussian, which does not ask for the length either."""
    zcdp = dp.zero_concentrated_divergence()
    meas = make_optimal_noise(*space(norm, None), 1.0, 0.5, output_measure=zcdp, loss="l2")
    assert (meas.map(0.0), meas.map(1.0), meas.map(3.0)) == (0.0, 0.5, 4.5)
    assert len(meas([])) == 0
    assert np.std(meas([0.0] * 4000)) < (70 if norm == "linf" else 1.1)
    with pytest.raises(ValueError, match="d_in"):
        make_optimal_noise(*space(norm, None), 0.0, 0.5, output_measure=zcdp)

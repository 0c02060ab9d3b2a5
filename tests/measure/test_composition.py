"""OpenDP's compositors accept the measurements, with native ones beside them."""

import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise, then_optimal_noise

dp.enable_features("contrib")

SPACE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
APPROXIMATE = dp.approximate(dp.max_divergence())


def ours(epsilon: float = 0.5, delta: float = 1e-7) -> dp.Measurement:
    return make_optimal_noise(*SPACE, 1, (epsilon, delta))


def native() -> dp.Measurement:
    return dp.c.make_approximate(dp.m.make_laplace(*SPACE, scale=2.0))


def test_non_adaptive() -> None:
    both = dp.c.make_composition([ours(), native(), ours(0.25, 1e-8)])
    epsilon, delta = both.map(1)
    assert epsilon == pytest.approx(1.25)
    assert delta == pytest.approx(1.1e-7)
    assert len(both(10)) == 3


def test_adaptive() -> None:
    meas = dp.c.make_adaptive_composition(
        *SPACE, APPROXIMATE, d_in=1, d_mids=[(0.5, 1e-7), (0.5, 1e-7)]
    )
    queryable = meas(10)
    assert isinstance(queryable(ours()), int)
    assert isinstance(queryable(native()), int)
    with pytest.raises(dp.OpenDPException):
        queryable(ours())


def test_fully_adaptive_and_filter() -> None:
    odometer = dp.c.make_fully_adaptive_composition(*SPACE, APPROXIMATE)
    queryable = odometer(10)
    queryable(ours())
    queryable(native())
    assert queryable.privacy_loss(1) == pytest.approx((1.0, 1e-7))
    guarded = dp.c.make_privacy_filter(odometer, d_in=1, d_out=(1.0, 1e-6))
    inside = guarded(10)
    inside(ours())
    inside(native())
    with pytest.raises(dp.OpenDPException):
        inside(ours())


def test_pure_measurements_compose_with_laplace() -> None:
    pure = make_optimal_noise(*SPACE, 1, 0.5)
    both = dp.c.make_composition([pure, dp.m.make_laplace(*SPACE, scale=2.0)])
    assert both.map(1) == pytest.approx(1.0)


def test_chains_compose() -> None:
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    count = vectors >> dp.t.then_count() >> then_optimal_noise(1, (0.5, 1e-7))
    total = vectors >> dp.t.then_clamp((0.0, 10.0)) >> dp.t.then_sum()
    noisy = total >> then_optimal_noise(total.map(1), (0.5, 1e-7))
    both = dp.c.make_composition([count, noisy])
    assert both.map(1) == pytest.approx((1.0, 2e-7))
    released = both([1.0, 2.0])
    assert [type(value) for value in released] == [int, float]

"""Noise in closed form: exact Gaussians, Laplace noise, and the best of all under zCDP."""

import math
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_exact_gaussian, make_optimal_noise, then_optimal_noise
from opendp_optimal.known import DiscreteGaussian, Gaussian, gaussian_sigma
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure.closed import gaussian_for_delta, gaussian_for_rho, laplace_for_rho
from opendp_optimal.measure.compose import compose
from opendp_optimal.measure.space import Space
from opendp_optimal.sample.integers import discrete_gaussian_integers, laplace_floors

dp.enable_features("contrib")

FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
INT = dp.atom_domain(T=int), dp.absolute_distance(T=int)
INT64 = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
ZCDP = dp.zero_concentrated_divergence()


@pytest.mark.slow
def test_draws_have_their_law() -> None:
    count = 200_000
    for drawn, law in (
        (discrete_gaussian_integers(0.5 / 3.2**2, count), DiscreteGaussian(3.2).pmf(9)),
        (discrete_gaussian_integers(0.5 / 0.4**2, count), DiscreteGaussian(0.4).pmf(1)),
        (laplace_floors(0.5, count), None),
    ):
        if law is None:
            k = np.arange(6)
            side = 0.5 * np.exp(-0.5 * k) * -math.expm1(-0.5)
            law = np.concatenate([side[::-1], side])
            seen = np.array([(drawn == z).sum() for z in range(-6, 6)])
        else:
            radius = len(law) // 2
            seen = np.array([(drawn == z).sum() for z in range(-radius, radius + 1)])
        error = np.sqrt(count * law * (1 - law))
        assert (np.abs(seen - count * law) < 6 * error).all()


@pytest.mark.parametrize(("epsilon", "delta", "saved"), [(1.0, 1e-6, 0.11), (1.0, 1e-3, 0.2)])
def test_less_variance_than_opendp_asks_for(epsilon: float, delta: float, saved: float) -> None:
    for space, one in ((FLOAT, 1.0), (INT, 1)):
        meas = make_exact_gaussian(*space, one, (epsilon, delta))
        assert meas.map(one) == (epsilon, delta)
        native = dp.binary_search_param(
            lambda s, space=space: dp.c.make_fix_delta(
                dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=s)), delta
            ),
            d_in=one,
            d_out=(epsilon, delta),
            T=float,
        )
        assert meas.noise.law.expected_loss(loss_of("l2")) < (1 - saved) * native**2


@pytest.mark.parametrize("carrier", ["f64", "f32", "i32", "u8"])
def test_the_map_covers_every_distance(carrier: str) -> None:
    whole = carrier[0] in "iu"
    space = Space(carrier, "absolute")
    d_in = 5 if whole else 0.1
    noise = gaussian_for_delta(space, d_in, 1.0, 1e-6)
    assert noise.delta(d_in, 1.0) <= 1e-6
    assert noise.delta(d_in, 0.999) > 1e-6
    assert noise.rho(3 * d_in) == pytest.approx(9 * noise.rho(d_in), rel=1e-3)
    assert gaussian_for_rho(space, d_in, 0.3).rho(d_in) <= 0.3
    assert laplace_for_rho(space, d_in, 0.3).rho(d_in) <= 0.3
    domain = dp.atom_domain(T=carrier) if whole else dp.atom_domain(T=carrier, nan=False)
    metric = dp.absolute_distance(T="i32" if carrier == "u8" else carrier)
    meas = make_exact_gaussian(domain, metric, d_in, (1.0, 1e-6))
    assert meas.map(d_in) == (1.0, 1e-6)
    assert meas.map(0 if whole else 0.0) == (0.0, 0.0)
    assert 1.9 < meas.map(2 * d_in)[0] < 2.2
    assert type(meas(3 if whole else 3.0)) is (int if whole else float)


def test_vectors() -> None:
    floats = dp.vector_domain(dp.atom_domain(T=float, nan=False), 10)
    for metric, scale in ((dp.l2_distance, 1.0), (dp.linf_distance, math.sqrt(10))):
        meas = make_exact_gaussian(floats, metric(T=float), 1.0, 0.5)
        assert 0.4999 < meas.map(1.0) <= 0.5
        assert meas.noise.law.scale == pytest.approx(scale, rel=1e-3)
        assert len(meas([0.5] * 10)) == 10
    counts = dp.vector_domain(dp.atom_domain(T=int))
    meas = make_exact_gaussian(counts, dp.l2_distance(T=int), 2, 0.5)
    assert meas.map(2) == 0.5
    assert len(meas([1, 2, 3])) == 3
    with pytest.raises(ValueError, match="fix the length"):
        make_exact_gaussian(
            dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float), 1.0, 0.5
        )


RIGHT = {
    (0.3, "l1"): "gaussian",
    (1.0, "l1"): "laplace",
    (2.0, "l1"): "table",
    (1.0, "l2"): "gaussian",
    (2.0, "l2"): "laplace",
}


@pytest.mark.parametrize(("rho", "loss"), RIGHT)
def test_the_least_loss_wins_under_zcdp(rho: float, loss: str) -> None:
    meas = make_optimal_noise(*FLOAT, 1.0, rho, loss=loss, output_measure=ZCDP, gap=0.01)
    assert (meas.noise.kind if hasattr(meas, "noise") else "table") == RIGHT[rho, loss]
    assert rho * (1 - 1e-4) <= meas.map(1.0) <= rho
    assert meas.map(2.0) > 1.5 * rho
    assert meas.map(0.0) == 0.0


@pytest.mark.parametrize("loss", [{"rho": 0.4}, {"rho": 2.0}, {"rho": 0.4, "delta": 1e-7}])
def test_contexts(loss: dict[str, float]) -> None:
    context = dp.Context.compositor(
        data=[1, 2, 3, 4],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=2,
        domain=dp.vector_domain(dp.atom_domain(T=int)),
    )
    assert isinstance(context.query().clamp((0, 10)).sum().optimal(gap=0.01).release(), int)
    assert isinstance(context.query().count().exact_gaussian().release(), int)


def test_approximate_zcdp_uses_delta() -> None:
    both = dp.approximate(ZCDP)
    meas = make_optimal_noise(*FLOAT, 1.0, (3.0, 1e-2), output_measure=both, gap=0.05)
    rho, delta = meas.map(1.0)
    assert rho <= 3.0
    assert 0 < delta <= 1e-2
    small = make_optimal_noise(*FLOAT, 1.0, (0.1, 1e-9), output_measure=both, gap=0.05)
    assert small.map(1.0) == (0.1, 0.0)


def test_compose_knows_the_exact_curve() -> None:
    meas = make_exact_gaussian(*FLOAT, 1.0, (1.0, 1e-6))
    assert compose([meas], delta=1e-6)[0] <= 1.0 + 1e-6
    assert compose([meas] * 4, delta=4e-6)[0] < 3.0
    total = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0))), dp.symmetric_distance()
    chain = total >> dp.t.then_sum() >> then_optimal_noise(1.0, 0.1, output_measure=ZCDP)
    assert compose([chain], delta=1e-6, d_in=1)[0] < 2.5


@pytest.mark.parametrize(
    ("d_out", "measure", "words"),
    [
        ((0.1, 1e-6), ZCDP, "d_out"),
        (0.1, dp.approximate(ZCDP), "d_out"),
        (0.0, ZCDP, "d_out"),
        (math.nan, ZCDP, "d_out"),
        ((0.1, 1.0), dp.approximate(ZCDP), "delta"),
        (1.0, dp.approximate(dp.max_divergence()), "output_measure"),
        (1.0, dp.renyi_divergence(), "output_measure"),
    ],
)
def test_what_makes_no_sense_is_named(d_out: Any, measure: dp.Measure, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_optimal_noise(*FLOAT, 1.0, d_out, output_measure=measure)
    with pytest.raises(ValueError, match="d_out"):
        make_exact_gaussian(*FLOAT, 1.0, (1.0, 0.0))


@pytest.mark.parametrize("d_in", [10**6, 10**12, 2**62])
@pytest.mark.parametrize("target", [(1e-4, 1e-12), (1.0, 1e-6), 1e-8, 0.5])
def test_noise_of_any_width_can_be_drawn(d_in: int, target: Any) -> None:
    """What rounding adds to a distance is counted, and hardly anything."""
    pair = isinstance(target, tuple)
    sigmas = gaussian_sigma(*target) if pair else math.sqrt(0.5 / target)
    for space, distance in ((INT64, d_in), (FLOAT, float(d_in))):
        meas = make_exact_gaussian(*space, distance, target)
        spent = np.array(meas.map(distance)) / np.array(target)
        assert np.all((spent > 0.9999) & (spent <= 1))
        assert sigmas <= meas.noise.law.scale / distance * (1 + 1e-9) < sigmas * 1.001
        meas(type(distance)(0))
        steps = meas.noise.grid.bits + math.log2(meas.noise.law.scale)
        assert steps <= 31


def test_noise_that_cannot_be_drawn_is_refused_when_it_is_made() -> None:
    for space, distance in ((INT64, 1), (FLOAT, 1.0)):
        with pytest.raises(ValueError, match="too long to be drawn"):
            make_exact_gaussian(*space, distance, 1e-30)


@pytest.mark.parametrize("target", [(1.0, 1e-3), (0.1, 1e-2), (4.0, 1e-6)])
@pytest.mark.parametrize("d_in", [7, 33, 100])
def test_a_coarser_grid_keeps_the_delta_wherever_the_answers_are(
    d_in: int, target: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opendp_optimal.measure.closed.LONGEST", {"gaussian": 3, "laplace": 3})
    noise = make_exact_gaussian(*INT64, d_in, target).noise
    step = 2**-noise.bits
    law = Gaussian(noise.law.scale / step).rounded()
    largest = 0.0
    for place in range(step):  # answers are rounded down to the grid, then noise is added
        for other in (place + d_in, place - d_in, place + d_in - 1):
            moved = other // step - place // step
            reach = np.arange(-120, 121)
            first, second = (
                np.diff(law.cdf(np.append(at[0] - 1, at))) for at in (reach, reach - moved)
            )
            largest = max(largest, np.maximum(first - math.exp(target[0]) * second, 0).sum())
    assert 0.5 * target[1] < largest <= target[1] * (1 + 1e-9)

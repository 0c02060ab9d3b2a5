"""improve: the same pipeline, the same guarantee, less noise."""

import logging

import opendp.prelude as dp
import pytest

from opendp_optimal import accuracy, improve, then_optimal_noise
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure.anatomy import law_of

dp.enable_features("contrib", "honest-but-curious")

NUMBERS = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0))), dp.symmetric_distance()
WORDS = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
SUM = NUMBERS >> dp.t.then_sum()
COUNTS = WORDS >> dp.t.then_count_by_categories(["a", "b"])
PIPELINES = {
    "laplace": SUM >> dp.m.then_laplace(5.0),
    "count": NUMBERS >> dp.t.then_count() >> dp.m.then_laplace(0.5),
    "histogram": COUNTS >> dp.m.then_laplace(1.0),
    "zcdp": SUM >> dp.m.then_gaussian(4.0),
    "large rho": SUM >> dp.m.then_gaussian(5.0),
    "cast": dp.c.make_approximate(SUM >> dp.m.then_laplace(5.0)),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_never_worse(name: str) -> None:
    native = PIPELINES[name]
    better = improve(native, 1)
    assert better.output_measure == native.output_measure
    assert better.input_domain == native.input_domain
    assert better.map(1) <= native.map(1)
    before, after = (law_of(m, vectors=True).expected_loss(loss_of("l1")) for m in (native, better))
    assert after <= 1.001 * before
    if name in ("laplace", "cast", "large rho"):
        assert better is not native
        assert after < before
        assert accuracy(better, 0.5) < accuracy(native, 0.5)


@pytest.mark.slow
def test_through_postprocessing_and_composition() -> None:
    native = SUM >> dp.m.then_laplace(4.0) >> dp.new_function(round, "i32")
    better = improve(native, 1)
    assert better is not native
    assert isinstance(better([1.0, 2.0]), int)
    assert better.map(1) <= native.map(1)
    both = dp.c.make_composition([SUM >> dp.m.then_laplace(5.0), SUM >> dp.m.then_laplace(3.0)])
    better = improve(both, 1)
    assert better is not both
    assert better.map(1) <= both.map(1)
    assert len(better([1.0, 2.0])) == 2


def test_what_is_not_recognised_stays(caplog: pytest.LogCaptureFixture) -> None:
    own = dp.m.make_user_measurement(
        *SUM.output_space, dp.max_divergence(), lambda x: 0.0, lambda d: d, "f64"
    )
    with caplog.at_level(logging.INFO, "opendp_optimal"):
        assert improve(own, 1.0) is own
    assert "not recognised" in caplog.text
    with pytest.raises(ValueError, match="measurement"):
        improve(3, 1)  # type: ignore[arg-type]


def test_like_opendps_own_noise() -> None:
    for like, measure in (
        (dp.m.then_laplace(5.0), dp.max_divergence()),
        (dp.m.then_gaussian(20.0), dp.zero_concentrated_divergence()),
    ):
        native = SUM >> like
        meas = SUM >> then_optimal_noise(SUM.map(1), like=like)
        assert meas.output_measure == measure
        assert 0.999 * native.map(1) <= meas.map(1) <= native.map(1)
    for wrong in ({}, {"d_out": 1.0, "like": dp.m.then_laplace(5.0)}, {"like": 3}):
        with pytest.raises(ValueError, match="like"):
            SUM >> then_optimal_noise(SUM.map(1), **wrong)


def _gaussian(before: object, scale: float = 30.0) -> dp.Measurement:
    curve = dp.c.make_zCDP_to_approxDP(before >> dp.m.then_gaussian(scale))
    return dp.c.make_fix_delta(curve, 1e-6)


VECTORS = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=10), dp.l2_distance(T=float)
CURVES = {
    "number": (_gaussian(SUM), 1),
    "vector": (_gaussian(VECTORS, 3.0), 1.0),
    "after": (_gaussian(SUM) >> dp.new_function(lambda x: x + 1, TO="f64"), 1),
}


@pytest.mark.parametrize("name", CURVES)
def test_gaussian_noise_stated_at_one_delta(name: str) -> None:
    native, d_in = CURVES[name]
    better = improve(native, d_in, loss="l2")
    assert better is not native
    assert better.output_measure == native.output_measure
    assert better.map(d_in) == native.map(d_in)
    assert better([1.0] * 10) is not None


@pytest.mark.parametrize(("norm", "scale"), [("l1", 0.25), ("l2", 0.2)])
def test_vectors_get_noise_in_their_norm(norm: str, scale: float) -> None:
    space = VECTORS[0], getattr(dp, f"{norm}_distance")(T=float)
    small = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2), space[1]
    noise = dp.m.then_laplace if norm == "l1" else dp.m.then_gaussian
    native = small >> noise(scale)
    better = improve(native, 1.0, loss="l2")
    assert better.map(1.0) <= native.map(1.0)
    assert better.guarantee.expected_loss < 0.8 * 2 * scale**2 * (2 if norm == "l1" else 1)

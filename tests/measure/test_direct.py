"""Direct calls release the same as OpenDP's way, and accept nothing more."""

import math

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise
from opendp_optimal.measure.release import DirectMeasurement
from opendp_optimal.measure.space import INTEGER_RANGES

dp.enable_features("contrib")

FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def test_only_plain_scalars() -> None:
    assert isinstance(make_optimal_noise(*FLOAT, 1.0, 1.0), DirectMeasurement)
    vectors = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    assert not isinstance(make_optimal_noise(*vectors, 1, 1.0), DirectMeasurement)
    single = dp.atom_domain(T="f32", nan=False), dp.absolute_distance(T="f32")
    assert not isinstance(make_optimal_noise(*single, 1.0, 1.0), DirectMeasurement)


@pytest.mark.slow
def test_same_distribution_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    meas = make_optimal_noise(*FLOAT, 1.0, (1.0, 1e-3))
    direct = [meas(0.25) for _ in range(4000)]
    through = [dp.Measurement.invoke(meas, 0.25) for _ in range(4000)]
    # Dvoretzky-Kiefer-Wolfowitz for two samples, false alarms below one in a billion.
    points = np.sort(direct + through)
    gap = np.max(
        np.abs(
            np.searchsorted(np.sort(direct), points, side="right")
            - np.searchsorted(np.sort(through), points, side="right")
        )
        / 4000
    )
    assert gap < 2 * math.sqrt(math.log(4e9) / (2 * 4000))


@pytest.mark.parametrize("carrier", INTEGER_RANGES)
def test_out_of_range_and_other_types_as_in_opendp(carrier: str) -> None:
    low, high = INTEGER_RANGES[carrier]
    space = dp.atom_domain(T=carrier), dp.absolute_distance(T=float)
    meas = make_optimal_noise(*space, 1.0, (1.0, 1e-3))
    assert low <= meas(low) <= high
    assert low <= meas(high) <= high
    for wrong in ("1", None, [1], 1.5):
        with pytest.raises(Exception) as native:  # noqa: PT011 (whatever OpenDP raises)
            dp.Measurement.invoke(meas, wrong)
        with pytest.raises(type(native.value)):
            meas(wrong)


def test_wrong_types_for_floats() -> None:
    meas = make_optimal_noise(*FLOAT, 1.0, (1.0, 1e-3))
    for wrong in ("1", None, [1.0]):
        with pytest.raises(Exception) as native:  # noqa: PT011 (whatever OpenDP raises)
            dp.Measurement.invoke(meas, wrong)
        with pytest.raises(type(native.value)):
            meas(wrong)
    assert isinstance(meas(np.float64(1.0)), float)


def test_attributes_and_chains_are_kept() -> None:
    meas = make_optimal_noise(*FLOAT, 1.0, (1.0, 1e-3))
    assert isinstance(meas, dp.Measurement)
    assert meas.input_domain == FLOAT[0]
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    total = vectors >> dp.t.then_clamp((0.0, 0.5)) >> dp.t.then_sum()
    assert isinstance((total >> meas)([0.1, 0.2]), float)

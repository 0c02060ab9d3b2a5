"""Drop-in: OpenDP pipelines as people write them, with only the last step changed."""

from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import then_optimal_noise
from opendp_optimal.measure._opendp import make_transformation

dp.enable_features("contrib")

FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
WORDS = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
NUMBERS = [float(i % 100) for i in range(1000)]
LABELS = ["a", "b", "c", "d"] * 250
TARGET = (1.0, 1e-6)


def count() -> tuple[dp.Transformation, Any]:
    return FLOATS >> dp.t.then_count(), NUMBERS


def total() -> tuple[dp.Transformation, Any]:
    return FLOATS >> dp.t.then_clamp((0.0, 50.0)) >> dp.t.then_sum(), NUMBERS


def mean() -> tuple[dp.Transformation, Any]:
    clamp = FLOATS >> dp.t.then_clamp((0.0, 50.0))
    return clamp >> dp.t.then_resize(1000, constant=25.0) >> dp.t.then_mean(), NUMBERS


def histogram() -> tuple[dp.Transformation, Any]:
    return WORDS >> dp.t.then_count_by_categories(["a", "b", "c"]), LABELS


def quantile_score() -> tuple[dp.Transformation, Any]:
    """Scores of candidates for the median; OpenDP's noise wants them in the l1 distance."""
    scores = FLOATS >> dp.t.then_quantile_score_candidates([20.0, 40.0, 60.0], alpha=0.5)
    summed = make_transformation(
        *scores.output_space,
        dp.vector_domain(dp.atom_domain(T="u64"), size=3),
        dp.l1_distance(T="u64"),
        lambda x: x,
        lambda d: 3 * d,
    )
    return scores >> summed, NUMBERS


PIPELINES = [count, total, mean, histogram, quantile_score]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_instead_of_laplace(pipeline: Any) -> None:
    chain, data = pipeline()
    sensitivity = chain.map(1)
    before = chain >> dp.m.then_laplace(scale=sensitivity / TARGET[0])
    after = chain >> then_optimal_noise(sensitivity, TARGET)
    assert before.map(1) == pytest.approx(TARGET[0])
    assert after.map(1) == TARGET
    truth = np.asarray(chain(data), dtype=float)
    old, new = before(data), after(data)
    assert type(old) is type(new)
    # Far more than either noise ever is: a release of something else would not pass.
    for release in (old, new):
        assert np.max(np.abs(np.asarray(release, dtype=float) - truth)) < 80 * sensitivity


@pytest.mark.parametrize("pipeline", [count, total, mean])
def test_instead_of_gaussian(pipeline: Any) -> None:
    chain, data = pipeline()
    sensitivity = chain.map(1)
    before = dp.c.make_fix_delta(
        dp.c.make_zCDP_to_approxDP(chain >> dp.m.then_gaussian(scale=4.2 * sensitivity)), TARGET[1]
    )
    after = chain >> then_optimal_noise(sensitivity, TARGET, loss="l2")
    assert before.output_measure == after.output_measure
    assert after.map(1) == TARGET
    assert type(before(data)) is type(after(data))


def test_histogram_instead_of_gaussian() -> None:
    chain = WORDS >> dp.t.then_count_by_categories(["a", "b"], MO=dp.L2Distance[float])
    before = chain >> dp.m.then_gaussian(scale=5.0)
    after = chain >> then_optimal_noise(chain.map(1), TARGET, loss="l2")
    assert after.map(1) == TARGET
    assert len(before(LABELS)) == len(after(LABELS))


def test_quantile_scores_in_their_own_distance() -> None:
    scores = FLOATS >> dp.t.then_quantile_score_candidates([20.0, 40.0, 60.0], alpha=0.5)
    after = scores >> then_optimal_noise(scores.map(1), TARGET)
    assert after.map(1) == TARGET
    assert int(np.argmin(after(NUMBERS))) in (0, 1, 2)

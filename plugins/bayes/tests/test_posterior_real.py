"""Sums of real numbers: any bounds, what is alike, vectors whose numbers depend on each other."""

import warnings

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise
from opendp_optimal.extend import known
from opendp_optimal_bayes import PosteriorWarning, make_bounded_geometric, posterior

LABELS = np.random.default_rng(0).integers(0, 40, 4000)
HEIGHTS = np.linspace(0.0, 20.0, 40)[LABELS] + np.random.default_rng(1).normal(0, 0.2, 4000)
NOISE = np.random.default_rng(2).laplace(0, 1, 4000)

BOUNDED = {
    "none": ((None, None), HEIGHTS - 5),
    "below": ((0, None), np.abs(HEIGHTS)),
    "above": ((None, 100), 100 - np.abs(HEIGHTS)),
    "clipped": ((-5, 3), np.clip(HEIGHTS - 5, -5, 3)),
    "far away": ((-1e6, 1e6), HEIGHTS - 5),
    "beyond sight": ((-1e308, 1e308), HEIGHTS - 5),
    "from 10^8 on": ((1e8, 1e8 + 18), 1e8 + np.clip(HEIGHTS, 0, 18)),
}


@pytest.mark.parametrize("case", BOUNDED)
def test_intervals_hold_what_they_claim_with_any_bounds(case: str) -> None:
    bounds, true = BOUNDED[case]
    released = true + NOISE
    free, near = (
        posterior(released, known.Laplace(1.0), bounds=bounds, like=k) for k in (None, LABELS)
    )
    for found in (free, near):
        low, high = found.interval(0.9)
        inside = (low <= true) & (true <= high)
        assert inside.mean() > found.claimed(0.9) - (0.03 if found is free else 0.06)
        assert found.gap <= 1e-6
        assert low.min() >= (-np.inf if bounds[0] is None else bounds[0])
        assert high.max() <= (np.inf if bounds[1] is None else bounds[1] * (1 + 1e-12))
    errors = [np.abs(np.asarray(f.median) - true).mean() for f in (free, near)]
    assert errors[1] < 0.95 * errors[0] < 0.95 * np.abs(NOISE).mean()


@pytest.mark.parametrize("case", ["none", "far away"])
def test_a_good_prediction_is_believed_as_far_as_it_goes(case: str) -> None:
    bounds, true = BOUNDED[case]
    near = posterior(true + NOISE, known.Laplace(1.0), bounds=bounds, like=LABELS)
    # Predictions are off by 0.2, the noise by 1.
    assert np.abs(near.median - true).mean() < 0.3
    assert near.gain.after == pytest.approx(np.abs(near.median - true).mean(), rel=0.3)
    assert np.abs(near.predictor - true).mean() < 0.3


def test_values_at_both_bounds_are_seen() -> None:
    rng = np.random.default_rng(3)
    true = np.clip(rng.normal(0, 5, 4000), -2, 3)  # a third of them at either end
    found = posterior(true + rng.normal(0, 1, 4000), known.Gaussian(1.0), bounds=(-2, 3))
    prior = found.prior
    assert prior.chances[-1] == pytest.approx((true == 3).mean(), abs=0.06)
    low, high = found.interval(0.9)
    assert ((low <= true) & (true <= high)).mean() > found.claimed(0.9) - 0.03


def vector_of(size: int, norm: str) -> dp.Measurement:
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    metric = dp.l1_distance(T=float) if norm == "l1" else dp.l2_distance(T=float)
    return make_optimal_noise(domain, metric, 1.0, (1.0, 1e-6))


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_optimised_vectors_are_read_and_their_intervals_warn(norm: str) -> None:
    rng = np.random.default_rng(4)
    true = rng.poisson(rng.gamma(0.3, 10, 600)) * 1.0
    meas = vector_of(600, norm)
    released = np.array(meas(true.tolist()))
    found = posterior(released, meas)
    assert np.abs(found.median - true).mean() < 0.9 * np.abs(released - true).mean()
    with pytest.warns(PosteriorWarning, match="average over releases.*miss together"):
        found.interval(0.9)
    total = found.sum()
    assert total.raw == pytest.approx(released.sum())
    # Numbers of one vector are uncorrelated: the deviation of their sum is exact.
    assert total.raw_deviation == pytest.approx(np.sqrt(600 * found.observed.variance[0]))


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_intervals_of_vectors_hold_what_they_claim_on_average_over_releases(norm: str) -> None:
    rng = np.random.default_rng(5)
    meas = vector_of(20, norm)
    chances = np.array([0.5, 0.1, 0.1, 0.1, 0.2])
    true = 4.0 * (rng.choice(5, (400, 20), p=chances) + rng.random((400, 20)))
    released = np.array([meas(row) for row in true.tolist()])
    law = posterior(released[0], meas).observed.law  # of one number, whichever it is
    found = posterior(released, law, bounds=(0, 20), prior=chances)
    with pytest.warns(PosteriorWarning, match="miss together"):
        low, high = found.interval(0.9)
    held = ((low <= true) & (true <= high)).mean(axis=1)
    # Releases are independent: a false alarm is rarer than one in a million.
    assert abs(held.mean() - found.claimed(0.9)) < 5 * held.std() / 20


def test_independent_noise_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior(HEIGHTS + NOISE, known.Laplace(1.0)).interval(0.9)


def test_bounded_noise_in_a_list_has_a_bias_too() -> None:
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    meas = make_bounded_geometric(*space, 0, 10, epsilon=0.5)
    found = posterior([1, 2, 3], [meas] * 3)
    with pytest.warns(PosteriorWarning, match="has a bias"):
        assert found.sum().estimate == pytest.approx(found.mean.sum())


def test_what_is_no_table_is_refused() -> None:
    law = known.Geometric(0.5)
    for released, message in (
        (([1, 2], [3, 4]), "one for each of 2 releases"),
        ([[1, 2], [3]], "differ in length"),
        (np.ma.masked_array([1, 2], [False, True]), "no masked values"),
    ):
        with pytest.raises(ValueError, match=message):
            posterior(released, law)
    assert posterior((1, 2, 3), law).shape == (3,)
    assert repr(posterior((1, 2, 3), law)).startswith("Posterior(shape=(3,), gap=")


def test_matrices_and_columns_that_are_none_are_refused() -> None:
    import polars as pl
    from scipy.sparse import csr_array

    law = known.Geometric(0.5)
    matrix = csr_array(np.where(np.eye(600) > 0, np.nan, 0.0))
    with pytest.raises(ValueError, match="must be finite"):
        posterior(np.ones(600, dtype=int), law, like=matrix)
    frame = pl.DataFrame({"town": ["a", "b"], "len": [1, 2]})
    with pytest.raises(ValueError, match="'state'"):
        posterior(frame, law).levels("state")


def test_intervals_reach_as_far_as_what_they_claim() -> None:
    law, released = known.Laplace(0.5), np.linspace(-3, 23, 200)
    found = posterior(released, law, bounds=(0, 20), prior=[1.0])
    total = law.cdf(20 - released) - law.cdf(-released)
    for level in (0.1, 0.9):
        for shortest in (False, True):
            low, high = found.interval(level, shortest)
            assert low.min() >= 0
            assert high.max() <= 20
            held = (law.cdf(high - released) - law.cdf(low - released)) / total
            assert held.min() > level - 1e-3
            assert held.mean() == pytest.approx(found.claimed(level, shortest), abs=3e-4)

"""Tables with levels: cells add up to groups, and groups to those above."""

import math

import numpy as np
import pytest

from opendp_optimal.extend import known
from opendp_optimal_bayes import make_bounded_geometric, posterior

HALF = known.Geometric(0.5)


def made_up(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counties with a state and a region each."""
    rng = np.random.default_rng(seed)
    state = np.sort(rng.integers(0, 40, 1400))
    region = state // 8
    counts = rng.poisson(rng.gamma(0.5, 12, 40)[state] * rng.gamma(1.0, 1.0, 1400))
    return counts, state, region


def geometric(rng: np.random.Generator, rate: float, size: int) -> np.ndarray:
    p = -math.expm1(-rate)
    return rng.geometric(p, size) - rng.geometric(p, size)


def test_levels_add_up_and_are_better_than_what_was_released() -> None:
    counts, state, region = made_up()
    true = np.bincount(state, counts)
    error = np.zeros(4)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        cells, sums = counts + geometric(rng, 0.5, 1400), true + geometric(rng, 0.5, 40)
        whole = np.bincount(region, counts) + geometric(rng, 0.5, 5)
        found = posterior(cells, HALF, like=state)
        both = found.levels((state, region), (sums, whole), (HALF, HALF))
        for level, labels in zip(both.groups, (state, region), strict=True):
            assert level.labels.tolist() == np.unique(labels).tolist()
            assert level.estimate == pytest.approx(np.bincount(labels, both.cells), abs=1e-6)
        assert both.cells.min() >= 0
        parts = both.groups[0].estimate[:8].sum()
        assert both.groups[1].estimate[0] == pytest.approx(parts)
        assert (both.groups[0].deviation <= math.sqrt(HALF.moment(2))).all()
        guesses = sums, both.groups[0].estimate
        error[:2] += [((guess - true) ** 2).mean() for guess in guesses]
        guesses = found.mean, both.cells
        error[2:] += [((guess - counts) ** 2).mean() for guess in guesses]
    assert error[1] < error[0]
    assert error[3] < 1.01 * error[2]


def test_sums_that_are_known_are_kept() -> None:
    counts, state, _ = made_up()
    cells = counts + geometric(np.random.default_rng(1), 0.5, 1400)
    exact = known.Tabulated(np.ones(1), 1.0, 1.0, integer=True)
    found = posterior(cells, HALF)
    true = np.bincount(state, counts)
    both = found.levels(state, true, exact)
    assert both.groups[0].estimate == pytest.approx(true, abs=1e-6)
    assert ((both.cells - counts) ** 2).mean() < ((found.mean - counts) ** 2).mean()
    empty = found.levels(state, np.zeros(40, dtype=int), exact)
    assert empty.cells == pytest.approx(np.zeros(1400), abs=1e-6)
    alone = found.levels(state)  # nothing was released of the groups
    assert alone.groups[0].estimate == pytest.approx(np.bincount(state, alone.cells))


def test_levels_of_frames_and_sums() -> None:
    pl = pytest.importorskip("polars")
    counts, state, _ = made_up()
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"state": state, "len": counts + geometric(rng, 0.5, 1400)})
    found = posterior(frame, HALF, like="state")
    assert np.array_equal(found.levels("state").cells, found.levels(state).cells)
    values = rng.normal(0, 50, 1400) + rng.laplace(0, 5, 1400)
    real = posterior(values, known.Laplace(0.2), bounds=(None, None))
    both = real.levels(state, np.bincount(state, values), known.Laplace(0.2))
    assert both.groups[0].estimate == pytest.approx(np.bincount(state, both.cells), abs=1e-6)


def test_bad_levels() -> None:
    found = posterior(np.arange(12), HALF, shape=(3, 4))
    state = np.repeat([0, 1, 2], 4).reshape(3, 4)
    for ask, message in (
        (lambda: found.levels([0, 1]), "must have the shape"),
        (lambda: found.levels(state / 2), "whole numbers or texts"),
        (lambda: found.levels(state, [1, 2], HALF), "must have 3 groups"),
        (lambda: found.levels(state, [1, 2, 3]), "noise must be given"),
        (lambda: found.levels(state, [1, 2, 3], 0.5), "must be a measurement, a law"),
        (lambda: found.levels((state, state), ([1, 2, 3],), (HALF,)), "the same levels"),
        (lambda: found.levels((state, np.arange(12).reshape(3, 4))), "in two groups"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
    import opendp.prelude as dp

    within = make_bounded_geometric(dp.atom_domain(T=int), dp.absolute_distance(T=int), 0, 9, 0.5)
    with pytest.raises(ValueError, match="the mean 0"):
        posterior([1, 2, 3], within).levels([0, 0, 1])

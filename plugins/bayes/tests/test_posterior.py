"""What posteriors say of cells: Bayes' rule, intervals, draws, few cells."""

import itertools
import warnings

import numpy as np
import opendp.prelude as dp
import pytest
from posterior_tables import FREE, NEAR, RELEASED, TRUE, noisy

from opendp_optimal import make_optimal_noise
from opendp_optimal.extend import known
from opendp_optimal_bayes import PosteriorWarning, law_of, posterior, remap

COUNT = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def brute(prior: np.ndarray, law: known.Law, y: float, unit: int = 1) -> np.ndarray:
    """Posterior chances of 0..len(prior)-1 after y, point by point."""
    x = np.arange(len(prior))
    chances = law.cdf(y - x) - law.cdf(y - x - 1)
    return prior * chances / (prior @ chances)


LAWS = [known.Geometric(0.3), known.DiscreteGaussian(3.0), known.Canonical(0.5, 0.01)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_known_priors_give_bayes_rule(law: known.Law) -> None:
    prior = np.random.default_rng(1).random(30) ** 3
    prior /= prior.sum()
    released = np.arange(-6, 36)
    found = posterior(released, law, prior=prior)
    exact = np.stack([brute(prior, law, y) for y in released])
    x = np.arange(30)
    assert found.mean == pytest.approx(exact @ x, abs=1e-9)
    assert found.deviation**2 == pytest.approx(exact @ x**2 - (exact @ x) ** 2, abs=1e-8)
    assert np.array_equal(found.median, np.argmax(exact.cumsum(axis=1) >= 0.5 - 1e-12, axis=1))
    assert exact[np.arange(42), found.mode] == pytest.approx(exact.max(axis=1), rel=1e-8)
    low, high = found.interval(0.8)
    inside = ((x >= low[:, None]) & (x <= high[:, None])) * exact
    assert inside.sum(axis=1).min() >= 0.8 - 1e-9
    assert found.claimed(0.8) == pytest.approx(inside.sum(axis=1).mean(), abs=1e-9)
    after = (exact * np.abs(x - np.asarray(found.median)[:, None])).sum(axis=1).mean()
    assert found.gain.after == pytest.approx(after, abs=1e-9)
    assert found.gap == 0


def test_known_priors_agree_with_remap() -> None:
    prior = np.arange(1.0, 13.0) / 78.0
    for meas in (
        dp.m.make_laplace(*COUNT, scale=3.0),
        dp.m.make_gaussian(*COUNT, scale=2.0),
        make_optimal_noise(*COUNT, 1, (1.0, 1e-3)),
    ):
        law = law_of(meas, (0, 11))
        rule = remap(prior, "l1", bounds=(0, 11)).rule(meas)
        released = np.arange(-2, 14)
        found = posterior(released, meas, prior=prior, bounds=(0, 11))
        costs = np.stack([brute(prior, _law(meas), y) for y in released])
        wanted = [rule(int(y)) for y in released]
        # Ties may be decided either way: the expected errors agree.
        error = (costs * np.abs(np.arange(12) - np.asarray(wanted)[:, None])).sum(axis=1)
        mine = (costs * np.abs(np.arange(12) - np.asarray(found.median)[:, None])).sum(axis=1)
        assert law.integer
        assert mine == pytest.approx(error, abs=1e-9)


def _law(meas: dp.Measurement) -> known.Law:
    from opendp_optimal.extend import law_of as read

    return read(meas)


FAMILIES = {
    "geometric": lambda s: known.Geometric(1 / s),
    "discrete gaussian": known.DiscreteGaussian,
    "laplace": lambda s: known.Laplace(1 / s),
    "gaussian": known.Gaussian,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_more_noise_never_helps_who_knows_the_prior(family: str) -> None:
    prior = np.array([0.6, 0.05, 0.05, 0.1, 0.0, 0.0, 0.05, 0.15])
    losses = []
    for scale in (0.5, 1.0, 1.7, 3.0, 6.0, 20.0):
        law = FAMILIES[family](scale)
        step = 1 if law.integer else scale / 16
        released = np.arange(-12 * scale, 8 + 12 * scale, step)
        released = np.unique(np.rint(released)) if law.integer else released
        bounds = (0, None) if law.integer else (0, 8)
        found = posterior(released, law, prior=prior, bounds=bounds)
        x = np.arange(8) + (0 if law.integer else 0.5)
        half = 0.5 if not law.integer else 0.0
        seen = law.cdf(released[:, None] - x + step / 2 * (half > 0)) - law.cdf(
            released[:, None] - x - (step / 2 if half else 1)
        )
        after = found.distributions.distances(found._medians)[found.place]
        losses.append(float((seen @ prior) @ after) * found.observed.lattice.unit)
    assert np.all(np.diff(losses) >= -2e-3 if not law.integer else np.diff(losses) >= -1e-9)


@pytest.mark.parametrize("like", [None, "margins"])
def test_permuted_tables_have_permuted_posteriors(like: str | None) -> None:
    rng = np.random.default_rng(3)
    rows, columns = rng.permutation(30), rng.permutation(30)
    first = FREE if like is None else posterior(RELEASED, known.Geometric(0.5), like=like)
    moved = posterior(RELEASED[rows][:, columns], known.Geometric(0.5), like=like)
    assert moved.mean == pytest.approx(first.mean[rows][:, columns], rel=1e-6)
    turned = posterior(RELEASED.T[::-1], known.Geometric(0.5), like="neighbours")
    assert turned.mean == pytest.approx(NEAR.mean.T[::-1], rel=1e-6)


def test_without_noise_nothing_changes() -> None:
    table = np.array([0, 0, 3, 1, 0, 170, 12345, 2**40] * 5)
    for law in (known.Geometric(80.0), known.Tabulated(np.ones(1), 1.0, 1.0, integer=True)):
        found = posterior(table, law)
        assert np.array_equal(found.median, table)
        assert np.array_equal(found.mode, table)
        assert found.mean == pytest.approx(table, rel=1e-12)
        assert np.array_equal(found.interval(0.9)[0], table)
        assert found.gain.after < 1e-12
    real = table + 0.25
    assert posterior(real, known.Laplace(1e9)).mean == pytest.approx(real, abs=1e-9)


def test_intervals_hold_what_they_claim() -> None:
    for found in (FREE, NEAR):
        for shortest, level in itertools.product((False, True), (0.5, 0.9)):
            low, high = found.interval(level, shortest)
            actual = ((low <= TRUE) & (high >= TRUE)).mean()
            assert found.claimed(level, shortest) >= level - 1e-9
            assert abs(actual - found.claimed(level, shortest)) < (0.04 if level > 0.8 else 0.08)
        wide, narrow = (found.interval(0.9, s) for s in (False, True))
        assert np.all(narrow[1] - narrow[0] <= wide[1] - wide[0])


def test_draws_follow_the_posterior() -> None:
    rng = np.random.default_rng(5)
    draws = FREE.draws(100, rng.bytes)
    assert draws.shape == (100, 30, 30)
    assert draws.dtype == np.int64
    error = (draws.mean(axis=0) - FREE.mean) / np.maximum(FREE.deviation / 10, 1e-9)
    # 900 means of 100 draws each: skewed, so none beyond 7 deviations.
    assert np.abs(error[FREE.deviation > 0.05]).max() < 7
    low, high = FREE.interval(0.9)
    inside = ((draws >= low) & (draws <= high)).mean()
    assert inside == pytest.approx(FREE.claimed(0.9), abs=0.005)
    assert np.array_equal(draws[:2], FREE.draws(2, np.random.default_rng(5).bytes))
    assert FREE.draws(1).min() >= 0


def test_it_helps_and_structure_helps_more() -> None:
    clamp = np.abs(np.maximum(RELEASED, 0) - TRUE).mean()
    free, near = (np.abs(found.median - TRUE).mean() for found in (FREE, NEAR))
    assert near < 0.85 * free < 0.85 * 0.6 * clamp
    assert FREE.gain.after == pytest.approx(free, rel=0.15)
    assert FREE.gain.before == pytest.approx(known.Geometric(0.5).moment(1))


def test_a_lone_large_cell_stays() -> None:
    table = np.zeros((30, 30), dtype=int)
    table[12, 17] = 500
    for like in (None, "neighbours", "margins"):
        found = posterior(noisy(table, 0.5), known.Geometric(0.5), like=like)
        assert abs(int(found.median[12, 17]) - 500) < 10


def test_one_cell_is_nearly_the_clamp() -> None:
    for y in (-3, 0, 4, 60):
        found = posterior([y], known.Geometric(0.5))
        assert abs(int(found.median[0]) - max(y, 0)) <= 1


@pytest.mark.slow
def test_few_cells_are_no_worse_than_clamped() -> None:
    table = np.random.default_rng(2).poisson(3, 20)
    mine = clamped = 0.0
    for seed in range(100):
        released = noisy(table, 0.5, seed)
        mine += np.abs(posterior(released, known.Geometric(0.5)).median - table).sum()
        clamped += np.abs(np.maximum(released, 0) - table).sum()
    assert mine <= 1.02 * clamped


def test_small_tables_leave_structure_out() -> None:
    small = RELEASED[:20, :20]
    near, free = (posterior(small, known.Geometric(0.5), like=k) for k in ("neighbours", None))
    assert np.array_equal(near.mean, free.mean)


def test_a_total_that_is_hardly_measured_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PosteriorWarning, match="deviations of its noise"):
            posterior(noisy(np.zeros((30, 30), dtype=int), 0.1), known.Geometric(0.1))
        posterior(RELEASED, known.Geometric(0.5))


@pytest.mark.parametrize("name", ["mean", "median", "mode", "deviation", "released"])
def test_nobody_writes_to_what_was_found(name: str) -> None:
    given = RELEASED.copy()
    found = posterior(given, known.Geometric(0.5))
    before = found.sum([1, 2, 3])
    with pytest.raises(ValueError, match="read-only"):
        getattr(found, name)[...] = -1
    given[...] = 7
    assert found.sum([1, 2, 3]) == before

"""What noise is read, and from which measurements."""

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_bounded_noise, make_optimal_noise, solve, solve_bounded
from opendp_optimal.extend import known
from opendp_optimal_bayes import Posterior, PosteriorWarning, posterior
from opendp_optimal_bayes.table_posterior import dependent, likelihood, observed

COUNT = dp.atom_domain(T=int), dp.absolute_distance(T=int)
REAL = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
VECTOR = dp.vector_domain(dp.atom_domain(T=int), size=6), dp.l1_distance(T=int)

LAWS = [known.Geometric(0.3), known.DiscreteGaussian(3.0), known.Canonical(0.5, 0.01)]


@pytest.mark.parametrize(
    "law",
    [*LAWS, known.Laplace(0.4), known.Staircase(1.0, 0.4), known.Gaussian(3.0)],
    ids=lambda law: type(law).__name__,
)
@pytest.mark.parametrize("unit", [1.0, 0.25, 4.0])
def test_windows_are_the_law(law: known.Law, unit: float) -> None:
    if law.integer and unit < 1:
        pytest.skip("integers have no parts")
    found = likelihood.window(law, unit)
    radius = len(found) // 2
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx(found[::-1], rel=1e-9, abs=1e-30)
    middle = law.cdf(unit / 2) - law.cdf(-unit / 2) if not law.integer or unit == 1 else None
    if middle is not None:
        assert found[radius] == pytest.approx(float(middle), rel=1e-9)
    if isinstance(law, known.Geometric) and unit == 1:
        assert found == pytest.approx(law.pmf(radius), rel=1e-9)


def test_uneven_noise_is_read_the_right_way_round() -> None:
    law = known.Tabulated(np.array([0.1, 0.5, 0.4, 0.0, 0.0]), 1.0, 1.0, integer=True)
    found = posterior([10], law, prior=np.full(21, 1 / 21))  # noise is -2, -1 or 0
    assert np.asarray(found.interval(0.999)).ravel().tolist() == [10, 12]
    assert found.mean[0] == pytest.approx(12 * 0.1 + 11 * 0.5 + 10 * 0.4)


def test_the_law_is_read_from_measurements() -> None:
    released = [3, 0, -1, 8, 2, 0]
    for meas, law in (
        (dp.m.make_laplace(*COUNT, scale=2.0), known.Geometric(0.5)),
        (dp.m.make_laplace(*VECTOR, scale=2.0), known.Geometric(0.5)),
        (dp.m.make_gaussian(*COUNT, scale=2.0), known.DiscreteGaussian(2.0)),
    ):
        assert np.array_equal(posterior(released, meas).mean, posterior(released, law).mean)
    for_each = [dp.m.make_laplace(*COUNT, scale=s) for s in (2.0, 2.0, 1.0, 1.0, 2.0, 2.0)]
    laws = [known.Geometric(r) for r in (0.5, 0.5, 1.0, 1.0, 0.5, 0.5)]
    assert np.array_equal(posterior(released, for_each).mean, posterior(released, laws).mean)
    optimal = make_optimal_noise(*VECTOR, 1, (1.0, 1e-6))
    assert isinstance(posterior(released, optimal), Posterior)


def chained() -> dp.Measurement:
    words = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counts = words >> dp.t.then_count_by_categories(list("abcde"), null_category=True)
    return counts >> dp.m.then_laplace(scale=2.0)


def resolved() -> dp.Measurement:
    context = dp.Context.compositor(
        data=list("abba"),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=0.5),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=str)),
    )
    return (
        context.query().count_by_categories(list("abcde"), null_category=True).laplace().resolve()
    )


def test_the_law_is_read_at_the_end_of_chains_and_queries() -> None:
    released = [3, 0, -1, 8, 2, 0]
    for meas in (chained(), resolved()):
        assert np.array_equal(
            posterior(released, meas).mean, posterior(released, known.Geometric(0.5)).mean
        )
    optimal = make_optimal_noise(*REAL, 1.0, (1.0, 1e-6))
    values = [0.3, 12.0, -1.5, 4.0]
    alone = posterior(values, optimal.table)
    assert posterior(values, optimal).mean == pytest.approx(alone.mean, rel=1e-3)
    integers = make_optimal_noise(*COUNT, 1, (1.0, 1e-3))
    assert np.array_equal(
        posterior(released, integers).mean, posterior(released, integers.table).mean
    )


@pytest.mark.parametrize("law", [known.Staircase(1.0, 0.4), known.Laplace(1.0)], ids=str)
def test_staircases_are_told_from_laplace(law: known.Law) -> None:
    prior = np.full(40, 1 / 40)
    found = posterior([5.0], law, prior=prior, bounds=(0, 10))
    x = (np.arange(10_000) + 0.5) / 1000
    chances = law.cdf(5.0005 - x) - law.cdf(4.9995 - x)
    below = np.cumsum(chances) / chances.sum()
    low, high = found.interval(0.8)
    assert low[0] == pytest.approx(x[np.argmax(below >= 0.1)], abs=0.15)
    assert high[0] == pytest.approx(x[np.argmax(below >= 0.9)], abs=0.15)


BOUNDED = [((0, 20), int, None), ((0.0, 10.0), float, None), ((0.0, 4.0), float, [0.0, 1.0, 4.0])]


@pytest.mark.parametrize(("ends", "kind", "bins"), BOUNDED, ids=["counts", "sums", "uneven bins"])
def test_noise_that_depends_on_the_answer(ends: tuple, kind: type, bins: list | None) -> None:
    space = (
        COUNT
        if kind is int
        else (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float))
    )
    meas = make_optimal_bounded_noise(*space, kind(1), (1.0, 1e-6), range=ends, bins=bins, gap=0.05)
    rng = np.random.default_rng(3)
    true = np.minimum(rng.gamma(0.3, ends[1] / 4, 1500), ends[1])
    true = np.floor(true).astype(int) if kind is int else true
    released = np.array([meas(kind(x)) for x in true])
    found = posterior(released, meas)
    assert np.abs(found.median - true).mean() < 0.95 * np.abs(released - true).mean()
    low, high = found.interval(0.9)
    # Shares of 1500 cells by secure draws: a deviation of 0.015.
    assert abs(((low <= true) & (true <= high)).mean() - found.claimed(0.9)) < 0.08
    assert low.min() >= ends[0]
    assert high.max() <= ends[1]
    assert found.gap <= 1e-6
    with pytest.warns(PosteriorWarning, match="has a bias"):
        total = found.sum()
    assert abs(total.estimate - true.sum()) < 0.3 * abs(total.raw - true.sum())
    with pytest.raises(ValueError, match="cannot have produced the released value"):
        posterior([ends[1] + 1], meas)
    with pytest.raises(ValueError, match="must hold the range"):
        posterior(released, meas, bounds=(0, ends[1] - 1))
    with pytest.raises(ValueError, match="threshold needs"):
        posterior(released, meas, threshold=0)


def test_dependent_noise_follows_bayes_rule() -> None:
    meas = make_optimal_bounded_noise(*COUNT, 1, (1.0, 1e-6), range=(0, 12), gap=0.05)
    prior = np.arange(1.0, 14.0) / 91.0
    chances = meas.table.family()[2]
    released = np.arange(13)
    exact = (prior[:, None] * chances).T
    exact /= exact.sum(axis=1, keepdims=True)
    found = posterior(released, meas, prior=prior)
    assert found.mean == pytest.approx(exact @ np.arange(13), abs=1e-9)
    for noise, table in (([meas] * 13, released), ((meas, meas), (released, released))):
        with pytest.raises(ValueError, match="the same for all cells"):
            posterior(table, noise)


@pytest.mark.filterwarnings("ignore::opendp_optimal.GapWarning")
def test_tables_with_a_spike_are_their_law() -> None:
    """Noise that is nearly always next to nothing: what was released is what was there."""
    table = solve(20.0, 1e-6, gap=2e7)
    assert table.spike is not None
    found = likelihood.window(observed.read_law(table), 2.0**-16)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert found[len(found) // 2 - 3 : len(found) // 2 + 4].sum() > 0.9999
    truth = np.arange(400) % 7.0
    released = truth + np.where(np.arange(400) % 40 == 0, 0.1, 0.0)
    assert np.abs(posterior(released, table).median - released).max() < 0.01
    bounded = solve_bounded(20.0, 1e-6, sensitivity=1, range=(0, 300), gap=2e7)
    alike = dependent.Dependent(bounded, integer=False).alike
    assert alike is not None
    assert alike.cdf(301.0) == pytest.approx(1, abs=1e-9)

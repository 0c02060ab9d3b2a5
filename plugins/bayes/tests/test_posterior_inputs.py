"""What posteriors are made of: sums, several releases, any noise, thresholds; bad input."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal.extend import known
from opendp_optimal_bayes import make_bounded_geometric, posterior, remap

HALF = known.Geometric(0.5)
COUNT = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def geometric(rng: np.random.Generator, rate: float, size: object) -> np.ndarray:
    p = -math.expm1(-rate)
    return rng.geometric(p, size) - rng.geometric(p, size)


def chances(law: known.Law, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of integer noise."""
    return law.cdf(y - x) - law.cdf(y - x - 1)


def test_several_releases_multiply() -> None:
    laws = known.Geometric(0.3), known.DiscreteGaussian(2.0), known.Geometric(1.0)
    rng = np.random.default_rng(0)
    prior = rng.random(20)
    prior /= prior.sum()
    tables = tuple(rng.integers(-3, 24, 60) for _ in laws)
    tables = tables[0], tables[0] + rng.integers(-5, 6, 60), tables[0] + rng.integers(-5, 6, 60)
    found = posterior(tables, laws, prior=prior)
    x = np.arange(20)
    joint = prior * np.prod(
        [chances(w, y[:, None], x) for w, y in zip(laws, tables, strict=True)], 0
    )
    exact = joint / joint.sum(axis=1, keepdims=True)
    assert found.mean == pytest.approx(exact @ x, abs=1e-8)
    assert np.array_equal(found.median, np.argmax(exact.cumsum(axis=1) >= 0.5 - 1e-12, axis=1))


def test_two_releases_are_better_than_one() -> None:
    rng = np.random.default_rng(1)
    true = rng.poisson(rng.gamma(0.3, 10, 2000))
    first, second = true + geometric(rng, 0.3, 2000), true + geometric(rng, 0.6, 2000)
    both = posterior((first, second), (known.Geometric(0.3), known.Geometric(0.6)))
    alone = posterior(second, known.Geometric(0.6))
    assert np.abs(both.median - true).mean() < 0.97 * np.abs(alone.median - true).mean()
    assert both.sum().raw_deviation < alone.sum().raw_deviation
    assert both.gap <= 1e-6


def test_one_release_twice_the_same_way() -> None:
    released = np.arange(-3, 30)
    once = posterior(released, HALF)
    assert np.array_equal(posterior((released,), (HALF,)).mean, once.mean)
    assert np.array_equal(posterior(released, [HALF] * 33).mean, once.mean)


def test_cells_with_different_noise() -> None:
    rng = np.random.default_rng(2)
    prior = rng.random(20)
    prior /= prior.sum()
    laws = known.Geometric(0.3), known.DiscreteGaussian(2.0), known.Geometric(1.0)
    kind = rng.integers(0, 3, (6, 10))
    released = rng.integers(0, 20, (6, 10))
    noise = np.empty((6, 10), dtype=object)
    for at in np.ndindex(6, 10):
        noise[at] = laws[kind[at]]
    found = posterior(released, noise, prior=prior)
    for place, law in enumerate(laws):
        alone = posterior(released[kind == place], law, prior=prior)
        assert found.mean[kind == place] == pytest.approx(alone.mean)
    listed = posterior(released, noise.ravel().tolist(), prior=prior)
    assert np.array_equal(listed.mean, found.mean)
    sigma2 = sum(law.moment(2) * (kind == place).sum() for place, law in enumerate(laws))
    assert found.sum().raw_deviation == pytest.approx(math.sqrt(sigma2))


def test_thresholds_are_allowed_for() -> None:
    rng = np.random.default_rng(3)
    true = rng.geometric(0.25, 20_000)  # keys with at least one row each
    noisy = true + geometric(rng, 0.5, 20_000)
    shown = noisy >= 8
    found = posterior(noisy[shown], HALF, threshold=8, bounds=(1, None))
    naive = posterior(noisy[shown], HALF, bounds=(1, None))
    errors = [np.abs(f.mean - true[shown]).mean() for f in (found, naive)]
    bias = [abs(float((f.mean - true[shown]).mean())) for f in (found, naive)]
    # Little is known of true values far below the threshold: hardly any of them is shown.
    assert bias[0] < 0.6 * bias[1]
    assert errors[0] < errors[1]
    assert found.prior.mean < 0.5 * naive.prior.mean
    far = posterior(noisy, HALF, threshold=-1000, bounds=(1, None))
    assert far.mean == pytest.approx(posterior(noisy, HALF, bounds=(1, None)).mean, rel=0.02)


REAL = [known.Laplace(0.01), known.Gaussian(100.0), known.Staircase(1.0, 0.4)]


@pytest.mark.parametrize("law", REAL[:2], ids=lambda law: type(law).__name__)
def test_known_priors_of_sums(law: known.Law) -> None:
    prior = np.array([0.5, 0.1, 0.0, 0.2, 0.2])
    released = np.linspace(-300.0, 800.0, 23)
    found = posterior(released, law, prior=prior, bounds=(0, 500))
    x = (np.arange(500_00) + 0.5) / 100
    density = np.exp(-np.abs(released[:, None] - x) / 100)
    if isinstance(law, known.Gaussian):
        density = np.exp(-0.5 * ((released[:, None] - x) / 100) ** 2)
    joint = density * np.repeat(prior, 10_000)
    joint /= joint.sum(axis=1, keepdims=True)
    assert found.mean == pytest.approx(joint @ x, abs=2.5)  # a part of the noise
    below = joint.cumsum(axis=1)
    median = x[np.argmax(below >= 0.5, axis=1)]
    assert np.abs(found.median - median).max() < 5


@pytest.mark.parametrize("law", REAL[:2], ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("bounds", [(None, None), (0, None), (-5000, 9000), (None, 20_000)])
def test_sums_with_any_bounds(law: known.Law, bounds: tuple[float | None, float | None]) -> None:
    rng = np.random.default_rng(4)
    true = np.where(rng.random(3000) < 0.5, 0.0, np.abs(rng.normal(1000, 60, 3000)))
    if bounds[0] is None:
        true *= np.where(rng.random(3000) < 0.3, -1, 1)
    noise = (
        rng.laplace(0, 100, 3000) if isinstance(law, known.Laplace) else rng.normal(0, 100, 3000)
    )
    released = true + noise
    found = posterior(released, law, bounds=bounds)
    assert np.abs(found.median - true).mean() < 0.62 * np.abs(noise).mean()
    assert ((found.mean - true) ** 2).mean() < 0.6 * (noise**2).mean()
    low, high = found.interval(0.9)
    assert ((low <= true) & (true <= high)).mean() > 0.87
    assert found.claimed() >= 0.9 - 1e-9
    assert found.gap <= 1e-6
    ends = [b if b is not None else s * math.inf for b, s in zip(bounds, (-1, 1), strict=True)]
    assert low.min() >= ends[0]
    assert high.max() <= ends[1]


@pytest.mark.slow
def test_sums_that_are_alike() -> None:
    rng = np.random.default_rng(5)
    label = rng.integers(0, 30, 3000)
    true = rng.normal(0, 3000, 30)[label] + rng.normal(0, 30, 3000)
    released = true + rng.laplace(0, 100, 3000)
    free, near = (
        posterior(released, known.Laplace(0.01), bounds=(None, None), like=like)
        for like in (None, label)
    )
    assert np.abs(near.median - true).mean() < 0.5 * np.abs(free.median - true).mean()
    positive = posterior(released + 9000, known.Laplace(0.01), like=label)
    assert np.abs(positive.median - true - 9000).mean() < np.abs(released - true).mean()


def test_bounds_beyond_sight_are_none() -> None:
    released = np.random.default_rng(9).normal(3, 2, 300)
    near, far = (posterior(released, known.Laplace(1.0), bounds=(-b, b)) for b in (1e12, 1e200))
    assert far.mean == pytest.approx(near.mean, abs=0.2)
    assert np.abs(far.mean - released).max() < 5


def test_scales_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    released = np.abs(rng.normal(0, 50, 500)) + rng.laplace(0, 8, 500)
    one = posterior(released, known.Laplace(1 / 8))
    for factor in (2.0**-300, 2.0**300):
        found = posterior(released * factor, known.Laplace(1 / 8 / factor))
        assert found.mean / factor == pytest.approx(one.mean, rel=1e-9, abs=1e-9)


def test_wide_noise_on_counts() -> None:
    rng = np.random.default_rng(7)
    true = rng.poisson(rng.gamma(0.2, 50_000, 4000))
    released = true + geometric(rng, 1e-4, 4000)
    found = posterior(released, known.Geometric(1e-4))
    assert found.median.dtype == np.int64
    assert np.abs(found.median - true).mean() < 0.8 * np.abs(np.maximum(released, 0) - true).mean()


def test_upper_bounds_of_counts() -> None:
    released = np.array([-4, 0, 3, 9, 14, 11, 2, 10] * 10)
    found = posterior(released, HALF, bounds=(2, 10))
    low, high = found.interval(0.99)
    assert low.min() >= 2
    assert high.max() <= 10
    assert found.mean.min() >= 2


def test_priors_of_other_tables() -> None:
    rng = np.random.default_rng(8)
    true = rng.poisson(rng.gamma(0.3, 10, 3000))
    first = posterior(true + geometric(rng, 0.5, 3000), HALF)
    other = posterior([0, 1, -2, 30, 5], HALF, prior=first.prior)
    assert other.gap == 0
    again = posterior(first.released, HALF, prior=first.prior)
    assert again.mean == pytest.approx(first.mean, abs=0.2)


def test_noise_that_stays_within_bounds() -> None:
    meas = make_bounded_geometric(*COUNT, 0, 20, 0.5)
    prior = np.arange(1.0, 22.0) / 231.0
    released = np.arange(21)
    found = posterior(released, meas, prior=prior)
    rule = remap(prior, "l1").rule(meas)
    x = np.arange(21)
    chances = rule.law.matrix * prior[:, None]
    errors = (np.abs(x[:, None, None] - x[None, :, None]) * chances[None]).sum(axis=1)
    best = errors.min(axis=0)
    assert errors[np.asarray(found.median), x] == pytest.approx(best, abs=1e-9)
    fitted = posterior(released, meas)
    assert fitted.interval(0.99)[1].max() <= 20


def test_frames() -> None:
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(9)
    a, b, c = (axis.ravel() for axis in np.meshgrid(*map(np.arange, (9, 9, 9)), indexing="ij"))
    true = rng.poisson(40 * np.exp(-0.5 * a - 0.3 * b))
    frame = pl.DataFrame(
        {"a": a, "b": b.astype(str), "c": c, "len": true + geometric(rng, 0.5, 729)}
    )
    free = posterior(frame, HALF)
    near = posterior(frame, HALF, like="margins")
    out = near.frame(level=0.8)
    assert out.columns == ["a", "b", "c", "len", "len_estimate", "len_low", "len_high", "len_mean"]
    assert out["len"].to_list() == frame["len"].to_list()
    assert np.array_equal(out["len_estimate"].to_numpy(), near.median)
    table = posterior(frame["len"].to_numpy().reshape(9, 9, 9), HALF, like="margins")
    assert near.mean == pytest.approx(table.mean.ravel(), rel=1e-6)
    assert np.abs(near.median - true).mean() < np.abs(free.median - true).mean()
    assert posterior(frame, HALF, like=("a", "b")).gap <= 1e-6
    for options, message in (
        ({"column": "b"}, "column of numbers"),
        ({"like": "len"}, "one of the other columns"),
    ):
        with pytest.raises(ValueError, match=message):
            posterior(frame, HALF, **options)
    with pytest.raises(ValueError, match="column must be given: one of a, c, n"):
        posterior(frame.rename({"len": "n"}), HALF)
    with pytest.raises(ValueError, match="a column 'len_estimate' already"):
        posterior(out, HALF).frame()
    with pytest.raises(ValueError, match="no data frame"):
        posterior([1, 2], HALF).frame()
    with pytest.raises(ValueError, match="is for data frames"):
        posterior([1, 2], HALF, column="len")
    with pytest.raises(ValueError, match="not for data frames"):
        posterior(frame, HALF, shape=(27, 27))
    with pytest.raises(ValueError, match="a tuple of data frames"):
        posterior((frame, frame), (HALF, HALF))


def test_keys_of_frames_may_be_anything() -> None:
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(9)
    a, b = (axis.ravel() for axis in np.meshgrid(np.arange(25), np.arange(24), indexing="ij"))
    count = rng.poisson(40 * np.exp(-0.5 * a)) + geometric(rng, 0.5, 600)
    plain = pl.DataFrame({"a": a, "b": b, "len": count})
    wanted = posterior(plain, HALF, like="margins").mean
    missing = pl.when(pl.col("a") > 0).then(pl.col("a"))
    lists = pl.concat_list("a", "a")
    for odd in (plain.with_columns(a=missing), plain.with_columns(a=lists)):
        assert posterior(odd, HALF, like="margins").mean == pytest.approx(wanted, rel=1e-9)
    alike = posterior(plain, HALF, like="a").mean
    odd = plain.with_columns(a=missing)
    assert posterior(odd, HALF, like="a").mean == pytest.approx(alike, rel=1e-9)
    money = plain.with_columns(len=pl.col("len").cast(pl.Decimal(10, 2)))
    assert posterior(money, HALF).mean.tolist() == posterior(plain, HALF).mean.tolist()


def test_nothing_that_is_done_later_changes_a_posterior() -> None:
    released = np.arange(600.0) % 7
    like = np.ones(600)
    found = posterior(released, HALF, like=like)
    before = found.released.tolist()
    released[:], like[:] = 99.0, 5.0
    assert found.released.tolist() == before
    for array in (*found.interval(), found.mean, found.predictor, found.prior.chances):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_numbers_of_any_kind() -> None:
    wanted = posterior([3, 0, 7], HALF).mean.tolist()
    assert posterior(np.array([3, 0, 7], dtype=object), HALF).mean.tolist() == wanted
    assert posterior([Fraction(3), 0, 7.0], HALF).mean.tolist() == wanted
    with pytest.raises(ValueError, match="must hold numbers"):
        posterior(np.array([3, None, 7]), HALF)
    with pytest.raises(ValueError, match="below 2\\^1024"):
        posterior([10**400, 0], HALF)


def test_narrow_noise_beside_wide_noise() -> None:
    rng = np.random.default_rng(1)
    true = rng.poisson(3, 600)
    laws = HALF, known.Geometric(1e-3)
    tables = tuple(true + geometric(rng, law.rate, 600) for law in laws)
    both, one = posterior(tables, laws), posterior(tables[0], HALF)
    # The wide one says next to nothing.
    assert np.abs(both.mean - one.mean).max() < 0.1


def test_noise_that_is_hardly_ever_there() -> None:
    found = posterior(np.arange(30.0), known.UniformBernoulli(1.0 - 1e-12, 0.3))
    assert found.median == pytest.approx(np.arange(30.0), abs=1e-4)


@pytest.mark.slow
def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for shape in ((10, 12), (120,), (1,)):
        size = math.prod(shape)
        found = posterior(np.arange(size) % 5 - 1, HALF, shape=shape)
        path = tmp_path / f"{size}-{len(shape)}.svg"
        found.plot(path)
        assert "<svg" in path.read_text(encoding="utf-8")


def test_lists_of_cells_have_a_shape() -> None:
    found = posterior(list(range(12)), HALF, shape=(3, 4))
    assert found.mean.shape == found.interval()[0].shape == found.released.shape == (3, 4)
    assert posterior(5, HALF).mean.shape == (1,)
    assert posterior(np.arange(5, dtype=np.uint8), HALF).median.dtype == np.int64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((), HALF), "at least one cell"),
        (((1.0, math.nan), HALF), "finite: it holds nan"),
        (((1.0, math.inf), HALF), "finite: it holds inf"),
        ((("a",), HALF), "must hold numbers"),
        (((1.5,), HALF), "whole numbers"),
        (((2**60,), HALF), "below 2\\^53"),
        (((1,), 0.5), "noise .0.5. must be a measurement, a law"),
        (((1,), "geometric"), "must be a measurement, a law"),
        (((-50,), known.Canonical(1.0, 0.1)), "cannot have produced the released value -50"),
        (((1.0, 2.0), known.Laplace(1e-300)), "width between"),
        (((1.0, 2.0), known.Laplace(1e300)), "width between"),
        (((1, 2), [HALF]), "one for each cell"),
        (((1, 2), (HALF, HALF, HALF)), "3 releases, released has 2"),
        ((((1,), (1, 2)), (HALF, HALF)), "must be alike"),
        ((((1,), (1,)), (HALF, known.Laplace(1.0))), "integers everywhere or of real"),
    ],
)
def test_bad_releases(given: tuple[object, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posterior(*given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": (-1, None)}, "lower bound of counts must be at least 0"),
        ({"bounds": (None, 5)}, "lower bound of counts"),
        ({"bounds": (0.5, None)}, "whole numbers"),
        ({"bounds": (3, 3)}, "must be below the upper one"),
        ({"bounds": (0, math.nan)}, "must be finite"),
        ({"bounds": 4}, "must be a pair"),
        ({"bounds": (0, 2**70)}, "below 2\\^53"),
        ({"shape": (2, 2)}, "4 cells, released has 3"),
        ({"shape": (-3,)}, "whole numbers above 0"),
        ({"like": "rows"}, "must be 'margins', 'neighbours'"),
        ({"like": "margins"}, "two axes"),
        ({"like": np.ones((2, 2))}, "must have the table's shape"),
        ({"like": np.array([1.0, -1.0, 2.0])}, "finite and not negative"),
        ({"like": np.array([1.0, 1e308, 2.0])}, "at most 1e100"),
        ({"prior": [0.5, 0.6]}, "prior"),
        ({"prior": [1.0], "bounds": (0, 3)}, "must have 4"),
        ({"prior": [0.5, 0.5], "like": "neighbours"}, "like and threshold must be None"),
        ({"prior": "flat"}, "prior must be a list"),
        ({"threshold": 2}, "at most the smallest released value"),
        ({"threshold": math.nan}, "threshold"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posterior([1, 2, 3], HALF, **options)


def test_bad_questions() -> None:
    found = posterior([1, 2, 3], HALF)
    for ask, message in (
        (lambda: found.interval(1.0), "level"),
        (lambda: found.interval(math.nan), "level"),
        (lambda: found.draws(0), "count"),
        (lambda: found.sum([True]), "must have the shape"),
        (lambda: found.sum([3]), "positions from 0 to 2"),
        (lambda: found.sum([1, 1]), "twice"),
        (lambda: found.sum([0.5]), "mask or a list"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
    assert found.sum([]) == (0.0, 0.0, 0.0, 0.0)


def test_noise_without_a_law() -> None:
    with pytest.raises(ValueError, match="noise: measurement must be"):
        posterior([1, 2, 3], dp.m.make_randomized_response_bool(0.75))

"""The simulation behind Table 3, against the paper's formulas written out one by one."""

import math

import numba
import numpy as np
import pytest
from scipy.special import expit

from docs.reproduce.selvi import descent_kernel, simulate_descent, uci_descent
from docs.reproduce.selvi.laws import BoundedLaw, law
from docs.reproduce.selvi.simulate_descent import (
    Descent,
    _alike,
    _block,
    _noise,
    _Rows,
    _table,
    descend,
)

NOISES = ("gaussian", "optimal", "optimal-bounded", None)


def made(rows=60, width=5, louder=10.0, values=2, **options):
    """Few distinct records, some of them in both classes."""
    rng = np.random.default_rng(0)
    x = rng.integers(-values, values + 1, size=(rows + 40, width)) / values
    x[:, 0] = 1.0
    y = np.where(x[:, 1] + x[:, 2] + rng.normal(size=rows + 40) > 0, 1.0, -1.0)
    return Descent(x[:rows], y[:rows], x[rows:], y[rows:], louder=louder, **options)


def by_the_book(task, noise, draws, rng):
    """Formula (10) of the paper, draw by draw."""
    n, width = task.train.shape
    start = rng.uniform(-1, 1, (width, draws))
    h = start.copy()
    for _ in range(task.iterations):
        means = np.zeros_like(h)
        chosen = rng.permutation(width)[: task.updates]
        uniform, _ = rng.random((2, task.updates, draws))
        for step, j in enumerate(chosen):
            for draw in range(draws):
                x, y = task.train, task.signs
                total = (expit(-y * (x @ h[:, draw])) * -y * x[:, j]).sum()
                if noise:
                    drawn = law(noise, 1.0, 0.1).quantile(uniform[step, draw])
                    total += 2 * task.louder * float(drawn)
                moved = h[j, draw] - total / n
                h[j, draw] = math.copysign(max(abs(moved) - task.penalty, 0), moved)
            means += h
        h = means / task.updates
    return h


def ours(task, names, draws, seed):
    """The weights of all descents, as the simulation has them."""
    noises = [_noise(task, name, 1.0, 0.1) for name in names]
    table, rng = _table(task, 1.0, 0.1), np.random.default_rng(seed)
    return _block(task, _Rows.of(task), noises, table, draws, rng)


@pytest.mark.parametrize(
    ("noise", "iterations"), [(None, 6), (None, 100), ("optimal", 6), ("gaussian", 100)]
)
def test_many_draws_at_a_time_are_the_papers_formula(noise, iterations):
    task = made(iterations=iterations, penalty=0.01)
    found = ours(task, [noise], 3, 4)
    expected = by_the_book(task, noise, 3, np.random.default_rng(4))
    assert np.allclose(found, expected, atol=2e-5)
    if noise or iterations < 100:  # without noise all descents end at the same place
        other = by_the_book(task, noise, 3, np.random.default_rng(5))
        assert not np.allclose(found, other, atol=1e-2)


@pytest.mark.parametrize("louder", [0.001, 30.0, 3000.0])
@pytest.mark.parametrize(("width", "rows", "draws"), [(5, 30, 3), (9, 5000, 80)])
def test_small_and_large_moves_of_few_and_many_records(louder, width, rows, draws):
    """Margins wait while moves are small; records and descents are taken in parts if many."""
    task = made(rows=rows, width=width, louder=louder, values=100, iterations=4)
    parts = len(_Rows.of(task).counts) / descent_kernel.PIECE
    assert (parts > 2) == (draws * parts * descent_kernel.PIECE > descent_kernel.TOGETHER)
    assert (parts > 2) == (rows == 5000)
    expected = by_the_book(task, "optimal", draws, np.random.default_rng(6))
    found = ours(task, ["optimal"], draws, 6)
    assert np.allclose(found, expected, atol=1e-5 * max(1.0, abs(expected).max()))


def test_steps_that_change_nothing_after_small_ones():
    """The penalty keeps some weights at 0: margins that wait must not be taken for new ones."""
    task = made(rows=400, width=12, louder=0.1, values=100, iterations=60, penalty=0.06)
    found = ours(task, ["optimal"], 5, 8)
    assert 0.1 < (found == 0).mean() < 0.9
    expected = by_the_book(task, "optimal", 5, np.random.default_rng(8))
    assert np.allclose(found, expected, atol=2e-5)


def test_the_quotient_for_tanh():
    @numba.vectorize
    def vectorised(x):
        return descent_kernel.tanh(x)

    x = np.linspace(-20, 20, 400_001, dtype=np.float32)
    assert abs(vectorised(x) - np.tanh(x.astype(np.float64))).max() < 2e-6


@pytest.mark.parametrize("louder", [10.0, 7.0, 30.0])
def test_the_kernel_draws_from_the_table(louder):
    task = made(louder=louder)
    table = _table(task, 1.0, 0.1)
    found = BoundedLaw(
        table.length, table.start, table.step, table.cumulated, table.rows, bool(table.revealing)
    )
    rng = np.random.default_rng(3)
    uniform, shifts = rng.random((2, 4000))
    sums = rng.uniform(-1.2, 1.2, 4000) * table.most
    expected = found.quantile(uniform, (sums + table.most) / table.per, shifts)
    released = [
        descent_kernel.released(table, *given) for given in zip(sums, uniform, shifts, strict=True)
    ]
    assert np.allclose(released, expected * table.per - table.most, atol=1e-9)
    assert np.unique(released).size > 100


def test_all_noises_of_a_draw_share_their_random_numbers():
    task = made(louder=1e-9, iterations=5)
    weights = ours(task, ("gaussian", "optimal", None), 4, 0)
    assert np.allclose(weights[:, :4], weights[:, 8:], atol=1e-5)
    assert np.allclose(weights[:, 4:8], weights[:, 8:], atol=1e-5)


def test_noise_does_harm_and_less_noise_does_less():
    found = descend(made(), NOISES, 1.0, 0.1, 100, [1])
    gaussian, optimal, bounded, exact = found[:, 0]
    assert exact < optimal < gaussian
    assert exact < bounded < gaussian
    assert exact < 0.35


def test_blocks_of_draws_do_not_change_what_is_measured(monkeypatch):
    task = made(iterations=20)
    whole = descend(task, NOISES, 1.0, 0.1, 150, [1])
    monkeypatch.setattr("docs.reproduce.selvi.simulate_descent._CELLS", 40 * 60 * len(NOISES))
    parts = descend(task, NOISES, 1.0, 0.1, 150, [1])
    assert not np.array_equal(whole, parts)  # other random numbers
    assert np.allclose(whole, parts, atol=0.06)


def test_releases_that_know_the_range_stay_within():
    task = made()
    table = _table(task, 1.0, 0.1)
    rng = np.random.default_rng(2)
    sums = np.repeat([-60.0, 60.0, 12.3], 1000)
    released = np.array([descent_kernel.released(table, total, *rng.random(2)) for total in sums])
    assert abs(released).max() <= 60 * (1 + 1e-9)
    assert abs(released - sums).mean() < 2 * task.louder * 1.5
    assert (released != sums).mean() > 0.5


@pytest.mark.parametrize(("rows", "louder"), [(60, 1.0), (1000, 10.0)])
def test_longer_ranges_are_clamped(rows, louder):
    task = made(rows=rows, louder=louder)
    assert _noise(task, "optimal-bounded", 1.0, 0.1).limit == rows
    assert _noise(task, "optimal", 1.0, 0.1).limit > 1e100
    loud = made(rows=rows, louder=louder * rows, iterations=1)
    free, clamped = np.split(ours(loud, ("optimal", "optimal-bounded"), 300, 1), 2, axis=1)
    assert abs(clamped).max() <= 1 + 2 <= abs(free).max()


@pytest.mark.parametrize(("rows", "louder", "alike"), [(1000, 1.0, True), (1000, 100.0, False)])
def test_clamping_is_left_out_only_where_it_does_nothing(rows, louder, alike, monkeypatch):
    task = made(rows=rows, louder=louder, iterations=10)
    noises = ("optimal", "optimal-bounded")
    assert (_alike(task, "optimal-bounded", 1.0, 0.1) == "optimal") == alike
    short = descend(task, noises, 1.0, 0.1, 200, [7])
    monkeypatch.setattr(simulate_descent, "_alike", lambda task, noise, *target: noise)
    long = descend(task, noises, 1.0, 0.1, 200, [7])
    assert np.array_equal(short, long)
    assert np.array_equal(long[0], long[1]) == alike


def test_data_have_the_papers_columns(data_folder):
    columns = {"post-operative": 14, "breast-cancer": 26, "dermatology": 98, "spect": 23}
    for name, expected in columns.items():
        features, signs = uci_descent.load(name, data_folder)
        assert features.shape[1] == expected
        assert abs(features).max() == 1.0
        assert set(signs) == {-1.0, 1.0}
        assert np.allclose(features[:, 1:].mean(axis=0), 0)
    features, signs = uci_descent.load("spect", data_folder)
    assert len(signs) == 160
    assert np.array_equal(features[:80], features[80:])


def test_unknown_data_and_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="name"):
        uci_descent.load("iris", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"uci/spect\.csv"):
        uci_descent.load("spect", tmp_path)

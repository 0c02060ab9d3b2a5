"""The simulation behind Table 3, against the paper's formulas written out one by one."""

import math

import numpy as np
import pytest

from opendp_optimal_learn import simulate_descent, uci_descent
from opendp_optimal_learn.laws import law
from opendp_optimal_learn.simulate_descent import Descent, _alike, _block, _release, _Rows, descend

NOISES = ("gaussian", "optimal", "optimal-bounded", None)


def made(rows=60, width=5, louder=10.0, **options):
    """Few distinct records, some of them in both classes."""
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, size=(rows + 40, width)) / 2
    x[:, 0] = 1.0
    y = np.where(x[:, 1] + x[:, 2] + rng.normal(size=rows + 40) > 0, 1.0, -1.0)
    return Descent(x[:rows], y[:rows], x[rows:], y[rows:], louder=louder, **options)


def by_the_book(task, noise, draws, rng):
    """Formula (10) of the paper for every draw, record by record."""
    n, width = task.train.shape
    start = rng.uniform(-1, 1, (width, draws))
    h = start.copy()
    for _ in range(task.iterations):
        means = np.zeros_like(h)
        chosen = rng.permutation(width)[: task.updates]
        uniform, _ = rng.random((2, task.updates, draws))
        for step, j in enumerate(chosen):
            for draw in range(draws):
                terms = [
                    math.exp(-y * (h[:, draw] @ x))
                    / (1 + math.exp(-y * (h[:, draw] @ x)))
                    * -y
                    * x[j]
                    for x, y in zip(task.train, task.signs, strict=True)
                ]
                total = sum(terms)
                if noise:
                    drawn = law(noise, 1.0, 0.1).quantile(uniform[step, draw])
                    total += 2 * task.louder * float(drawn)
                moved = h[j, draw] - total / n
                h[j, draw] = math.copysign(max(abs(moved) - task.penalty, 0), moved)
            means += h
        h = means / task.updates
    return h


@pytest.mark.parametrize(
    ("noise", "iterations"), [(None, 6), (None, 100), ("optimal", 6), ("gaussian", 100)]
)
def test_many_draws_at_a_time_are_the_papers_formula(noise, iterations):
    task = made(iterations=iterations, penalty=0.01)
    released = [_release(task, noise, 1.0, 0.1)]
    ours = _block(task, _Rows.of(task), released, 3, np.random.default_rng(4))
    expected = by_the_book(task, noise, 3, np.random.default_rng(4))
    assert np.allclose(ours, expected, atol=2e-5)
    if noise or iterations < 100:  # without noise all descents end at the same place
        other = by_the_book(task, noise, 3, np.random.default_rng(5))
        assert not np.allclose(ours, other, atol=1e-2)


def test_all_noises_of_a_draw_share_their_random_numbers():
    task = made(louder=1e-9, iterations=5)
    weights = _block(
        task,
        _Rows.of(task),
        [_release(task, noise, 1.0, 0.1) for noise in ("gaussian", "optimal", None)],
        4,
        np.random.default_rng(0),
    )
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
    monkeypatch.setattr("opendp_optimal_learn.simulate_descent._CELLS", 40 * 60 * len(NOISES))
    parts = descend(task, NOISES, 1.0, 0.1, 150, [1])
    assert not np.array_equal(whole, parts)  # other random numbers
    assert np.allclose(whole, parts, atol=0.06)


@pytest.mark.parametrize(("rows", "louder"), [(60, 10.0), (60, 1.0), (1000, 10.0)])
def test_releases_that_know_the_range_stay_within(rows, louder):
    task = made(rows=rows, louder=louder)
    rng = np.random.default_rng(2)
    sums = np.concatenate(
        [np.full(3000, rows), np.full(3000, -rows), rng.uniform(-rows, rows, 3000)]
    )
    release = _release(task, "optimal-bounded", 1.0, 0.1)
    released = release(rng.random((1, 9000)), rng.random((1, 9000)))(0, sums)
    assert abs(released).max() <= rows * (1 + 1e-9)
    assert abs(released - sums).mean() < 2 * louder * 1.5
    assert (released != sums).mean() > 0.5


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


def test_data_have_the_papers_columns(data_directory):
    columns = {"post-operative": 14, "breast-cancer": 26, "dermatology": 98, "spect": 23}
    for name, expected in columns.items():
        features, signs = uci_descent.load(name, data_directory)
        assert features.shape[1] == expected
        assert abs(features).max() == 1.0
        assert set(signs) == {-1.0, 1.0}
        assert np.allclose(features[:, 1:].mean(axis=0), 0)
    features, signs = uci_descent.load("spect", data_directory)
    assert len(signs) == 160
    assert np.array_equal(features[:80], features[80:])


def test_unknown_data_and_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="name"):
        uci_descent.load("iris", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"uci/spect\.csv"):
        uci_descent.load("spect", tmp_path)

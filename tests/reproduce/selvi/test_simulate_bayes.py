"""The simulation behind Table 2, against a slow one that is written out record by record."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.reproduce.selvi import uci, uci_bayes
from docs.reproduce.selvi.bayes_scores import Records, Statistics, count_errors
from docs.reproduce.selvi.laws import LAWS, bounded_law, fine_part_of_range, law
from docs.reproduce.selvi.simulate_bayes import BayesTask, Rules, errors, exact_errors, noise_sizes

PAPER = Path(__file__).resolve().parents[3] / "docs/reproduce/selvi/learning_paper.json"


def toy(classes=2, rows=300, features=2, categories=3, units=1000.0):
    rng = np.random.default_rng(classes)
    labels = rng.integers(classes, size=rows)
    numbers = 0.2 + 0.3 * labels[:, None] / classes + 0.1 * rng.normal(size=(rows, features))
    codes = (labels + (rng.random(rows) < 0.2)) % categories
    order = tuple(dict.fromkeys(labels.tolist()))
    return uci.Mixed(
        "toy",
        np.clip(numbers, 0, 1),
        np.column_stack([codes, rng.integers(categories, size=rows)]),
        (categories, categories),
        labels,
        classes,
        (units,) * features,
        order,
    )


def slow_errors(data, labels, train, seen, known, units):
    """The definition: products of doubles, which underflow, and the first of the largest."""
    wrong = np.zeros((2, known.counts.shape[-1]))
    for draw in range(known.counts.shape[-1]):
        for row in range(data.rows):
            scores = []
            for c in range(data.classes):
                score = math.log(known.counts[c, draw])
                for v, x in enumerate(data.numbers[row]):
                    spread = known.deviations[c, v, draw] * units[v]
                    z = (x - known.means[c, v, draw]) * units[v] / spread
                    density = math.exp(-z * z / 2) / (math.sqrt(2 * math.pi) * spread)
                    score += math.log(density) if density > 0 else -math.inf
                start = 0
                for j, size in enumerate(data.sizes):
                    place = start + data.codes[row, j]
                    start += size
                    if seen[c, place] == 0:
                        score = -math.inf
                    score += math.log(known.tallies[c, place, draw] / known.counts[c, draw])
                scores.append(score)
            wrong[int(not train[row]), draw] += scores.index(max(scores)) != labels[row]
    return wrong / np.array([[train.sum()], [(~train).sum()]])


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_errors_are_those_of_the_definition(classes):
    data = toy(classes)
    rng = np.random.default_rng(7)
    train = rng.random(data.rows) < 0.8
    task = BayesTask.of(data, train)
    labels = np.argsort(data.order)[data.labels]
    seen = task.exact.tallies.copy()
    seen[0, 1] = seen[1, 4] = 0  # two classes never had one of the categories
    draws = 12
    known = Statistics(
        task.exact.counts[..., None] * rng.uniform(0.5, 2, (classes, draws)),
        (seen[..., None] + 1e-6) * rng.uniform(0.1, 9, (*seen.shape, draws)),
        task.exact.means[..., None] + 0.2 * rng.normal(size=(*task.exact.means.shape, draws)),
        10.0 ** rng.uniform(-3, 0, (*task.exact.means.shape, draws)),
    )
    units = np.array(data.units)
    found = count_errors(Records.of(data, labels, train, seen, units), known)
    wanted = slow_errors(data, labels, train, seen, known, units)
    np.testing.assert_array_equal(found, wanted)
    # Without underflow small deviations lead elsewhere, so the comparison above can fail.
    other = count_errors(Records.of(data, labels, train, seen, None), known)
    assert np.any(other != wanted)


def test_without_noise_it_is_scikit_learns():
    from sklearn.naive_bayes import GaussianNB

    data = replace(toy(3), codes=np.zeros((300, 0), np.int64), sizes=())
    train = np.arange(data.rows) < 200
    found = exact_errors(BayesTask.of(data, train))
    model = GaussianNB(var_smoothing=0).fit(data.numbers[train], data.labels[train])
    for part, error in zip((train, ~train), found, strict=True):
        assert error == pytest.approx(1 - model.score(data.numbers[part], data.labels[part]))


def test_noise_costs_less_the_more_records_there_are():
    noises = ("gaussian", "truncated-laplace", "optimal", "optimal-bounded")
    costs = []
    for rows in (60, 10_000):
        task = BayesTask.of(toy(rows=rows), np.arange(rows) < 0.8 * rows)
        found = errors(task, noises, 1.0, 0.1, 50, np.random.default_rng(1))
        assert found.shape == (4, 4)
        costs.append(found[:, 0] - exact_errors(task)[0])
    few, many = costs
    assert (many < 0.02).all()
    assert (few[:3] > 0.02).all()
    assert few[0] > few[1] > few[2] > few[3]  # the ordering of the paper


def test_sizes_of_noise_are_those_of_its_law():
    task = BayesTask.of(toy(rows=10_000), np.arange(10_000) < 8000, Rules(least_deviation=1e-9))
    noises = ("truncated-laplace", "optimal")
    sizes = noise_sizes(task, noises, 1.0, 0.1, 2000, np.random.default_rng(4))
    # 8,000 draws each: five deviations of 0.58 / sqrt(8,000), which no law here exceeds
    np.testing.assert_allclose(sizes[0], 0.7368, atol=0.033)
    np.testing.assert_allclose(sizes[1], 0.6908, atol=0.033)
    assert (sizes[1] < sizes[0]).all()


def test_rules_of_the_authors_program():
    data = toy(units=40.0)
    train = np.arange(data.rows) < 240
    sizes = np.bincount(np.argsort(data.order)[data.labels])
    task = BayesTask.of(data, train)
    np.testing.assert_allclose(40 * task.mean_steps[:, 0], np.ceil(40 / sizes))
    np.testing.assert_allclose(40 * task.deviation_steps[:, 0], np.ceil(40 / np.sqrt(sizes)))
    assert (task.exact.deviations >= 1 / 40).all()
    text = BayesTask.of(data, train, Rules(whole_units=False, least_deviation=0.01))
    np.testing.assert_allclose(text.mean_steps[:, 0], 1 / text.exact.counts)
    np.testing.assert_allclose(text.deviation_steps[:, 0], 1 / np.sqrt(text.exact.counts))


@pytest.mark.parametrize("name", [*LAWS, "pinball:0.45"])
def test_quantiles_are_those_of_the_samples(name):
    noise = law(name, 1.0, 0.1)
    middles = (np.arange(100_000) + 0.5) / 100_000
    places = noise.quantile(middles)
    assert (np.diff(places) >= 0).all()
    drawn = noise.sample(np.random.default_rng(3), (100_000,))
    # The largest distance of two distribution functions; 0.0052 is exceeded once in 100.
    below = np.searchsorted(np.sort(drawn), places) / 100_000
    assert np.abs(below - middles)[np.diff(places, prepend=-np.inf) > 0].max() < 0.0052


def test_optimal_noise_takes_away_one_and_two_as_often_as_truncated_laplace():
    """Why counts of 1 and 2 do not profit: said on the page of Table 2."""
    middles = (np.arange(1_000_000) + 0.5) / 1_000_000
    rival, best = (law(n, 1.0, 0.1).quantile(middles) for n in ("truncated-laplace", "optimal"))
    for lost in (1, 2):
        assert (best <= -lost).mean() == pytest.approx((rival <= -lost).mean(), abs=2e-4)
    assert (best <= -0.5).mean() < (rival <= -0.5).mean() - 0.02
    assert np.abs(best).mean() < 0.95 * np.abs(rival).mean()


def test_releases_within_a_range_follow_their_numbers():
    noise = bounded_law(1.0, 0.1, fine_part_of_range(2.4))
    assert noise.length == 2.25
    numbers = np.linspace(0.001, 0.999, 500)
    for answer in (0.0, 1.0, 2.25):
        released = noise.quantile(numbers, np.full(500, answer), np.full(500, 0.5))
        assert released.min() >= 0
        assert released.max() <= 2.25
    revealing = noise.release(np.random.default_rng(0), np.full(1000, 1.0))
    assert 0.2 < np.abs(revealing - 1.0).mean() < 0.6


def test_data_sets_have_the_papers_shapes(data_folder):
    printed = json.loads(PAPER.read_text())["tables"]["2"]
    assert set(printed) == set(uci.NAMES)
    for name, cells in printed.items():
        data = uci_bayes.load(name, data_folder)
        shape = [data.numbers.shape[1], len(data.sizes), data.classes]
        assert (data.rows, shape) == (cells["rows"], cells["shape"]), name


def test_missing_data_are_named(tmp_path):
    for name in ("ecoli", "spect"):
        with pytest.raises(FileNotFoundError, match=rf"uci/{name}\.csv"):
            uci_bayes.load(name, tmp_path)
    with pytest.raises(ValueError, match="name"):
        uci_bayes.load("iris", tmp_path)

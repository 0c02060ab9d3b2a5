"""The quick versions of the scripts that write the pages in docs/reproduce."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from opendp_optimal_learn import uci
from opendp_optimal_learn.simulate_bayes import BayesTask, errors, exact_errors
from opendp_optimal_learn.simulate_descent import Descent, descend

SCRIPTS = Path(__file__).resolve().parents[3] / "docs" / "reproduce"


def run(name, tmp_path, monkeypatch, *arguments):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--page", str(page), *arguments])
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    text = page.read_text(encoding="utf-8")
    assert f"python docs/reproduce/{name}" in text
    assert list(tmp_path.glob("*.svg"))
    return text


@pytest.mark.parametrize("name", ["naive_bayes.py", "coordinate_descent.py", "honest_budget.py"])
def test_scripts_that_need_data(name, tmp_path, monkeypatch, data_directory):
    text = run(name, tmp_path, monkeypatch, "--data", str(data_directory))
    assert "| ecoli |" in text


def test_figures_of_noise(tmp_path, monkeypatch):
    text = run("noise_figures.py", tmp_path, monkeypatch)
    assert len(list(tmp_path.glob("*.svg"))) == 3
    assert "Figure 5" in text


def test_a_kept_run_is_not_repeated(tmp_path, monkeypatch, data_directory):
    kept = tmp_path / "kept.json"
    given = ("--data", str(data_directory), "--keep", str(kept))
    first = run("naive_bayes.py", tmp_path, monkeypatch, *given)
    assert run("naive_bayes.py", tmp_path, monkeypatch, *given) == first


def toy(rows=400):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=rows)
    numbers = np.clip(0.3 + 0.4 * labels[:, None] + 0.1 * rng.normal(size=(rows, 2)), 0, 1)
    codes = ((labels + (rng.random(rows) < 0.2)) % 2)[:, None]
    return uci.Mixed("toy", numbers, codes, (2,), labels, 2)


def test_simulated_bayes_tends_to_the_classifier_without_noise():
    data = toy()
    train = np.arange(data.rows) < 300
    task = BayesTask.of(data, train)
    exact = exact_errors(task)
    rng = np.random.default_rng(1)
    assert errors(task, "analytic-gaussian", 20.0, 0.1, 40, rng)[0] < exact[0] + 0.02
    for noise in ("optimal", "optimal-bounded"):
        assert errors(task, noise, 1.0, 0.1, 40, rng)[0] >= exact[0] - 0.01


def test_simulated_bayes_without_noise_is_scikit_learns():
    from sklearn.naive_bayes import GaussianNB

    data = toy()
    data = uci.Mixed("toy", data.numbers, data.codes[:, :0], (), data.labels, 2)
    train = np.arange(data.rows) < 300
    found = exact_errors(BayesTask.of(data, train))
    model = GaussianNB(var_smoothing=0).fit(data.numbers[train], data.labels[train])
    assert found[0] == pytest.approx(1 - model.score(data.numbers[train], data.labels[train]))
    assert found[1] == pytest.approx(1 - model.score(data.numbers[~train], data.labels[~train]))


def test_simulated_descent_learns():
    data = toy()
    features, labels = data.dense(), data.binary().astype(float)
    task = Descent(features[:300], labels[:300], features[300:], labels[300:])
    rng = np.random.default_rng(2)
    for noise in (None, "optimal"):
        found = descend(task, noise, 1.0, 0.1, 5, rng, np.random.default_rng(0))
        assert (found < 0.2).all()


def test_data_sets_have_the_papers_shapes(data_directory):
    shapes = {
        "post-operative": (86, 1, 7, 2),
        "ecoli": (336, 5, 2, 2),
        "annealing": (898, 6, 18, 5),
    }
    for name, (rows, numbers, categories, classes) in shapes.items():
        data = uci.load(name, data_directory)
        assert (data.rows, data.numbers.shape[1], len(data.sizes), data.classes) == (
            rows,
            numbers,
            categories,
            classes,
        )


def test_missing_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"uci/ecoli\.csv"):
        uci.load("ecoli", tmp_path)
    with pytest.raises(ValueError, match="name"):
        uci.load("iris", tmp_path)

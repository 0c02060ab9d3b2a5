"""Counts of categories at their posterior means: nothing more is spent, predictions are better."""

import warnings

import numpy as np
import pytest

from opendp_optimal import SolverError
from opendp_optimal_learn import PrivateNaiveBayes

posteriors = pytest.importorskip("opendp_optimal_bayes")

WIDE = 150
"""Categories of a feature: most of them are rare."""


def people(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=rows)
    rare = np.minimum(rng.geometric(0.08, (rows, 3)) + 12 * y[:, None], WIDE) - 1
    return np.char.add("c", rare.astype(str)).astype(object), y


def fitted(smoothing: str, noise: str = "optimal", epsilon: float = 0.05) -> PrivateNaiveBayes:
    X, y = people(3000, 0)  # noqa: N806
    model = PrivateNaiveBayes(
        epsilon,
        1e-6,
        noise=noise,
        categorical_features=[0, 1, 2],
        categories=[[f"c{k}" for k in range(WIDE)]] * 3,
        classes=[0, 1],
        smoothing=smoothing,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", posteriors.PosteriorWarning)
        return model.fit(X, y)


def log_loss(model: PrivateNaiveBayes) -> float:
    X, y = people(4000, 1)  # noqa: N806
    return float(-model.predict_log_proba(X)[np.arange(4000), y].mean())


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["optimal", "laplace"])
def test_posterior_means_cost_nothing_and_help(noise: str) -> None:
    plain, learnt = fitted("alpha", noise), fitted("posterior", noise)
    assert learnt.spent() == plain.spent()
    assert learnt.releases_ == plain.releases_
    assert all(table.shape == (2, WIDE) and table.min() >= 0 for table in learnt.category_count_)
    # About 0.4 times as large, with a deviation of 0.08.
    assert log_loss(learnt) < log_loss(plain)


def test_it_is_an_option_like_others() -> None:
    assert PrivateNaiveBayes(smoothing="posterior").get_params()["smoothing"] == "posterior"
    with pytest.raises(ValueError, match="smoothing"):
        fitted("none")
    with pytest.raises(ValueError, match="added to counts"):
        fitted("posterior", "optimal-bounded")


def test_counts_that_were_paid_for_are_used_without_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise SolverError("no fit")

    monkeypatch.setattr(posteriors, "posterior", fails, raising=False)
    with pytest.warns(UserWarning, match="noisy counts are taken"):
        model = fitted("posterior")
    assert all(table.min() >= 0 for table in model.category_count_)

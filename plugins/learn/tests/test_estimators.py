import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from opendp_optimal_learn import (
    NOISES,
    BoundsExceededWarning,
    PrivacyLeakWarning,
    PrivateLogisticRegression,
    PrivateNaiveBayes,
)

PUBLIC = {
    "bounds": ([-3, -5], [5, 3]),
    "categorical_features": [1],
    "categories": [["red", "green", "blue"]],
    "classes": [0, 1, 2],
}
RANDOM = {
    "check_classifier_data_not_an_array": "compares two fits, which are random",
    "check_supervised_y_2d": "compares two fits, which are random",
    "check_fit_idempotent": "compares two fits, which are random",
}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [PrivateNaiveBayes(), PrivateLogisticRegression(max_iter=3)])
def test_scikit_learns_own_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bounds and classes are not given there
        done = check_estimator(estimator, expected_failed_checks=RANDOM, on_skip=None)
    skipped = {c["check_name"] for c in done if c["status"] == "skipped"}
    assert skipped <= {"check_pipeline_consistency", "check_array_api_input", *RANDOM}
    assert sum(c["status"] == "passed" for c in done) > 40


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("spread", ["variance", "deviation"])
@pytest.mark.slow
def test_naive_bayes_learns_and_keeps_to_its_budget(mixed, noise, spread):
    x, y = mixed
    model = PrivateNaiveBayes(8.0, 1e-5, noise=noise, spread=spread, **PUBLIC).fit(x, y)
    if spread == "variance":  # 0.9 in all trials; deviations are too noisy to promise anything
        assert model.score(x, y) > 0.6
    epsilon, delta = model.spent()
    assert epsilon <= 8.0 * (1 + 1e-6)
    assert delta == 1e-5
    # 3 classes, 9 cells of the category, 2 x 2 x 3 moments
    assert model.releases_ == 3 + 9 + 12
    assert np.allclose(model.predict_proba(x[:5]).sum(axis=1), 1)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.slow
def test_logistic_regression_learns_and_keeps_to_its_budget(noise):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(4000, 3))
    y = np.where(x[:, 0] - x[:, 1] + 0.2 > 0, "yes", "no")
    model = PrivateLogisticRegression(
        4.0,
        1e-5,
        noise=noise,
        bounds=(-1, 1),
        classes=["no", "yes"],
        max_iter=12,
        updates=1,
        random_state=0,
    ).fit(x, y)
    assert model.score(x, y) > 0.75
    assert model.spent()[0] <= 4.0 * (1 + 1e-6)
    assert model.releases_ == 12
    assert model.coef_.shape == (1, 3)
    inside = x @ model.coef_[0] + model.intercept_[0]
    assert np.allclose(inside, model.decision_function(x))


@pytest.mark.slow
def test_iterations_follow_from_public_numbers():
    def fitted(rows, epsilon, **options):
        x = np.linspace(-1, 1, 2 * rows).reshape(rows, 2)
        y = (x[:, 0] > 0).astype(int)
        model = PrivateLogisticRegression(epsilon, bounds=(-1, 1), classes=[0, 1], **options)
        return model.fit(x, y)

    few, some, many = fitted(100, 1.0), fitted(700, 1.0), fitted(5000, 1.0)
    assert (few.n_iter_, many.n_iter_) == (2, 20)
    assert few.n_iter_ < some.n_iter_ < many.n_iter_
    assert fitted(700, 3.0).n_iter_ > some.n_iter_
    assert some.releases_ == 3 * some.n_iter_
    assert (few._plan.noise, many._plan.noise) == ("optimal", "analytic-gaussian")
    for model in (few, some, many):
        assert model.spent()[0] <= 1.0 * (1 + 1e-6)
    # No table is for as little as twenty passes would leave.
    assert fitted(100, 0.002, noise="optimal").n_iter_ == 2
    with pytest.raises(ValueError, match=r"epsilon \(0.002\) is too small for 60 releases"):
        fitted(100, 0.002, noise="optimal", max_iter=20)


def test_the_papers_settings():
    x = np.random.default_rng(1).uniform(-1, 1, size=(500, 7))
    model = PrivateLogisticRegression(
        1.0, 0.1, noise="optimal", budget="per-statistic", bounds=(-1, 1), classes=[0, 1],
        max_iter=100, updates=2, step=1.0, average=True, random_state=0,
    ).fit(x, (x[:, 2] > 0).astype(int))  # fmt: skip
    assert model.releases_ == 200
    assert model.spent() == (200.0, 1.0)
    assert abs(model.coef_[0]).argmax() == 2
    assert model.score(x, (x[:, 2] > 0).astype(int)) > 0.8


def test_per_statistic_is_said_to_be_no_total(mixed):
    model = PrivateNaiveBayes(1.0, 0.1, budget="per-statistic", **PUBLIC).fit(*mixed)
    epsilon, delta = model.spent()
    assert epsilon == 12.0  # 1 + 1 + 2 * 2 statistics, two cells each
    assert delta == 1.0
    assert PrivateNaiveBayes(1.0, 0.1, neighbours="add-remove", **PUBLIC).fit(*mixed).spent()[
        0
    ] == pytest.approx(1.0, abs=0.2)


def test_mean_and_spread_move_by_no_more_than_the_sensitivity():
    """What is released before noise, for pairs of neighbours that stress the bound."""

    class Exact:
        def number(self, value, *, sensitivity, low, high):
            assert low <= value <= high
            return value

    rng = np.random.default_rng(7)
    for spread, power in (("variance", 2), ("deviation", 1)):
        model = PrivateNaiveBayes(spread=spread, least_deviation=1e-12)
        for _ in range(400):
            n, size = int(rng.integers(0, 12)), int(rng.integers(1, 12))
            kind = rng.integers(3)
            values = rng.random(n) if kind else rng.integers(2, size=n).astype(float)
            other = np.append(values, rng.integers(2))
            changed = other.copy()
            changed[-1] = rng.integers(2)
            for first, second in ((values, other), (other, changed)):
                a = model._moments(Exact(), first, size)
                b = model._moments(Exact(), second, size)
                assert abs(a[0] - b[0]) <= 1 / size + 1e-9
                bound = 1 / size if spread == "variance" else 1 / np.sqrt(size)
                assert abs(a[1] ** power - b[1] ** power) <= bound + 1e-9


def test_pipelines_cross_validation_and_clones(mixed):
    x, y = mixed
    model = PrivateNaiveBayes(10.0, 1e-5, **PUBLIC)
    assert clone(model).get_params()["epsilon"] == 10.0
    pipe = make_pipeline(FunctionTransformer(), model)
    assert cross_val_score(pipe, x, y, cv=3).mean() > 0.5


def test_what_is_read_from_data_is_said(mixed):
    x, y = mixed
    with pytest.warns(PrivacyLeakWarning, match="classes, categories, bounds were not given"):
        PrivateNaiveBayes(categorical_features=[1]).fit(x, y)
    with pytest.warns(PrivacyLeakWarning, match="bounds was"):
        PrivateLogisticRegression(classes=[0, 1], max_iter=1).fit(np.eye(4), [0, 1, 0, 1])


def test_data_beyond_bounds_are_clipped_with_one_text(mixed):
    x, y = mixed
    texts = set()
    for row in (0, 17):
        beyond = x.copy()
        beyond[row, 0] = 1e9
        with pytest.warns(BoundsExceededWarning) as caught:
            model = PrivateNaiveBayes(reveal_clipping=True, **PUBLIC).fit(beyond, y)
        texts.add(str(caught[0].message))
        assert (model.theta_ <= 1).all()
    other = x.copy()
    other[3, 1] = "violet"
    with pytest.warns(BoundsExceededWarning) as caught:
        PrivateNaiveBayes(reveal_clipping=True, **PUBLIC).fit(other, y)
    texts.add(str(caught[0].message))
    with pytest.warns(BoundsExceededWarning) as caught:
        PrivateLogisticRegression(
            bounds=(0, 1), classes=[0, 1], max_iter=1, reveal_clipping=True
        ).fit([[0.0], [3.0]], [0, 1])
    texts.add(str(caught[0].message))
    assert len(texts) == 1


def test_tables_of_a_wrong_shape_raise_scikit_learns_errors(mixed):
    x, y = mixed
    model = PrivateNaiveBayes(**PUBLIC)
    with pytest.raises(NotFittedError):
        model.predict(x)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(x, y[:-1])
    with pytest.raises(ValueError, match="all rows with the same number"):
        model.fit([[1.0, "red", 2.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="not times"):
        model.fit(np.zeros((3, 3), "M8[s]"), [0, 1, 2])
    with pytest.raises(ValueError, match="one label for each record"):
        model.fit(x, np.zeros((len(x), 2)))
    with pytest.raises(ValueError, match="y is None"):
        model.fit(x, None)
    model.fit(x, y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(x[:, :2])


def test_what_is_missing_tells_nothing(mixed):
    x, y = mixed
    model = PrivateNaiveBayes(**PUBLIC).fit(x, y)
    empty = np.array([[None, "violet", np.nan], [None, None, "?"]], dtype=object)
    counts = model.class_count_ + model.alpha
    assert np.allclose(model.predict_proba(empty), counts / counts.sum())


@pytest.mark.filterwarnings("ignore::opendp_optimal_learn.PrivacyLeakWarning")
def test_one_class_and_constant_features():
    x = np.column_stack([np.full(50, 7.0), np.arange(50.0)])
    for model in (PrivateNaiveBayes(), PrivateLogisticRegression(max_iter=2)):
        with pytest.raises(ValueError, match="class"):
            model.fit(x, np.zeros(50))
        fitted = model.fit(x, np.arange(50) % 2)
        assert np.isfinite(fitted.predict_proba(x)).all()
    with pytest.raises(ValueError, match="Only binary"):
        PrivateLogisticRegression().fit(x, np.arange(50) % 3)
    # A class that is public but absent is no error: that it is absent is private.
    told = PrivateNaiveBayes(classes=[0, 1], bounds=(0, 60)).fit(x, np.zeros(50, dtype=int))
    assert told.predict_proba(x).shape == (50, 2)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bounds": (1, 0)}, "bounds"),
        ({"bounds": 3}, "bounds"),
        ({"bounds": (-8e307, 8e307)}, "bounds must be from"),
        ({"bounds": (0.0, 1e-320)}, "bounds must be at least"),
        ({"classes": [0, "a"]}, "classes"),
        ({"classes": [2**53 + 1, 0.5]}, "classes"),
        ({"bounds": ([0, 0, 0], 1)}, "bounds"),
        ({"noise": "none"}, "noise"),
        ({"epsilon": -1}, "epsilon"),
        ({"delta": 2}, "delta"),
        ({"budget": "free"}, "budget"),
        ({"spread": "range"}, "spread"),
        ({"neighbours": "all"}, "neighbours"),
        ({"alpha": 0}, "alpha"),
        ({"least_deviation": 0}, "least_deviation"),
        ({"categorical_features": [9]}, "categorical_features"),
        ({"categorical_features": ["colour"]}, "categorical_features"),
        ({"categorical_features": [True, False]}, "categorical_features"),
        ({"categories": [["red"], ["blue"]]}, "categories"),
        ({"categories": [["red", "red"]]}, "categories"),
    ],
)
def test_bad_arguments_of_naive_bayes_are_named(mixed, options, named):
    with pytest.raises(ValueError, match=named):
        PrivateNaiveBayes(**{**PUBLIC, **options}).fit(*mixed)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_iter": 0}, "max_iter"),
        ({"updates": 1.5}, "updates"),
        ({"penalty": -1}, "penalty"),
        ({"step": 0}, "step"),
        ({"classes": [1]}, "class"),
        ({"noise": "none"}, "noise"),
    ],
)
def test_bad_arguments_of_logistic_regression_are_named(options, named):
    with pytest.raises(ValueError, match=named):
        PrivateLogisticRegression(**{"bounds": (0, 1), "classes": [0, 1], **options}).fit(
            np.eye(4), [0, 1, 0, 1]
        )


@pytest.mark.parametrize(
    "given", [5, [{}], [{}, {}], [[1], [2]], [[1], [2, 3]], [None, 1], [1, "a"]]
)
def test_labels_that_are_none_are_named(given):
    """Whatever was given, the message says what was wanted."""
    rows, labels = np.zeros((4, 1)), [0, 1, 0, 1]
    for kind in (PrivateNaiveBayes, PrivateLogisticRegression):
        with pytest.raises(ValueError, match=re.escape(f"classes ({given!r})")):
            kind(classes=given, bounds=(0, 1)).fit(rows, labels)


@pytest.mark.parametrize("given", [5, [5], [[{}]], [[[1]]]])
def test_categories_that_are_none_are_named(given):
    rows, labels = np.zeros((4, 1)), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=re.escape(f"categories ({given!r})")):
        PrivateNaiveBayes(categorical_features=[0], categories=given, classes=[0, 1]).fit(
            rows, labels
        )

"""Fits that are charged to a ledger: together, before anything is released, whoever fits."""

import copy
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from opendp_optimal.budget import BudgetError, open_ledger
from opendp_optimal_learn import NOISES, PrivateLogisticRegression, PrivateNaiveBayes, plan
from opendp_optimal_learn.releases import StatisticReleases

X = np.linspace(-1.0, 1.0, 400).reshape(200, 2)
Y = np.arange(200) % 2
PUBLIC = {"bounds": (-1, 1), "classes": [0, 1], "noise": "laplace"}


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "budgets.db")
    opened.create("people", epsilon=2.0, delta=1e-5)
    yield opened
    opened.verify()
    opened.close()


def learners(kept_in, **options):
    kept = {**PUBLIC, "ledger": kept_in, "name": "people", **options}
    return PrivateNaiveBayes(0.5, 1e-6, **kept), PrivateLogisticRegression(
        0.5, 1e-6, max_iter=2, **kept
    )


def test_spent_adds_up_over_fits_of_everybody(ledger):
    bayes, logistic = learners(ledger)
    before = 0.0
    for model in (bayes, logistic, clone(bayes), copy.deepcopy(logistic)):
        own = model.fit(X, Y)._plan.spent_by(None, ())
        assert 0 < own[0] <= 0.5  # what was asked for and no more
        epsilon, delta = model.spent()
        assert epsilon == pytest.approx(before + own[0], abs=1e-11)
        before = epsilon
    assert bayes.spent() == logistic.spent() == (epsilon, delta)
    assert delta == pytest.approx(4e-6)
    assert bayes.spent(1e-3) == (epsilon, 1e-3)
    with pytest.raises(ValueError, match="as the ledger adds up"):
        bayes.spent(1e-9)
    notes = [entry.detail["note"] for entry in ledger.log() if entry.action == "charge"]
    assert notes[0] == "PrivateNaiveBayes: 10 releases of laplace noise a person"


def test_a_fit_that_costs_too_much_releases_and_changes_nothing(ledger, monkeypatch):
    for model in learners(ledger):
        model.fit(X, Y)
        predicted, spent = model.predict_proba(X), model.spent()
        monkeypatch.setattr(StatisticReleases, "_add", None)  # a release would fail otherwise
        model.set_params(epsilon=1.9, classes=["a", "b"], bounds=(-9, 9))
        with pytest.raises(BudgetError, match="must cost at most what is left"):
            model.fit(np.hstack([X, X]), np.array(["a", "b"])[Y])
        monkeypatch.undo()
        assert model.spent() == spent
        assert list(model.classes_) == [0, 1]
        assert np.array_equal(model.predict_proba(X), predicted)
        fresh = clone(model)
        with pytest.raises(BudgetError):
            fresh.fit(X, np.array(["a", "b"])[Y])
        with pytest.raises(NotFittedError):
            fresh.predict(X)
        assert not [name for name in vars(fresh) if name.endswith("_")]


def test_paths_pickles_and_searches_share_the_budget(ledger):
    by_path = PrivateNaiveBayes(0.1, 1e-7, **PUBLIC, ledger=ledger.address, name="people")
    assert clone(by_path).get_params()["ledger"] == ledger.address
    cross_val_score(by_path, X, Y, cv=3)
    charged = ledger.budget("people").spent
    by_object = PrivateNaiveBayes(0.1, 1e-7, **PUBLIC, ledger=ledger, name="people")
    assert clone(by_object).ledger is ledger
    search = GridSearchCV(by_object, {"alpha": [1.0, 2.0]}, cv=2).fit(X, Y)
    assert ledger.budget("people").spent.main > 2 * charged.main
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.spent() == search.best_estimator_.spent()
    again.fit(X, Y)
    assert ledger.remaining("people")[0] == pytest.approx(2.0 - again.spent()[0])
    again.ledger.close()


def test_threads_cannot_overspend(ledger):
    refused = []

    def fit():
        try:
            learners(ledger)[0].fit(X, Y)
        except BudgetError:
            refused.append(1)

    price = plan("laplace", 0.5, 1e-6, 10).spent()[0]
    threads = [threading.Thread(target=fit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 8 - int(2.0 / price)
    assert ledger.remaining("people")[0] >= 0


def test_the_unit_and_the_kind_of_a_budget_are_kept(ledger):
    ledger.create("pure", epsilon=10.0)
    pure = PrivateNaiveBayes(0.5, 0.0, **PUBLIC, ledger=ledger, name="pure").fit(X, Y)
    epsilon, delta = pure.spent()
    assert (epsilon, delta) == (pytest.approx(0.5), 0.0)
    pure.set_params(delta=1e-6).fit(X, Y)  # laplace noise is pure, all releases added up
    assert pure.spent()[0] > 1.0
    with pytest.raises(ValueError, match="must be 0 for this noise"):
        pure.set_params(noise="optimal").fit(X, Y)
    with pytest.raises(ValueError, match="must be that of the first context"):
        pure.set_params(noise="laplace", neighbours="add-remove").fit(X, Y)


@pytest.mark.parametrize("noise", ["laplace", "analytic-gaussian", "truncated-laplace"])
def test_budgets_in_rho(ledger, noise):
    """A fit is charged its rho; what is spent is told as the epsilon of all of it at a delta."""
    ledger.create("rho", rho=5.0)
    ledger.create("both", rho=5.0, delta=1e-5)
    model = PrivateNaiveBayes(0.5, 1e-6, **{**PUBLIC, "noise": noise}, ledger=ledger, name="both")
    one = model.fit(X, Y)._plan.concentrated()
    epsilon, delta = model.spent(2e-6)
    model.fit(X, Y)
    assert ledger.remaining("both")[0] == pytest.approx(5.0 - 2 * one[0], abs=1e-11)
    charged = ledger.budget("both").kind.floats(ledger.budget("both").spent, up=True)[1]
    assert charged == pytest.approx(2 * one[1], abs=1e-18)
    assert 0 < epsilon < model.spent(2e-6)[0]
    assert model.spent(2e-6)[1] == delta == 2e-6
    assert 0 < model.spent(1e-3)[0] < model.spent(2e-6)[0]
    with pytest.raises(ValueError, match="as the ledger adds up"):
        model.spent(-1.0)
    model.set_params(name="rho")
    if one[1]:
        with pytest.raises(ValueError, match="a budget with a delta"):
            model.fit(X, Y)
        assert ledger.remaining("rho") == 5.0
    else:
        assert 0 < model.fit(X, Y).spent()[0] < np.inf
        assert model.spent()[1] == 1e-6
        assert model.spent(0.0)[0] == np.inf


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("releases", [1, 30])
def test_the_rho_of_a_plan_covers_its_releases(noise, releases):
    """At no delta is a plan's rho a better price than that of its releases, each by itself."""
    made = plan(noise, 1.0, 1e-6, releases)
    rho, delta = made.concentrated()
    each = (1 / made.sigma) ** 2 / 2 if made.sigma else made.epsilon**2 / 2
    assert rho >= releases * each * (1 - 1e-12)
    assert delta >= releases * made.delta * (1 - 1e-12) or made.sigma


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ledger": None}, "must be given together"),
        ({"name": None}, "must be given together"),
        ({"name": "nobody"}, "no budget"),
        ({"ledger": 7}, "must be a Ledger or the path of one"),
        ({"ledger": "nowhere.db"}, "must be the path of a ledger"),
        ({"ledger": "postgresql://me:secret@nowhere/db"}, "opened by open_ledger"),
    ],
)
def test_bad_ledgers_are_refused(ledger, options, said):
    for model in learners(ledger, **options):
        with pytest.raises(ValueError, match=said) as error:
            model.fit(X, Y)
        assert "secret" not in str(error.value)
    assert ledger.remaining("people") == (2.0, ledger.remaining("people")[1])


def test_without_a_ledger_one_fit_is_counted():
    model = PrivateNaiveBayes(0.5, 1e-6, **PUBLIC)
    assert model.fit(X, Y).spent() == model.fit(X, Y).spent()
    assert "the last ``fit`` of this object alone" in model.spent.__doc__


@pytest.mark.parametrize("noise", NOISES)
def test_a_plan_costs_no_more_than_was_asked_for(noise):
    for epsilon, delta, releases in ((1.0, 1e-6, 1), (0.3, 1e-9, 60)):
        spent = plan(noise, epsilon, delta, releases).spent()
        assert spent[0] <= epsilon
        assert spent[1] == delta

"""Logistic regression by private coordinate descent (Selvi, Liu, Wiesemann 2024, 5.3)."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from scipy.special import expit
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from opendp_optimal.extend import Floats, positive, whole
from opendp_optimal_learn import inputs
from opendp_optimal_learn.budget import Plan, least_noise, plan
from opendp_optimal_learn.classifier import PrivateClassifier
from opendp_optimal_learn.releases import StatisticReleases

_SENSITIVITY = 2.0
"""Each term of a derivative is within [-1, 1]: one record moves the sum by 2 at most."""
_PASSES = range(20, 1, -1)
"""How often to go through all coordinates, most first, where it is not said."""
_TOLERATED = 0.16
"""Mean noise in one step of a coefficient from which more steps do more harm than good."""


@dataclass(eq=False, repr=False)  # a constructor that keeps its arguments; ``fit`` checks them
class PrivateLogisticRegression(PrivateClassifier):
    """Differentially private logistic regression for two classes, with an l1 penalty.

    Each iteration updates coordinates, in random order and one after the other, by a noisy partial
    derivative and the proximal operator. One record is replaced by another between neighbours, and
    the number of records is public.

    The paper's own settings are ``max_iter=100``, ``updates=ceil(d / 4)``, ``step=1`` and
    ``average=True``; the defaults need fewer releases for a better classifier.

    :param epsilon: privacy loss of ``fit``, or of each derivative; see ``budget``
    :param delta: probability of a larger loss
    :param noise: as in :class:`PrivateNaiveBayes`, or "auto": "optimal" for few releases and
        "analytic-gaussian" for many, whichever is smaller. Derivatives have a range of as many
        sensitivities as there are records, so "optimal-bounded" differs from "optimal" by
        clipping only, except for a handful of records
    :param budget: "total" or "per-statistic", each derivative being one
    :param bounds: public (lower, upper) of the features; they are scaled to [-1, 1]
    :param classes: public pair of the classes. If None, taken from the data, with a warning
    :param penalty: weight of the l1 norm of the coefficients
    :param max_iter: number of iterations. By default 2 to 20, as many as leave the noise in one
        step below a fixed size, which follows from the budget and the numbers of records and
        features alone; ``n_iter_`` says how many
    :param updates: coordinates updated in each; by default all
    :param step: factor of each derivative; 1 in the paper, 4 is the largest that is sure to
        converge without noise
    :param average: whether an iteration ends with the mean of its steps, as in the paper, rather
        than with the last of them
    :param fit_intercept: whether a constant feature is added
    :param random_state: of the choice of coordinates, which reveals nothing; noise is always
        drawn from the secure source
    :param reveal_clipping: whether to warn where data are outside of the bounds or classes. That
        the warning appears may be due to a single record: it is for whoever holds the data
    :param ledger: where the budget of the data set is kept, a
        :class:`~opendp_optimal.budget.Ledger` or the path of one: every fit is charged there first
    :param name: of the data set in the ledger; copies share its budget

    What a cell means depends on the cell alone: numbers beyond the bounds are clipped, what is no
    number is in the middle of the bounds, and a record of neither class pulls nowhere.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=2000)
    >>> X = np.column_stack([y + rng.normal(size=2000), rng.normal(size=2000)])
    >>> model = PrivateLogisticRegression(bounds=(-4, 5), classes=[0, 1])
    >>> model.fit(X, y).predict_proba(X).shape
    (2000, 2)
    >>> model.spent()[0] <= 1.0
    True
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    noise: str = "auto"
    budget: str = "total"
    bounds: Any = None
    classes: Any = None
    penalty: float = 1e-8
    max_iter: int | None = None
    updates: int | None = None
    step: float = 4.0
    average: bool = False
    fit_intercept: bool = True
    random_state: Any = None
    reveal_clipping: bool = False
    ledger: Any = None
    name: str | None = None

    def __sklearn_tags__(self) -> Any:
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _fit(self, X: Any, y: Any) -> None:  # noqa: N803
        self._check_options()
        dp.enable_features("contrib")
        X = inputs.numbers(self._cells(X, fitting=True))  # noqa: N806
        places = self._labelled(X, y)
        if self.classes is None and len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported. y has more than 2 classes.")
        if len(self.classes_) != 2:
            raise ValueError(
                f"This classifier needs exactly 2 classes; got {len(self.classes_)} class"
                f"{'es' if len(self.classes_) != 1 else ''}"
            )
        self._bound(X, places)
        # A record of neither class pulls nowhere.
        self._descend(self._scaled(X), np.array([-1.0, 1.0, 0.0])[places])

    def _check_options(self) -> None:
        for name in ("max_iter", "updates"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if not (math.isfinite(self.penalty) and self.penalty >= 0):
            raise ValueError(f"penalty ({self.penalty!r}) must be finite and not negative")
        positive("step", self.step)
        self._shared(1)

    def _shared(self, releases: int) -> Plan:
        """What each of so many releases gets."""
        if self.noise == "auto":
            return least_noise(self.epsilon, self.delta, releases, self.budget)
        return plan(self.noise, self.epsilon, self.delta, releases, self.budget)

    def _passes(self, rows: int, updates: int) -> tuple[int, Plan]:
        """The number of iterations and what each release gets, from public numbers alone."""
        choices = (self.max_iter,) if self.max_iter else tuple(_PASSES)
        for passes in choices:
            try:
                shared = self._shared(passes * updates)
            except ValueError:  # so many releases leave less than any table has
                if passes == choices[-1]:
                    raise
                continue
            if self.step * _SENSITIVITY * shared.error / rows <= _TOLERATED:
                break
        return passes, shared

    def _scaled(self, X: Floats) -> Floats:  # noqa: N803
        scaled = 2 * inputs.shares(X, self.lower_, self.upper_) - 1
        if not self.fit_intercept:
            return np.asarray(scaled)
        return np.hstack([np.ones((len(X), 1)), scaled])

    def _descend(self, features: Floats, signs: Floats) -> None:
        rows, width = features.shape
        updates = min(width, self.updates or width)
        self.n_iter_, shared = self._passes(rows, updates)
        self._charge(shared, "ChangeOneDistance()")
        noisy = StatisticReleases(shared)
        order = self._order(width, updates)
        signed = np.asfortranarray(features * signs[:, None])
        weights = np.zeros(width)
        halves = np.zeros(rows)  # of the margins: the logistic function is (1 + tanh(m / 2)) / 2
        threshold = self.penalty * self.step
        for _ in range(self.n_iter_):
            total = np.zeros(width)
            for chosen in order():
                column = signed[:, chosen]
                exact = _exact_sum((np.tanh(halves) - 1) * column / 2)
                released = noisy.number(exact, sensitivity=_SENSITIVITY, low=-rows, high=rows)
                moved = weights[chosen] - self.step * released / rows
                after = math.copysign(max(abs(moved) - threshold, 0.0), moved)
                halves += (after - weights[chosen]) / 2 * column
                weights[chosen] = after
                total += weights
            if self.average:
                weights = total / updates
                halves = signed @ weights / 2
        self.releases_ = noisy.made
        self._plan = shared
        table = getattr(noisy.real, "table", None)
        self._tables = (table,) * noisy.made if table is not None else ()
        self._weights = weights
        slopes = weights[1:] if self.fit_intercept else weights
        self.coef_ = (2 * slopes / (self.upper_ - self.lower_))[None, :]
        shift = float((slopes * (self.upper_ + self.lower_) / (self.upper_ - self.lower_)).sum())
        self.intercept_ = np.array([(weights[0] if self.fit_intercept else 0.0) - shift])

    def _order(self, width: int, updates: int) -> Callable[[], Sequence[int]]:
        """What chooses coordinates: the system's source, unless the choice must be repeatable."""
        if self.random_state is None:
            return lambda: secrets.SystemRandom().sample(range(width), updates)
        rng = check_random_state(self.random_state)
        return lambda: rng.choice(width, updates, replace=False)

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Logarithms of the odds of the second class.

        :param X: one row for each record
        """
        check_is_fitted(self, "coef_")
        values = inputs.numbers(self._cells(X, fitting=False))
        return np.asarray(self._scaled(values) @ self._weights)

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Probabilities of the two classes.

        :param X: one row for each record
        """
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The more probable class.

        :param X: one row for each record
        """
        second = (self.decision_function(X) > 0).astype(np.int64)
        return np.asarray(self.classes_[second])


def _exact_sum(terms: Floats) -> float:
    """The sum of numbers within [-1, 1], each rounded to a grid on which adding is exact."""
    unit = 2.0 ** (52 - len(terms).bit_length())
    return float(np.rint(terms * unit).sum()) / unit

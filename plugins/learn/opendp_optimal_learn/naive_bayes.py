"""Naive Bayes on private counts, means and spreads (Selvi, Liu, Wiesemann 2024, 5.2)."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from opendp_optimal import SolverError
from opendp_optimal.extend import Floats, choice, positive, share
from opendp_optimal_learn import inputs
from opendp_optimal_learn.budget import plan
from opendp_optimal_learn.classifier import PrivateClassifier
from opendp_optimal_learn.inputs import Codes
from opendp_optimal_learn.releases import StatisticReleases

SPREADS = ("variance", "deviation")
SMOOTHINGS = ("alpha", "posterior")
NEIGHBOURS = {"change-one": 2, "add-remove": 1}
"""In how many cells of one table of counts, and classes, the record of one person can be seen."""
METRICS = {"change-one": "ChangeOneDistance()", "add-remove": "SymmetricDistance()"}
"""OpenDP's names for such neighbours."""

_GRID, _BLOCK = 1 << 24, 1 << 14
"""Numbers in [0, 1] are rounded to this grid; so many of their squares fit into an integer."""
_LEAST_LOG = -700.0
"""Probabilities below the exponential of this count as that."""


@dataclass(eq=False, repr=False)  # a constructor that keeps its arguments; ``fit`` checks them
class PrivateNaiveBayes(PrivateClassifier):
    """Differentially private naive Bayes for numerical and categorical features.

    What is released are noisy counts of each class, counts of each category in each class, and
    means and spreads of each number in each class. All else is computed from these. Sensitivities
    of means and spreads are computed from *noisy* class counts, so nothing depends on true ones.

    :param epsilon: privacy loss of ``fit``, or of each statistic; see ``budget``
    :param delta: probability of a larger loss
    :param noise: "optimal", "optimal-bounded", "truncated-laplace", "gaussian",
        "analytic-gaussian" or "laplace" (which ignores delta for each single release)
    :param budget: "total": epsilon and delta are for everything that ``fit`` releases.
        "per-statistic": for each statistic, as in the paper; together this is no protection
        unless there are very few
    :param bounds: public (lower, upper) of the numerical features, numbers or arrays. Data beyond
        are clipped. If None, taken from the data, with a warning: that is not private
    :param categorical_features: indices, names or a mask of the categorical columns
    :param categories: public lists of categories, one for each categorical column. If None, taken
        from the data, with a warning
    :param classes: public list of the classes. If None, taken from the data, with a warning
    :param neighbours: "change-one": one record is replaced by another, and the number of records
        is public. "add-remove": one record more or less
    :param spread: "variance" releases variances, "deviation" standard deviations as the paper
        does, which are more sensitive in large classes
    :param alpha: added to every noisy count
    :param smoothing: "alpha" takes the noisy counts of categories as they are; "posterior" takes
        the means of their posteriors, from one fit to the cells of all features, at no cost
        (extra "posterior")
    :param least_deviation: the smallest standard deviation, as a part of the bounds' length
    :param reveal_clipping: whether to warn where data are outside of the bounds, categories or
        classes. That the warning appears may be due to a single record: it is for whoever holds
        the data
    :param ledger: where the budget of the data set is kept, a
        :class:`~opendp_optimal.budget.Ledger` or the path of one: every fit is charged there first
    :param name: of the data set in the ledger; copies share its budget

    What a cell means depends on the cell alone. ``fit`` clips numbers beyond the bounds, takes what
    is no number for the middle of the bounds, and does not count other categories or classes. For
    ``predict`` a number or category that is missing tells nothing.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=2000)
    >>> X = np.column_stack([y + rng.normal(size=2000), rng.normal(size=2000)])
    >>> model = PrivateNaiveBayes(epsilon=1.0, delta=1e-6, bounds=(-4, 5), classes=[0, 1])
    >>> model.fit(X, y).predict(X).shape
    (2000,)
    >>> epsilon, delta = model.spent()
    >>> epsilon <= 1.0
    True
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    noise: str = "optimal"
    budget: str = "total"
    bounds: Any = None
    categorical_features: Any = None
    categories: Any = None
    classes: Any = None
    neighbours: str = "change-one"
    spread: str = "variance"
    alpha: float = 1.0
    smoothing: str = "alpha"
    least_deviation: float = 0.01
    reveal_clipping: bool = False
    ledger: Any = None
    name: str | None = None

    def __sklearn_tags__(self) -> Any:
        """Numbers only, unless categorical columns are named."""
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = self.categorical_features is not None
        return tags

    def _fit(self, X: Any, y: Any) -> None:  # noqa: N803
        self._check_options()
        dp.enable_features("contrib")
        # Nobody may learn from an error whether there was a record at all.
        least_rows = 1 if self.neighbours == "change-one" or self.classes is None else 0
        X = self._cells(X, fitting=True, least_rows=least_rows)  # noqa: N806
        labels = self._labelled(X, y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"This classifier needs at least 2 classes; got {len(self.classes_)} class"
            )
        columns = inputs.column_indices(
            self.categorical_features, self.n_features_in_, getattr(self, "feature_names_in_", None)
        )
        self.categorical_indices_ = np.array(columns, dtype=np.int64)
        self.numerical_indices_ = np.setdiff1d(np.arange(self.n_features_in_), columns)
        self.categories_, found = inputs.category_lists(self.categories, X[:, columns])
        codes = inputs.category_codes(X[:, columns], self.categories_)
        values = inputs.numbers(X[:, self.numerical_indices_])
        self._bound(values, codes, labels, read=("categories",) if found else ())
        self._release(inputs.shares(values, self.lower_, self.upper_), codes, labels)

    def _check_options(self) -> None:
        choice("spread", self.spread, SPREADS)
        choice("neighbours", self.neighbours, tuple(NEIGHBOURS))
        positive("alpha", self.alpha)
        choice("smoothing", self.smoothing, SMOOTHINGS)
        if self.smoothing == "posterior":
            if self.noise == "optimal-bounded":
                raise ValueError("smoothing ('posterior') needs noise that is added to counts")
            _posterior_means([np.zeros((1, 1))], None)
        share("least_deviation", self.least_deviation)
        plan(self.noise, self.epsilon, self.delta, 1, self.budget)

    def _release(self, shares: Floats, codes: Codes, labels: Codes) -> None:
        """Release everything; from here on only noisy numbers are kept."""
        classes, rows = len(self.classes_), len(labels)
        statistics = 1 + codes.shape[1] + 2 * shares.shape[1]
        touched = statistics * NEIGHBOURS[self.neighbours]
        shared = plan(self.noise, float(self.epsilon), float(self.delta), touched, self.budget)
        self._charge(shared, METRICS[self.neighbours])
        noisy = StatisticReleases(shared)
        most = rows if self.neighbours == "change-one" else None

        def counts(people: Codes, *, clamped: bool = True) -> Any:
            release = partial(noisy.count, most=most, clamped=clamped)
            return np.vectorize(release, otypes=[np.float64])(people)

        self.class_count_ = counts(np.bincount(labels[labels >= 0], minlength=classes))
        learnt = self.smoothing == "posterior" and codes.shape[1] > 0
        self.category_count_ = [
            counts(_tally(labels, codes[:, j], (classes, len(listed))), clamped=not learnt)
            for j, listed in enumerate(self.categories_)
        ]
        if learnt:
            self.category_count_ = _posterior_means(self.category_count_, noisy.counting)
        shape = (classes, shares.shape[1])
        self.theta_, self.sigma_ = np.zeros(shape), np.zeros(shape)
        for c in range(classes):
            group = shares[labels == c]
            size = max(1, round(self.class_count_[c]))
            for j in range(shares.shape[1]):
                self.theta_[c, j], self.sigma_[c, j] = self._moments(noisy, group[:, j], size)
        self._plan, self._tables = shared, _tables(noisy, statistics, codes.shape[1], touched)
        self.releases_ = noisy.made

    def _moments(self, noisy: StatisticReleases, values: Floats, size: int) -> tuple[float, float]:
        """A noisy mean and standard deviation of numbers in [0, 1].

        Sums are divided by the larger of the true and the noisy size of the class: one record
        then moves the mean (from 1/2) and the variance by 1 / size at most, whatever the data.
        """
        rows, divisor = len(values), max(len(values), size)
        total, squares = _exact_sums(values)
        mean = float(Fraction(1, 2) + (total - Fraction(rows, 2)) / divisor)
        variance = float((squares - total * total / max(rows, 1)) / divisor)
        released = noisy.number(mean, sensitivity=1 / size, low=0.0, high=1.0)
        if self.spread == "variance":
            square = noisy.number(variance, sensitivity=1 / size, low=0.0, high=0.25)
            deviation = math.sqrt(square)
        else:
            deviation = noisy.number(
                math.sqrt(variance), sensitivity=1 / math.sqrt(size), low=0.0, high=0.5
            )
        return released, max(deviation, self.least_deviation)

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803
        """Logarithms of the classes' probabilities.

        :param X: one row for each record
        """
        check_is_fitted(self, "theta_")
        X = self._cells(X, fitting=False)  # noqa: N806
        codes = inputs.category_codes(X[:, self.categorical_indices_], self.categories_)
        values = inputs.numbers(X[:, self.numerical_indices_])
        shares, known = inputs.shares(values, self.lower_, self.upper_), ~np.isnan(values)
        counts = self.class_count_ + self.alpha
        joint = np.tile(np.log(counts / counts.sum()), (len(X), 1))
        for c in range(len(self.classes_)):
            z = (shares - self.theta_[c]) / self.sigma_[c]
            joint[:, c] += ((-0.5 * z**2 - np.log(self.sigma_[c])) * known).sum(axis=1)
        for j, tallies in enumerate(self.category_count_):
            smooth = tallies + self.alpha
            logs = np.log(smooth / smooth.sum(axis=1, keepdims=True))
            joint += np.where(codes[:, j] >= 0, logs[:, codes[:, j]], 0.0).T
        normed = joint - logsumexp(joint, axis=1, keepdims=True)
        return np.asarray(np.maximum(normed, _LEAST_LOG))

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Probabilities of the classes.

        :param X: one row for each record
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The most probable class.

        :param X: one row for each record
        """
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _posterior_means(tables: list[Floats], measurement: Any) -> list[Floats]:
    """Noisy counts as the means of their posteriors: post-processing, which costs nothing.

    :param tables: noisy counts of the categories of each feature
    :param measurement: that released them; None to see whether that can be done at all
    """
    try:
        from opendp_optimal_bayes import posterior
    except ImportError:
        raise ImportError("smoothing='posterior' needs opendp-optimal-bayes") from None
    if measurement is None:
        return tables
    try:
        found = posterior(np.concatenate([table.ravel() for table in tables]), measurement)
    except SolverError as error:  # the counts were paid for
        warnings.warn(f"there is no posterior ({error}); noisy counts are taken", stacklevel=4)
        return [np.maximum(table, 0.0) for table in tables]
    ends = np.cumsum([table.size for table in tables])[:-1]
    parts = np.split(found.mean, ends)
    return [part.reshape(table.shape) for part, table in zip(parts, tables, strict=True)]


def _tally(labels: Codes, codes: Codes, shape: tuple[int, int]) -> Codes:
    """How many records there are of each class and category; others are not counted."""
    seen = (labels >= 0) & (codes >= 0)
    places = np.ravel_multi_index((labels[seen], codes[seen]), shape)
    return np.bincount(places, minlength=math.prod(shape)).reshape(shape)


def _tables(
    noisy: StatisticReleases, statistics: int, categorical: int, touched: int
) -> tuple[Any, ...]:
    """Tables behind the releases that one person can touch, where all of them have one."""
    if noisy.plan.noise not in ("optimal", "truncated-laplace"):
        return ()
    of_counts, of_numbers = (getattr(made, "table", None) for made in (noisy.counting, noisy.real))
    counts = touched // statistics * (1 + categorical)
    return (of_counts,) * counts + (of_numbers,) * (touched - counts)


def _exact_sums(values: Floats) -> tuple[Fraction, Fraction]:
    """The sums of numbers in [0, 1], on a grid, and of their squares, without rounding."""
    whole = np.rint(values * _GRID).astype(np.int64)

    def added(integers: Codes) -> int:
        return sum(int(integers[at : at + _BLOCK].sum()) for at in range(0, len(integers), _BLOCK))

    return Fraction(added(whole), _GRID), Fraction(added(whole * whole), _GRID**2)

"""What all private classifiers have in common."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

from opendp_optimal_learn.budget import Plan


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose ``fit`` leaves a plan of its budget and the tables behind its releases."""

    _plan: Plan
    _tables: tuple[Any, ...]

    def __sklearn_tags__(self) -> Any:
        """Fits are random, and poor on the small data of scikit-learn's checks."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.poor_score = True
        return tags

    def spent(self, delta: float | None = None) -> tuple[float, float]:
        """The (epsilon, delta) of everything that ``fit`` has released, by composition.

        With ``budget="per-statistic"`` this is the plain sum unless a delta is given; a delta of
        1 there, or an infinite epsilon, means that nothing is guaranteed.

        :param delta: the total delta to state it at
        """
        check_is_fitted(self, "releases_")
        return self._plan.spent(delta, self._tables)

"""What all private classifiers have in common; texts of warnings never depend on the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from opendp_optimal_learn import inputs
from opendp_optimal_learn.budget import Plan

__all__ = [
    "BoundsExceededWarning",
    "PrivacyLeakWarning",
    "PrivateClassifier",
    "clipped",
    "leaked",
]


class PrivacyLeakWarning(UserWarning):
    """Something that should be public knowledge was read from the data."""


class BoundsExceededWarning(UserWarning):
    """Some of the data are beyond what was said of them; they are clipped."""


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose ``fit`` leaves a plan of its budget and the tables behind its releases."""

    _plan: Plan
    _tables: tuple[Any, ...]
    classes: Any

    def __sklearn_tags__(self) -> Any:
        """Fits are random, and poor on the small data of scikit-learn's checks.

        Any cell is accepted, for no record may decide whether there is an error.
        """
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.poor_score = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _cells(self, X: Any, fitting: bool, least_rows: int = 1) -> npt.NDArray[Any]:  # noqa: N803
        """X as an array whose cells keep their types; its shape and names are checked."""
        given, kinds = inputs.table(X)
        with np.errstate(all="ignore"):
            return np.asarray(
                validate_data(self, given, reset=fitting, ensure_min_samples=least_rows, **kinds)
            )

    def _labelled(self, X: npt.NDArray[Any], y: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Set the classes and return the labels of the rows of X.

        Labels are checked only where the classes are read from them anyway.
        """
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        if self.classes is None:
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
            check_classification_targets(y)
            self.classes_ = np.unique(y)
        else:
            y = inputs.labels(y)
            self.classes_ = inputs.class_list(self.classes)
        check_consistent_length(X, y)
        return np.asarray(y)

    def spent(self, delta: float | None = None) -> tuple[float, float]:
        """The (epsilon, delta) of everything that ``fit`` has released, by composition.

        With ``budget="per-statistic"`` this is the plain sum unless a delta is given; a delta of
        1 there, or an infinite epsilon, means that nothing is guaranteed.

        :param delta: the total delta to state it at
        """
        check_is_fitted(self, "releases_")
        return self._plan.spent_by(delta, self._tables)


def leaked(what: str, stacklevel: int = 3) -> None:
    """Warn that an argument was taken from the data.

    :param what: the arguments
    :param stacklevel: as in :func:`warnings.warn`
    """
    warnings.warn(
        f"{what} not given and taken from the data: what they reveal is not private",
        PrivacyLeakWarning,
        stacklevel=stacklevel,
    )


def clipped(stacklevel: int = 3) -> None:
    """Warn that data are beyond their bounds. The text is always the same.

    :param stacklevel: as in :func:`warnings.warn`
    """
    warnings.warn(
        "some data are outside of the given bounds or categories: numbers are clipped, other "
        "categories are not counted. This line is for whoever holds the data, not for publication",
        BoundsExceededWarning,
        stacklevel=stacklevel,
    )

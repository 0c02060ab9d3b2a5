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
]


_CLIPPED = (
    "some data are outside of the given bounds or categories: numbers are clipped, other "
    "categories are not counted. This line is for whoever holds the data, not for publication"
)


class PrivacyLeakWarning(UserWarning):
    """Something that should be public knowledge was read from the data."""


class BoundsExceededWarning(UserWarning):
    """Some of the data are beyond what was said of them; they are clipped."""


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose ``fit`` leaves a plan of its budget and the tables behind its releases."""

    _plan: Plan
    _tables: tuple[Any, ...]
    bounds: Any
    classes: Any
    reveal_clipping: bool

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

    def _bound(
        self, values: inputs.Floats, read: list[str], codes: tuple[inputs.Codes, ...]
    ) -> None:
        """Set the bounds of numbers, and warn whoever called ``fit``.

        :param values: one row of numbers for each record
        :param read: arguments that were taken from the data already
        :param codes: places of labels and categories, -1 for those that are not listed
        """
        ends = inputs.feature_bounds(self.bounds, values.shape[1])
        if ends is None and values.shape[1]:
            read = [*read, "bounds"]
        self.lower_, self.upper_ = ends if ends is not None else inputs.ends_of(values)
        if read:
            what = ", ".join(read) + (" was" if len(read) == 1 else " were")
            text = f"{what} not given and taken from the data: what they reveal is not private"
            warnings.warn(text, PrivacyLeakWarning, stacklevel=3)
        if self.reveal_clipping:
            inside = (self.lower_ <= values) & (self.upper_ >= values)
            if not inside.all() or any((places < 0).any() for places in codes):
                warnings.warn(_CLIPPED, BoundsExceededWarning, stacklevel=3)

    def spent(self, delta: float | None = None) -> tuple[float, float]:
        """The (epsilon, delta) of everything that ``fit`` has released, by composition.

        With ``budget="per-statistic"`` this is the plain sum unless a delta is given; a delta of
        1 there, or an infinite epsilon, means that nothing is guaranteed.

        :param delta: the total delta to state it at
        """
        check_is_fitted(self, "releases_")
        return self._plan.spent_by(delta, self._tables)

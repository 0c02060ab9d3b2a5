"""What all private classifiers have in common; texts of warnings never depend on the data."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

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

from opendp_optimal.budget import Ledger, concentrated_delta, open_ledger
from opendp_optimal.extend import Floats, least
from opendp_optimal_learn import inputs
from opendp_optimal_learn.budget import Plan

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
    _account: tuple[Any, str] | None
    ledger: Any
    name: str | None
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

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Release noisy statistics of the training data and learn from them.

        With a ledger, everything is charged before anything is released. Where ``fit`` fails, the
        estimator is as it was before.

        :param X: one row for each record
        :param y: its class
        :raises BudgetError: if it costs more than the ledger has left; nothing is released then
        """
        before = dict(self.__dict__)
        try:
            if (self.ledger is None) != (self.name is None):
                raise ValueError(f"ledger and name ({self.name!r}) must be given together")
            self._fit(X, y)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _fit(self, X: Any, y: Any) -> None:  # noqa: N803
        raise NotImplementedError

    def _charge(self, plan: Plan, metric: str) -> None:
        """Charge the ledger, where there is one, for all releases of a fit.

        :param plan: what each release gets
        :param metric: between data sets that differ by one record
        """
        self._account = None
        if self.ledger is None or self.name is None:
            return
        with _opened(self.ledger) as ledger:
            kind = ledger.budget(self.name).kind
            if kind.main == "rho":
                loss, delta = plan.concentrated()
            else:
                loss, delta = plan.spent_by(None if kind.delta else 0.0, ())
            if loss == math.inf or (delta > 0 and not kind.delta):
                raise ValueError(
                    f"delta ({self.delta!r}) must be 0 for this noise, or name ({self.name!r}) a "
                    "budget with a delta"
                )
            ledger.fix_unit(self.name, f"{metric} at 1")
            note = f"{type(self).__name__}: {plan.releases} releases of {plan.noise} noise a person"
            price = {kind.main: loss, "delta": delta if kind.delta else None}
            ledger.charge(self.name, **price, note=note)
        self._account = self.ledger, self.name

    def _cells(self, X: Any, fitting: bool, least_rows: int = 1) -> npt.NDArray[Any]:  # noqa: N803
        """X as an array whose cells keep their types; its shape and names are checked."""
        given, kinds = inputs.table(X)
        with np.errstate(all="ignore"):
            return np.asarray(
                validate_data(self, given, reset=fitting, ensure_min_samples=least_rows, **kinds)
            )

    def _labelled(self, X: npt.NDArray[Any], y: Any) -> inputs.Codes:  # noqa: N803
        """Set the classes and return the places of the rows' labels among them.

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
        return inputs.codes(y, self.classes_)

    def _bound(self, values: Floats, *codes: inputs.Codes, read: tuple[str, ...] = ()) -> None:
        """Set the bounds of numbers, and warn whoever called ``fit``.

        :param values: one row of numbers for each record
        :param codes: places of labels and categories, -1 for those that are not listed
        :param read: arguments beside the classes that were taken from the data already
        """
        if self.classes is None:
            read = ("classes", *read)
        ends = inputs.feature_bounds(self.bounds, values.shape[1])
        if ends is None and values.shape[1]:
            read = (*read, "bounds")
        self.lower_, self.upper_ = ends if ends is not None else inputs.ends_of(values)
        if read:
            what = ", ".join(read) + (" was" if len(read) == 1 else " were")
            text = f"{what} not given and taken from the data: what they reveal is not private"
            warnings.warn(text, PrivacyLeakWarning, stacklevel=4)
        if self.reveal_clipping:
            inside = (self.lower_ <= values) & (self.upper_ >= values)
            if not inside.all() or any((places < 0).any() for places in codes):
                warnings.warn(_CLIPPED, BoundsExceededWarning, stacklevel=4)

    def spent(self, delta: float | None = None) -> tuple[float, float]:
        """The (epsilon, delta) that is spent on the people in the training data.

        Without a ledger this counts the last ``fit`` of this object alone: other fits on the same
        people, by this object, a copy or another process, come on top of it. With a ledger it is
        all that was charged to the data set, by all of them, as it stands now. Where the budget is
        a rho, this is its epsilon at a delta, by default the ``delta`` of this object.

        One fit is counted by composition. With ``budget="per-statistic"`` this is the plain sum
        unless a delta is given; a delta of 1 there, or an infinite epsilon, means that nothing is
        guaranteed.

        :param delta: the total delta to state it at; with a ledger, at least what was charged
        """
        check_is_fitted(self, "releases_")
        if self._account is None:
            return self._plan.spent_by(delta, self._tables)
        given, name = self._account
        with _opened(given) as ledger:
            budget = ledger.budget(name)
        found: Any = budget.kind.floats(budget.spent, up=True)
        loss, charged = found if budget.kind.delta else (found, 0.0)
        concentrated = budget.kind.main == "rho"
        if delta is None:
            delta = self.delta if concentrated else charged
        if not charged <= delta <= 1:
            raise ValueError(
                f"delta ({delta!r}) must be in [{charged!r}, 1], as the ledger adds up"
            )
        return _epsilon_of(loss, delta - charged) if concentrated else loss, delta


def _epsilon_of(rho: float, delta: float) -> float:
    """The epsilon of a rho at a delta, rounded up; infinite where there is none."""
    if rho == 0:
        return 0.0
    room = math.nextafter(delta, 0.0)  # the difference of two floats was rounded
    return least(lambda e: concentrated_delta(rho, e) <= room, 0.0, 1e6, close=1e-12)


@contextmanager
def _opened(ledger: Any) -> Iterator[Ledger]:
    """A ledger, or the one at a path, for a moment."""
    if isinstance(ledger, Ledger):
        yield ledger
        return
    if not isinstance(ledger, str | os.PathLike):
        raise ValueError(f"ledger (a {type(ledger).__name__}) must be a Ledger or the path of one")
    if "://" in (text := os.fspath(ledger)):
        # Parameters are printed with the estimator, and an address may hold a password.
        raise ValueError("ledger must be opened by open_ledger where it is no file")
    if not Path(text).is_file():
        raise ValueError(f"ledger ({text!r}) must be the path of a ledger")
    with open_ledger(text) as opened:
        yield opened

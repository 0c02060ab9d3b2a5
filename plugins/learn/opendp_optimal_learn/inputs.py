"""Checks of what the estimators are given, in scikit-learn's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["category_codes", "category_lists", "column_indices", "feature_bounds", "numbers"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def feature_bounds(bounds: Any, features: int) -> tuple[Floats, Floats] | None:
    """Lower and upper bounds of so many features, from scalars or arrays; None if not given.

    :param bounds: a pair (lower, upper)
    :param features: number of numerical features
    """
    if bounds is None:
        return None
    try:
        low, high = (np.asarray(b, dtype=float) for b in bounds)
        low, high = (np.broadcast_to(b, (features,)).copy() for b in (low, high))
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a pair (lower, upper) of numbers or of arrays with one number for "
            f"each of the {features} numerical features"
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, with every lower bound below its upper bound")
    return low, high


def column_indices(given: Any, features: int, names: Sequence[str] | None) -> list[int]:
    """Which columns are categorical, from indices, a mask or names.

    :param given: what the caller passed
    :param features: number of columns
    :param names: their names, if they have any
    """
    if given is None:
        return []
    listed = list(given)
    if listed and all(isinstance(v, bool | np.bool_) for v in listed):
        if len(listed) != features:
            raise ValueError(
                f"categorical_features is a mask of length {len(listed)}, X has {features} features"
            )
        return [i for i, v in enumerate(listed) if v]
    out = []
    for value in listed:
        if isinstance(value, str):
            if names is None or value not in names:
                raise ValueError(f"categorical_features ({value!r}) is not a column of X")
            out.append(list(names).index(value))
        elif isinstance(value, int | np.integer) and -features <= value < features:
            out.append(int(value) % features)
        else:
            raise ValueError(f"categorical_features ({value!r}) is not a column of X")
    return sorted(set(out))


def numbers(columns: Any) -> Floats:
    """Numerical columns as floats; missing and infinite values are refused.

    :param columns: an array of any type
    """
    try:
        values = np.asarray(columns, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "X has numerical features that are not numbers: name categorical_features"
        ) from None
    if np.isnan(values).any():
        raise ValueError("Input X contains NaN.")
    if np.isinf(values).any():
        raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
    return values


def category_lists(given: Any, columns: Any) -> tuple[list[npt.NDArray[Any]], bool]:
    """The categories of each categorical feature, and whether they were read from the data.

    :param given: None, or one list for each categorical feature
    :param columns: the categorical columns
    """
    count = columns.shape[1]
    if given is not None:
        lists = [np.asarray(list(c), dtype=object) for c in given]
        if len(lists) != count:
            raise ValueError(f"categories has {len(lists)} lists for {count} categorical features")
        if any(len(c) == 0 or len(set(c)) != len(c) for c in lists):
            raise ValueError("categories must be lists of different values, none of them empty")
        return lists, False
    return [
        np.array(sorted(set(columns[:, j]), key=lambda v: (str(type(v)), v)), dtype=object)
        for j in range(count)
    ], count > 0


def category_codes(columns: Any, lists: Sequence[npt.NDArray[Any]]) -> Codes:
    """Categories as indices, -1 for those that are not listed; missing values are refused.

    :param columns: the categorical columns
    :param lists: the categories of each
    """
    out = np.full(columns.shape, -1, dtype=np.int64)
    for j, known in enumerate(lists):
        index = {value: i for i, value in enumerate(known.tolist())}
        values = columns[:, j].tolist()
        if any(v is None or v != v for v in values):
            raise ValueError("Input X contains NaN.")
        out[:, j] = [index.get(v, -1) for v in values]
    return out


def ends_of(values: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest values; a constant feature gets a range of length 1 around it.

    :param values: one row for each record
    """
    low, high = values.min(axis=0), values.max(axis=0)
    # Floats around a large constant may not have room for less.
    constant = high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    room = np.where(constant, np.maximum(0.5, np.abs(low)), 0.0)
    return low - room, high + room

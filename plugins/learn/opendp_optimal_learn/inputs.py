"""What the estimators are given: arguments are checked, data are read cell by cell.

Arguments are public, and a bad one is an error. Data are private: what a cell means depends on this
cell alone, and every cell means something. So no record decides whether an error appears, and none
changes how another is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_optimal.extend import Floats, Integers

Codes = Integers

_LARGEST = 2.0**1000
_NARROWEST = 2.0**-1000
"""Between these nothing that is computed from bounds overflows or vanishes."""


def feature_bounds(bounds: Any, features: int) -> tuple[Floats, Floats] | None:
    """Lower and upper bounds of so many features, from scalars or arrays; None if not given.

    :param bounds: a pair (lower, upper)
    :param features: number of numerical features
    """
    if bounds is None:
        return None
    try:
        low, high = (np.broadcast_to(np.asarray(b, float), (features,)).copy() for b in bounds)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"bounds must be a pair (lower, upper) of numbers or of arrays with one number for "
            f"each of the {features} numerical features"
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError("bounds must be finite, with every lower bound below its upper bound")
    if max(np.abs(low).max(initial=0), np.abs(high).max(initial=0)) > _LARGEST:
        raise ValueError(f"bounds must be from {-_LARGEST:.3g} to {_LARGEST:.3g}")
    if (high - low).min(initial=np.inf) < _NARROWEST:
        raise ValueError(f"bounds must be at least {_NARROWEST:.3g} apart")
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
    known = [] if names is None else list(names)
    out = []
    for value in listed:
        if isinstance(value, str) and value in known:
            out.append(known.index(value))
        elif isinstance(value, int | np.integer) and -features <= value < features:
            out.append(int(value) % features)
        else:
            raise ValueError(f"categorical_features ({value!r}) is not a column of X")
    return sorted(set(out))


def table(given: Any) -> tuple[Any, dict[str, Any]]:
    """X for scikit-learn's ``validate_data``, and how to read it: no cell changes another's type.

    :param given: a data frame, an array or a list of rows
    """
    lenient = {"ensure_all_finite": False}
    if hasattr(given, "iloc"):
        numeric = all(getattr(t, "kind", "O") in "biuf" for t in getattr(given, "dtypes", ()))
        return given, {"dtype": np.float64 if numeric else object, **lenient}
    if isinstance(given, list | tuple):
        return _rows(given), {"dtype": object, **lenient}
    kind = np.asarray(given).dtype.kind if hasattr(given, "__array__") else "f"
    if kind in "mMV":
        raise ValueError("X must hold numbers or categories, not times or records")
    dtype = np.float64 if kind in "biuf" else None if kind == "c" else object
    return given, {"dtype": dtype, **lenient}


def _rows(given: Sequence[Any]) -> npt.NDArray[Any]:
    """Rows of a list as an array of objects; scikit-learn refuses what is no table."""
    if not given or not all(isinstance(row, list | tuple | np.ndarray) for row in given):
        return np.asarray(given, dtype=object)
    rows = [list(row) for row in given]
    out = np.empty((len(rows), len(rows[0])), dtype=object)
    if any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("X must be a table: all rows with the same number of features")
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            out[i, j] = cell
    return out


def labels(given: Any) -> npt.NDArray[Any]:
    """y as an array of one dimension whose labels keep their types.

    :param given: one label for each record
    """
    if isinstance(given, list | tuple):
        out = np.empty(len(given), dtype=object)
        for i, label in enumerate(given):
            single = isinstance(label, list | tuple | np.ndarray) and np.size(label) == 1
            out[i] = np.ravel(np.asarray(label, dtype=object))[0] if single else label
        return out
    array = np.asarray(given, dtype=None if hasattr(given, "dtype") else object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y (of shape {array.shape}) must be one label for each record")
    return array


def class_list(given: Any) -> npt.NDArray[Any]:
    """Classes in order, without repetitions; all of one type.

    :param given: what the caller passed
    """
    try:
        listed = np.asarray(given).tolist() if hasattr(given, "dtype") else list(given)
        set(listed)  # labels are looked up
        together = np.asarray(listed)
        if together.ndim == 1 and together.tolist() == listed:
            return np.unique(together)
    except (TypeError, ValueError):  # no list at all, or labels without an order
        pass
    raise ValueError(f"classes ({given!r}) must be a list of labels of one type")


def codes(values: npt.NDArray[Any], known: npt.NDArray[Any]) -> Codes:
    """The place of each value in a list, -1 for those that are not in it.

    :param values: labels or categories, anything at all
    :param known: the list
    """
    index = {value: i for i, value in enumerate(known.tolist())}
    return np.array([_place(index, v) for v in values.tolist()], dtype=np.int64)


def _place(index: Mapping[Any, int], value: Any) -> int:
    try:
        return index.get(value, -1)
    except Exception:  # a value that cannot be looked up is not in the list
        return -1


def numbers(columns: Any) -> Floats:
    """Numerical columns as floats, NaN for what is no number.

    :param columns: an array of any type
    """
    values = np.asarray(columns)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        return np.asarray(np.vectorize(_number, otypes=[np.float64])(values))


def _number(value: Any) -> float:
    try:
        try:
            return float(value)
        except OverflowError:  # too large for a float
            return np.inf if value > 0 else -np.inf
    except Exception:  # what is no number, whatever it does instead
        return np.nan


def shares(values: Floats, lower: Floats, upper: Floats) -> Floats:
    """Where numbers are between bounds, from 0 to 1; what is missing is in the middle.

    :param values: one row for each record
    :param lower: of each column
    :param upper: of each column
    """
    inside = np.clip(values, lower, upper)
    return np.asarray(np.where(np.isnan(values), 0.5, (inside - lower) / (upper - lower)))


def category_lists(given: Any, columns: Any) -> tuple[list[npt.NDArray[Any]], bool]:
    """The categories of each categorical feature, and whether they were read from the data.

    :param given: None, or one list for each categorical feature
    :param columns: the categorical columns
    """
    count = columns.shape[1]
    if given is not None:
        try:
            lists = [np.asarray(list(c), dtype=object) for c in given]
            different = all(0 < len(c) == len(set(c.tolist())) for c in lists)
        except TypeError:
            raise ValueError(f"categories ({given!r}) must be lists of values") from None
        if len(lists) != count:
            raise ValueError(f"categories has {len(lists)} lists for {count} categorical features")
        if not different:
            raise ValueError("categories must be lists of different values, none of them empty")
        return lists, False
    return [_found(columns[:, j].tolist()) for j in range(count)], count > 0


def _found(values: list[Any]) -> npt.NDArray[Any]:
    """The different values of a column in order, those that tell nothing left out."""
    known = set()
    for value in values:
        try:
            if value is not None and value == value:
                known.add(value)
        except Exception:  # no category
            continue
    try:
        listed = sorted(known, key=lambda v: (str(type(v)), v))
    except TypeError:
        listed = sorted(known, key=lambda v: (str(type(v)), repr(v)))
    return np.array([*listed, None], dtype=object)[:-1]


def category_codes(columns: Any, lists: Sequence[npt.NDArray[Any]]) -> Codes:
    """Categories as indices, -1 for those that are not listed.

    :param columns: the categorical columns
    :param lists: the categories of each
    """
    out = np.full(columns.shape, -1, dtype=np.int64)
    for j, known in enumerate(lists):
        out[:, j] = codes(columns[:, j], known)
    return out


def ends_of(values: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest values; a constant feature gets a range of length 1 around it.

    :param values: one row for each record, NaN where there is none
    """
    known = np.clip(values, -_LARGEST / 4, _LARGEST / 4)
    low = np.min(known, axis=0, initial=np.inf, where=~np.isnan(known))
    high = np.max(known, axis=0, initial=-np.inf, where=~np.isnan(known))
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    # Floats around a large constant may not have room for less.
    constant = high - low <= np.maximum(1e-12 * np.maximum(np.abs(low), np.abs(high)), _NARROWEST)
    room = np.where(constant, np.maximum(0.5, np.abs(low)), 0.0)
    return low - room, high + room

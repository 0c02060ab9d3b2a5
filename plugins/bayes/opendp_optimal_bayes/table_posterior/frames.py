"""Tables as data frames: the released frame in, the same frame with estimates out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_frame(released: Any) -> bool:
    """Whether something is a data frame of Polars.

    :param released: anything
    """
    kinds = type(released).__mro__  # what a query of the core releases is a frame of its own kind
    return hasattr(released, "to_dict") and any(k.__module__.startswith("polars.") for k in kinds)


def read_column(frame: Any, column: str | None) -> tuple[str, NDArray[Any]]:
    """Find the column with what was released.

    :param frame: a data frame
    :param column: its name; by default ``len``, or the only column of numbers
    """
    numeric = [name for name in frame.columns if frame[name].dtype.is_numeric()]
    if column is None:
        column = "len" if "len" in numeric else numeric[0] if len(numeric) == 1 else None
    if column is None:
        raise ValueError(f"column must be given: one of {', '.join(numeric) or 'none'}")
    if column not in numeric:
        raise ValueError(f"column ({column!r}) must be a column of numbers")
    if frame[column].null_count():
        raise ValueError(f"column ({column!r}) must have no missing values")
    found = frame[column]
    return column, (found.cast(float) if found.dtype.is_decimal() else found).to_numpy()


def read_likeness(frame: Any, column: str, like: Any) -> Any:
    """Say by columns of a frame which of its rows are alike.

    :param frame: a data frame
    :param column: with what was released
    :param like: ``"margins"``, names of columns, or arrays; or a tuple of these
    """
    if like is None:
        return None
    found: list[Any] = []
    for each in like if isinstance(like, tuple) else (like,):
        if not isinstance(each, str):
            found.append(each)
        elif each == "margins":
            found.extend(_margins(frame, column))
        elif each in frame.columns and each != column:
            values = frame[each]
            found.append(values.to_numpy() if values.dtype.is_float() else _codes(frame, each))
        else:
            raise ValueError(
                f"like ({each!r}) must be 'margins', or one of the other columns of the frame"
            )
    return tuple(found)


def _margins(frame: Any, column: str) -> list[NDArray[Any]]:
    """Labels of the rows that share one or two keys."""
    keys = [name for name in frame.columns if name != column]
    if len(keys) < 2:
        raise ValueError(f"like ('margins') needs two columns of keys, not {len(keys)}")
    codes = [_codes(frame, name) for name in keys]
    pairs = [a * (int(b.max()) + 1) + b for a, b in itertools.combinations(codes, 2)]
    return codes if len(keys) == 2 else [*codes, *pairs]


def _codes(frame: Any, name: str) -> NDArray[Any]:
    """Labels of the rows by what a column holds, whatever that is; missing values are alike."""
    import polars as pl

    rows = frame.select(pl.col(name).alias("key")).with_row_index("row")
    first = rows.select(pl.col("row").first().over("key")).to_series().to_numpy()
    return np.asarray(np.unique(first, return_inverse=True)[1])


def with_estimates(frame: Any, column: str, columns: dict[str, NDArray[Any]]) -> Any:
    """The same frame with more columns.

    :param frame: a data frame
    :param column: whose name the new ones begin with
    :param columns: the values by what is added to the name
    """
    import polars as pl

    new = {f"{column}_{name}": values for name, values in columns.items()}
    taken = [name for name in new if name in frame.columns]
    if taken:
        raise ValueError(f"the frame has a column {taken[0]!r} already")
    return frame.with_columns(**{name: pl.Series(values) for name, values in new.items()})

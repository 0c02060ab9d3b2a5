"""Polars: from a LazyFrame to a number or a vector that noise can be added to.

OpenDP's Polars expressions are a fixed list in Rust, so a third party cannot add one. What works
is a transformation from the frame to a number, chained with a measurement and submitted to the
context.
:func:`frame_query` opens an ordinary query on a LazyFrame context; the three aggregates here
    (``frame_count``, ``frame_sum``, ``frame_histogram``) bring the frame down to what ``optimal``
    accepts.

>>> import opendp.prelude as dp
>>> import polars as pl
>>> from opendp_optimal import frame_query
>>> dp.enable_features("contrib")
>>> context = dp.Context.compositor(
...     data=pl.LazyFrame({"age": [31.0, 45.0, 62.0]}),
...     privacy_unit=dp.unit_of(contributions=1),
...     privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-7),
...     split_evenly_over=2,
... )
>>> count = frame_query(context).frame_count().optimal().release()
>>> total = frame_query(context).frame_sum("age", (0.0, 100.0)).optimal(loss="l2").release()
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from opendp_optimal.exact.numbers import float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import inner_query, make_transformation, require_features
from opendp_optimal.measure.facts import record_text
from opendp_optimal.measure.waiting import to_then

RESOLUTION = 22
"""Values are summed in whole steps; the larger bound has at most 2**RESOLUTION of them."""
LARGEST_SUM = 2**53
LARGEST_BOUND = 2.0**930
"""The larger bound is at most this, and at least its inverse, so that every sum is a float."""


def frame_query(context: dp.Context, **loss: float) -> dp.Query:
    """Open an ordinary query on a context that holds a LazyFrame.

    :param context: a context over a Polars LazyFrame.
    :param loss: the query's own budget, as for ``context.query``.
    :raises ValueError: if the context does not hold a LazyFrame.
    """
    if not isinstance(context, dp.Context):
        raise ValueError(f"context ({context!r}) must be an OpenDP Context")
    query = inner_query(context.query(**loss))
    if query is None:
        raise ValueError("context must hold a Polars LazyFrame; use context.query() otherwise")
    return query


def make_frame_count(input_domain: dp.Domain, input_metric: dp.Metric) -> dp.Transformation:
    """Make a transformation that counts the rows of a LazyFrame.

    One row more or less changes the count by 1.

    :param input_domain: the domain of a LazyFrame.
    :param input_metric: ``symmetric_distance()``, or a frame distance over it.
    """
    _check(input_domain, input_metric)

    def function(frame: Any) -> int:
        import polars as pl

        return int(frame.select(pl.len()).collect().item())

    counts = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    record = record_text("make_frame_count")
    return make_transformation(input_domain, input_metric, *counts, function, _rows, record=record)


def make_frame_sum(
    input_domain: dp.Domain, input_metric: dp.Metric, column: str, bounds: tuple[float, float]
) -> dp.Transformation:
    """Make a transformation that sums a column of a LazyFrame, each value clamped to bounds.

    Values are rounded to a power-of-two grid and summed as integers, so the sum does not depend
    on the order of the rows and its sensitivity is exact. Nulls, NaN and what is not a number
    count as 0, clamped.

    :param input_domain: the domain of a LazyFrame.
    :param input_metric: ``symmetric_distance()``, or a frame distance over it.
    :param column: name of the column.
    :param bounds: the lowest and the highest value that a row may contribute; the larger one in
        size is between 2**-930 and 2**930.
    """
    _check(input_domain, input_metric, column)
    low, high = _bounds(bounds)
    largest = max(abs(low), abs(high))
    bits = RESOLUTION - math.frexp(largest)[1]
    scale = math.ldexp(1.0, bits)
    step = Fraction(2) ** -bits
    per_row = math.ceil(Fraction(largest) / step) * step

    def function(frame: Any) -> float:
        import polars as pl

        found = _column(frame, column)
        if frame.collect_schema()[column] == pl.Binary:
            found = pl.when(found.is_null()).then(0.0).otherwise(0.0)  # bytes are no numbers
        value = found.cast(pl.Float64, strict=False).fill_nan(0.0).fill_null(0.0)
        whole = (value.clip(low, high) * scale).round().cast(pl.Int64)
        total = int(frame.select(whole.sum()).collect().item())
        return max(-LARGEST_SUM, min(LARGEST_SUM, total)) / scale

    def moved(d_in: Any) -> float:
        return float_up(_rows(d_in) * per_row)

    sums = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    record = record_text("make_frame_sum", column, low, high)
    return make_transformation(input_domain, input_metric, *sums, function, moved, record=record)


def make_frame_histogram(
    input_domain: dp.Domain, input_metric: dp.Metric, column: str, categories: Sequence[Any]
) -> dp.Transformation:
    """Make a transformation that counts the rows of a LazyFrame in each of some public categories.

    One row more or less changes one count by 1; rows of other categories are not counted.

    :param input_domain: the domain of a LazyFrame.
    :param input_metric: ``symmetric_distance()``, or a frame distance over it.
    :param column: name of the column.
    :param categories: the values to count, in the order of the result.
    """
    _check(input_domain, input_metric, column)
    try:
        keys = list(categories)
        distinct = len(set(keys)) == len(keys) > 0
    except TypeError:  # no sequence, or of values that cannot be looked up
        distinct = False
    if not distinct:
        raise ValueError(f"categories ({categories!r}) must be distinct values, at least one")
    plain = all(isinstance(key, str | int | float | bytes | date | None) for key in keys)

    def function(frame: Any) -> list[int]:
        import polars as pl

        groups = frame.group_by(_column(frame, column).alias("key")).agg(pl.len()).collect()
        found: Counter[Any] = Counter()
        for key, rows in _in_python(groups).iter_rows():
            found[key] += rows  # Python's clock is coarser: several groups may have the same key
        return [found[key] for key in keys]

    counts = dp.vector_domain(dp.atom_domain(T="i64"), size=len(keys)), dp.l1_distance(T="i64")
    record = record_text("make_frame_histogram", column, *keys) if plain else None
    return make_transformation(input_domain, input_metric, *counts, function, _rows, record=record)


then_frame_count = to_then(make_frame_count)
then_frame_sum = to_then(make_frame_sum)
then_frame_histogram = to_then(make_frame_histogram)


def _check(input_domain: Any, input_metric: Any, column: str | None = None) -> None:
    require_features("contrib")
    if not isinstance(input_domain, dp.LazyFrameDomain):
        raise ValueError(f"input_domain ({input_domain}) must be the domain of a LazyFrame")
    kind = str(input_metric.type) if isinstance(input_metric, dp.Metric) else ""
    if kind not in ("SymmetricDistance", "FrameDistance<SymmetricDistance>"):
        raise ValueError(
            f"input_metric ({input_metric}) must be symmetric_distance() or a frame distance of it"
        )
    if column is not None and column not in input_domain.columns:
        known = ", ".join(input_domain.columns)
        raise ValueError(f"column ({column!r}) must be one of {known}")


def _bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"bounds ({bounds!r}) must be a pair of numbers") from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"bounds ({bounds!r}) must be finite, the lower one first")
    if not 1 / LARGEST_BOUND <= max(abs(low), abs(high)) <= LARGEST_BOUND:
        raise ValueError(f"bounds ({bounds!r}) must reach to between 2**-930 and 2**930 from 0")
    return low, high


def _column(frame: Any, column: str) -> Any:
    """Return a column; what fails does so whatever the rows are, and if there are none."""
    import polars as pl

    kind = frame.collect_schema()[column]
    if kind.is_nested():
        raise ValueError(f"column ({column!r}) must hold single values, not arrays")
    found = pl.col(column)
    return found.cast(pl.String) if kind in (pl.Categorical, pl.Enum) else found


def _in_python(groups: Any) -> Any:
    """Leave out days that Python has no name for, before the year 1 or after 9999, and durations.

    None of them is a category, and Polars cannot hand them over.
    """
    import polars as pl

    kind = groups.schema["key"]
    if kind == pl.Duration:
        longest = timedelta.max.days * 86_400_000  # in milliseconds, the only unit that is longer
        within = pl.col("key").dt.total_milliseconds().is_between(-longest, longest)
        return groups.filter(within.fill_null(True))
    if kind not in (pl.Date, pl.Datetime):
        return groups
    zone = getattr(kind, "time_zone", None)
    margin = timedelta(days=1 if zone else 0)  # clocks of a zone differ from UTC by less
    ends = pl.Series([datetime.min + margin, datetime.max - margin])
    # Nanoseconds do not reach that far: their ends are null, and so is the comparison.
    plain = pl.Date if kind == pl.Date else pl.Datetime(kind.time_unit)
    first, last = ends.cast(plain, strict=False).to_physical()
    return groups.filter(pl.col("key").to_physical().is_between(first, last).fill_null(True))


def _rows(d_in: Any) -> int:
    """Return how many rows can differ, from a number or from a list of bounds."""
    if isinstance(d_in, int):
        return d_in
    for bound in d_in:
        if not bound.by and bound.per_group is not None:
            return int(bound.per_group)
    raise ValueError("d_in must hold a bound on contributions overall: Bound(by=[], per_group=...)")

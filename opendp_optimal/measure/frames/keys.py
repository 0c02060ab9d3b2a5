"""Keys of groups: public ones, checked, and keys of rows in the same form.

Two values are never shown as the data have them: categories are text, since those of Polars carry
all others that the process has seen, and a zero has no sign, since that is of one of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opendp_optimal.measure.frames.expressions import as_expression, name_of
from opendp_optimal.measure.frames.plan import Plan

UNUSED = "\x1fvalue "
"""Names of columns begin with it where they are our own."""


def key_schema(plan: Plan) -> Any:
    """The types of the keys, by name.

    :param plan: with the expressions that groups are made by
    """
    import polars as pl

    empty = pl.LazyFrame(schema=plan.columns)
    return empty.select([as_expression(key) for key in plan.keys]).collect_schema()


def plain_keys(keys: Any) -> Any:
    """Keys as they are shown.

    :param keys: a frame
    """
    import polars as pl
    import polars.selectors as cs

    texts = [pl.col(n).cast(pl.String) for n, kind in keys.schema.items() if kind == pl.Categorical]
    number = cs.float()
    zero = pl.when(number == 0).then(0.0).otherwise(number)
    return keys.with_columns(*texts).with_columns(
        pl.when(number.is_nan()).then(float("nan")).otherwise(zero).name.keep()
    )


def key_frame_of(plan: Plan, keys: Any) -> Any:
    """The public keys, checked.

    :param plan: with the expressions that groups are made by
    :param keys: as for ``optimal``
    """
    names = [name_of(key) for key in plan.keys]
    given = plan.key_frame
    if keys is not None:
        if given is not None:
            raise ValueError("keys must be given once: by with_keys(...) or by keys=")
        if not names:
            raise ValueError("keys are for a group_by(...)")
        given = _frame_of(keys, names)
    if given is None:
        return None
    if set(given.columns) != set(names):
        raise ValueError(f"keys ({given.columns}) must have the columns {names}")
    given = given.select(names)
    if given.is_duplicated().any():
        raise ValueError("keys must differ from one another")
    if given.height == 0:
        raise ValueError("keys must have one row or more")
    schema = key_schema(plan)
    for name in names:
        if given.schema[name] != schema[name]:
            given = given.with_columns(_cast(given[name], schema[name]))
    return given


def _cast(keys: Any, kind: Any) -> Any:
    """Keys in the type of their column, where nothing is lost."""
    import polars as pl

    try:
        if kind in (pl.Categorical, pl.Enum) and keys.dtype in (pl.String, pl.Categorical, pl.Enum):
            return keys.cast(pl.String).cast(kind)
        cast = keys.cast(kind)
        if pl.String in (keys.dtype, kind) and keys.null_count() < len(keys):
            raise ValueError(f"keys: {keys.name} ({keys.dtype}) must be of type {kind}")
        same = cast.cast(keys.dtype).equals(keys, null_equal=True)
    except pl.exceptions.PolarsError:
        same = False
    if not same:
        raise ValueError(f"keys: {keys.name} ({keys.dtype}) must be of the column's type, {kind}")
    return cast


def _frame_of(keys: Any, names: list[str]) -> Any:
    import polars as pl

    if isinstance(keys, pl.LazyFrame):
        return keys.collect()
    if isinstance(keys, pl.DataFrame):
        return keys
    try:
        if isinstance(keys, pl.Series) or (len(names) == 1 and not isinstance(keys, Mapping)):
            return pl.DataFrame({names[0]: list(keys)})
        return pl.DataFrame(keys)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"keys ({type(keys).__name__}) must be a frame with {names}") from error


def key_columns(plan: Plan, key_frame: Any) -> tuple[dict[str, Any], Any]:
    """Keys of the rows and of the answer, comparable: categories as text.

    :param plan: with the expressions that groups are made by
    :param key_frame: the keys; None as long as they are not known
    """
    import polars as pl

    if not plan.keys:
        return {}, None
    if key_frame is None:  # until the data is seen: no keys
        key_frame = pl.DataFrame(schema=key_schema(plan))
    expressions, columns = {}, []
    for at, key in enumerate(plan.keys):
        name = f"{UNUSED}key {at}"
        column = key_frame.to_series(at)
        expression = as_expression(key)
        if column.dtype in (pl.Categorical, pl.Enum):
            column, expression = column.cast(pl.String), expression.cast(pl.String)
        expressions[name] = expression
        columns.append(column.alias(name))
    return expressions, pl.DataFrame(columns)

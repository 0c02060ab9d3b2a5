"""From expressions to Ibis: the one place where values of a database are computed with.

Every engine gives the same values. Columns are cast to 64 bits first. Texts are compared as bytes:
what a database takes for equal otherwise depends on a column's collation, and two public keys could
have a row in common.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from functools import singledispatch
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import Any

import ibis

from opendp_optimal_warehouse import expressions as e
from opendp_optimal_warehouse.constants import real, whole
from opendp_optimal_warehouse.grids import Grid
from opendp_optimal_warehouse.kinds import Kind, Kinds, kind_of

FIRST_DAY, LAST_DAY = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
FIRST_TIME = datetime.datetime(1, 1, 1)
LAST_TIME = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
_SIGNS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge, "+": add, "-": sub, "*": mul}
_MOST_DIGITS = 38


Values = Mapping[str, Any]


def kind_from(dtype: Any) -> Kind | None:
    """The kind of a column by its type; none for types that cannot be used.

    :param dtype: of Ibis
    """
    nullable = bool(dtype.nullable)
    if dtype.is_integer():
        low, high = int(dtype.bounds.lower), int(dtype.bounds.upper)
        return Kind("whole", low, high, nullable) if high < 1 << 63 else None
    if dtype.is_decimal():
        known = dtype.precision is not None and dtype.precision <= _MOST_DIGITS
        return Kind("float") if known else None
    if dtype.is_float32() or dtype.is_float64():
        return Kind("float")
    if dtype.is_timestamp():
        plain = dtype.timezone is None and dtype.scale in (None, 6)
        return Kind("timestamp", nullable=nullable) if plain else None
    for name, found in (
        ("text", dtype.is_string()),
        ("boolean", dtype.is_boolean()),
        ("date", dtype.is_date()),
    ):
        if found:
            return Kind(name, nullable=nullable)
    return None


def read(table: Any, name: str, kind: Kind) -> Any:
    """A column as it is computed with: numbers of 64 bits, NaN missing.

    :param table: of Ibis
    :param name: of the column
    :param kind: of the column
    """
    column = table[name]
    if kind.name == "whole":
        return column.cast("int64")
    if kind.name == "float":
        return column.cast("float64").nullif(real(math.nan))  # NaN equals itself in SQL
    if kind.name == "text" and not column.type().is_binary():  # a derived one already is
        return bytes_of(column, engine_of(table))
    return column


@ibis.udf.scalar.builtin(name="encode")  # type: ignore[untyped-decorator]
def _encode(text: str) -> bytes:  # type: ignore[empty-body]
    """DuckDB's."""


@ibis.udf.scalar.builtin(name="encode")  # type: ignore[untyped-decorator]
def _encode_as(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
    """Spark's."""


@ibis.udf.scalar.builtin(name="convert_to")  # type: ignore[untyped-decorator]
def _convert_to(text: str, encoding: str) -> bytes:  # type: ignore[empty-body]
    """PostgreSQL's."""


def engine_of(table: Any) -> str:
    """The name of the engine that a table is on."""
    return str(table.get_backend().name)


def bytes_of(text: Any, engine: str) -> Any:
    """A text as the bytes of its UTF-8.

    :param text: of Ibis
    :param engine: its name
    """
    if engine == "postgres":
        return _convert_to(text.cast("string"), "UTF8")
    if engine == "pyspark":
        return _encode_as(text.cast("string"), "UTF-8")
    return _encode(text.cast("string"))


def read_number(table: Any, columns: Values, name: str, kind: Kind) -> Any:
    """A column that becomes a place in a grid, where NaN is missing anyway.

    :param table: of Ibis
    :param columns: its values as they are computed with
    :param name: of the column
    :param kind: of the column
    """
    return table[name].cast("float64") if kind.name == "float" else columns[name]


def value_of(expression: e.Expression, columns: Values, kinds: Kinds) -> Any:
    """An expression in Ibis.

    :param expression: whose kind was checked
    :param columns: values of Ibis, by name
    :param kinds: of the columns
    """
    return _value(expression, columns, kinds)


@singledispatch
def _value(x: Any, columns: Values, kinds: Kinds) -> Any:
    raise ValueError(f"{x!r} must be an expression of columns")


@_value.register(e.Column)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return columns[x.name]


@_value.register(e.Constant)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return whole(x.value)


@_value.register(e.Clamp)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    kind = kind_of(x.of, kinds)
    size = max(abs(x.low), abs(x.high), 1)
    grid = Grid(0, (size - 1).bit_length(), x.low, x.high)
    return grid.place(_value(x.of, columns, kinds), kind)


@_value.register(e.Bins)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    value, kind = _value(x.of, columns, kinds), kind_of(x.of, kinds)
    steps = [(value < constant(edge, kind), whole(at)) for at, edge in enumerate(x.edges)]
    return ibis.cases((value.isnull(), ibis.null("int64")), *steps, else_=whole(len(x.edges)))


@_value.register(e.IsIn)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    kind = kind_of(x.of, kinds)
    value = _value(x.of, columns, kinds)
    engine = engine_of(value)
    return value.isin([constant(one, kind, engine) for one in x.values])


@_value.register(e.Lookup)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    value, kind = _value(x.of, columns, kinds), kind_of(x.of, kinds)
    pairs, engine = zip(x.keys, x.values, strict=True), engine_of(value)
    found = [(value == constant(key, kind, engine), whole(number)) for key, number in pairs]
    return ibis.cases(*found, else_=ibis.null("int64"))


@_value.register(e.IsMissing)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return _value(x.of, columns, kinds).isnull()


@_value.register(e.Part)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    value, kind = _value(x.of, columns, kinds), kind_of(x.of, kinds)
    ends = (FIRST_DAY, LAST_DAY) if kind.name == "date" else (FIRST_TIME, LAST_TIME)
    inside = (value >= constant(ends[0], kind)) & (value <= constant(ends[1], kind))
    part = value.day_of_week.index() if x.part == "weekday" else getattr(value, x.part)()
    return ibis.ifelse(inside, part.cast("int64"), ibis.null("int64"))


@_value.register(e.Compare)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    left = _value(x.left, columns, kinds)
    if isinstance(x.right, e.Constant):
        right = constant(x.right.value, kind_of(x.left, kinds), engine_of(left))
    else:
        right = _value(x.right, columns, kinds)
    return _SIGNS[x.sign](left, right)


@_value.register(e.Both)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return and_(_value(x.left, columns, kinds), _value(x.right, columns, kinds))


@_value.register(e.Either)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return or_(_value(x.left, columns, kinds), _value(x.right, columns, kinds))


@_value.register(e.Not)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return ~_value(x.of, columns, kinds)


@_value.register(e.Arithmetic)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    return _SIGNS[x.sign](_value(x.left, columns, kinds), _value(x.right, columns, kinds))


@_value.register(e.Remainder)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    shift = -(kind_of(x.of, kinds).low // x.by) * x.by
    return (_value(x.of, columns, kinds) + whole(shift)) % whole(x.by)


@_value.register(e.Divide)
def _(x: Any, columns: Values, kinds: Kinds) -> Any:
    # From 0 on, and divisible: whatever an engine makes of a quotient, it is this one.
    down = kind_of(x.of, kinds).low // x.by
    shifted = _value(x.of, columns, kinds) + whole(-down * x.by)
    divisible = shifted - shifted % whole(x.by)
    return (divisible // whole(x.by)).cast("int64") + whole(down)


def constant(value: Any, kind: Kind, engine: str = "") -> Any:
    """A constant that is compared with a column.

    :param value: of Python
    :param kind: of the column
    :param engine: its name; for texts
    """
    if kind.name == "text":
        return bytes_of(ibis.literal(value), engine)
    if kind.name == "float":
        return real(value)
    if kind.name == "whole":
        return whole(int(value))
    if kind.name == "date":
        return ibis.literal(value, "date")
    if kind.name == "timestamp":
        return ibis.literal(value, "timestamp")
    return ibis.literal(value)

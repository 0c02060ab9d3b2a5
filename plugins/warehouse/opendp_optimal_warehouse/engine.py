"""From expressions to Ibis: the one place where values of a database are computed with.

Every engine gives the same integers. Floats are compared with constants that are written as texts
and cast, because Ibis prints float constants as decimals, with which DuckDB computes in decimals.
Columns are cast to 64 bits first. A float becomes a whole number by constants that are powers of
two, and the exact 0.5; where they make numbers smaller, a guard around 0 keeps PostgreSQL from
failing on products that are too small for a float. Texts are compared as bytes: what a database
takes for equal otherwise depends on a column's collation, and two public keys could have a row in
common.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce, singledispatch
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import Any

import ibis

from opendp_optimal.extend import interval
from opendp_optimal_warehouse import expressions as e
from opendp_optimal_warehouse.kinds import Kind, Kinds, kind_of

__all__ = ["Grid", "bins_of", "bytes_of", "engine_of", "grid_of", "kind_from", "read", "value_of"]

FIRST_DAY, LAST_DAY = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
FIRST_TIME = datetime.datetime(1, 1, 1)
LAST_TIME = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
_SIGNS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge, "+": add, "-": sub, "*": mul}
_MOST_DIGITS = 38
_LEAST_STEPS = 1 << 8
_BINS = 1 << 14
_FARTHEST = 900
"""Bounds are at most 2^900 in size."""
MULTIPLIER, ADDEND, PRIME = 1_031_831_647 % (1 << 30), 715_225_739, (1 << 31) - 1
"""Of the hash: products of numbers below 2^32 and 2^30 stay below 2^62."""


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


def real(number: float) -> Any:
    """A float constant, the same on every engine."""
    text = {"nan": "NaN", "inf": "Infinity"}.get(repr(float(number)), repr(float(number)))
    return ibis.literal(text).cast("float64")


def whole(number: int) -> Any:
    """A constant of 64 bits; PostgreSQL would compute with 32, and fail on a large row."""
    return ibis.literal(str(number)).cast("int64")


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


@dataclass(frozen=True)
class Grid:
    """How numbers become whole numbers: multiples of 2^-bits, rounded (halves down), then clamped.

    :param bits: of the multiples
    :param reach: 2^reach is at least as large as the bounds
    :param low: the least multiple
    :param high: the largest multiple
    """

    bits: int
    reach: int
    low: int
    high: int

    @property
    def width(self) -> int:
        """Steps between the bounds."""
        return self.high - self.low

    @property
    def step(self) -> Fraction:
        """Of the grid."""
        return Fraction(2) ** -self.bits

    def place(self, value: Any, kind: Kind) -> Any:
        """The multiple that a value is taken for; missing if the value is.

        :param value: of Ibis
        :param kind: "whole", "float" or "boolean"
        """
        low, high = whole(self.low), whole(self.high)
        if kind.name == "boolean":
            value = ibis.cases((value, whole(1)), (~value, whole(0)))
        if kind.name in ("whole", "boolean") and self.bits >= 0:
            # Beyond these ends the bounds decide.
            first, last = self.low >> self.bits, -(-self.high >> self.bits)
            near = ibis.greatest(ibis.least(value, whole(last)), whole(first))
            scaled = near * whole(1 << self.bits) if self.bits else near
            placed = ibis.greatest(ibis.least(scaled, high), low)
            return ibis.ifelse(value.isnull(), ibis.null("int64"), placed)
        if kind.name != "float":
            value = value.cast("float64")
        near = value
        if self.bits < 0:
            small = math.ldexp(1.0, -self.bits - 2)
            near = ibis.ifelse(value.abs() < real(small), real(0.0), value)
        shifted = near * real(math.ldexp(1.0, self.bits)) - real(0.5)
        placed = ibis.greatest(ibis.least(shifted.ceil().cast("int64"), high), low)
        # Beyond the bounds nothing is multiplied; their places are floats exactly. NaN is above
        # everything in every engine: it is left over, as null is.
        ends = [math.ldexp(float(end), -self.bits) for end in (self.low, self.high)]
        return ibis.cases(
            (value <= real(ends[0]), low),
            (value < real(ends[1]), placed),
            (value <= real(math.inf), high),
            else_=ibis.null("int64"),
        )


def grid_of(name: str, bounds: Any, steps: int, within: Any = None) -> Grid:
    """The finest grid with at most so many steps between bounds.

    :param name: what to call the bounds in the message
    :param bounds: the lowest and the highest value
    :param steps: between them
    :param within: bounds that the grid is for, if other ones
    """
    low, high = _bounds(name, bounds)
    ends = (low, high) if within is None else _bounds(name, within)
    size = max(abs(end) for end in (low, high, *ends))
    reach = math.ceil(math.log2(size)) if size else 0
    while Fraction(2) ** reach < size:
        reach += 1
    if abs(reach) > _FARTHEST:
        raise ValueError(f"{name} ({bounds!r}) must be between 2^-900 and 2^900 in size")
    bits = math.floor(math.log2(steps / (ends[1] - ends[0]))) + 1
    while (ends[1] - ends[0]) * Fraction(2) ** bits > steps:
        bits -= 1
    bits = min(bits, 51 - reach)
    grid = Grid(bits, reach, _placed(low, bits), _placed(high, bits))
    if grid.width < (_LEAST_STEPS if within is None else 1):
        raise ValueError(f"{name} ({bounds!r}) must be farther apart, for their size")
    return grid


def bins_of(name: str, bounds: Any, kind: Kind) -> Grid:
    """Bins for quantiles: 2^14 at most, and no finer than whole numbers are.

    :param name: what to call the bounds in the message
    :param bounds: the lowest and the highest value
    :param kind: of the column
    """
    low, high = _bounds(name, bounds)
    if kind.name == "float" or high - low > _BINS:
        return grid_of(name, bounds, _BINS)
    reach = max(1, math.ceil(max(abs(low), abs(high)))).bit_length()
    if reach > 51 or _placed(low, 0) >= _placed(high, 0):
        raise ValueError(f"{name} ({bounds!r}) must hold whole numbers below 2^51 in size")
    return Grid(0, reach, _placed(low, 0), _placed(high, 0))


def _placed(value: Fraction, bits: int) -> int:
    return math.ceil(value * Fraction(2) ** bits - Fraction(1, 2))


def _bounds(name: str, bounds: Any) -> tuple[Fraction, Fraction]:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"{name} ({bounds!r}) must be a pair (low, high)")
    return interval(*bounds, names=(f"{name}[0]", f"{name}[1]"))


def hashed(person: Any, numbers: Sequence[Any]) -> Any:
    """A number below 2^31 whose square is a hash of numbers in [0, 2^31), on every engine the same.

    Multiplied by a number of the person's own, and then squared: an order that is the same for everybody
    but for a shift, or linear in anything, would choose some rows more often than others.

    :param person: a number of the person
    :param numbers: of Ibis
    """
    row = reduce(_mixed, numbers, whole(ADDEND))
    own = _mixed(whole(ADDEND), person) % whole(PRIME - 1) + whole(1)
    return (row + whole(1)) * own % whole(PRIME)


def _mixed(h: Any, number: Any) -> Any:
    return ((h + number) * whole(MULTIPLIER) + whole(ADDEND)) % whole(PRIME)

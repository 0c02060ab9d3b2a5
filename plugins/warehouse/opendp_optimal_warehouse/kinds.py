"""What an expression is, given the columns of a table: its kind and, for whole numbers, its range.

Everything that is no total operation on these columns is refused here, before anything is sent.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

from opendp_optimal_warehouse import expressions as e
from opendp_optimal_warehouse.given import constant

LARGEST = 1 << 62
"""Whole numbers that are computed are at most this in size."""
LARGEST_ROUNDED = 1 << 51
"""Floats are rounded to whole numbers up to this size."""
PARTS = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "weekday": (0, 6),
    "hour": (0, 23),
    "minute": (0, 59),
}
_DEEPEST = 100


@dataclass(frozen=True)
class Kind:
    """What an expression is.

    :param name: "whole", "float", "text", "boolean", "date" or "timestamp"
    :param low: of whole numbers
    :param high: of whole numbers
    :param nullable: whether it may be missing
    """

    name: str
    low: int = 0
    high: int = 0
    nullable: bool = True

    @property
    def listable(self) -> bool:
        """Whether values can be looked up: everything but floats and times."""
        return self.name in ("whole", "text", "boolean", "date")


Kinds = Mapping[str, Kind]


def kind_of(expression: Any, kinds: Kinds) -> Kind:
    """The kind of an expression.

    :param expression: of columns
    :param kinds: of the columns
    :raises ValueError: naming what is no total operation on such columns
    """
    if not isinstance(expression, e.Expression):
        raise ValueError(f"{expression!r} must be an expression of columns, as col('age') >= 18")
    if _depth(expression) > _DEEPEST:
        raise ValueError(f"an expression must not be nested deeper than {_DEEPEST} times")
    return _kind(expression, kinds)


def columns_of(expression: e.Expression) -> set[str]:
    """The names of the columns that it is computed from."""
    if isinstance(expression, e.Column):
        return {expression.name}
    return {name for part in _parts(expression) for name in columns_of(part)}


def check_constants(
    name: str, values: Sequence[Any], kind: Kind, *, listed: bool = True
) -> tuple[Any, ...]:
    """Constants of the kind of a column, as they are compared with it.

    :param name: what to call them in the message
    :param values: the constants
    :param kind: of the column
    :param listed: whether they are looked up, not compared in size
    """
    if listed and not kind.listable:
        raise ValueError(f"{name} must not be looked up in a column of kind {kind.name}")
    return tuple(_fitting(name, value, kind) for value in values)


def _parts(expression: e.Expression) -> list[e.Expression]:
    return [part for part in vars(expression).values() if isinstance(part, e.Expression)]


def _depth(expression: e.Expression, seen: int = 1) -> int:
    if seen > _DEEPEST:
        return seen
    return max((_depth(part, seen + 1) for part in _parts(expression)), default=seen)


def _fitting(name: str, value: Any, kind: Kind) -> Any:
    wanted: dict[str, Any] = {
        "whole": int,
        "float": int | float,
        "text": str,
        "boolean": bool,
        "date": datetime.date,
        "timestamp": datetime.datetime,
    }
    if kind.name == "whole" and isinstance(value, float) and value.is_integer():
        value = constant(name, int(value))
    fits = isinstance(value, wanted[kind.name])
    if isinstance(value, bool) and kind.name != "boolean":
        fits = False
    if isinstance(value, datetime.datetime) and kind.name == "date":
        fits = False
    if not fits:
        raise ValueError(f"{name} ({value!r}) must be of the kind of the column: {kind.name}")
    return float(value) if kind.name == "float" else value


@singledispatch
def _kind(expression: e.Expression, kinds: Kinds) -> Kind:
    raise ValueError(f"{expression!r} must be an expression of columns")


@_kind.register(e.Column)
def _(x: Any, kinds: Kinds) -> Kind:
    if x.name not in kinds:
        known = ", ".join(kinds) or "none"
        raise ValueError(f"column ({x.name!r}) must be one of those that can be used: {known}")
    return kinds[x.name]


@_kind.register(e.Constant)
def _(x: Any, kinds: Kinds) -> Kind:
    if type(x.value) is not int:
        raise ValueError(f"a constant ({x.value!r}) must stand on the right of a comparison")
    return Kind("whole", x.value, x.value, nullable=False)


@_kind.register(e.Clamp)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _number_kind(x.of, kinds, "clamp")
    most = LARGEST if kind.name == "whole" else LARGEST_ROUNDED
    if not -most <= x.low <= x.high <= most:
        raise ValueError(
            f"clamp({x.low}, {x.high}) must have its lower bound first, and bounds of at most "
            f"2^{most.bit_length() - 1} in size"
        )
    return Kind("whole", x.low, x.high, kind.nullable)


@_kind.register(e.Bins)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _number_kind(x.of, kinds, "bins")
    check_constants("edges", x.edges, kind, listed=False)
    return Kind("whole", 0, len(x.edges), kind.nullable)


@_kind.register(e.IsIn)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _kind(x.of, kinds)
    check_constants("values", x.values, kind)
    return Kind("boolean", nullable=kind.nullable)


@_kind.register(e.Lookup)
def _(x: Any, kinds: Kinds) -> Kind:
    check_constants("values", x.keys, _kind(x.of, kinds))
    low, high = min(x.values), max(x.values)
    if not -LARGEST <= low <= high <= LARGEST:
        raise ValueError("values of a lookup must be at most 2^62 in size")
    return Kind("whole", low, high)


@_kind.register(e.IsMissing)
def _(x: Any, kinds: Kinds) -> Kind:
    _kind(x.of, kinds)
    return Kind("boolean", nullable=False)


@_kind.register(e.Part)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _kind(x.of, kinds)
    wanted = ("timestamp",) if x.part in ("hour", "minute") else ("date", "timestamp")
    if kind.name not in wanted:
        raise ValueError(f"{x!r} needs a column of kind {' or '.join(wanted)}, not {kind.name}")
    return Kind("whole", *PARTS[x.part])


@_kind.register(e.Compare)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _kind(x.left, kinds)
    if isinstance(x.right, e.Constant):
        check_constants("a constant", [x.right.value], kind, listed=False)
        if kind.name in ("text", "boolean") and x.sign not in ("==", "!="):
            raise ValueError(f"{x!r}: a {kind.name} has no order that is the same on every engine")
        return Kind("boolean", nullable=kind.nullable)
    other = _kind(x.right, kinds)
    if {kind.name, other.name} != {"whole"}:
        raise ValueError(f"{x!r} must compare two whole numbers, or a column with a constant")
    return Kind("boolean", nullable=kind.nullable or other.nullable)


@_kind.register(e.Both)
@_kind.register(e.Either)
def _(x: Any, kinds: Kinds) -> Kind:
    found = [_kind(part, kinds) for part in (x.left, x.right)]
    _need_boolean(x, *found)
    return Kind("boolean", nullable=any(kind.nullable for kind in found))


@_kind.register(e.Not)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _kind(x.of, kinds)
    _need_boolean(x, kind)
    return kind


@_kind.register(e.Arithmetic)
def _(x: Any, kinds: Kinds) -> Kind:
    a, b = (_whole_kind(part, kinds, x) for part in (x.left, x.right))
    if x.sign == "+":
        ends = [a.low + b.low, a.high + b.high]
    elif x.sign == "-":
        ends = [a.low - b.high, a.high - b.low]
    else:
        ends = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    if max(map(abs, ends)) > LARGEST:
        raise ValueError(f"{x!r} can be larger than 2^62: clamp what it is computed from")
    return Kind("whole", min(ends), max(ends), a.nullable or b.nullable)


@_kind.register(e.Divide)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _whole_kind(x.of, kinds, x)
    _need_moderate(x, kind)
    return replace(kind, low=kind.low // x.by, high=kind.high // x.by)


@_kind.register(e.Remainder)
def _(x: Any, kinds: Kinds) -> Kind:
    kind = _whole_kind(x.of, kinds, x)
    _need_moderate(x, kind)
    return replace(kind, low=0, high=x.by - 1)


def _number_kind(of: e.Expression, kinds: Kinds, what: str) -> Kind:
    kind = _kind(of, kinds)
    if kind.name not in ("whole", "float"):
        raise ValueError(f"{of!r} must be a number for {what}, not {kind.name}")
    return kind


def _whole_kind(of: e.Expression, kinds: Kinds, whole: Any) -> Kind:
    kind = _kind(of, kinds)
    if kind.name != "whole":
        raise ValueError(f"{whole!r} must be computed from whole numbers: clamp {of!r} first")
    return kind


def _need_boolean(x: Any, *found: Kind) -> None:
    if any(kind.name != "boolean" for kind in found):
        raise ValueError(f"{x!r} must be made of comparisons")


def _need_moderate(x: Any, kind: Kind) -> None:
    if kind.high - kind.low >= LARGEST_ROUNDED or max(-kind.low, kind.high) >= LARGEST_ROUNDED:
        raise ValueError(f"{x!r} must divide a number below 2^51 in size: clamp it first")

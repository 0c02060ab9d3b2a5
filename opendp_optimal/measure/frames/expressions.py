"""Polars expressions that work row by row and never fail, whatever the rows hold.

OpenDP accepts an expression of a plan if it is on OpenDP's list. Some on it depend on more than
their own row (codes of categories), others fail on some values (dates beyond the calendar, strict
casts). A failure is an answer: it tells of a row. So every expression is read here, too, from
Polars' own JSON, and what is not known to be safe is refused. Casts and parsers are made to give
null where they would fail.
"""

from __future__ import annotations

import io
import json
import warnings
from datetime import datetime, timedelta
from typing import Any

Node = Any

_BOOLEAN = {
    *("IsNull", "IsNotNull", "IsNan", "IsNotNan", "IsFinite", "IsInfinite", "Not"),
    *("IsBetween", "AllHorizontal", "AnyHorizontal"),
}
_PLAIN = {"FillNull", "Negate", "Coalesce", "Abs"}
_WITH_OPTIONS = {"Clip", "Cut", "Round"}
_TEMPORAL = {
    *("Millennium", "Century", "Year", "IsoYear", "Quarter", "Month", "Week", "WeekDay", "Day"),
    *("OrdinalDay", "Time", "Date", "Datetime", "Hour", "Minute", "Second", "Millisecond"),
    *("Microsecond", "Nanosecond", "TimeStamp", "IsLeapYear"),
}
_STRINGS = {"Lowercase", "Uppercase", "LenBytes", "LenChars"}
_ARITHMETIC = {"Plus", "Minus", "Multiply", "Divide", "TrueDivide", "FloorDivide", "Modulus"}
_DIVISIONS = {"Divide", "TrueDivide", "FloorDivide", "Modulus"}
_EACH = "query: name each column by itself: no pl.all(), no pl.col(a, b)"
_PERSON = {"Min", "Max", "Sum", "Mean", "Median", "First", "Last", "Count", "NUnique", "Std", "Var"}


def as_json(expression: Any) -> Node:
    """A Polars expression as plain values."""
    return json.loads(expression.meta.serialize(format="json"))


def as_expression(node: Node) -> Any:
    """The Polars expression that plain values describe."""
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
        except pl.exceptions.PolarsError:
            raise ValueError(
                "query: an expression is not understood; are its numbers finite?"
            ) from None


def unnamed(node: Node) -> Node:
    """An expression without the names that it is given."""
    while isinstance(node, dict) and "Alias" in node:
        node = node["Alias"][0]
    return node


def part_of(node: Node, *names: str) -> Any:
    """What is within an expression under one name after another; None where there is none."""
    for name in names:
        node = node.get(name) if isinstance(node, dict) else None
    return node


def same_text(node: Node) -> str:
    """A text that is the same for the same expression, whatever it is called."""
    return json.dumps(unnamed(node), sort_keys=True)


def name_of(node: Node) -> str:
    """What an expression's column is called.

    :param node: an expression as plain values
    :raises ValueError: if it is several columns
    """
    import polars as pl

    try:
        return str(as_expression(node).meta.output_name())
    except pl.exceptions.PolarsError:
        raise ValueError(_EACH) from None


def roots(node: Node) -> frozenset[str]:
    """The columns that an expression reads."""
    return frozenset(as_expression(node).meta.root_names())


def safe(node: Node, schema: Any, *, person: bool = False) -> Node:
    """The expression, made safe.

    :param node: an expression as plain values
    :param schema: of the frame that it reads
    :param person: whether it may also bring the rows of one person together
    :raises ValueError: if it is not known to work row by row, or may fail
    """
    if node == "Len" and person:
        return node
    if not isinstance(node, dict) or len(node) != 1:
        _refuse(node)
    ((kind, inside),) = node.items()
    if kind == "Column" or (kind == "Literal" and not {"Series", "Range"} & {*inside}):
        return node
    if kind == "Selector":
        raise ValueError(_EACH)
    if kind == "Alias":
        return {"Alias": [safe(inside[0], schema, person=person), inside[1]]}
    if kind == "Cast":
        of = _castable(safe(inside["expr"], schema, person=person), type_of(node, schema), schema)
        return {"Cast": {**inside, "expr": of, "options": "NonStrict"}}
    if kind == "BinaryExpr":
        sides = {s: safe(inside[s], schema, person=person) for s in ("left", "right")}
        if inside["op"] in _ARITHMETIC and type_of(node, schema).is_temporal():
            _refuse(node)
        return _divided({**inside, **sides}, schema)
    if kind == "Ternary":
        return {"Ternary": {k: safe(v, schema, person=person) for k, v in inside.items()}}
    if kind == "Function":
        parts = [safe(each, schema, person=person) for each in inside["input"]]
        return {"Function": _function(inside["function"], parts, schema)}
    if kind == "Agg" and person:
        return {"Agg": _person(inside, schema)}
    return _refuse(node)


def _castable(node: Node, kind: Any, schema: Any) -> Node:
    """What is cast to another type: row by row, and without failing."""
    import polars as pl

    before = type_of(node, schema)
    if kind.is_nested() or kind.is_object() or kind == pl.Binary:
        raise ValueError(f"query: a cast to {kind} must be to a type of single values")
    if before == pl.Categorical and (kind.is_numeric() or kind == pl.Boolean or kind.is_temporal()):
        _check_codes(node, schema)
    if before == pl.String and kind.is_temporal():
        raise ValueError(
            f"query: a cast of text to {kind} reads a format that is not stated; use "
            "str.to_date(format) or str.to_datetime(format)"
        )
    # Days and times beyond the calendar have no name.
    return _in_calendar(node, schema) if before.is_temporal() and kind == pl.String else node


def _divided(inside: Any, schema: Any) -> Node:
    """A division of floats by a number, as a product.

    Polars divides by a number, or multiplies with its inverse, by how many rows come together.
    """
    node = {"BinaryExpr": inside}
    op, kind = inside["op"], type_of(node, schema)
    by_number = roots(inside["left"]) and not roots(inside["right"])
    if op not in _DIVISIONS or not by_number or not kind.is_float():
        return node
    import polars as pl

    divisor = pl.select(as_expression(inside["right"])).item()
    plain = isinstance(divisor, int | float) and not isinstance(divisor, bool)
    inverse = 1 / divisor if plain and divisor and abs(divisor) < 2.0**1000 else 0.0
    if not 0 < abs(inverse) < float("inf"):
        _refuse(node)
    left = as_expression(inside["left"])
    parts = left.cast(pl.Float64, strict=False) * inverse
    if op in ("FloorDivide", "Modulus"):
        parts = parts.floor()
    if op == "Modulus":
        parts = left.cast(pl.Float64, strict=False) - parts * float(divisor)
    return as_json(parts.cast(kind, strict=False))


def _person(inside: Any, schema: Any) -> Any:
    """Something of the rows of one person."""
    ((kind, what),) = inside.items()
    if kind in ("Min", "Max", "Count"):
        return {kind: {**what, "input": safe(what["input"], schema)}}
    if kind in ("Std", "Var"):
        return {kind: [_in_order(safe(what[0], schema), schema), *what[1:]]}
    if kind in ("Sum", "Mean"):
        return {kind: _in_order(safe(what, schema), schema)}
    if kind in _PERSON:
        return {kind: safe(what, schema)}
    return _refuse({"Agg": inside})


def _in_order(node: Node, schema: Any) -> Node:
    """Floats that are added in an order of their own, not as rows of others come between them."""
    return as_json(as_expression(node).sort()) if type_of(node, schema).is_float() else node


def _function(function: Any, parts: list[Node], schema: Any) -> Node:
    """A function of the values of one row."""
    kept = {"input": parts, "function": function}
    fixed = all("Literal" in part for part in parts[1:3])
    if isinstance(function, str):
        if function == "ToPhysical":
            _check_codes(parts[0], schema)
        elif function not in _PLAIN and not (function == "Replace" and fixed):
            _refuse({"Function": kept})
        return kept
    ((kind, options),) = function.items()
    name = next(iter(options), "") if isinstance(options, dict | list) else str(options)
    if kind == "Boolean" and name in _BOOLEAN:
        return kept
    if kind == "TemporalExpr" and name in _TEMPORAL:
        return {**kept, "input": [_in_calendar(parts[0], schema), *parts[1:]]}
    if kind == "StringExpr" and name in _STRINGS:
        return kept
    if kind == "StringExpr" and name == "Strptime":
        dtype, parsing = options["Strptime"]
        if not parsing.get("format"):
            raise ValueError("query: a format must be stated, or Polars takes that of other rows")
        quiet = {"Strptime": [dtype, {**parsing, "strict": False}]}
        null = {"Literal": {"Scalar": {"String": "null"}}}
        return {"input": [parts[0], null], "function": {"StringExpr": quiet}}
    if kind == "ReplaceStrict" and len(parts) == 4 and fixed:  # a default for all other values
        return kept
    if kind in _WITH_OPTIONS:
        return kept
    return _refuse({"Function": kept})


def type_of(node: Node, schema: Any) -> Any:
    """The type of an expression's values.

    :param node: an expression as plain values
    :param schema: of the frame that it reads
    :raises ValueError: if it has none, or is several columns
    """
    import polars as pl

    try:
        found = pl.LazyFrame(schema=schema).select(as_expression(node)).collect_schema().dtypes()
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"query: {error}") from None
    if len(found) != 1:
        raise ValueError(_EACH)
    return found[0]


def _in_calendar(node: Node, schema: Any) -> Node:
    """Times beyond the calendar put at its ends: Polars fails on them."""
    import polars as pl

    kind = type_of(node, schema)
    day = timedelta(days=1)
    first = (datetime(2, 1, 1) - datetime(1970, 1, 1)) // day
    last = (datetime(9998, 12, 31) - datetime(1970, 1, 1)) // day
    ends = {pl.Date: (first, last), pl.Time: (0, 24 * 3600 * 10**9 - 1)}.get(kind.base_type())
    if kind == pl.Datetime and kind.time_unit != "ns":  # nanoseconds do not reach so far
        each = 86_400 * {"us": 10**6, "ms": 10**3}[kind.time_unit]
        ends = first * each, last * each
    if ends is None:
        return node
    return as_json(as_expression(node).to_physical().clip(*ends).cast(kind, strict=False))


def _check_codes(node: Node, schema: Any) -> None:
    """Refuse the codes of categories: they depend on which rows came before."""
    import polars as pl

    if type_of(node, schema) == pl.Categorical:
        raise ValueError(
            "query: categories as numbers (to_physical(), or a cast) are codes that depend on "
            "other rows; cast them to pl.Enum([...]) first, or group by the categories themselves"
        )


def _refuse(node: Node) -> Any:
    try:
        told = str(as_expression(node))
    except Exception:
        told = json.dumps(node)
    told = told if len(told) <= 200 else f"{told[:200]}..."
    raise ValueError(f"query: {told} is not known to work row by row without failing")

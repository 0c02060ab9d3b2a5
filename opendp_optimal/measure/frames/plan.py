"""OpenDP's Polars plans, read: steps, truncations, keys and aggregates.

A plan that a context's query has built is a tree of Polars' own nodes. It is read as the JSON that
Polars writes, which is stable because OpenDP pins the version of Polars.
"""

from __future__ import annotations

import io
import json
import secrets
import warnings
from dataclasses import dataclass, field
from typing import Any

from opendp_optimal.measure.frames.expressions import (
    as_expression,
    as_json,
    name_of,
    part_of,
    safe,
    same_text,
    unnamed,
)

Node = Any


@dataclass(frozen=True)
class Step:
    """One step before the aggregates.

    :param kind: "filter", "with_columns", "select", "rows" or "groups" (truncations), or "person"
        (the rows of a person and group brought together)
    :param nodes: expressions of the step: a predicate, columns, what the truncation is by
    :param most: rows or groups that a truncation keeps
    :param keep: which ones: "sample", "first", "last", or the expression that orders rows
    :param extra: columns of a step that brings rows together
    """

    kind: str
    nodes: tuple[Node, ...]
    most: int = 0
    keep: Any = "sample"
    extra: tuple[Node, ...] = ()

    @property
    def defines(self) -> bool:
        """Whether it defines columns."""
        return self.kind in ("with_columns", "select", "person")


@dataclass(frozen=True)
class Aggregate:
    """What is asked of every group.

    :param name: of the answer
    :param kind: "len", "count", "null_count", "n_unique", "sum", "mean", "quantile"
    :param value: the expression whose rows are counted or added; None for whole rows
    :param bounds: of the values, for sums and means
    :param rank: of a quantile
    :param candidates: of a quantile
    """

    name: str
    kind: str
    value: Node = None
    bounds: tuple[float, float] | None = None
    rank: float | None = None
    candidates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A query that was read.

    :param schema: of the data
    :param columns: the schema after all steps
    :param steps: before the aggregates, in order
    :param keys: expressions that groups are made by, made safe
    :param aggregates: what is asked
    :param before: the plan before the aggregates, as it was given
    :param key_frame: public keys, where the plan has them
    """

    schema: Any
    columns: Any
    steps: tuple[Step, ...]
    keys: tuple[Node, ...]
    aggregates: tuple[Aggregate, ...]
    before: Any = field(default=None, compare=False)
    key_frame: Any = field(default=None, compare=False)


def read_plan(frame: Any, identifier: Any = None) -> Plan:
    """Read the plan of a query.

    :param frame: a LazyFrame without data
    :param identifier: the expression that tells people apart, where there is one
    :raises ValueError: naming what is not understood
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = json.loads(frame.serialize(format="json"))
    node, key_frame = _keys(_plain(node))
    kind, inside = _only(node)
    if kind == "GroupBy":
        _check_group_by(inside)
        keys, asked = tuple(inside["keys"]), inside["aggs"]
    elif kind == "Select":
        keys, asked = (), inside["expr"]
    else:
        raise ValueError(f"query ({kind}) must end in group_by(...).agg(...) or in select(...)")
    schema, columns, steps = _steps(inside["input"], identifier)
    keys = tuple(safe(key, columns) for key in keys)
    aggregates = tuple(_aggregate(each) for each in asked)
    names = [each.name for each in aggregates]
    shown = [name_of(key) for key in keys]
    if not names:
        raise ValueError("query must ask for something in agg(...) or select(...)")
    if len(set(names + shown)) < len(names + shown):
        raise ValueError(f"query: names ({', '.join(shown + names)}) must differ; use .alias(...)")
    if key_frame is not None and not keys:
        raise ValueError("query: with_keys(...) needs a group_by(...)")
    before = _lazy(inside["input"])
    return Plan(schema, columns, tuple(steps), keys, aggregates, before, key_frame)


def _plain(node: Node) -> Node:
    """Without Polars' own notes."""
    while isinstance(node, dict) and "IR" in node:
        node = node["IR"]["dsl"]
    return node


def _only(node: Node) -> tuple[str, Any]:
    node = _plain(node)
    ((kind, inside),) = node.items()
    return kind, inside


def _keys(node: Node) -> tuple[Node, Any]:
    """Take the keys of ``with_keys`` off the top."""
    kind, inside = _only(node)
    if kind != "Join":
        return node, None
    how = inside["options"]["args"]["how"]
    sides = {"Left": ("input_left", "input_right"), "Right": ("input_right", "input_left")}
    if how not in sides or inside["left_on"] != inside["right_on"]:
        raise ValueError(f"query: a join ({how}) must be that of with_keys(...)")
    public, private = sides[how]
    found = _lazy(inside[public]).collect()
    on = [name_of(each) for each in inside["left_on"]]
    return _plain(inside[private]), found.select(on)


def _lazy(node: Node) -> Any:
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.LazyFrame.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")


def _check_group_by(inside: Any) -> None:
    options = inside.get("options", {})
    if inside.get("apply") or inside.get("predicates") or any(options.values()):
        raise ValueError("query: group_by must have keys and agg(...) only")


def _steps(node: Node, identifier: Any) -> tuple[Any, Any, list[Step]]:
    """The steps from the data on, every expression made safe."""
    import polars as pl

    chain = []
    kind, inside = _only(node)
    while kind in ("Filter", "HStack", "Select", "GroupBy"):
        chain.append((kind, inside))
        kind, inside = _only(inside["input"])
    if kind != "DataFrameScan":
        raise ValueError(f"query: a step ({kind}) is not understood")
    schema = _lazy({"DataFrameScan": inside}).collect().schema
    person = None if identifier is None else as_json(identifier)
    steps, here = [], pl.LazyFrame(schema=schema)
    for kind, inside in reversed(chain):
        step = _step(kind, inside, here.collect_schema(), person)
        steps.append(step)
        if step.defines:
            here = applied(here, step, identifier)
    return schema, here.collect_schema(), steps


def _step(kind: str, inside: Any, schema: Any, person: Node) -> Step:
    if kind == "Filter":
        truncation = _truncation(inside["predicate"], schema, person)
        if truncation is not None:
            return truncation
        return Step("filter", (safe(inside["predicate"], schema),))
    if kind == "GroupBy":
        return _together(inside, schema, person)
    asked = inside["exprs" if kind == "HStack" else "expr"]
    known = "with_columns" if kind == "HStack" else "select"
    return Step(known, tuple(safe(each, schema) for each in asked))


def _together(inside: Any, schema: Any, person: Node) -> Step:
    """The rows of a person and group brought together."""
    _check_group_by(inside)
    texts = [same_text(key) for key in inside["keys"]]
    if (
        person is None
        or same_text(person) not in texts
        or any("Alias" in k for k in inside["keys"])
    ):
        raise ValueError("query: a group_by before the last must be by the identifier")
    keys = tuple(safe(key, schema) for key in inside["keys"])
    extra = tuple(safe(each, schema, person=True) for each in inside["aggs"])
    return Step("person", keys, extra=extra)


def applied(frame: Any, step: Step, person: Any) -> Any:
    """A frame after a step.

    :param frame: the data
    :param step: of the plan
    :param person: the expression that tells people apart
    """
    import polars as pl

    nodes = [as_expression(node) for node in step.nodes]
    if step.kind == "filter":
        return frame.filter(*nodes)
    if step.kind == "with_columns":
        return frame.with_columns(*nodes)
    if step.kind == "select":
        return frame.select(*nodes)
    if step.kind == "person":
        return frame.group_by(nodes).agg([as_expression(node) for node in step.extra])
    if step.kind == "rows":
        number = pl.int_range(pl.len())
        kept = {"first": number, "last": number.reverse(), "sample": number.shuffle()}
        order = kept[step.keep] if isinstance(step.keep, str) else as_expression(step.keep)
        return frame.filter(order.over([person, *nodes]) < step.most)
    # Groups in their order, or in the order of a random hash; equal hashes do not make one group.
    named = [node.alias(f"{at}") for at, node in enumerate(nodes)]
    if step.keep == "sample":
        random = pl.struct(person.alias("person"), *named).hash(secrets.randbits(63))
        named = [random.alias("hash"), *named]
    rank = pl.struct(named).rank("dense", descending=step.keep == "last")
    return frame.filter(rank.over(person) <= step.most)


def _truncation(predicate: Node, schema: Any, person: Node) -> Step | None:
    """A filter that OpenDP's ``truncate_`` functions made; None for any other."""
    found = part_of(predicate, "BinaryExpr")
    over = part_of(found, "left", "Over")
    if over is None:
        return None
    whole = part_of(found, "right", "Literal", "Dyn", "Int")
    texts = [same_text(each) for each in over["partition_by"]]
    if person is None or same_text(person) not in texts:
        raise ValueError("query: a truncation must be by the identifier of the privacy unit")
    known = found["op"] == "Lt" and over.get("order_by") is None
    if not known or whole is None or whole < 1:
        raise ValueError("query: a truncation must keep one row or group, or more")
    by = [each for each in over["partition_by"] if same_text(each) != same_text(person)]
    keep = _kept_rows(over["function"], schema)
    if keep is not None:
        return Step("rows", tuple(safe(each, schema) for each in by), whole, keep)
    groups = None if by else _kept_groups(over["function"])
    if groups is not None:
        nodes = tuple(safe(each, schema) for each in groups[0])
        return Step("groups", nodes, whole, groups[1])
    raise ValueError("query: a truncation must be truncate_per_group or truncate_num_groups")


_RANGE = {"Range": {"IntRange": {"step": 1, "dtype": {"Literal": "Int64"}}}}


def _is_range(node: Node) -> bool:
    if part_of(node, "Function", "function") != _RANGE:
        return False
    first, *rest = node["Function"]["input"]
    zero = first in ({"Literal": {"Dyn": {"Int": 0}}}, {"Literal": {"Scalar": {"Int64": 0}}})
    return zero and rest == ["Len"]


def _kept_rows(node: Node, schema: Any) -> Any:
    """Which rows a truncation keeps; None if it is about groups."""
    if _is_range(node):
        return "first"
    if _is_range(part_of(node, "SortBy", "expr")):
        by = [safe(each, schema) for each in node["SortBy"]["by"]]
        return {"SortBy": {**node["SortBy"], "by": by}}
    inside = part_of(node, "Function")
    if not inside or not _is_range(inside["input"][0]):
        return None
    if inside["function"] == "Reverse":
        return "last"
    return "sample" if part_of(inside, "function", "Random", "method") == "Shuffle" else None


def _kept_groups(node: Node) -> tuple[list[Node], str] | None:
    """The columns whose groups are limited, and which groups are kept."""
    rank = part_of(node, "Function", "function", "Rank", "options")
    if part_of(rank, "method") != "Dense":
        return None
    struct = part_of(node["Function"]["input"][0], "Function")
    if part_of(struct, "function") != "AsStruct":
        return None
    if "Hash" in str(part_of(struct["input"][0], "Function", "function")):
        return struct["input"][1]["Function"]["input"], "sample"
    return struct["input"], "last" if rank["descending"] else "first"


_PLUGINS = {
    "dp_frame_len": "len",
    "dp_len": "len",
    "dp_count": "count",
    "dp_null_count": "null_count",
    "dp_n_unique": "n_unique",
    "dp_sum": "sum",
    "dp_mean": "mean",
    "dp_quantile": "quantile",
    "dp_median": "quantile",
}


def _aggregate(node: Node) -> Aggregate:
    """What one expression asks."""
    name = name_of(node)
    node = unnamed(node)
    inside = part_of(node, "Function")
    plugin = part_of(inside, "function", "FfiPlugin")
    if plugin is None or "opendp" not in plugin["lib"]:
        raise ValueError(f"query: {name} must be a dp expression, such as dp.len() or .dp.sum(...)")
    symbol, parts = plugin["symbol"], inside["input"]
    if symbol == "noise":
        _check_scale(name, parts[1])
        return _noised(name, parts[0])
    if symbol not in _PLUGINS:
        raise ValueError(f"query: {name} ({symbol}) is not understood")
    kind = _PLUGINS[symbol]
    if symbol == "dp_frame_len":
        _check_scale(name, parts[0])
        name = "len" if name.startswith("literal") else name
        return Aggregate(name, "len")
    _check_scale(
        name, parts[-2] if kind in ("len", "count", "null_count", "n_unique") else parts[-1]
    )
    if kind in ("sum", "mean"):
        return Aggregate(name, kind, parts[0], (_number(parts[1]), _number(parts[2])))
    if kind == "quantile":
        rank = 0.5 if symbol == "dp_median" else _number(parts[1])
        return Aggregate(name, kind, parts[0], rank=rank, candidates=_series(parts[-2]))
    return Aggregate(name, kind, parts[0])


def _check_scale(name: str, node: Node) -> None:
    if node != {"Literal": {"Scalar": {"Null": "Null"}}}:
        raise ValueError(f"query: {name} must not state its scale: the budget decides")


def _noised(name: str, node: Node) -> Aggregate:
    """What ``.dp.noise()`` comes after."""
    if node == "Len":
        return Aggregate(name, "len")
    agg = part_of(node, "Agg")
    if agg:
        ((kind, what),) = agg.items()
        if kind == "Sum":
            return Aggregate(name, "sum", *_clipped(name, what))
        if kind == "Count":
            return Aggregate(name, "len" if what["include_nulls"] else "count", what["input"])
        if kind == "NUnique":
            return Aggregate(name, "n_unique", what)
    raise ValueError(f"query: {name} must have noise on a length, a count or a clipped sum")


def _clipped(name: str, node: Node) -> tuple[Node, tuple[float, float]]:
    """What is clipped, and its bounds."""
    if part_of(node, "Function", "function") != {"Clip": {"has_min": True, "has_max": True}}:
        raise ValueError(f"query: {name} must be clipped on both sides before it is added up")
    value, low, high = node["Function"]["input"]
    return value, (_number(low), _number(high))


def _number(node: Node) -> float:
    import polars as pl

    found = pl.select(as_expression(node)).item()
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"query: a bound ({found!r}) must be a number")
    return found


def _series(node: Node) -> tuple[float, ...]:
    import polars as pl

    return tuple(pl.select(as_expression(node).explode()).to_series().to_list())

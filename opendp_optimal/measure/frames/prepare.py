"""From a query to everything that its release needs, before anything is spent.

OpenDP itself checks the plan and says what its columns may hold; what a person adds to it is
followed step by step; its aggregates become columns of integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from opendp_optimal.measure import dp
from opendp_optimal.measure.frames.columns import Table, table_of
from opendp_optimal.measure.frames.expressions import (
    as_expression,
    as_json,
    name_of,
    safe,
    same_text,
    type_of,
)
from opendp_optimal.measure.frames.keys import UNUSED, key_columns, key_frame_of
from opendp_optimal.measure.frames.limits import Limits, intact, limits_of
from opendp_optimal.measure.frames.noise import Price
from opendp_optimal.measure.frames.parts import COUNT, PERSON, Parts
from opendp_optimal.measure.frames.plan import Aggregate, Plan, read_plan
from opendp_optimal.measure.frames.quantiles import quantiles_of
from opendp_optimal.measure.frames.run import Collector
from opendp_optimal.measure.frames.secret import SecretKeys, secret_keys
from opendp_optimal.measure.frames.values import Value
from opendp_optimal.measure.noise import target_of


def prepared(
    inner: dp.Query,
    frame: Any,
    keys: Any,
    variance: tuple[str, ...],
    quantiles: Mapping[str, tuple[float, ...]] | None = None,
) -> Parts:
    """Everything but the noise.

    :param inner: with the space, the distance and the budget
    :param frame: the plan
    :param keys: as for :func:`optimal`
    :param variance: as for :func:`optimal`
    :param quantiles: as for :func:`optimal`
    """
    import polars as pl

    space: Any = inner._chain
    if not isinstance(space, tuple):
        raise ValueError("query must be of a context on a Polars frame")
    domain, metric = space
    person = getattr(getattr(metric, "inner_metric", metric), "identifier", None)
    plan = read_plan(frame, person)
    limits = limits_of(plan, metric, inner._d_in)
    price = _price(inner._output_measure, inner._d_out)
    counts = (*plan.aggregates, *_columns(plan, quantiles or {}))
    values, named = _values(plan, counts)
    stable = _checked(domain, metric, plan, counts, values)
    public = _public(domain, plan)
    if public == "lengths":  # rows are exchanged, two by two
        rows, each = (n + n % 2 for n in (limits.rows, limits.each))
        limits = replace(limits, rows=rows, each=each)
    known = {
        text: _value(stable.output_domain, plan, name, named[name]) for text, name in values.items()
    }
    table = table_of(
        plan.aggregates,
        known,
        limits,
        sized=public == "lengths",
        variance=variance,
        identifier=same_text(as_json(person)) if intact(plan, person) else None,
    )
    key_frame = key_frame_of(plan, keys)
    secret = None
    counted = {name: as_expression(node) for name, node in named.items()}
    integers = tuple(table.expressions)
    if plan.keys and key_frame is None and public is None:
        others = bool(quantiles) or any(a.kind == "quantile" for a in plan.aggregates)
        secret, count = _secret(plan, limits, table, price, person, others)
        integers = (*integers, count.cast(pl.Int64).alias(COUNT))
        if secret.people:
            counted[PERSON] = person
    expressions, texts = key_columns(plan, key_frame)
    collector = Collector(plan.steps, counted, expressions, texts, integers, person, table.split)
    left = price if secret is None else secret.rest or price
    asked = quantiles_of(quantiles or {}, plan.aggregates, known, limits, left)
    _check_names(plan, table, [name for one in asked for name in one.names])
    _tried(collector, plan, [one.cell if one.line else one.power for one in asked])
    return Parts(plan, limits, table, collector, price, key_frame, secret, asked)


def _secret(
    plan: Plan, limits: Limits, table: Table, price: Price, person: Any, others: bool
) -> tuple[SecretKeys, Any]:
    """How keys are chosen that only the data have, and the number that they are chosen by."""
    import polars as pl

    whole = intact(plan, person)
    kinds = {key[0] for key in table.known}
    texts = {same_text(a.value) for a in plan.aggregates if a.kind == "n_unique"}
    heads = kinds == {"unique"} and whole and texts == {same_text(as_json(person))}
    alone = len(table.known) == 1 and (kinds == {"rows"} or heads) and not others
    people = heads if alone else whole
    found = secret_keys(plan, limits, price, people=people, alone=alone)
    return found, pl.col(PERSON).n_unique() if people else pl.len()


def _check_names(plan: Plan, table: Table, more: list[str]) -> None:
    names = [name_of(key) for key in plan.keys]
    names += [one.name + end for one in table.asked for end in ("", "_accuracy")] + more
    if len(set(names)) < len(names):
        raise ValueError(f"query: names ({', '.join(names)}) must differ; use .alias(...)")


def _price(measure: dp.Measure, d_out: Any) -> Price:
    if d_out is None:
        raise ValueError("query must have a budget: state it in context.query(epsilon=...)")
    kind = str(measure.type)
    if "ZeroConcentrated" in kind:
        rho, delta = d_out if isinstance(d_out, tuple) else (d_out, 0.0)
        if not 0 < rho < float("inf"):
            raise ValueError(f"query: rho ({rho}) must be positive")
        return Price(float(rho), float(delta), concentrated=True)
    if kind not in ("MaxDivergence", "Approximate<MaxDivergence>"):
        raise ValueError(f"query: the context's measure ({kind}) must be pure or approximate")
    return Price(*target_of(d_out))


def _columns(plan: Plan, quantiles: Mapping[str, Any]) -> Iterator[Aggregate]:
    """The columns whose quantiles are asked without bounds."""
    sums = {a.name for a in plan.aggregates if a.kind in ("sum", "mean")}
    for name in quantiles:
        if name not in sums:
            if name not in plan.columns:
                raise ValueError(f"quantiles ({name!r}) must name a sum, a mean or a column")
            yield Aggregate(name, "quantile", {"Column": name})


def _values(plan: Plan, counts: tuple[Aggregate, ...]) -> tuple[dict[str, str], dict[str, Any]]:
    """A column name for each expression that is counted or added, and the safe expressions."""
    schema = plan.columns
    values: dict[str, str] = {}
    named: dict[str, Any] = {}
    for a in counts:
        if a.value is not None and (text := same_text(a.value)) not in values:
            values[text] = f"{UNUSED}{len(values)}"
            named[values[text]] = safe(a.value, schema)
            _check_number(a, named[values[text]], schema)
    return values, named


def _check_number(a: Aggregate, node: Any, schema: Any) -> None:
    import polars as pl

    kind = type_of(node, schema)
    numbers = (kind.is_numeric() or kind == pl.Boolean) and not kind.is_decimal()
    if a.kind in ("sum", "mean", "quantile") and not numbers:
        raise ValueError(f"query: {a.name} ({kind}) must be a column of numbers")


def _checked(
    domain: Any, metric: Any, plan: Plan, counts: tuple[Aggregate, ...], values: dict[str, str]
) -> dp.Transformation:
    """OpenDP's own opinion of the plan, and the domain of what comes out."""
    truncated = any(step.kind in ("rows", "groups", "person") for step in plan.steps)
    asked = {values[same_text(a.value)]: a.value for a in counts if a.value is not None}
    added = plan.before.with_columns([as_expression(v).alias(n) for n, v in asked.items()])
    options = {"MO": "FrameDistance<SymmetricDistance>"} if truncated else {}
    try:
        return dp.t.make_stable_lazyframe(domain, metric, added, **options)
    except dp.OpenDPException as error:
        raise ValueError(f"query: OpenDP does not accept the plan: {error.message}") from None


def _public(domain: Any, plan: Plan) -> str | None:
    """What the margins of the data say of the groups: "keys" or "lengths" are public, or nothing.

    Keys are taken from the data before any step; lengths are those after all of them.
    """
    new = {
        name_of(node)
        for step in plan.steps
        if step.defines
        for node in (*step.nodes, *step.extra)
        if "Column" not in node
    }
    keys = [key["Column"] for key in plan.keys if isinstance(key, dict) and "Column" in key]
    if len(keys) < len(plan.keys) or new & set(keys):
        return None
    invariant: str | None = domain.get_margin(keys).invariant
    if invariant != "lengths":
        return invariant
    fewer = any(step.kind not in ("with_columns", "select") for step in plan.steps)
    return "keys" if fewer else "lengths"


def _value(domain: Any, plan: Plan, name: str, node: Any) -> Value:
    import polars as pl

    series, kind = domain.get_series_domain(name), type_of(node, plan.columns)
    nans = kind.is_float() and bool(getattr(series.element_domain, "nan", True))
    return Value(name, kind.is_integer() or kind == pl.Boolean, bool(series.nullable), nans)


def _tried(collector: Collector, plan: Plan, cells: list[Any]) -> None:
    """Run everything on a frame without rows: what fails there fails before anything is spent."""
    import polars as pl

    try:
        collector(pl.LazyFrame(schema=plan.schema), passes=1)
        if collector.keys:
            collector.groups(pl.LazyFrame(schema=plan.schema), passes=1)
        for each in cells:
            collector.histogram(pl.LazyFrame(schema=plan.schema), each, passes=1)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"query: Polars does not accept the plan: {error}") from None

"""``optimal(query)``: OpenDP's Polars queries, all their answers released together.

The plan of a query is read (:mod:`.plan`), OpenDP itself checks it and says what its columns may
hold, what a person adds to it is followed step by step (:mod:`.limits`), its aggregates become
columns of integers (:mod:`.columns`), and noise for the whole table (:mod:`.noise`) is paid once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opendp_optimal.budget.events import Approximate, Concentrated, Event
from opendp_optimal.known.law import Law
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import (
    inner_query,
    make_measurement,
    plan_of,
    require_features,
)
from opendp_optimal.measure.facts import Facts, plan_digest, record_text, remember
from opendp_optimal.measure.frames.answer import ALPHA
from opendp_optimal.measure.frames.columns import Table, Value, table_of
from opendp_optimal.measure.frames.expressions import (
    as_expression,
    as_json,
    name_of,
    safe,
    same_text,
    type_of,
)
from opendp_optimal.measure.frames.keys import (
    UNUSED,
    key_columns,
    key_frame_of,
)
from opendp_optimal.measure.frames.limits import Limits, intact, limits_of
from opendp_optimal.measure.frames.noise import Price
from opendp_optimal.measure.frames.parts import COUNT, PERSON, Parts
from opendp_optimal.measure.frames.plan import Aggregate, Plan, read_plan
from opendp_optimal.measure.frames.quantiles import quantiles_of
from opendp_optimal.measure.frames.run import Collector
from opendp_optimal.measure.frames.secret import SecretKeys, secret_keys
from opendp_optimal.measure.frames.summary import Summary
from opendp_optimal.measure.guarantee import group
from opendp_optimal.measure.noise import target_of

__all__ = ["OptimalQuery", "optimal"]


def optimal(
    query: Any,
    *,
    keys: Any = None,
    variance: Iterable[str] = (),
    quantiles: Mapping[str, Sequence[float]] | None = None,
) -> OptimalQuery:
    """Answer a Polars query of an OpenDP context with optimal noise.

    All aggregates of the query are released together, for one price: the query's share of the
    context's budget. The answer is a Polars frame with the keys, each aggregate under its name, and
    ``<name>_accuracy``: with a chance of 95 % the noise of a value is within this.

    :param query: ``context.query()`` with any of filter, with_columns, select, truncate_per_group,
        truncate_num_groups, then ``group_by(...).agg(...)`` or ``select(...)`` of dp expressions
    :param keys: the groups, where the plan has no ``with_keys``: a Polars frame, or for one key a
        list of its values. Groups without rows are answered, too; rows of others are not counted.
        Without any, under (epsilon, delta), groups that enough people have are found and answered
    :param variance: names of means whose variance is released, too, as ``<name>_variance``
    :param quantiles: probabilities by the name of a sum or mean, whose values, moved into its
        bounds, have these quantiles: ``{"income": [0.25, 0.5, 0.75]}`` adds ``income_0.25``,
        ``income_0.25_low``, ``income_0.25_high`` and so on. For any other column bounds are found
        first, common to all groups, for a tenth of what its quantiles may cost
    :raises ValueError: before anything is spent, naming what is not understood

    >>> import opendp.prelude as dp
    >>> import polars as pl
    >>> from opendp_optimal import optimal
    >>> dp.enable_features("contrib")
    >>> data = pl.LazyFrame({"town": ["a", "b"] * 500, "age": [30, 40] * 500})
    >>> context = dp.Context.compositor(
    ...     data=data,
    ...     privacy_unit=dp.unit_of(contributions=1),
    ...     privacy_loss=dp.loss_of(epsilon=1.0),
    ...     split_evenly_over=1,
    ... )
    >>> asked = optimal(
    ...     context.query()
    ...     .group_by("town")
    ...     .agg(dp.len(signed=True), pl.col("age").fill_null(50).dp.mean((18, 90))),
    ...     keys=["a", "b"],
    ... )
    >>> asked.release().columns
    ['town', 'len', 'len_accuracy', 'age', 'age_accuracy']
    """
    require_features("contrib")
    inner = inner_query(query)
    if inner is None:
        raise ValueError(
            f"query ({type(query).__name__}) must be a Polars query of a context that ends in "
            "agg(...) or select(...)"
        )
    frame = plan_of(query)
    names = [variance] if isinstance(variance, str) else list(variance)
    return _built(inner, frame, keys, tuple(names), _wanted(quantiles))


def _wanted(quantiles: Any) -> dict[str, tuple[float, ...]]:
    try:
        return {str(n): tuple(float(p) for p in each) for n, each in dict(quantiles or {}).items()}
    except (TypeError, ValueError):
        raise ValueError(f"quantiles ({quantiles!r}) must be probabilities by name") from None


class OptimalQuery:
    """A query whose answers are released together; made by :func:`optimal`."""

    def __init__(self, context: Any, parts: Parts, measurement: dp.Measurement) -> None:
        """Keep what was prepared."""
        self._context, self._parts, self._measurement = context, parts, measurement

    def resolve(self) -> dp.Measurement:
        """The measurement that the context is asked."""
        return self._measurement

    def release(self) -> Any:
        """Pay, and return the answers: a Polars DataFrame."""
        if self._context is None:
            raise ValueError("query must be part of a context to be released")
        from opendp_optimal.measure.frames.released import Answers

        found = self._context(self._measurement)
        stored = not hasattr(found, "columns")  # a ledger's answer to a request
        return Answers(found.collect() if stored else found)

    def summarize(self, alpha: float = ALPHA) -> Summary:
        """What will be released and how accurate, before anything is spent.

        :param alpha: the chance of a larger error
        """
        from opendp_optimal.checks import share

        return Summary(self._parts, share("alpha", alpha))

    def law(self, name: str = "len") -> Law:
        """The law of the noise of a count, for a posterior of what was released.

        :param name: of the count
        :raises ValueError: if it is no count, or no single table hides it
        """
        return self._parts.law(name)

    def __repr__(self) -> str:
        """The names of the answers."""
        return f"OptimalQuery({', '.join(self._parts.names)})"


def _built(
    inner: dp.Query,
    frame: Any,
    keys: Any,
    variance: tuple[str, ...],
    quantiles: dict[str, tuple[float, ...]],
) -> OptimalQuery:
    parts = prepared(inner, frame, keys, variance, quantiles)
    if parts.alone is None:
        _ = parts.noise.sample  # designed, and drawn from, before anything is paid
    asked = (variance, tuple(quantiles.items())) if quantiles else variance
    measurement = _measurement(inner, parts, _record(frame, parts, asked, inner._d_in))
    return OptimalQuery(inner._context, parts, measurement)


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
    stable = _checked(domain, metric, plan, counts, named)
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
    collector = Collector(
        plan.steps,
        counted,
        expressions,
        texts,
        integers,
        person,
        table.split,
    )
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
    domain: Any, metric: Any, plan: Plan, counts: tuple[Aggregate, ...], named: Mapping[str, Any]
) -> dp.Transformation:
    """OpenDP's own opinion of the plan, and the domain of what comes out."""
    truncated = any(step.kind in ("rows", "groups", "person") for step in plan.steps)
    added = plan.before.with_columns(
        [as_expression(a.value).alias(n) for a, n in _asked_values(counts, named)]
    )
    options = {"MO": "FrameDistance<SymmetricDistance>"} if truncated else {}
    try:
        return dp.t.make_stable_lazyframe(domain, metric, added, **options)
    except dp.OpenDPException as error:
        raise ValueError(f"query: OpenDP does not accept the plan: {error.message}") from None


def _asked_values(counts: tuple[Aggregate, ...], named: Mapping[str, Any]) -> list[tuple[Any, str]]:
    found, seen = [], set()
    names = iter(named)
    for a in counts:
        if a.value is not None and (text := same_text(a.value)) not in seen:
            seen.add(text)
            found.append((a, next(names)))
    return found


def _public(domain: Any, plan: Plan) -> str | None:
    """What the margins of the data say of the groups: "keys" or "lengths" are public, or nothing.

    Keys are taken from the data before any step; lengths are those after all of them.
    """
    new = {
        name_of(node)
        for step in plan.steps
        if step.kind in ("with_columns", "select", "person")
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


def _record(frame: Any, parts: Parts, asked: tuple[Any, ...], d_in: Any) -> str | None:
    try:
        digest = plan_digest(frame)
    except ValueError:
        return None
    keys = "" if parts.secret is None else "secret"
    if parts.key_frame is not None:
        keys = hashlib.sha256(_bytes(parts.key_frame)).hexdigest()
    unit = d_in if isinstance(d_in, int) else str(d_in)
    return record_text("optimal_frame", digest, keys, asked, unit)


def _bytes(frame: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    frame.write_ipc(buffer)
    return buffer.getvalue()


def _measurement(inner: dp.Query, parts: Parts, record: str | None) -> dp.Measurement:
    chain: Any = inner._chain
    domain, metric = chain
    price, d_in = parts.price, inner._d_in
    pair = isinstance(inner._d_out, tuple)

    def release(frame: Any) -> Any:
        try:
            return parts.release(frame)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # Polars' panics are no mere exceptions, and their text has data
            pass
        raise ValueError("query: the plan could not be run on the data")

    def loss(d: Any) -> tuple[float, float]:
        if d == d_in:
            return price.main, price.delta
        if isinstance(d, int) and isinstance(d_in, int) and d >= 0:
            hops = -(-d // d_in)
            if hops <= 1:
                return (price.main, price.delta) if hops else (0.0, 0.0)
            if not price.concentrated:
                return group(price.main, price.delta, hops)
        raise ValueError("d_in must be the distance that the query was asked at")

    def event(d: Any = None) -> Event:
        stated = loss(d_in if d is None else d)
        return Concentrated(*stated) if price.concentrated else Approximate(*stated)

    privacy_map: Callable[[Any], Any] = loss if pair else lambda d: loss(d)[0]
    made = make_measurement(
        domain, metric, inner._output_measure, release, privacy_map, TO="ExtrinsicObject"
    )
    made.table = parts.noise.table if parts.alone is None else parts.alone.table
    return remember(made, Facts(record, None, event))

"""One person moves the integers of a query by no more than is stated, in every small case."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opendp.extras.polars import LazyFrameQuery

from opendp_optimal.measure.frames.prepare import prepared

dp.enable_features("contrib")

SCHEMA = {"id": pl.Int64, "town": pl.String, "year": pl.Int64, "x": pl.Float64, "n": pl.Int64}
TOWNS = ["a", "b", None]
YEARS = [1, 2]


def query(unit: Any, margins: Any = (), loss: Any = 1.0) -> LazyFrameQuery:
    """A query without data and without a context."""
    domain = dp.domain_of(pl.LazyFrame(schema=SCHEMA), infer=True)
    for margin in margins:
        domain = dp.with_margin(domain, margin)
    metric, d_in = unit
    pure = dp.max_divergence()
    measure = dp.approximate(pure) if isinstance(loss, tuple) else pure
    inner = dp.Query(chain=(domain, metric), output_measure=measure, d_in=d_in, d_out=loss)
    return LazyFrameQuery(pl.LazyFrame(schema=SCHEMA), inner)


def parts(asked: LazyFrameQuery, keys: Any = None, variance: tuple[str, ...] = ()) -> Any:
    inner = object.__getattribute__(asked, "_query")
    return prepared(inner, object.__getattribute__(asked, "polars_plan"), keys, variance)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(TOWNS),
        st.sampled_from(YEARS),
        st.sampled_from([0.0, 1.0, 7.5, -3.0, 1e300, float("nan"), float("inf"), None]),
        st.sampled_from([0, 3, 10, -5, 2**62, None]),
    ),
    max_size=9,
)
AGGREGATES = [
    dp.len(signed=True),
    pl.col("x").dp.sum((0.0, 5.0)).alias("sum"),
    pl.col("x").dp.mean((-1.0, 4.0)).alias("mean"),
    pl.col("n").fill_null(2).dp.mean((0, 10)).alias("filled"),
    pl.col("n").dp.sum((-4, 10)).alias("whole"),
    pl.col("n").dp.count(signed=True).alias("there"),
    pl.col("n").dp.null_count(signed=True).alias("missing"),
    pl.col("id").dp.n_unique(signed=True).alias("people"),
]
STEPS = {
    "filter": lambda q: q.filter(pl.col("x") > 0.5),
    "column": lambda q: q.with_columns(x=pl.col("x") * 2.0),
    "cast": lambda q: q.with_columns(n=pl.col("x").cast(int)),
    "select": lambda q: q.select("id", "town", "year", "x", "n"),
}
TRUNCATIONS = {
    "rows": lambda q, k: q.truncate_per_group(k, keep="first"),
    "rows by town": lambda q, k: q.truncate_per_group(k, by=["town"], keep="last"),
    "rows sorted": lambda q, k: q.truncate_per_group(k, keep=dp.polars.SortBy(by="n")),
    "towns": lambda q, k: q.truncate_num_groups(k, by=["town"], keep="first"),
    "towns and years": lambda q, k: q.truncate_num_groups(k, by=["town", "year"], keep="last"),
}


def check(made: Any, table: pl.DataFrame, without: list[pl.DataFrame], passes: int = 1) -> None:
    """Compare a table with those of neighbours."""
    moves, whole = made.table.moves, made.collector(table.lazy(), passes=passes)
    for other in without:
        moved = np.abs(whole - made.collector(other.lazy()))
        assert (moved <= np.array(moves.person)).all()
        changed = moved[moved.any(axis=1)]
        assert len(changed) <= moves.groups
        steps = [
            max(-(-m // r) for m, r in zip(row, moves.row, strict=True) if r) for row in changed
        ]
        assert sum(steps) <= moves.rows
        fixed = [j for j, r in enumerate(moves.row) if r == 0]
        assert not moved[:, fixed].any()


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    asked=st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique_by=id),
    steps=st.lists(st.sampled_from(["filter", "column", "cast"]), max_size=2, unique=True),
    cuts=st.lists(st.tuples(st.sampled_from(sorted(TRUNCATIONS)), st.integers(1, 2)), max_size=2),
    grouped=st.sampled_from([(), ("town",), ("town", "year")]),
)
def test_a_person_with_an_identifier(
    rows: Any, asked: Any, steps: Any, cuts: Any, grouped: Any
) -> None:
    plan: Any = query(dp.unit_of(contributions=1, identifier="id"))
    for name in steps:
        plan = STEPS[name](plan)
    for name, k in [*cuts, ("rows by town", 2), ("towns and years", 2)]:
        plan = TRUNCATIONS[name](plan, k)
    spread = tuple(name for a in asked if (name := a.meta.output_name()) in ("mean", "filled"))
    made = parts(*answered(plan, asked, grouped), spread)
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    check(made, table, [table.filter(pl.col("id") != person) for person in range(3)])


TOGETHER = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.max(),
    "std": lambda x: x.std(),
    "first": lambda x: x.first(),
    "count": lambda x: x.count(),
}


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    what=st.sampled_from(sorted(TOGETHER)),
    steps=st.lists(st.sampled_from(["filter", "column", "cast"]), max_size=2, unique=True),
    grouped=st.booleans(),
    identifiers=st.sampled_from([1, 2]),
    bounds=st.sampled_from([(0.0, 5.0), (-1e308, 1e308), (0, 3)]),
    passes=st.sampled_from([1, 3]),
)
def test_a_person_whose_rows_are_brought_together(
    rows: Any, what: str, steps: Any, grouped: bool, identifiers: int, bounds: Any, passes: int
) -> None:
    plan: Any = query(dp.unit_of(contributions=identifiers, identifier="id"))
    for name in steps:
        plan = STEPS[name](plan)
    x = TOGETHER[what](pl.col("x"))
    mean = pl.col("x").dp.mean(bounds)
    if grouped:  # a person is in as many groups as there are
        one = plan.truncate_num_groups(2, by=["town"], keep="first").group_by("id", "town").agg(x)
        asked, keys = one.group_by("town").agg(mean, dp.len(signed=True)), TOWNS
    else:
        asked, keys = plan.group_by("id").agg(x).select(mean, dp.len(signed=True)), None
    made = parts(asked, keys, ("x",))
    assert made.table.moves.rows == identifiers * (2 if grouped else 1)
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    gone = itertools.combinations(range(3), identifiers)
    check(made, table, [table.filter(~pl.col("id").is_in(some)) for some in gone], passes)


def answered(plan: Any, asked: Any, grouped: Any) -> tuple[Any, Any]:
    if not grouped:
        return plan.select(*asked), None
    keys = [dict(zip(grouped, key, strict=False)) for key in itertools.product(TOWNS, YEARS)]
    return plan.group_by(*grouped).agg(*asked), pl.DataFrame(keys, schema_overrides=SCHEMA).unique()


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    asked=st.lists(st.sampled_from(AGGREGATES[:-1]), min_size=1, max_size=4, unique_by=id),
    steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=2, unique=True),
    grouped=st.sampled_from([(), ("town",)]),
    most=st.integers(1, 2),
    changes=st.booleans(),
    data=st.data(),
)
def test_rows_without_an_identifier(
    rows: Any, asked: Any, steps: Any, grouped: Any, most: int, changes: bool, data: Any
) -> None:
    unit = dp.unit_of(changes=most) if changes else dp.unit_of(contributions=most)
    plan: Any = query(unit)
    for name in steps:
        plan = STEPS[name](plan)
    made = parts(*answered(plan, asked, grouped))
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    places = st.lists(st.integers(0, max(0, len(rows) - 1)), max_size=most, unique=True)
    gone = data.draw(places) if rows else []
    new = list(rows)
    if changes:
        for at in gone:
            new[at] = data.draw(ROWS.filter(bool))[0]
    else:
        new = [row for at, row in enumerate(rows) if at not in gone]
    check(made, table, [pl.DataFrame(new, schema=SCHEMA, orient="row")])


def test_random_truncations_keep_no_more_than_they_say() -> None:
    table = pl.DataFrame(
        [(i % 3, "abc"[i % 7 % 3], i % 2, 1.0, 1) for i in range(60)], schema=SCHEMA, orient="row"
    )
    plan: Any = query(dp.unit_of(contributions=1, identifier="id"))
    cut = plan.truncate_num_groups(2, by=["town"]).truncate_per_group(3, by=["town"])
    made = parts(cut.group_by("town").agg(dp.len(signed=True)), ["a", "b", "c"])
    for _ in range(5):
        for person in range(3):
            found = made.collector(table.filter(pl.col("id") == person).lazy())
            assert sorted(found[:, 0].tolist()) == [0, 3, 3]


def test_classes_of_people_add_up() -> None:
    table = pl.DataFrame(
        [(i % 11, "ab"[i % 5 % 2], i % 2, float(i), i) for i in range(99)],
        schema=SCHEMA,
        orient="row",
    )
    plan: Any = query(dp.unit_of(contributions=1, identifier="id"))
    cut = plan.truncate_per_group(2, by=["town"], keep="first")
    cut = cut.truncate_num_groups(1, by=["town"], keep="first").group_by("town")
    asked = [
        dp.len(signed=True),
        pl.col("x").dp.sum((0.0, 50.0)),
        pl.col("id").dp.n_unique(signed=True),
    ]
    made = parts(cut.agg(*asked), ["a", "b"])
    whole = made.collector(table.lazy())
    assert (whole == made.collector(table.lazy(), passes=4)).all()
    assert made.table.moves.rows == 2

"""OpenDP's documented Polars pipelines, native and with one word more, side by side.

The pipelines are those of its pages on getting started, essential statistics, grouping, preparing
microdata, identifier truncation, Gaussian noise and summaries, on a survey with the same columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_optimal import optimal

dp.enable_features("contrib")

SIZE = 3_000
SURVEY = pl.DataFrame(
    {
        "PIDENT": [i // 6 for i in range(SIZE)],
        "QUARTER": [1 + i % 4 for i in range(SIZE)],
        "YEAR": [2004 + i % 2 for i in range(SIZE)],
        "ILOSTAT": [1 + i % 3 for i in range(SIZE)],
        "AGE": [20 + i % 50 for i in range(SIZE)],
        "HWUSUAL": [
            99.0 if i % 10 == 0 else None if i % 10 == 1 else 30.0 + i % 11 for i in range(SIZE)
        ],
    }
)
QUARTERLY = [pl.col("QUARTER"), pl.col("YEAR")]
NAMES = ["QUARTER", "YEAR"]
QUARTERS = pl.DataFrame([(q, y) for q in (1, 2, 3, 4) for y in (2004, 2005)], NAMES, orient="row")
ROWS = dp.unit_of(contributions=2)
PEOPLE = dp.unit_of(contributions=1, identifier=pl.col("PIDENT"))
TWICE = dp.unit_of(
    contributions=[dp.polars.Bound(per_group=2), dp.polars.Bound(by=QUARTERLY, per_group=1)],
    identifier="PIDENT",
)
HOURS = pl.col("HWUSUAL").cast(int).fill_null(35)
WEEK = list(range(0, 81, 5))
LONGEST = dp.polars.Margin(by=(), max_length=SIZE)
"""What the native sums need to know."""


BOTH = dp.loss_of(epsilon=4.0, delta=2e-6)


def context(unit: Any, *margins: Any, loss: Any = None) -> Any:
    return dp.Context.compositor(
        data=SURVEY.lazy(),
        privacy_unit=unit,
        privacy_loss=loss or dp.loss_of(epsilon=4.0),
        split_evenly_over=2,
        margins=list(margins) or [LONGEST],
    )


def worked(query: Any) -> Any:
    return query.filter(pl.col("HWUSUAL") != 99.0)


Pipeline = Callable[[], Any]
PIPELINES: dict[str, Pipeline] = {
    "getting started: a count": lambda: context(ROWS).query().select(dp.len(signed=True)),
    "essential statistics: counts of a column": lambda: (
        context(ROWS)
        .query()
        .select(
            pl.col("HWUSUAL").dp.len(signed=True).alias("len"),
            pl.col("HWUSUAL").dp.count(signed=True).alias("count"),
            pl.col("HWUSUAL").dp.null_count(signed=True).alias("null_count"),
            pl.col("ILOSTAT").dp.n_unique(signed=True).alias("n_unique"),
        )
    ),
    "essential statistics: a sum": lambda: worked(context(ROWS).query()).select(
        HOURS.dp.sum(bounds=(0, 80))
    ),
    "essential statistics: a sum and its count": lambda: worked(context(ROWS).query()).select(
        HOURS.dp.sum(bounds=(0, 80)), dp.len(signed=True)
    ),
    "essential statistics: a mean": lambda: worked(context(ROWS).query()).select(
        HOURS.dp.mean(bounds=(0, 80))
    ),
    "essential statistics: a mean, lengths public": lambda: (
        context(ROWS, dp.polars.Margin(by=(), max_length=SIZE, invariant="lengths"))
        .query()
        .select(HOURS.dp.mean(bounds=(0, 80)))
    ),
    "essential statistics: a median": lambda: worked(context(ROWS).query()).select(
        HOURS.dp.median(candidates=WEEK)
    ),
    "essential statistics: quantiles": lambda: worked(context(ROWS).query()).select(
        HOURS.dp.quantile(0.25, WEEK).alias("0.25-quantile"),
        dp.len(signed=True),
        HOURS.dp.quantile(0.5, WEEK).alias("0.5-quantile"),
        HOURS.dp.quantile(0.75, [float(c) for c in WEEK]).alias("0.75-quantile"),
    ),
    "grouping: medians": lambda: (
        context(ROWS).query().group_by(QUARTERLY).agg(HOURS.dp.median(WEEK)).with_keys(QUARTERS)
    ),
    "grouping: keys secret": lambda: (
        context(ROWS, loss=BOTH)
        .query()
        .group_by(QUARTERLY)
        .agg(dp.len(signed=True), HOURS.dp.sum((0, 80)))
    ),
    "grouping: lengths public": lambda: (
        context(ROWS, dp.polars.Margin(by=QUARTERLY, max_length=SIZE, invariant="lengths"))
        .query()
        .group_by(QUARTERLY)
        .agg(HOURS.dp.mean((0, 80)))
    ),
    "preparing: bins of hours": lambda: (
        context(ROWS, loss=BOTH)
        .query()
        .with_columns(pl.col("HWUSUAL").cut(breaks=[0, 20, 40, 60, 80, 98]))
        .group_by(pl.col("HWUSUAL"))
        .agg(dp.len(signed=True))
    ),
    "preparing: filled, then filtered": lambda: (
        context(ROWS)
        .query()
        .with_columns(pl.col("HWUSUAL").cast(int).fill_null(0))
        .filter(pl.col("HWUSUAL") > 0)
        .select(pl.col("HWUSUAL").dp.sum((0, 80)))
    ),
    "Gaussian noise": lambda: (
        context(ROWS, loss=dp.loss_of(rho=1.0))
        .query()
        .group_by(QUARTERLY)
        .agg(dp.len(signed=True), HOURS.dp.sum((0, 80)))
        .with_keys(QUARTERS)
    ),
    "truncation: two identifiers a person": lambda: (
        worked(context(TWICE, loss=BOTH).query())
        .truncate_per_group(1, by=QUARTERLY)
        .truncate_num_groups(5, by=QUARTERLY, keep="first")
        .group_by(QUARTERLY)
        .agg(dp.len(signed=True), HOURS.dp.sum((0, 80)))
    ),
    "grouping: keys public": lambda: (
        context(ROWS, dp.polars.Margin(by=QUARTERLY, max_length=SIZE, invariant="keys"))
        .query()
        .group_by(QUARTERLY)
        .agg(dp.len(signed=True), HOURS.dp.sum((0, 80)))
    ),
    "grouping: explicit keys": lambda: (
        context(ROWS)
        .query()
        .group_by(QUARTERLY)
        .agg(dp.len(signed=True), HOURS.dp.mean((0, 80)))
        .with_keys(QUARTERS)
    ),
    "truncation: rows of a person": lambda: (
        worked(context(PEOPLE).query()).truncate_per_group(3).select(HOURS.dp.mean((0, 80)))
    ),
    "truncation: rows of a person, sorted": lambda: (
        worked(context(PEOPLE).query())
        .truncate_per_group(3, keep=dp.polars.SortBy(pl.col("ILOSTAT")))
        .select(HOURS.dp.mean((0, 80)))
    ),
    "truncation: one row of a person": lambda: (
        worked(context(PEOPLE).query())
        .group_by(pl.col("PIDENT"))
        .agg(pl.col("HWUSUAL").mean())
        .select(HOURS.dp.mean((0, 80)))
    ),
    "truncation: groups of a person": lambda: (
        worked(context(PEOPLE).query())
        .truncate_per_group(1, by=QUARTERLY)
        .truncate_num_groups(3, by=QUARTERLY, keep="first")
        .group_by(QUARTERLY)
        .agg(dp.len(signed=True), HOURS.dp.sum((0, 80)))
        .with_keys(QUARTERS)
    ),
}


def natively(query: Any) -> pl.DataFrame:
    """OpenDP's own answer, at a given scale: its search for one takes seconds."""
    inner = object.__getattribute__(query, "_query")
    plan = object.__getattribute__(query, "polars_plan")
    secret = isinstance(inner._d_out, tuple)
    private = dp.m.make_private_lazyframe(
        *inner._chain,
        inner._output_measure,
        plan,
        global_scale=1.0 if secret else 10.0,
        threshold=5 if secret else None,
    )
    frame: pl.DataFrame = private(SURVEY.lazy()).collect()
    return frame


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_the_same_answers_by_one_word_more(name: str) -> None:
    native = natively(PIPELINES[name]())
    ours = optimal(PIPELINES[name]()).release().collect()
    beside = "_accuracy", "_low", "_high"
    assert [c for c in ours.columns if not c.endswith(beside)] == native.columns
    assert ours.height == native.height
    if name.startswith("preparing: bins"):  # categories are shown as text
        native = native.cast({"HWUSUAL": pl.String})
        assert set(ours["HWUSUAL"]) == set(native["HWUSUAL"])
    keys = [c for c in native.columns if c in NAMES]
    assert ours.select(keys).sort(keys).equals(native.select(keys).sort(keys))
    for column in set(native.columns) - set(keys):
        assert ours.schema[column] == native.schema[column], column


SUMMARIES = ["grouping: explicit keys", "essential statistics: quantiles", "Gaussian noise"]


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_have_a_line_for_each_answer(name: str) -> None:
    native = PIPELINES[name]().summarize(alpha=0.05)
    ours = optimal(PIPELINES[name]()).summarize(alpha=0.05).frame
    assert set(ours["column"]) == set(native["column"])
    known = native.filter(pl.col("accuracy").is_not_null())
    both = ours.filter(~pl.col("divided_by_rows")).join(known, on="column", suffix="_native")
    assert (both["accuracy"] <= both["accuracy_native"]).all()
    assert (both["accuracy"] < both["accuracy_native"]).any()


def test_groups_that_native_truncation_drops_are_kept() -> None:
    """Native keeps one group fewer than it charges, or fails (keep="sample")."""
    query = context(PEOPLE).query().truncate_per_group(1, by=QUARTERLY)
    sampled = query.truncate_num_groups(3, by=QUARTERLY).group_by(QUARTERLY)
    found = optimal(sampled.agg(dp.len(signed=True)), keys=QUARTERS).release()
    assert abs(found["len"].sum() - 3 * SIZE // 6) < 250

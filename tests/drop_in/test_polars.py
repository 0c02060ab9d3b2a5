"""OpenDP's documented Polars pipelines, native and with one word more, side by side.

The pipelines are those of its pages on getting started, essential statistics, grouping, identifier
truncation and summaries, on a survey with the same columns.
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
HOURS = pl.col("HWUSUAL").cast(int).fill_null(35)
LONGEST = dp.polars.Margin(by=(), max_length=SIZE)
"""What the native sums need to know."""


def context(unit: Any, *margins: Any) -> Any:
    return dp.Context.compositor(
        data=SURVEY.lazy(),
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=4.0),
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
    private = dp.m.make_private_lazyframe(
        *inner._chain, inner._output_measure, plan, global_scale=10.0
    )
    frame: pl.DataFrame = private(SURVEY.lazy()).collect()
    return frame


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_the_same_answers_by_one_word_more(name: str) -> None:
    native = natively(PIPELINES[name]())
    ours = optimal(PIPELINES[name]()).release().collect()
    assert [c for c in ours.columns if not c.endswith("_accuracy")] == native.columns
    assert ours.height == native.height
    keys = [c for c in native.columns if c in NAMES]
    assert ours.select(keys).sort(keys).equals(native.select(keys).sort(keys))
    for column in set(native.columns) - set(keys):
        assert ours.schema[column] == native.schema[column], column


@pytest.mark.parametrize("name", ["grouping: explicit keys"])
def test_summaries_have_a_line_for_each_answer(name: str) -> None:
    native = PIPELINES[name]().summarize(alpha=0.05)
    ours = optimal(PIPELINES[name]()).summarize(alpha=0.05).frame
    assert set(ours["column"]) == set(native["column"])
    both = ours.filter(~pl.col("divided_by_rows")).join(native, on="column", suffix="_native")
    assert (both["accuracy"] < both["accuracy_native"]).all()


def test_groups_that_native_truncation_drops_are_kept() -> None:
    """Native keeps one group fewer than it charges, or fails (keep="sample")."""
    query = context(PEOPLE).query().truncate_per_group(1, by=QUARTERLY)
    sampled = query.truncate_num_groups(3, by=QUARTERLY).group_by(QUARTERLY)
    found = optimal(sampled.agg(dp.len(signed=True)), keys=QUARTERS).release()
    assert abs(found["len"].sum() - 3 * SIZE // 6) < 250

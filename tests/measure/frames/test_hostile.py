"""Plans and frames of strangers: refused before anything is spent, or safe whatever rows hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import polars.selectors as cs
import pytest
from opendp.extras.polars import LazyFrameQuery

from opendp_optimal import optimal
from opendp_optimal.measure.frames.keys import UNUSED
from tests.measure.frames.test_moves import check, parts
from tests.measure.frames.test_optimal import context

dp.enable_features("contrib")

C, FAR = pl.col, [0, 1, 2**62, None, -(2**62)]
WILD = pl.DataFrame(
    {
        "id": [0, 0, 1, 1, 2],
        "town": ["a", "b", "a", "b", None],
        "x": [1.0, float("nan"), None, float("inf"), -float("inf")],
        "n": [1, 2**53 + 1, 2**62, None, -(2**63)],
        "u": pl.Series([2**64 - 1, 0, 1, None, 3], dtype=pl.UInt64),
        "text": ["1", "x", "2020-01-01", None, "3.5"],
        "kind": pl.Series(["p", "q", "r", None, "p"], dtype=pl.Categorical),
        "level": pl.Series(["p", "q", "r", None, "p"], dtype=pl.Enum(["r", "q", "p"])),
        "day": pl.Series([0, 1, 2**31 - 1, None, -(2**31)], dtype=pl.Int32).cast(pl.Date),
        "when": pl.Series(FAR).cast(pl.Datetime("us")),
        "late": pl.Series(FAR).cast(pl.Datetime("ms")),
        "there": pl.Series(FAR).cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),
        "yes": [True, False, None, True, False],
    }
)


def query() -> Any:
    return context(WILD, loss=dp.loss_of(epsilon=3.0, delta=3e-6)).query()


COUNT = dp.len(signed=True)
OTHER_ROWS: dict[str, pl.Expr] = {
    "a function": C("n").map_elements(lambda n: n, return_dtype=pl.Int64),
    "a function of all": C("n").map_batches(lambda s: s, return_dtype=pl.Int64),
    "a window": C("x").sum().over("town"),
    "a rank": C("n").rank(),
    "the row before": C("n").shift(1),
    "shuffled": C("n").shuffle(),
    "sampled": C("n").sample(fraction=1.0),
    "sorted": C("n").sort(),
    "different ones": C("n").unique(),
    "the first": C("n").first(),
    "the mean for nulls": C("n").fill_null(C("n").mean()),
    "the value before": C("n").fill_null(strategy="forward"),
    "between others": C("x").interpolate(),
    "bins of equal size": C("x").qcut(3),
    "codes": C("kind").to_physical(),
    "codes by a cast": C("kind").cast(pl.UInt32),
    "codes of bins": C("x").cut([1.0]).cast(pl.Int64),
    "codes of text": C("text").cast(pl.Categorical).cast(pl.Int64),
    "codes as days": C("kind").cast(pl.Date),
    "a format of other rows": C("text").str.to_date(),
    "a format of other times": C("text").str.to_datetime(),
    "days without a format": C("text").cast(pl.Date),
    "times without a format": C("text").cast(pl.Datetime("us")),
    "a public list as rows": C("n") + pl.Series([1] * 5),
    "one number as rows": C("n") + pl.lit(pl.Series([3])),
    "rows of a list": C("text").str.split("-").explode(),
    "a list": C("n").implode(),
    "all rows": pl.len(),
    "places": pl.int_range(pl.len()),
    "a later day": C("day") + timedelta(days=5),
    "twice the same": C("n").is_duplicated(),
}


@pytest.mark.parametrize("name", sorted(OTHER_ROWS))
@pytest.mark.parametrize("where", ["column", "key", "value", "filter"])
def test_what_looks_at_other_rows_is_refused(name: str, where: str) -> None:
    odd, asked = OTHER_ROWS[name], query()
    plans = {
        "column": lambda: asked.with_columns(y=odd).select(COUNT),
        "key": lambda: asked.group_by(odd.alias("key")).agg(COUNT),
        "value": lambda: asked.select(odd.dp.sum((0, 9)).alias("sum")),
        "filter": lambda: asked.filter(odd.is_not_null()).select(COUNT),
    }
    plan = plans[where]()
    with pytest.raises(ValueError, match="query"):
        optimal(plan)


STEPS: dict[str, Callable[[Any], Any]] = {
    "a join": lambda q: q.join(pl.LazyFrame({"town": ["a"]}), on="town"),
    "different rows": lambda q: q.unique(),
    "sorted rows": lambda q: q.sort("n"),
    "the first rows": lambda q: q.sort("n").head(3),
    "a slice": lambda q: q.slice(1, 2),
    "lists as rows": lambda q: q.with_columns(l=C("text").str.split("-")).explode("l"),
    "a function of the frame": lambda q: q.map_batches(lambda frame: frame),
    "numbered rows": lambda q: q.with_row_index(),
    "without nulls": lambda q: q.drop_nulls(),
    "unpivoted": lambda q: q.unpivot(["n"]),
    "groups with rows": lambda q: q.group_by("town").agg(C("n").sum()),
}


@pytest.mark.parametrize("name", sorted(STEPS))
def test_steps_that_bring_rows_together_are_refused(name: str) -> None:
    with pytest.raises((ValueError, dp.OpenDPException, AttributeError)):
        optimal(STEPS[name](query()).select(COUNT))


ROW_BY_ROW: dict[str, pl.Expr] = {
    "a day as text": C("day").cast(pl.String),
    "a time as text": C("when").cast(pl.String),
    "a late time as text": C("late").cast(pl.String),
    "a time there as text": C("there").cast(pl.String),
    "a number as a day": C("n").cast(pl.Date),
    "nanoseconds": C("when").cast(pl.Datetime("ns")),
    "a year": C("day").dt.year(),
    "a month": C("late").dt.month(),
    "an hour there": C("there").dt.hour(),
    "a date there": C("there").dt.date(),
    "a timestamp": C("when").dt.timestamp("ns"),
    "a parsed day": C("text").str.to_date("%Y-%m-%d"),
    "a parsed number": C("text").cast(pl.Int64),
    "a level": C("level").to_physical(),
    "a level of text": C("text").cast(pl.Enum(["1", "x"])),
    "another word": C("town").replace({"a": "c"}),
    "one of words": C("town").replace_strict({"a": 1}, default=0),
    "none left": C("n") // C("n"),
    "by nothing": C("n") % 0,
    "the smallest, turned": C("n").abs(),
    "negative": -C("n"),
    "unsigned": C("u").cast(pl.Int64),
    "a float": C("x").cast(pl.Int16),
    "a decimal": C("n").cast(pl.Decimal(10, 2)),
    "bits": C("n") & 3,
    "by day": C("day") < date(2020, 1, 1),
    "categories compared": C("kind") < "q",
    "chosen": pl.when(C("n") > 2).then(C("n")).otherwise(None),
}


@pytest.mark.parametrize("name", sorted(ROW_BY_ROW))
def test_no_row_makes_it_fail_and_each_is_by_itself(name: str) -> None:
    asked = query().group_by(ROW_BY_ROW[name].alias("key")).agg(COUNT)
    assert optimal(asked).release().columns == ["key", "len", "len_accuracy"]
    collector = optimal(asked)._parts.collector
    whole = collector.lazy(WILD.lazy()).collect(engine="streaming").to_series()
    alone = [collector.lazy(WILD[i].lazy()).collect(engine="streaming") for i in range(len(WILD))]
    assert whole.equals(pl.concat(alone).to_series(), null_equal=True)


SELECTED = {"all": pl.all(), "some": C("n", "x"), "by name": C("^n.*$"), "by type": cs.numeric()}


@pytest.mark.parametrize("name", sorted(SELECTED))
def test_several_columns_at_once_are_refused(name: str) -> None:
    chosen = SELECTED[name]
    for asked in (
        query().select(chosen).select(COUNT),
        query().with_columns(chosen.fill_null(1)).select(COUNT),
        query().group_by(chosen).agg(COUNT),
        query().select(chosen.dp.sum((0, 9))),
    ):
        with pytest.raises(ValueError, match="query"):
            optimal(asked)


@pytest.mark.parametrize("number", [float("inf"), -float("inf"), float("nan")])
def test_numbers_that_polars_does_not_write_down(number: float) -> None:
    with pytest.raises(ValueError, match="query"):
        optimal(query().filter(C("x") < number).select(COUNT))


def test_numbers_that_opendp_has_no_name_for() -> None:
    asked = query().select(C("when").dt.month().fill_null(1).dp.sum((0, 12)).alias("months"))
    assert optimal(asked).release().height == 1


def people(schema: Any) -> Any:
    """A query of people, without data."""
    metric, d_in = dp.unit_of(contributions=1, identifier="id")
    domain = dp.domain_of(pl.LazyFrame(schema=schema), infer=True)
    inner = dp.Query(
        chain=(domain, metric), output_measure=dp.max_divergence(), d_in=d_in, d_out=1.0
    )
    return LazyFrameQuery(pl.LazyFrame(schema=schema), inner)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (f"{UNUSED}0", f"{UNUSED}1"),
        (f"{UNUSED}key 0", f"{UNUSED}count"),
        (f"{UNUSED}person", "literal"),
        ("\x1fbin", "\x1fgroup"),
        ("0", "1"),
        ("hash", "person"),
    ],
)
def test_columns_with_names_of_our_own(value: str, key: str) -> None:
    schema = {"id": pl.Int64, value: pl.Float64, key: pl.Int64}
    plan = people(schema).truncate_per_group(2, by=[key], keep="first")
    plan = plan.truncate_num_groups(1, by=[key], keep="first").group_by(key)
    asked = plan.agg(
        COUNT, C(value).dp.mean((0.0, 1.0)).alias("mean"), C(key).dp.sum((0, 3)).alias("sum")
    )
    made = parts(asked, keys=[0, 1])
    rows = [(0, 0.5, 0), (0, 0.25, 1), (1, None, 0), (1, 1.0, 1), (1, 0.0, 1)]
    table = pl.DataFrame(rows, schema=schema, orient="row")
    check(made, table, [table.filter(C("id") != person) for person in range(2)])
    assert made.collector(table.lazy())[:, 0].tolist() == [2, 0]


@pytest.mark.parametrize("keep", ["first", "last", "sample"])
def test_truncations_see_all_row_groups_of_a_file(keep: str, tmp_path: Path) -> None:
    size = 20_000
    table = pl.DataFrame(
        {"id": np.arange(size) % 7, "k": np.arange(size) % 5, "x": np.arange(size) % 3 / 1.0}
    )
    table.write_parquet(tmp_path / "rows.parquet", row_group_size=500)
    plan = people(table.schema).filter(C("x") > 0).truncate_per_group(2, by=["k"], keep=keep)
    plan = plan.truncate_num_groups(3, by=["k"], keep=keep).group_by("k").agg(COUNT)
    made = parts(plan, keys=list(range(5)))
    for passes in (1, 3):
        found = made.collector(pl.scan_parquet(tmp_path / "rows.parquet"), passes=passes)
        assert found.sum() == 7 * 2 * 3


def test_a_key_that_is_computed_keeps_its_bounds() -> None:
    year = C("day").dt.year()
    plan = people({"id": pl.Int64, "day": pl.Date}).truncate_per_group(1, by=[year], keep="first")
    plan = plan.truncate_num_groups(2, by=[year], keep="first").group_by(year).agg(COUNT)
    moves = parts(plan, keys=[1970, 1971]).table.moves
    assert (moves.person, moves.groups) == ((1,), 2)


def test_a_file_that_changed_fails_without_telling_why(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"secret": [1, 2, 3]}).write_parquet(path)
    asked = optimal(
        context(pl.scan_parquet(path)).query().select(C("secret").fill_null(0).dp.sum((0, 9)))
    )
    pl.DataFrame({"other": [17171717]}).write_parquet(path)
    with pytest.raises(dp.OpenDPException) as caught:
        asked.release()
    assert "17171717" not in str(caught.value)


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(rows: int) -> None:
    some = context(WILD[:rows], loss=dp.loss_of(epsilon=3.0, delta=3e-6)).query()
    n = C("n").dp.mean((0, 9))
    grouped = some.group_by("town").agg(COUNT, n)
    assert (
        optimal(grouped, keys=["a"], variance=["n"], quantiles={"n": [0.5]}).release().height == 1
    )
    assert optimal(grouped).release().height == 0


@pytest.mark.parametrize(
    "asked",
    [
        C("n").dp.sum((float("nan"), 5.0)),
        C("n").dp.sum((0.0, float("inf"))),
        C("n").dp.mean((5, 5)),
        C("x").fill_nan(float("inf")).dp.sum((0.0, 1.0)),
    ],
)
def test_numbers_that_are_none(asked: pl.Expr) -> None:
    with pytest.raises(ValueError, match=r"query|must be below"):
        optimal(query().select(asked))


def test_bounds_as_wide_as_floats_are() -> None:
    wide = C("x").dp.mean((-1.7e308, 1.7e308))
    total = C("x").dp.sum((-1.7e308, 1.7e308)).alias("sum")
    found = optimal(query().select(wide, total), variance=["x"]).release()
    assert not any(np.isnan(value) for value in found.row(0))
    assert -1.7e308 <= found["x"][0] <= 1.7e308

"""``optimal(query)`` from end to end: contexts, ledgers, answers, refusals."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl
import pytest

from opendp_optimal import optimal
from opendp_optimal.budget import open_ledger

dp.enable_features("contrib")

SIZE = 4_000
FRAME = pl.DataFrame(
    {
        "id": [i // 4 for i in range(SIZE)],
        "town": [["a", "b", "c", None][i % 4] for i in range(SIZE)],
        "income": [float(i % 100) for i in range(SIZE)],
        "age": [18 + i % 70 for i in range(SIZE)],
        "gap": [None if i % 2 else float("nan") if i % 4 else 10.0 for i in range(SIZE)],
        "when": [datetime(2020 + i % 3, 1, 1) for i in range(SIZE)],
    }
)
TOWNS = ["a", "b", "c", None]


def context(
    frame: pl.DataFrame | pl.LazyFrame = FRAME,
    *,
    unit: Any = None,
    loss: Any = None,
    margins: Any = (),
) -> Any:
    return dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=unit or dp.unit_of(contributions=1),
        privacy_loss=loss or dp.loss_of(epsilon=3.0),
        split_evenly_over=3,
        margins=list(margins),
    )


def income() -> Any:
    return pl.col("income").fill_nan(0.0).fill_null(0.0)


def test_count_sum_and_mean_by_group() -> None:
    asked = (
        context()
        .query()
        .filter(pl.col("age") > 20)
        .group_by("town")
        .agg(
            dp.len(signed=True),
            income().dp.sum((0, 100)).alias("total"),
            pl.col("age").fill_null(50).dp.mean((18, 90)),
        )
        .with_keys(pl.LazyFrame({"town": TOWNS}))
    )
    query = optimal(asked, variance=["age"])
    found = query.release()
    names = ["len", "total", "age", "age_variance"]
    assert found.columns == ["town", *(n + e for n in names for e in ("", "_accuracy"))]
    assert found["town"].to_list() == TOWNS
    assert found.collect().equals(pl.DataFrame(found))
    true = (
        FRAME.filter(pl.col("age") > 20)
        .group_by("town")
        .agg(
            pl.len(),
            pl.col("income").sum().alias("total"),
            pl.col("age").mean(),
            pl.col("age").var(ddof=0).alias("age_variance"),
        )
    )
    joined = found.join(true, on="town", nulls_equal=True, suffix="_true")
    for name in names:  # 8 times the accuracy: a false alarm in 10^9 or fewer
        off = (joined[name] - joined[f"{name}_true"]).abs()
        assert (off <= 8 * joined[f"{name}_accuracy"]).all(), name
    told = str(query.summarize())
    assert "epsilon 1, once, for len, total, age, age_variance" in told
    assert query.summarize().noise == "staircase in a box of 4"
    assert found.schema["len"] == pl.Int64


def test_a_mean_alone_takes_the_pair_table() -> None:
    whole = dp.Context.compositor(
        data=FRAME.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=3.0, delta=3e-6),
    )
    plan = whole.query(epsilon=1.0, delta=1e-6)
    query = optimal(plan.select(pl.col("age").fill_null(9).dp.mean((18, 90))))
    assert query.summarize().noise == "pair table"
    assert query.resolve().map(1) == (1.0, 1e-6)
    answer = query.release()
    assert abs(answer["age"][0] - FRAME["age"].mean()) < 8 * answer["age_accuracy"][0]  # type: ignore[operator]


def test_missing_values_are_not_counted_by_the_domain() -> None:
    gaps = pl.col("gap").dp.mean((0.0, 20.0))
    query = optimal(context().query().select(dp.len(signed=True), gaps))
    assert query.resolve().map(1) == pytest.approx(1.0)
    assert "box of 3" in query.summarize().noise
    found = query.release()
    assert abs(found["gap"][0] - 10.0) < 8 * found["gap_accuracy"][0]
    filled = optimal(context().query().select(dp.len(signed=True), income().dp.mean((0.0, 20.0))))
    assert "box of 2" in filled.summarize().noise


def test_changes_leave_the_count_public() -> None:
    query = optimal(
        context(unit=dp.unit_of(changes=1))
        .query()
        .select(dp.len(signed=True), income().dp.mean((0, 100)))
    )
    found = query.release()
    assert found["len"][0] == SIZE
    assert found["len_accuracy"][0] == 0
    assert found["income_accuracy"][0] < 0.2
    sized = context(margins=[dp.polars.Margin(by=(), invariant="lengths")])
    found = optimal(sized.query().select(dp.len(signed=True), income().dp.sum((0, 100)))).release()
    assert found["len"][0] == SIZE
    assert found["income_accuracy"][0] > 0


def test_keys_that_a_margin_makes_public() -> None:
    open_keys = context(margins=[dp.polars.Margin(by=["town"], invariant="keys")])
    counts = (
        open_keys.query().filter(pl.col("age") > 1000).group_by("town").agg(dp.len(signed=True))
    )
    found = optimal(counts).release()
    assert set(found["town"]) == set(TOWNS)  # also those without rows after the filter
    moved = open_keys.query().with_columns(town=pl.col("town").fill_null("x")).group_by("town")
    with pytest.raises(ValueError, match="keys must be given"):
        optimal(moved.agg(dp.len(signed=True)))


def test_people_with_identifiers() -> None:
    unit = dp.unit_of(contributions=1, identifier=pl.col("id"))
    cut = (
        context(unit=unit)
        .query()
        .truncate_per_group(1, by=["town"])
        .truncate_num_groups(2, by=["town"])
        .group_by("town")
        .agg(dp.len(signed=True), pl.col("id").dp.n_unique(signed=True).alias("people"))
    )
    query = optimal(cut, keys=TOWNS)
    assert "a person has 2 rows in 2 groups" in query.summarize().price
    found = query.release()
    assert abs(found["people"].sum() - 2 * SIZE // 4) < 300
    whole = context(unit=unit).query().group_by("id").agg(pl.col("income").mean())
    answer = optimal(whole.select(income().dp.mean((0, 100))))
    assert "a person has 1 row in 1 group" in answer.summarize().price
    assert abs(answer.release()["income"][0] - 49.5) < 3


def test_concentrated_contexts() -> None:
    query = optimal(
        context(loss=dp.loss_of(rho=0.3))
        .query()
        .select(dp.len(signed=True), income().dp.sum((0, 9)))
    )
    assert query.resolve().map(1) == pytest.approx(0.1)
    assert "rho 0.1" in query.summarize().price
    assert abs(query.release()["len"][0] - SIZE) < 40


def test_one_charge_of_a_ledger(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.create("survey", epsilon=1.0, delta=1e-6)
    unit = dp.unit_of(contributions=1)
    charged = ledger.context("survey", data=FRAME.lazy(), privacy_unit=unit)

    def ask(**budget: Any) -> Any:
        plan = charged.query(epsilon=0.25, delta=1e-7, **budget).group_by("town")
        return optimal(plan.agg(dp.len(signed=True), income().dp.sum((0, 100))), keys=TOWNS)

    assert ask().release().height == 4
    assert ledger.remaining("survey")[0] == 0.75
    first = ask(request="monthly").release().collect()
    assert ask(request="monthly").release().collect().equals(first)
    assert ledger.remaining("survey")[0] == 0.5


def test_times_beyond_the_calendar_are_put_at_its_ends() -> None:
    """OpenDP's own release panics on such a row (opendp#2942)."""
    wild = pl.DataFrame({"when": pl.Series([2**62, 0, -(2**62)]).cast(pl.Datetime("us"))})
    plan = context(wild).query().with_columns(year=pl.col("when").dt.year()).group_by("year")
    found = optimal(plan.agg(dp.len(signed=True)), keys=[2, 1970, 9998]).release()
    assert found.height == 3
    dated = pl.DataFrame(
        {"when": pl.Series([2**31 - 1, 0, -(2**31)], dtype=pl.Int32).cast(pl.Date)}
    )
    plan = context(dated).query().with_columns(year=pl.col("when").dt.year()).group_by("year")
    assert optimal(plan.agg(dp.len(signed=True)), keys=[1970]).release().height == 1


def test_codes_of_categories_are_refused() -> None:
    """One row changes everyone's code (opendp#2944)."""
    codes = pl.col("income").cut([10.0, 20.0]).to_physical()
    plan = context().query().with_columns(code=codes).group_by("code").agg(dp.len(signed=True))
    with pytest.raises(ValueError, match="to_physical"):
        optimal(plan, keys=[0, 1, 2])


def test_a_bound_is_lost_with_its_column() -> None:
    """OpenDP believes the bound of the old column (opendp#2949)."""
    unit = dp.unit_of(contributions=1, identifier="id")
    plan = (
        context(unit=unit)
        .query()
        .truncate_per_group(1, by=["town"])
        .with_columns(town=pl.lit("here"))
        .group_by("town")
        .agg(dp.len(signed=True))
    )
    with pytest.raises(ValueError, match=r"rows of a person.*town were lost"):
        optimal(plan, keys=["here"])


UNIT = dp.unit_of(contributions=1, identifier="id")
REFUSED = {
    "no query": (lambda: 3, {}, "query"),
    "no aggregate": (lambda: context().query().filter(pl.col("age") > 3), {}, "must end in"),
    "not private": (lambda: context().query().select(pl.col("age").sum()), {}, "dp expression"),
    "no keys": (lambda: context().query().group_by("town").agg(dp.len(signed=True)), {}, "keys"),
    "keys twice": (
        lambda: context().query().group_by("town").agg(dp.len(signed=True)),
        {"keys": ["a", "a"]},
        "differ",
    ),
    "keys of another type": (
        lambda: context().query().group_by("town").agg(dp.len(signed=True)),
        {"keys": pl.DataFrame({"town": [1.5]})},
        "town",
    ),
    "keys of other columns": (
        lambda: context().query().group_by("town").agg(dp.len(signed=True)),
        {"keys": pl.DataFrame({"place": ["a"]})},
        "columns",
    ),
    "bounds reversed": (
        lambda: context().query().select(income().dp.sum((9, 0))),
        {},
        "high",
    ),
    "a column of text": (
        lambda: context().query().select(pl.col("town").dp.sum((0, 9))),
        {},
        "town",
    ),
    "no truncation": (lambda: context(unit=UNIT).query().select(dp.len(signed=True)), {}, "rows"),
    "many groups": (
        lambda: (
            context(unit=UNIT)
            .query()
            .truncate_per_group(1, by=["town"])
            .group_by("town")
            .agg(dp.len(signed=True))
        ),
        {"keys": TOWNS},
        "truncate_num_groups",
    ),
    "a scale": (lambda: context().query().select(dp.len(scale=1.0, signed=True)), {}, "scale"),
    "names twice": (
        lambda: context().query().select(income().dp.sum((0, 9)), income().dp.mean((0, 9))),
        {},
        "alias",
    ),
    "variance of nothing": (
        lambda: context().query().select(dp.len(signed=True)),
        {"variance": ["age"]},
        "variance",
    ),
    "several columns": (
        lambda: (
            context()
            .query()
            .with_columns(pl.col("age", "income") * 2.0)
            .select(dp.len(signed=True))
        ),
        {},
        "by itself",
    ),
    "replaced by other rows": (
        lambda: (
            context()
            .query()
            .with_columns(age=pl.col("age").replace(pl.col("age"), pl.col("id")))
            .select(dp.len(signed=True))
        ),
        {},
        "row by row",
    ),
    "zeros twice": (
        lambda: context().query().group_by("income").agg(dp.len(signed=True)),
        {"keys": [0.0, -0.0]},
        "differ",
    ),
    "other rows": (
        lambda: (
            context().query().with_columns(age=pl.col("age").cum_sum()).select(dp.len(signed=True))
        ),
        {},
        "row by row",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_bad_queries_spend_nothing(case: str) -> None:
    make, options, told = REFUSED[case]
    with pytest.raises(ValueError, match=told):
        optimal(make(), **options)  # type: ignore[no-untyped-call]


def test_strict_steps_never_fail_on_a_row() -> None:
    odd = pl.DataFrame({"text": ["12", "no number", None], "day": ["2020-01-01", "never", None]})
    plan = (
        context(odd)
        .query()
        .with_columns(
            n=pl.col("text").cast(int), year=pl.col("day").str.to_date("%Y-%m-%d").dt.year()
        )
        .group_by("year")
        .agg(pl.col("n").dp.sum((0, 20)))
    )
    assert optimal(plan, keys=[2020, None]).release().height == 2


def test_what_polars_raises_says_nothing_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    from opendp_optimal.measure.frames import run

    query = optimal(context().query().select(dp.len(signed=True)))

    def fail(*_: Any, **__: Any) -> Any:
        raise pl.exceptions.PanicException("row 17 is odd")

    monkeypatch.setattr(run.Collector, "_collect", fail)
    with pytest.raises(dp.OpenDPException) as caught:
        query.release()
    assert "could not be run" in str(caught.value)
    assert "17" not in str(caught.value).split("could not be run")[1]
    assert "row 17" not in str(caught.value)


def test_noise_is_designed_before_anything_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    from opendp_optimal.measure.frames import parts as module

    margin = dp.polars.Margin(by=["town"], invariant="keys")
    both = dp.loss_of(epsilon=3.0, delta=3e-6)
    asked = context(margins=[margin], loss=both).query().group_by("town")
    query = optimal(asked.agg(dp.len(signed=True)))

    def fail(*_: Any) -> Any:
        raise ValueError("no noise is known")

    monkeypatch.setattr(module, "table_noise", fail)
    assert query.release().height == 4
    monkeypatch.undo()
    # One group would have noise in the l2 norm, very many groups would not.
    many = dp.unit_of(contributions=1 << 20)
    few = dp.loss_of(epsilon=3e-3, delta=3e-6)
    wide = context(margins=[margin], loss=few, unit=many).query()
    assert optimal(wide.select(dp.len(signed=True))).summarize().noise
    with pytest.raises(ValueError, match="no noise is known"):
        optimal(wide.group_by("town").agg(dp.len(signed=True)))


def test_an_identifier_defined_anew_counts_no_people() -> None:
    plan = context(unit=UNIT).query().truncate_per_group(3).with_columns(id=pl.col("age"))
    query = optimal(plan.select(pl.col("id").dp.n_unique(signed=True)))
    assert query._parts.table.moves.person == (3,)


def test_keys_show_nothing_of_other_rows() -> None:
    secret = pl.Series(["seen", "hidden"] * 50, dtype=pl.Categorical)
    frame = pl.DataFrame({"kind": secret, "x": [-0.0, 0.0] * 50})
    found = optimal(
        context(frame).query().group_by("kind").agg(dp.len(signed=True)), keys=["seen"]
    ).release()
    assert found.schema["kind"] == pl.String
    for some in (frame, frame.reverse()):
        public = context(some, margins=[dp.polars.Margin(by=["x"], invariant="keys")]).query()
        zeros = optimal(public.group_by("x").agg(dp.len(signed=True))).release()["x"]
        assert [str(x) for x in zeros] == ["0.0"]


def test_categories_are_compared_as_text() -> None:
    kinds = pl.Enum(["low", "high"])
    frame = pl.DataFrame({"kind": pl.Series(["low", "high"] * 500, dtype=kinds)})
    plan = context(frame).query().group_by("kind").agg(dp.len(signed=True))
    found = optimal(plan, keys=["high", "low"]).release()
    assert found["len"].to_list() == pytest.approx([500, 500], abs=30)
    with pytest.raises(ValueError, match="kind"):
        optimal(plan, keys=["neither"])


def test_long_sums_are_floats() -> None:
    """A thousand rows of 2^60 are more than 64 bits hold."""
    frame = pl.DataFrame({"x": [1 << 60] * 1000}).lazy()
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
    )
    told = optimal(context.query().select(pl.col("x").dp.sum((0, 1 << 60)))).release()
    assert told.schema["x"] == pl.Float64
    assert abs(told["x"].item() / 2.0**60 - 1000) < 100

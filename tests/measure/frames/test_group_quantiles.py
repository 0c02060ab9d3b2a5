"""Quantiles in queries, from one release for all groups."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opendp_optimal import optimal
from opendp_optimal.measure.concentrated import pure_epsilon
from opendp_optimal.measure.quantiles import _power_bins
from tests.measure.frames.test_moves import ROWS, SCHEMA, TRUNCATIONS, query
from tests.measure.frames.test_optimal import UNIT, context

dp.enable_features("contrib")

SIZE = 30_000
FRAME = pl.DataFrame(
    {
        "id": [i // 2 for i in range(SIZE)],
        "town": ["ab"[i % 2] for i in range(SIZE)],
        "whole": [(i * 7919) % 101 for i in range(SIZE)],
        "gaps": [[None, float("nan"), (i % 500) / 10][i % 3] for i in range(SIZE)],
    }
)
WHOLE = pl.col("whole").fill_null(0).dp.mean((0, 100))
GAPS = pl.col("gaps").dp.sum((0.0, 50.0))
WANTED = {"whole": [0.25, 0.5, 0.75], "gaps": [0.5]}


@pytest.mark.parametrize("how", ["keys", "none", "secret", "margin"])
def test_quantiles_beside_other_answers(how: str) -> None:
    margins = [dp.polars.Margin(by=["town"], invariant="keys")] if how == "margin" else []
    loss = dp.loss_of(epsilon=6.0, delta=3e-6) if how == "secret" else dp.loss_of(epsilon=6.0)
    plan = context(FRAME, loss=loss, margins=margins).query()
    asked = plan.select(WHOLE, GAPS) if how == "none" else plan.group_by("town").agg(WHOLE, GAPS)
    made = optimal(asked, keys=["a", "b", "nobody"] if how == "keys" else None, quantiles=WANTED)
    found = made.release()
    groups = found.filter(pl.col("town") != "nobody") if how == "keys" else found
    assert groups.height == (1 if how == "none" else 2)
    assert groups.schema["whole_0.5"] == pl.Int64
    for name, p, true in (("whole", 0.25, 25), ("whole", 0.75, 75), ("gaps", 0.5, 25.0)):
        got, low, high = (groups[f"{name}_{p}{end}"] for end in ("", "_low", "_high"))
        assert got.to_list() == pytest.approx([true] * groups.height, abs=4)
        assert ((low <= got) & (got <= high)).all()
    told = made.summarize()
    assert "quantiles of whole, gaps have 1/3 of what is left each" in told.price
    assert told.frame.height == 6


def test_a_group_without_rows_has_an_interval_of_any_value() -> None:
    def ends() -> tuple[float, float]:
        plan = context(FRAME, loss=dp.loss_of(epsilon=6.0)).query().group_by("town").agg(GAPS)
        found = optimal(plan, keys=["a", "b", "nobody"], quantiles={"gaps": [0.5]}).release()
        last = found.row(2, named=True)
        return last["gaps_0.5_low"], last["gaps_0.5_high"]

    # Noise has it otherwise about once in forty; all of five times, less than once in 10^7.
    assert any(ends() == (0.0, 50.0) for _ in range(5))


@pytest.mark.parametrize("loss", [dp.loss_of(epsilon=3.0), dp.loss_of(rho=3.0)])
@pytest.mark.parametrize("wanted", [{"whole": [0.5]}, WANTED])
def test_prices_add_up(loss: Any, wanted: Any) -> None:
    plan = context(FRAME, unit=UNIT, loss=loss).query().truncate_per_group(2)
    parts = optimal(plan.select(WHOLE, GAPS), quantiles=wanted)._parts
    each = [one.design.counting + one.design.selecting for one in parts.quantiles]
    assert parts.limits.rows == 2
    share = Fraction(parts.price.main) / (len(wanted) + 1)
    for epsilon in each:
        most = Fraction(pure_epsilon(float(share))) if parts.price.concentrated else share
        assert 2 * epsilon <= most
    assert Fraction(parts.rest.main) <= share


BAD = [
    ({"town": [0.5]}, "column of numbers"),
    ({"nowhere": [0.5]}, "must name a sum, a mean or a column"),
    ({"whole": [0.5, 0.5]}, "probabilities"),
    ({"whole": []}, "probabilities"),
    ({"whole": [float("nan")]}, "probabilities"),
    ({"whole": [1.0]}, "probabilities"),
    ({"whole": 0.5}, "quantiles"),
    (3, "quantiles"),
    ({"whole": ["half"]}, "quantiles"),
]


@pytest.mark.parametrize(("wanted", "told"), BAD)
def test_bad_quantiles_spend_nothing(wanted: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        optimal(context(FRAME).query().select(WHOLE), quantiles=wanted)


def test_small_budgets_and_names_that_clash() -> None:
    few = context(FRAME, loss=dp.loss_of(epsilon=3e-4)).query().select(WHOLE)
    with pytest.raises(ValueError, match="each row of a person"):
        optimal(few, quantiles={"whole": [0.5]})
    twice = context(FRAME).query().select(WHOLE, GAPS.alias("whole_0.5"))
    with pytest.raises(ValueError, match="must differ"):
        optimal(twice, quantiles={"whole": [0.5]})


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    cut=st.sampled_from(sorted(TRUNCATIONS)),
    most=st.integers(1, 2),
    bounds=st.sampled_from([(0, 10), (-1e308, 1e308), (0.0, 5e-324), (-3, 2**40)]),
    column=st.sampled_from(["x", "n"]),
)
def test_a_person_moves_the_cells_of_as_many_rows_as_stated(
    rows: Any, cut: str, most: int, bounds: Any, column: str
) -> None:
    from opendp_optimal.measure.frames.prepare import prepared

    plan: Any = TRUNCATIONS[cut](query(dp.unit_of(contributions=1, identifier="id")), most)
    plan = plan.truncate_per_group(2, by=["town"], keep="first")
    plan = plan.truncate_num_groups(2, by=["town"], keep="first")
    asked = plan.group_by("town").agg(pl.col(column).dp.sum(bounds).alias("sum"))
    inner, frame = (object.__getattribute__(asked, name) for name in ("_query", "polars_plan"))
    made = prepared(inner, frame, ["a", "b", None], (), {"sum": (0.5,)})
    (one,) = made.quantiles
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")

    def histogram(some: pl.DataFrame) -> Any:
        counts = np.zeros((3, 2 * len(one.line.numbers) + 1), np.int64)
        group, cells, numbers = made.collector.histogram(some.lazy(), one.cell)
        np.add.at(counts, (group, cells), numbers)
        return counts

    whole = histogram(table)
    for person in range(3):
        other = histogram(table.filter(pl.col("id") != person))
        assert np.abs(whole - other).sum() <= made.limits.rows
    split = made.collector.histogram(table.lazy(), one.cell, passes=3)
    assert split[2].sum() == whole.sum()


CANDIDATES = [0, 10, 20, 25, 30, 50, 75, 100]


@pytest.mark.parametrize("how", ["none", "keys", "secret"])
def test_quantiles_and_medians_of_the_query(how: str) -> None:
    loss = dp.loss_of(epsilon=6.0, delta=3e-6) if how == "secret" else dp.loss_of(epsilon=6.0)
    whole, gaps = pl.col("whole"), pl.col("gaps")
    asked = [
        whole.dp.quantile(0.25, CANDIDATES).alias("first"),
        gaps.dp.median([0.0, 24.5, 50.0]),
        whole.dp.median(CANDIDATES).alias("middle"),
        whole.dp.median(CANDIDATES).alias("again"),
    ]
    plan = context(FRAME, loss=loss).query()
    query = plan.select(*asked) if how == "none" else plan.group_by("town").agg(*asked)
    made = optimal(query, keys=["a", "b"] if how == "keys" else None)
    assert len(made._parts.quantiles) == 2
    found = made.release()
    names = ["first", "gaps", "middle", "again"]
    shown = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    assert found.columns == [*(["town"] if how != "none" else []), *shown]
    assert found["first"].to_list() == [25] * found.height
    assert found["middle"].to_list() == found["again"].to_list() == [50] * found.height
    assert found["gaps"].to_list() == [24.5] * found.height
    assert found["first_low"].to_list() == [20] * found.height
    assert found["first_high"].to_list() == [30] * found.height
    assert found.schema["first"] == pl.Int64
    assert found.schema["gaps"] == pl.Float64
    share = Fraction(made._parts.price.main) / (4 if how == "secret" else 2)
    for one in made._parts.quantiles:
        assert one.design.counting + one.design.selecting <= share
    assert "once, for first, gaps, middle, again" in made.summarize().price
    assert made.summarize().frame["column"].to_list() == ["first", "middle", "again", "gaps"]


def test_a_count_with_secret_keys_shares_its_budget_with_a_median() -> None:
    both = dp.loss_of(epsilon=6.0, delta=3e-6)
    plan = context(FRAME, loss=both).query().group_by("town")
    made = optimal(plan.agg(dp.len(signed=True), pl.col("whole").dp.median(CANDIDATES)))
    parts = made._parts
    assert parts.secret is not None
    assert not parts.secret.alone
    (one,) = parts.quantiles
    spent = Fraction(parts.secret.design.epsilon) + Fraction(parts.rest.main)
    assert spent + one.design.counting + one.design.selecting <= Fraction(parts.price.main)
    assert made.release()["whole"].to_list() == [50, 50]


@pytest.mark.parametrize(
    ("candidates", "told"),
    [
        ([], "1 to"),
        ([1, 1], "rise"),
        ([2, 1], "rise"),
        ([float("nan")], "finite"),
        ([1.0, float("inf")], "finite"),
        ([None, 1], "numbers"),
        (["a"], "numbers"),
        ([0, 2**60], "2.*53"),
    ],
)
def test_bad_candidates_spend_nothing(candidates: Any, told: str) -> None:
    asked = context(FRAME).query().select(pl.col("whole").dp.median(candidates))
    with pytest.raises(ValueError, match=told):
        optimal(asked)


def test_a_row_is_at_a_candidate_or_between_two() -> None:
    asked = context(FRAME).query().select(pl.col("gaps").dp.median([-1.0, 0.0, 3.0, 1e300]))
    (one,) = optimal(asked)._parts.quantiles
    column = one.value.name
    values = [-9.0, -0.4, -0.0, 1.6, 3.0, 9e299, float("inf"), -float("inf"), float("nan"), None]
    frame = pl.DataFrame({column: values}, schema={column: pl.Float64})
    expected = [1, 2, 3, 4, 5, 6, 7, 1, None, None]
    assert frame.select(one.cell).to_series().to_list() == expected
    alone = [frame[i].lazy().select(one.cell).collect(engine="streaming") for i in range(10)]
    assert pl.concat(alone).to_series().to_list() == expected
    assert frame.clear().select(one.cell).height == 0


@pytest.mark.parametrize("how", ["none", "keys", "secret"])
def test_bounds_that_are_found_serve_all_groups(how: str) -> None:
    loss = dp.loss_of(epsilon=9.0, delta=3e-6) if how == "secret" else dp.loss_of(epsilon=9.0)
    plan = context(FRAME, loss=loss).query()
    count = dp.len(signed=True)
    asked = plan.select(count) if how == "none" else plan.group_by("town").agg(count)
    wanted = {"whole": [0.5, 0.9], "gaps": [0.5]}
    made = optimal(asked, keys=["a", "b"] if how == "keys" else None, quantiles=wanted)
    found = made.release()
    assert found["whole_0.5"].to_list() == pytest.approx([50] * found.height, abs=3)
    assert found["whole_0.9"].to_list() == pytest.approx([90] * found.height, abs=3)
    assert found["gaps_0.5"].to_list() == pytest.approx([25.0] * found.height, abs=2)
    assert found.schema["whole_0.5"] == pl.Int64
    parts = made._parts
    spent = Fraction(parts.rest.main)
    for one in parts.quantiles:
        assert one.finding == (one.finding + one.design.counting + one.design.selecting) / 10
        spent += one.finding + one.design.counting + one.design.selecting
    if parts.secret is not None:
        assert not parts.secret.alone
        spent += Fraction(parts.secret.design.epsilon)
    assert spent <= Fraction(parts.price.main)
    assert "bounds that are found" in str(made.summarize().frame["aggregate"].to_list())


def test_powers_of_two_are_those_of_the_numbers() -> None:
    asked = context(FRAME).query().select(dp.len(signed=True))
    (one,) = optimal(asked, quantiles={"gaps": [0.5]})._parts.quantiles
    column, tiny, huge = one.value.name, 5e-324, 1.7976931348623157e308
    values = [0.0, -0.0, 1.0, 0.75, -3.0, tiny, -tiny, huge, float("inf"), -float("inf")]
    frame = pl.DataFrame({column: [*values, float("nan"), None]}, schema={column: pl.Float64})
    expected = [*_power_bins(np.array(values), False).tolist(), None, None]
    assert frame.select(one.power).to_series().to_list() == expected
    alone = [frame[i].lazy().select(one.power).collect(engine="streaming") for i in range(12)]
    assert pl.concat(alone).to_series().to_list() == expected
    for value, whole in ((2.0**80, False), (-(2.0**80), True), (0.0, True)):
        some = replace(one, value=replace(one.value, whole=whole))
        power = _power_bins(np.array([value]), False)
        line = some.bounded((np.zeros(1), power, np.array([10**6]))).line
        assert line is not None
        assert line.low < line.high
        assert line.whole == whole
        assert whole or line.low <= value <= line.high

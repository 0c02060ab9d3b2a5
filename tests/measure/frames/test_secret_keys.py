"""Queries without keys: which groups there are is private, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opendp_optimal import optimal
from opendp_optimal.budget import open_ledger
from opendp_optimal.measure.frames.parts import COUNT
from opendp_optimal.measure.frames.secret import count_accuracy
from opendp_optimal.measure.keys import design_keys
from tests.measure.frames.test_moves import ROWS, SCHEMA, TRUNCATIONS, parts, query
from tests.measure.frames.test_optimal import UNIT, context

dp.enable_features("contrib")

BOTH = dp.loss_of(epsilon=3.0, delta=3e-6)
SIZE = 3_000
FRAME = pl.DataFrame(
    {
        "id": [i // 3 for i in range(SIZE)],
        "town": [["a", "b", None, f"rare {i}"][i % 4] for i in range(SIZE)],
        "age": [18 + i % 70 for i in range(SIZE)],
        "zero": [-0.0, 0.0, float("nan")] * (SIZE // 3),
    }
)
AGE = pl.col("age").fill_null(50)


def test_a_count_has_all_of_the_budget() -> None:
    asked = context(FRAME, loss=BOTH).query().group_by("town").agg(dp.len(signed=True))
    made = optimal(asked)
    assert made.resolve().map(1) == (1.0, 1e-6)
    found = made.release()
    assert found["town"].to_list() == [None, "a", "b"]
    assert found["len"].to_list() == pytest.approx([750] * 3, abs=40)
    assert found["len_accuracy"].to_list() == [3.0] * 3
    told = made.summarize()
    assert "all of it chooses the keys: one with 14 rows" in told.price
    assert told.frame["accuracy"].to_list() == [3.0]


def test_other_answers_come_for_released_keys_only() -> None:
    cut = context(FRAME, unit=UNIT, loss=BOTH).query()
    cut = cut.truncate_per_group(2, by=["town"]).truncate_num_groups(2, by=["town"])
    made = optimal(cut.group_by("town").agg(dp.len(signed=True), AGE.dp.mean((18, 90))))
    secret = made._parts.secret
    assert secret is not None
    assert secret.people
    assert secret.rest is not None
    design = secret.design
    assert design.epsilon + secret.rest.main == 1.0
    assert design.delta + secret.rest.delta == pytest.approx(1e-6, abs=1e-21)
    assert design.delta + secret.rest.delta <= made.resolve().map(UNIT[1])[1]
    assert design.d_in == (2, 2, 1)
    assert "half of it chooses the keys" in made.summarize().price
    found = made.release()
    assert found["town"].to_list() == [None, "a", "b"]
    assert found.columns == ["town", "len", "len_accuracy", "age", "age_accuracy"]
    mean = FRAME["age"].mean()
    assert found["age"].to_list() == pytest.approx([mean] * 3, abs=8)


def test_no_key_may_pass() -> None:
    asked = context(FRAME, loss=BOTH).query().filter(pl.col("age") > 1000).group_by("town", "zero")
    found = optimal(asked.agg(AGE.dp.sum((0, 90)))).release()
    assert found.shape == (0, 4)
    alone = optimal(asked.agg(dp.len(signed=True))).release()
    assert alone.schema == {
        **{"town": pl.String, "zero": pl.Float64},
        **{"len": pl.Int64, "len_accuracy": pl.Float64},
    }


def test_keys_of_odd_types_are_sorted_and_plain() -> None:
    kinds = pl.Series(["z", "y"] * (SIZE // 2))
    frame = FRAME.with_columns(
        kind=kinds.cast(pl.Categorical), level=kinds.cast(pl.Enum(["z", "y", "x"]))
    )
    asked = context(frame, loss=BOTH).query()
    found = optimal(asked.group_by("kind", "level").agg(dp.len(signed=True))).release()
    assert found.rows()[0][:2] == ("y", "y")
    assert found.schema["kind"] == pl.String
    assert found.schema["level"] == frame.schema["level"]
    zeros = optimal(asked.group_by("zero").agg(dp.len(signed=True))).release()
    assert [str(x) for x in zeros["zero"]] == ["0.0", "nan"]
    odd = (pl.col("age") % 2).alias("odd")
    assert optimal(asked.group_by(odd).agg(AGE.dp.sum((0, 90)))).release()["odd"].to_list() == [
        0,
        1,
    ]


def test_rare_keys_stay_secret() -> None:
    """Of 50,000 keys of one person each, one appears in one of 20 million runs of this test."""
    frame = pl.DataFrame({"town": [f"rare {i}" for i in range(50_000)]})
    few = dp.loss_of(epsilon=12.0, delta=3e-12)
    asked = context(frame, loss=few).query().group_by("town").agg(dp.len(signed=True))
    assert optimal(asked).release().height == 0


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (dp.loss_of(epsilon=3.0), "delta above 0"),
        (dp.loss_of(rho=3.0), "under .epsilon, delta. alone"),
        (dp.loss_of(epsilon=3.0, delta=3e-300), "too small"),
        (dp.loss_of(epsilon=3e-12, delta=3e-6), "too small|epsilon"),
    ],
)
def test_budgets_that_cannot_release_keys(loss: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        optimal(context(FRAME, loss=loss).query().group_by("town").agg(dp.len(signed=True)))


def test_names_of_answers_and_keys_must_differ() -> None:
    frame = FRAME.rename({"town": "len_accuracy"})
    asked = context(frame, loss=BOTH).query().group_by("len_accuracy").agg(dp.len(signed=True))
    with pytest.raises(ValueError, match="must differ"):
        optimal(asked)


def test_one_charge(tmp_path: Any) -> None:
    ledger = open_ledger(tmp_path / "ledger.db")
    ledger.create("survey", epsilon=1.0, delta=1e-6)
    charged = ledger.context("survey", data=FRAME.lazy(), privacy_unit=dp.unit_of(contributions=1))
    plan = charged.query(epsilon=0.5, delta=1e-7).group_by("town")
    assert optimal(plan.agg(AGE.dp.sum((0, 90)))).release().height == 3
    assert ledger.remaining("survey")[0] == 0.5


def test_classes_of_people_add_up() -> None:
    plan: Any = query(dp.unit_of(contributions=1, identifier="id"), loss=(1.0, 1e-6))
    cut = TRUNCATIONS["rows by town"](plan, 1).truncate_num_groups(1, by=["town"], keep="first")
    made = parts(cut.group_by("town").agg(pl.col("x").dp.sum((0.0, 5.0))))
    table = pl.DataFrame(
        [(i % 11, "ab"[i % 3 % 2], 1, float(i), i) for i in range(99)], schema=SCHEMA, orient="row"
    )
    whole, split = (made.collector.groups(table.lazy(), passes=n).sort(pl.all()) for n in (1, 4))
    assert whole.equals(split.select(whole.columns).sort(pl.all()))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=ROWS,
    cuts=st.lists(st.tuples(st.sampled_from(sorted(TRUNCATIONS)), st.integers(1, 2)), max_size=2),
    grouped=st.sampled_from([("town",), ("x",), ("town", "year")]),
    alone=st.booleans(),
    redefined=st.booleans(),
)
def test_counts_move_no_more_than_stated(
    rows: Any, cuts: Any, grouped: Any, alone: bool, redefined: bool
) -> None:
    plan: Any = query(dp.unit_of(contributions=1, identifier="id"), loss=(1.0, 1e-6))
    for name, k in cuts:
        plan = TRUNCATIONS[name](plan, k)
    plan = plan.truncate_per_group(2, by=list(grouped), keep="first")
    plan = plan.truncate_num_groups(2, by=list(grouped), keep="first")
    if redefined:
        plan = plan.with_columns(id=pl.col("n"))
    asked = [pl.col("id").dp.n_unique(signed=True)] + [dp.len(signed=True)] * (not alone)
    made = parts(plan.group_by(*grouped).agg(*asked))
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    keys = list(made.collector.keys)
    l0, l1, linf = made.secret.design.d_in
    assert made.secret.people != redefined
    whole = made.collector.groups(table.lazy())
    for person in range(3):
        other = made.collector.groups(table.filter(pl.col("id") != person).lazy())
        both = whole.join(other, on=keys, how="full", nulls_equal=True, suffix=" other")
        moved = both[COUNT].fill_null(0).to_numpy() - both[f"{COUNT} other"].fill_null(0).to_numpy()
        moved = np.abs(moved)
        assert (moved > 0).sum() <= l0
        assert moved.sum() <= l1
        assert moved.max(initial=0) <= linf


@pytest.mark.parametrize("distance", [(1, 1, 1), (2, 4, 2), (1, 3000, 3000)])
def test_accuracy_of_released_counts(distance: Any) -> None:
    design = design_keys(distance, 0.5, 1e-3)
    within = count_accuracy(design, 0.05)
    for count in (1, design.half // 2, design.half, design.half + int(within), 10 * design.half):
        shown, values = design.release(np.full(20_000, count))
        off = (shown & (np.abs(values - count) > within)).mean()
        assert off <= 0.05 + 6 * np.sqrt(0.05 * 0.95 / 20_000), count

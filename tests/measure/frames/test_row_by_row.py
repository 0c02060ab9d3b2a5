"""What becomes of a row does not depend on how many rows come with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_optimal.measure.frames.plan import applied
from tests.measure.frames.test_moves import SCHEMA, parts, query

RNG = np.random.default_rng(5)
VALUES = [*(np.arange(-300, 300) / 10).tolist(), *RNG.uniform(-40, 40, 400).tolist()]
TABLE = pl.DataFrame(
    [(i, "a", i % 9 - 4, x, i * 7 - 2000) for i, x in enumerate(VALUES)],
    schema=SCHEMA,
    orient="row",
)
X, N = pl.col("x"), pl.col("n")
COLUMNS = {
    "divided": X / 0.1,
    "divided by a whole number": X / 3,
    "whole divided": N / 7,
    "divided down": X // 0.1,
    "rest": X % 0.1,
    "whole rest": N % 7,
    "by another": X / pl.col("year"),
    "down by another": X // (pl.col("year") * 0.1),
    "rest by another": X % (pl.col("year") * 0.1),
    "under another": 0.3 / X,
    "nested": ((X + 0.1) / (pl.lit(2.0) * 0.35)) % 0.1,
}
BOUNDS = [(0.0, 0.3), (-1e308, 1e308), (-17.3, 23.9), (0.0, 1e-310)]


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_divisions(name: str) -> None:
    plan: Any = query(dp.unit_of(contributions=1)).with_columns(y=COLUMNS[name])
    made = parts(plan.select(pl.col("y").dp.sum((0.0, 1.0))))
    whole = made.collector.lazy(TABLE.lazy()).collect(engine="streaming").to_series()
    alone = pl.concat(
        [
            made.collector.lazy(TABLE[i].lazy()).collect(engine="streaming")
            for i in range(0, 1000, 7)
        ]
    ).to_series()
    assert whole.gather_every(7).equals(alone, null_equal=True)
    plain = TABLE.select(COLUMNS[name]).to_series()
    assert np.allclose(whole, plain, rtol=1e-9, atol=0.11, equal_nan=True)


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_steps_of_sums(bounds: Any, kind: str) -> None:
    column = X.dp.sum(bounds) if kind == "sum" else X.dp.mean(bounds)
    made = parts(query(dp.unit_of(contributions=1)).select(column))
    some = TABLE.gather_every(31)
    whole = made.collector(some.lazy())
    alone = sum(made.collector(some[i].lazy()) for i in range(len(some)))
    assert (whole == alone).all()


@pytest.mark.parametrize("what", ["sum", "mean", "std", "var"])
def test_a_persons_floats_add_up_the_same_whoever_else_is_there(what: str) -> None:
    mine = RNG.uniform(0, 1, 200)
    plan: Any = query(dp.unit_of(contributions=1, identifier="id"))
    together = plan.group_by("id").agg(getattr(X, what)())
    made = parts(together.select(X.dp.sum((0.0, 1.0))))

    def one(others: int) -> float:
        rows = np.insert(np.zeros(200, np.int64), np.repeat(range(0, 200, 20), others), 1)
        rows[rows > 0] = np.arange((rows > 0).sum()) % 50 + 1
        values = np.ones(len(rows))
        values[rows == 0] = mine
        table = pl.DataFrame({"id": rows, "x": values}).with_columns(
            pl.lit("a").alias("town"), *(pl.lit(1, pl.Int64).alias(n) for n in ("year", "n"))
        )
        steps = made.collector.steps
        found = applied(table.select(SCHEMA.keys()).lazy(), steps[0], made.collector.person)
        return float(found.filter(pl.col("id") == 0).collect(engine="streaming")["x"][0])

    assert len({one(others) for others in (0, 1, 5, 100, 30_000)}) == 1


def test_a_number_that_divides_nothing_is_refused() -> None:
    for odd in (0.0, 5e-324, float("inf"), float("nan"), None):
        plan: Any = query(dp.unit_of(contributions=1)).with_columns(y=X / pl.lit(odd, pl.Float64))
        with pytest.raises(ValueError, match="query"):
            parts(plan.select(pl.col("y").dp.sum((0.0, 1.0))))

"""Posteriors of what ``optimal(query)`` released: the frame in, the frame with estimates out."""

from __future__ import annotations

from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_optimal import optimal
from opendp_optimal_bayes import posterior

SIZES = np.random.default_rng(4).geometric(0.3, 300) - 1
ROWS = pl.LazyFrame(
    {"town": np.repeat(np.arange(300), SIZES), "age": np.full(SIZES.sum(), 40, np.int64)}
)
AGE = pl.col("age").fill_null(50).dp.mean((18, 90))


def asked(*aggregates: Any, **loss: float) -> Any:
    """A query by town."""
    context = dp.Context.compositor(
        data=ROWS,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=1,
    )
    query = context.query().group_by("town").agg(dp.len(signed=True), *aggregates)
    return optimal(query, keys=list(range(300)))


@pytest.mark.parametrize(
    ("aggregates", "loss"),
    [((), {"epsilon": 0.5}), ((AGE,), {"epsilon": 0.5, "delta": 1e-6})],
    ids=["one table", "pair"],
)
def test_a_released_frame_gets_estimates(aggregates: Any, loss: dict[str, float]) -> None:
    query = asked(*aggregates, **loss)
    told = query.release()
    found = posterior(told, query.law("len")).frame()
    more = ["len_estimate", "len_low", "len_high", "len_mean"]
    assert found.columns == [*told.columns, *more]
    raw, better = (np.mean((found[n].to_numpy() - SIZES) ** 2) for n in ("len", more[0]))
    assert better < 0.8 * raw  # 300 towns, most of them nearly empty
    inside = (found["len_low"] <= pl.Series(SIZES)) & (pl.Series(SIZES) <= found["len_high"])
    assert inside.mean() > 0.8  # of an interval of 90 %
    assert found.join(told, on="town").height == 300


def test_the_law_is_that_of_the_noise() -> None:
    query = asked(AGE, epsilon=0.5, delta=1e-6)
    law = query.law()
    drawn = np.rint(query._parts.noise.sample[:, 0])
    at = np.arange(-8, 9)
    seen = np.array([(drawn <= x).mean() for x in at])
    # By Massart's bound 2^15 draws are further away once in 10^9 times.
    assert np.abs(law.cdf(at) - seen).max() < np.sqrt(np.log(2e9) / 2 / len(drawn))


def test_noise_without_a_table_for_the_count_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one table for the count"):
        asked(AGE, epsilon=0.5).law()
    with pytest.raises(ValueError, match="must be that of a count"):
        asked(AGE, epsilon=0.5).law("age")

"""Frames that OpenDP hands over: read fast, and as Polars itself reads them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from opendp_optimal.measure._handover import _held, lazy_frame

RANDOM = np.random.default_rng(1)
SIZE = 5_000
FRAME = pl.DataFrame(
    {
        "whole": RANDOM.integers(-(2**60), 2**60, SIZE),
        "real": RANDOM.random(SIZE),
        "text": RANDOM.choice(["x", "yyé", "z" * 40], SIZE),
        "cc": np.full(SIZE, -(0x34343434_34343434) - 1),  # bytes that are 0xcb and 0xcc
    }
).with_columns(
    pl.col("text").cast(pl.Categorical).alias("kind"),
    pl.when(pl.col("whole") > 0).then(pl.col("real")).alias("gaps"),
    pl.col("whole").cast(pl.Datetime("us", "UTC")).alias("when"),
)


@pytest.mark.parametrize("frame", [FRAME, pl.concat([FRAME, FRAME], rechunk=False), FRAME[:9]])
def test_data_comes_as_it_was(frame: pl.DataFrame) -> None:
    read = lazy_frame(frame.lazy().__getstate__())
    assert read.collect().equals(frame)
    assert read.collect_schema() == frame.schema


def test_data_is_taken_the_short_way_and_plans_are_not() -> None:
    assert _held(FRAME.lazy().__getstate__()) is not None
    for plan in (
        FRAME.lazy().filter(pl.col("real") > 0.5),
        FRAME.lazy().select("real"),
        pl.concat([FRAME.lazy(), FRAME.lazy()]),
        FRAME.lazy().sort("real").head(3),
    ):
        state = plan.__getstate__()
        assert _held(state) is None
        assert lazy_frame(state).collect().equals(plan.collect())

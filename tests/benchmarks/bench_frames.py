"""Polars queries: OpenDP's own time beside that of ``optimal``, and the memory of large files.

``python -m tests.benchmarks.bench_frames``: count, sum and mean of a million rows in a thousand
groups, on a Parquet file and in memory, both in the same run; seconds of processor time.
``python -m tests.benchmarks.bench_frames --large 100000000``: a Parquet file of so many rows, made
here, counted, summed and averaged by group, with people truncated too; prints the peak memory.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from opendp_optimal import optimal

dp.enable_features("contrib")

KEYS = 1_000
CHUNK = 5_000_000


def made(rows: int, seed: int = 0) -> pl.DataFrame:
    """Rows of a survey."""
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": random.integers(0, max(1, rows // 3), rows),
            "town": random.integers(0, KEYS, rows),
            "income": random.random(rows) * 100,
            "age": random.integers(18, 90, rows),
        }
    )


def query(data: pl.LazyFrame, unit: Any, rows: int) -> Any:
    """A query with all its steps but the aggregates."""
    context = dp.Context.compositor(
        data=data,
        privacy_unit=unit,
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=(), max_length=rows)],
    )
    return context.query()


def asked(plan: Any) -> Any:
    """Count, sum and mean by group."""
    return (
        plan.group_by("town")
        .agg(
            dp.len(signed=True),
            pl.col("income").fill_nan(0.0).fill_null(0.0).dp.sum((0, 100)),
            pl.col("age").fill_null(50).dp.mean((18, 90)),
        )
        .with_keys(pl.LazyFrame({"town": list(range(KEYS))}))
    )


def timed(run: Callable[[], Any], times: int = 3) -> float:
    """The least processor time of some runs, in seconds."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def compare(rows: int) -> None:
    """Print both times, on a file and in memory."""
    one = dp.unit_of(contributions=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "survey.parquet"
        frame = made(rows)
        frame.write_parquet(path)
        for name, data in (("Parquet scan", pl.scan_parquet(path)), ("in memory", frame.lazy())):
            # Contexts are made beforehand: each has the budget of one query.
            native = [asked(query(data, one, rows)) for _ in range(2)]
            ours = [asked(query(data, one, rows)) for _ in range(4)]
            optimal(ours.pop()).release()  # the noise table is solved once
            theirs = timed(lambda native=native: native.pop().release().collect(), 2)  # type: ignore[misc]
            mine = timed(lambda ours=ours: optimal(ours.pop()).release(), 3)  # type: ignore[misc]
            print(f"{name}: OpenDP {theirs:.3f} s, optimal {mine:.3f} s ({mine / theirs:.2f})")


def large(rows: int) -> None:
    """Print the time and the peak memory on a file of so many rows."""
    with tempfile.TemporaryDirectory() as folder:
        for part, start in enumerate(range(0, rows, CHUNK)):
            made(min(CHUNK, rows - start), part).write_parquet(Path(folder) / f"{part:05}.parquet")
        data = pl.scan_parquet(Path(folder) / "*.parquet")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{rows} rows made, {before:.2f} GiB at most so far")
        plain = asked(query(data, dp.unit_of(contributions=1), rows))
        _report("by group", lambda: optimal(plain).release())
        people = query(data, dp.unit_of(contributions=1, identifier="id"), rows)
        cut = people.truncate_per_group(1, by=["town"], keep="first")
        cut = cut.truncate_num_groups(3, by=["town"], keep="first")
        _report("by group, people truncated", lambda: optimal(asked(cut)).release())


def _report(name: str, run: Callable[[], Any]) -> None:
    seconds = timed(run, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: {seconds:.1f} s, peak memory {peak:.2f} GiB")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=0, metavar="ROWS")
    given = parser.parse_args()
    if given.large:
        large(given.large)
    else:
        compare(given.rows)


if __name__ == "__main__":
    main()

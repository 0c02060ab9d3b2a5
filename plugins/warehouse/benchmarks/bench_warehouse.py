"""Exact integers against float SQL written by hand, on DuckDB, in the same run.

    python plugins/warehouse/benchmarks/bench_warehouse.py 5000000

Rows in a thousand groups, about ten of each person. Processor seconds and wall seconds of each
query, and the share of the time that noise takes. The hand-written SQL with a window has the same
order as ours: a hash of the person and the group.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from opendp.mod import enable_features

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import aggregate, connect
from opendp_optimal_warehouse.noise import frame_of
from opendp_optimal_warehouse.release import rows_of

GROUPS = 1000


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a function returns, its processor seconds and its wall seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = function()
    return found, time.process_time() - processor, time.perf_counter() - wall


def main() -> None:
    """Print a line for each query."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--per-person", type=int, default=5)
    parser.add_argument("--memory", default="4GB")
    chosen = parser.parse_args()
    enable_features("contrib")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.db"
        with duckdb.connect(str(path)) as db:
            db.execute(
                f"""CREATE TABLE rows AS SELECT (hash(i) % {chosen.rows // 10})::BIGINT AS pid,
                (hash(i, 1) % {GROUPS})::INTEGER AS place, (hash(i, 2) % 100000) / 1000 AS x
                FROM range({chosen.rows}) AS t(i)"""
            )
        settings = {"memory_limit": chosen.memory, "threads": 2}
        ledger = open_ledger(Path(folder) / "budgets.db")
        ledger.create("rows", epsilon=100.0)
        ledger.create("bench", epsilon=100.0)
        with connect(path, **settings) as house:
            run(house, ledger, chosen.per_person)
        ledger.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process: {peak:.2f} GiB")


def run(house: Any, ledger: Any, per_person: int) -> None:
    """Time the four queries, and the noise."""
    db = house._backend.con
    keys = list(range(GROUPS))
    plain = "SELECT place, COUNT(*), SUM(LEAST(GREATEST(x, 0), 100)) FROM rows GROUP BY place"
    for person, name in ((None, "rows"), ("pid", "bench")):
        table = house.table("rows", person=person, ledger=ledger, name=name).by("place", keys=keys)
        if person is not None:
            table = table.rows_per_person(per_person)
        prepared = table.prepare(count=True, means={"x": (0, 100)}, epsilon=1.0)
        layout = prepared.layout
        query = aggregate.tally(rows_of(table, layout)(table.source), layout)
        hand = plain
        if person is not None:
            order = str(prepared.sql).split("ORDER BY", 1)[1].split("ROWS BETWEEN", 1)[0]
            hand = windowed(order, layout, per_person)
        _, *floats = timed(lambda hand=hand: db.execute(hand).fetchall())
        found, *exact = timed(query.to_pyarrow)
        totals = aggregate.totals_from(found, layout)
        frame_of(layout, prepared.noise, totals)  # how accurate it is, is found out once
        _, noise, _ = timed(lambda: frame_of(layout, prepared.noise, totals))  # noqa: B023
        what = "no truncation" if person is None else f"{per_person} rows a person"
        print(
            f"{what}: float SQL {floats[0]:.2f} s ({floats[1]:.2f} wall), exact {exact[0]:.2f} s "
            f"({exact[1]:.2f} wall), ratio {exact[0] / floats[0]:.2f}, noise "
            f"{100 * noise / exact[0]:.2f} % ({np.abs(totals).sum() > 0})"
        )


def windowed(order: str, layout: Any, per_person: int) -> str:
    """Float SQL with the same window and the same order key."""
    grid = layout.columns[0].grid
    scaled = f"CAST(CEIL(LEAST(GREATEST(x, 0), 100) * {2.0**grid.bits} - 0.5) AS BIGINT)"
    import re

    order = re.sub(r'"t\d+"\.', "", order)
    return f"""SELECT place, COUNT(*), SUM(x) FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY person ORDER BY {order}) AS n FROM (
            SELECT pid AS person, place, x, {scaled} AS value0 FROM rows
        )
    ) WHERE n BETWEEN 1 AND {per_person} GROUP BY place"""


if __name__ == "__main__":
    main()

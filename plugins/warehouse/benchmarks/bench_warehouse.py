"""Exact integers against float SQL written by hand, on DuckDB, in the same run.

    python plugins/warehouse/benchmarks/bench_warehouse.py 5000000

Rows in a thousand groups, about ten of each person. Processor seconds and wall seconds of each
query, and the share of the time that noise takes. The hand-written SQL with a window has the same
order key as ours, a hash of the person, the group and the value.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from opendp.mod import enable_features

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import connect
from opendp_optimal_warehouse.answers import frame_of
from opendp_optimal_warehouse.counted import counted
from opendp_optimal_warehouse.grids import ADDEND, MULTIPLIER, PRIME

GROUPS = 1000
PLAIN = "SELECT place, COUNT(*), SUM(LEAST(GREATEST(x, 0), 100)) FROM rows GROUP BY place"


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
    parser.add_argument("--memory", default="3GB", help="for DuckDB's own buffers")
    chosen = parser.parse_args()
    enable_features("contrib")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.db"
        make = [sys.executable, __file__, "--make", str(path), str(chosen.rows)]
        subprocess.run(make, check=True)  # apart: what it needs is not counted
        settings = {"memory_limit": chosen.memory, "threads": 2}
        with open_ledger(Path(folder) / "budgets.db") as ledger, connect(path, **settings) as house:
            ledger.create("rows", epsilon=100.0)
            ledger.create("bench", epsilon=100.0)
            run(house, ledger, chosen.per_person)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process: {peak:.2f} GiB")


def make_rows(path: str, rows: int) -> None:
    """Write the rows, about ten of each person."""
    with duckdb.connect(path, config={"memory_limit": "3GB", "threads": 2}) as db:
        db.execute(
            f"""CREATE TABLE rows AS SELECT (hash(i) % {rows // 10})::BIGINT AS pid,
            (hash(i, 1) % {GROUPS})::INTEGER AS place, (hash(i, 2) % 100000) / 1000 AS x
            FROM range({rows}) AS t(i)"""
        )


def run(house: Any, ledger: Any, per_person: int) -> None:
    """Time the four queries, and the noise."""
    db = house._backend.con
    keys = list(range(GROUPS))
    db.execute(
        "SELECT SUM(pid), SUM(place), SUM(x) FROM rows"
    ).fetchall()  # nobody reads a cold file
    for person, name in ((None, "rows"), ("pid", "bench")):
        table = house.table("rows", person=person, ledger=ledger, name=name).by("place", keys=keys)
        if person is not None:
            table = table.rows_per_person(per_person)
        prepared = table.prepare(count=True, means={"x": (0, 100)}, epsilon=1.0)
        layout = prepared.layout
        query = prepared.queries[0]
        hand = PLAIN if person is None else windowed(layout.columns[0].grid.bits, per_person)
        _, *floats = timed(lambda hand=hand: db.execute(hand).fetchall())
        found, *exact = timed(query.to_pyarrow)
        integers = counted(found, [], layout)
        frame_of(layout, prepared.designs, integers)  # how accurate it is, is found out once
        _, noise, _ = timed(lambda: frame_of(layout, prepared.designs, integers))  # noqa: B023
        what = "no truncation" if person is None else f"{per_person} rows a person"
        print(
            f"{what}: float SQL {floats[0]:.2f} s ({floats[1]:.2f} wall), exact {exact[0]:.2f} s "
            f"({exact[1]:.2f} wall), ratio {exact[0] / floats[0]:.2f}, noise "
            f"{100 * noise / exact[0]:.2f} %",
            flush=True,
        )


def windowed(bits: int, per_person: int) -> str:
    """Float SQL by hand, with the same window and the same order key as ours."""

    def mixed(h: str, number: str) -> str:
        return f"((({h}) + ({number})) * {MULTIPLIER} + {ADDEND}) % {PRIME}"

    row = mixed(mixed(f"{ADDEND}::BIGINT", "place"), "value")
    own = f"{mixed(f'{ADDEND}::BIGINT', f'pid % {PRIME}')} % {PRIME - 1} + 1"
    return f"""SELECT place, COUNT(*), SUM(LEAST(GREATEST(x, 0), 100)) FROM (
        SELECT place, x, ROW_NUMBER() OVER (
            PARTITION BY pid ORDER BY hash * hash % {PRIME}, place, value
        ) AS n FROM (
            SELECT *, ({row} + 1) * ({own}) % {PRIME} AS hash FROM (
                SELECT pid, place, x,
                CEIL(LEAST(GREATEST(x, 0), 100) * {2.0**bits}::DOUBLE - 0.5)::BIGINT AS value
                FROM rows
            )
        )
    ) WHERE n BETWEEN 1 AND {per_person} GROUP BY place"""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make"]:
        make_rows(sys.argv[2], int(sys.argv[3]))
    else:
        main()

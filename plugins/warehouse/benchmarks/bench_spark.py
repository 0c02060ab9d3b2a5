"""Exact integers on Spark, on this machine: processor seconds of its Java process.

    python plugins/warehouse/benchmarks/bench_spark.py 20000000

Rows in a thousand groups, about ten of each person, in a Parquet file; each release twice, because
Spark compiles in the first. Needs pyspark and Java 17.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

import duckdb
from opendp.mod import enable_features

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import connect

SETTINGS = {
    "master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "3g",
}


def seconds(process: int) -> float:
    """Processor seconds of another process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a line for each release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    rows = parser.parse_args().rows
    enable_features("contrib")
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect() as db:
            db.execute(
                f"""COPY (SELECT (hash(i) % {rows // 10})::BIGINT AS pid,
                (hash(i, 1) % 1000)::INTEGER AS place, (hash(i, 2) % 100000) / 1000 AS x
                FROM range({rows}) AS t(i)) TO '{folder}/rows.parquet'"""
            )
        with (
            open_ledger(Path(folder) / "budgets.db") as ledger,
            connect(f"spark:///{folder}", **SETTINGS) as house,
        ):
            found = subprocess.run(
                ["pgrep", "-P", str(os.getpid()), "java"],
                capture_output=True,
                text=True,
                check=True,
            )
            java = int(found.stdout.split()[0])
            for person in (None, "pid"):
                ledger.create(str(person), epsilon=10.0)
                table = house.table("rows", person=person, ledger=ledger, name=str(person))
                table = table.by("place", keys=list(range(1000)))
                if person is not None:
                    table = table.rows_per_person(5)
                prepared = table.prepare(count=True, means={"x": (0, 100)}, epsilon=1.0)
                for _ in range(2):
                    before, start = seconds(java), time.perf_counter()
                    prepared.run()
                    took, wall = seconds(java) - before, time.perf_counter() - start
                    what = "every row" if person is None else "five rows a person"
                    print(f"{what}: {took:.1f} s ({wall:.1f} wall)", flush=True)


if __name__ == "__main__":
    main()

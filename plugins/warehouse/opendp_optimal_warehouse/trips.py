"""A year of made-up trips in DuckDB, released month by month from one budget."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse.connection import connect
from opendp_optimal_warehouse.expressions import col

ZONES = ["airport", "centre", "east", "harbour", "hills", "north", "south", "west"]
YEAR = 2024


def make_trips(path: Path, trips: int) -> None:
    """Write a DuckDB file with so many trips of a year, the same ones every time.

    :param path: of the file
    :param trips: how many; a rider has about ten
    """
    import duckdb

    zones = ", ".join(f"'{zone}'" for zone in ZONES)
    with duckdb.connect(str(path)) as db:
        # What a trip is follows from hashes of its number.
        db.execute(
            f"""CREATE TABLE trips AS SELECT
                (hash(i) % {max(1, trips // 10)})::BIGINT AS rider,
                [{zones}][1 + (hash(i, 1) % 4 + hash(i, 2) % 5)::INTEGER] AS zone,
                TIMESTAMP '{YEAR}-01-01' + INTERVAL 1 MINUTE * (hash(i, 3) % 527040)::BIGINT AS at,
                5 + (hash(i, 4) % 3000) / 100 + (hash(i, 5) % 3000) / 100 AS fare
            FROM range({trips}) AS t(i)"""
        )


def year_of_trips(
    trips: int, epsilon: float, delta: float, tick: Callable[[], None] = lambda: None
) -> tuple[Any, tuple[float, float]]:
    """Release trips, riders and the mean fare by zone for every month of a year.

    :param trips: how many
    :param epsilon: for the whole year
    :param delta: for the whole year
    :param tick: called after every month
    :returns: the released tables below each other, and what is left of the budget
    """
    import polars as pl

    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trips.db"
        make_trips(path, trips)
        with open_ledger(Path(folder) / "budgets.db") as ledger, connect(path) as house:
            ledger.create("trips", epsilon=epsilon, delta=delta)
            rides = house.table("trips", person="rider", ledger=ledger, name="trips")
            for month in range(1, 13):
                asked = (
                    rides.where(col("at").month() == month)
                    .rows_per_person(2)
                    .by("zone", keys=ZONES)
                )
                frame = asked.release(
                    people=True,
                    count=True,
                    means={"fare": (0, 100)},
                    epsilon=epsilon / 16,
                    delta=delta / 16,
                )
                found.append(frame.insert_column(0, pl.Series("month", [month] * frame.height)))
                tick()
            left = ledger.remaining("trips")
    return pl.concat(found), left

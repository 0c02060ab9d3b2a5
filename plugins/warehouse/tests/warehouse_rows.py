"""Rows that are hostile in every column, and how they get into each engine."""

import math
import random
from datetime import date, datetime

import duckdb
import numpy as np
import polars as pl

TOWNS = ["Bern", "bern", "Zürich", "Zu\u0308rich", "O'Hara\\", "", "東京", "\U0001f3d4", None]
FLOATS = [
    *(0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 99.99999999999999, 100.0, 100.00000000000001, 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.0**-40, 3.14159, 1e15 + 0.5, None),
]
WHOLES = [0, 1, -1, 17, 18, 119, 2**31 - 1, -(2**31), None]
LONGS = [0, 7, -7, 2**63 - 1, -(2**63), 2**53 + 1, None]
DAYS = [date(1, 1, 1), date(2020, 2, 29), date(1969, 12, 31), date(9999, 12, 31), "infinity", None]
TIMES = [
    *(datetime(1, 1, 1), datetime(2020, 2, 29, 23, 59, 59, 999999), datetime(1969, 12, 31, 12)),
    *("infinity", None),
]
COLUMNS = {
    "pid": "BIGINT",
    "name": "VARCHAR",
    "town": "VARCHAR",
    "income": "DOUBLE PRECISION",
    "small": "REAL",
    "age": "INTEGER",
    "long": "BIGINT",
    "must": "INTEGER NOT NULL",
    "flag": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
}
_FAR = {"day": 2**31 - 1, "at": 2**63 - 1}


def hostile_rows(count, seed, people=12):
    """So many rows of a few people; each value from a short list, or ordinary."""
    dice = random.Random(seed)
    rows = []
    for _ in range(count):
        person = dice.choice([*range(people), -5, 2**63 - 1, None])
        income = dice.choice([*FLOATS, dice.uniform(-10, 200), dice.uniform(0, 100)])
        single = None if income is None else float(np.float32(dice.uniform(-5, 5)))
        rows.append(
            (
                person,
                None if person is None else f"n{person}ü",
                dice.choice(TOWNS),
                income,
                dice.choice([single, math.nan]),
                dice.choice([*WHOLES, dice.randrange(120), dice.randrange(120)]),
                dice.choice(LONGS),
                dice.choice([0, 5, 2**31 - 1, dice.randrange(50)]),
                dice.choice([True, False, None]),
                dice.choice(DAYS),
                dice.choice(TIMES),
            )
        )
    return rows


def into_duckdb(path, rows):
    """A file with a table ``people``."""
    with duckdb.connect(str(path)) as db:
        kinds = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        db.execute(f"CREATE TABLE people ({kinds})")
        marks = ", ".join("?" * len(COLUMNS))
        if rows:
            db.executemany(f"INSERT INTO people VALUES ({marks})", rows)
    return f"duckdb:///{path}"


def into_postgres(address, rows):
    """A table ``people`` in a database."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as db:
        kinds = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        db.execute("DROP TABLE IF EXISTS people")
        db.execute(f"CREATE TABLE people ({kinds})")
        marks = ", ".join("%s" for _ in COLUMNS)
        with db.cursor() as cursor:
            cursor.executemany(f"INSERT INTO people VALUES ({marks})", rows)
    return address


def into_polars(rows):
    """A frame; times without end are the last ones that there are."""
    kinds = {
        "pid": pl.Int64,
        "name": pl.String,
        "town": pl.String,
        "income": pl.Float64,
        "small": pl.Float32,
        "age": pl.Int32,
        "long": pl.Int64,
        "must": pl.Int32,
        "flag": pl.Boolean,
    }
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)) if rows else {}
    series = [pl.Series(name, columns.get(name, ()), kind) for name, kind in kinds.items()]
    for name, base in (("day", pl.Date), ("at", pl.Datetime("us"))):
        known = [None if v == "infinity" else v for v in columns.get(name, ())]
        physical = pl.Series(name, known, base).to_physical().to_list()
        far = [
            _FAR[name] if v == "infinity" else p
            for v, p in zip(columns.get(name, ()), physical, strict=True)
        ]
        kind = pl.Int32 if name == "day" else pl.Int64
        series.append(pl.Series(name, far, kind).cast(base))
    return pl.DataFrame(series)


def into_parquet(path, rows):
    """A file for Spark, and its rows: days and times that it cannot hold are among the missing."""
    frame = into_polars(rows).with_columns(
        pl.when(pl.col("day").cast(pl.Int32) < 2**31 - 1).then(pl.col("day")),
        pl.when(pl.col("at").cast(pl.Int64) < 2**63 - 1).then(pl.col("at")),
    )
    frame.write_parquet(path)
    return frame

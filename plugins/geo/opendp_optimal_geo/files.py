"""Points from CSV (also gzipped) or Parquet files."""

from __future__ import annotations

import csv
import gzip
import io
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LONGITUDE = ("lng", "lon", "long", "longitude")
LATITUDE = ("lat", "latitude")
PLANE = (("x",), ("y",))


def read_columns(
    path: Path | str, columns: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> FloatArray:
    """Return columns of a file as numbers, one row per record.

    :param path: a file ending in .csv, .csv.gz or .parquet
    :param columns: names from the file's header
    :param progress: called with bytes read and to read, now and then
    """
    path = Path(path)
    if path.name.endswith(".parquet"):
        return _parquet(path, columns)
    values = [array("d") for _ in columns]
    size = path.stat().st_size
    with path.open("rb") as raw:
        opened: Any = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
        lines = io.TextIOWrapper(opened, encoding="utf-8", newline="")
        reader = csv.reader(lines)
        places = _places(next(reader, []), columns, path)
        for number, row in enumerate(reader, start=2):
            try:
                numbers = [float(row[place]) for place in places]
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path.name} (line {number}) must hold numbers in {', '.join(columns)}"
                ) from None
            for store, value in zip(values, numbers, strict=True):
                store.append(value)
            if progress is not None and number % 10_000 == 0:
                progress(raw.tell(), size)
    return np.column_stack([np.frombuffer(store, np.float64) for store in values])


def header(path: Path | str) -> list[str]:
    """Return the names of a file's columns.

    :param path: a file ending in .csv, .csv.gz or .parquet
    """
    path = Path(path)
    if path.name.endswith(".parquet"):
        return list(_polars().scan_parquet(path).collect_schema().names())
    opener: Any = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as lines:
        return next(csv.reader(lines), [])


def coordinate_columns(path: Path | str) -> tuple[tuple[str, str], bool]:
    """Find the two columns with coordinates; say whether they are degrees.

    :param path: a file ending in .csv, .csv.gz or .parquet
    """
    names = header(path)
    for first, second, degrees in ((LONGITUDE, LATITUDE, True), (*PLANE, False)):
        found = [[n for n in names if n.lower() in known] for known in (first, second)]
        if all(found):
            return (found[0][0], found[1][0]), degrees
    raise ValueError(f"{Path(path).name} must have columns lng and lat, or x and y")


def _places(names: Sequence[str], columns: Sequence[str], path: Path) -> list[int]:
    missing = [name for name in columns if name not in names]
    if missing:
        raise ValueError(f"{path.name} must have the columns {', '.join(missing)}")
    return [list(names).index(name) for name in columns]


def _parquet(path: Path, columns: Sequence[str]) -> FloatArray:
    frame = _polars().read_parquet(path)
    _places(frame.columns, columns, path)
    try:
        return np.column_stack([frame[name].cast(_polars().Float64).to_numpy() for name in columns])
    except _polars().exceptions.PolarsError:
        raise ValueError(f"{path.name} must hold numbers in {', '.join(columns)}") from None


def _polars() -> Any:
    try:
        import polars
    except ImportError:  # pragma: no cover
        raise ImportError("Parquet needs polars: pip install opendp-optimal-geo[parquet]") from None
    return polars

"""Points from CSV (also gzipped) or Parquet files.

Whoever reads a file owns it. A file that is malformed, or that holds a point which is not finite,
is refused before anything is released; messages name the file and a line, not what is written
there.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import Floats

LONGITUDE = ("lng", "lon", "long", "longitude")
LATITUDE = ("lat", "latitude")
PLANE = (("x",), ("y",))


def read_columns(
    path: Path | str, columns: Sequence[str], *, progress: Callable[[int, int], None] | None = None
) -> Floats:
    """Return columns of a file as numbers, one row per record.

    :param path: a file ending in .csv, .csv.gz or .parquet
    :param columns: names from the file's header
    :param progress: called with bytes read and to read, now and then
    """
    path = Path(path)
    if path.name.endswith(".parquet"):
        with _parquet_file(path) as file:
            _places(file.schema_arrow.names, columns, path)
            table = file.read(columns=list(columns), use_threads=False)
            return np.column_stack([table[name].cast("float64").to_numpy() for name in columns])
    numbers = array("d")
    size = path.stat().st_size
    with _rows(path) as (rows, raw):
        places = _places(next(rows, []), columns, path)
        for number, row in enumerate(rows, start=2):
            try:
                numbers.extend([float(row[place]) for place in places])
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path.name} (line {number}) must hold numbers in {', '.join(columns)}"
                ) from None
            if progress is not None and number % 10_000 == 0:
                progress(raw.tell(), size)
    return np.frombuffer(numbers, np.float64).reshape(-1, len(columns))


def read_ids(path: Path | str, column: str) -> NDArray[Any]:
    """Return a column of identifiers: texts, or whole numbers where a Parquet file has them.

    :param path: a file ending in .csv, .csv.gz or .parquet
    :param column: name from the file's header
    """
    path = Path(path)
    wrong = ValueError(f"{path.name} must hold an identifier in {column} in every row")
    if path.name.endswith(".parquet"):
        with _parquet_file(path) as file:
            _places(file.schema_arrow.names, [column], path)
            ids = file.read(columns=[column], use_threads=False)[column]
            kind = str(ids.type)
            known = kind in ("string", "large_string") or kind.lstrip("u").startswith("int")
            if not known or ids.null_count:
                raise wrong
            return np.asarray(ids.to_numpy())
    with _rows(path) as (rows, _):
        (place,) = _places(next(rows, []), [column], path)
        try:
            return np.array([row[place] for row in rows])
        except IndexError:
            raise wrong from None


def header(path: Path | str) -> list[str]:
    """Return the names of a file's columns.

    :param path: a file ending in .csv, .csv.gz or .parquet
    """
    path = Path(path)
    if path.name.endswith(".parquet"):
        with _parquet_file(path) as file:
            return list(file.schema_arrow.names)
    with _rows(path) as (rows, _):
        return next(rows, [])


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


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    """Open a Parquet file; raises ValueError where it is none.

    Arrow's own reader: it refuses damaged files, where others end the process.
    """
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:  # pragma: no cover
        raise ImportError(
            "Parquet needs pyarrow: pip install opendp-optimal-geo[parquet]"
        ) from None
    try:
        with ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, MemoryError, UnicodeDecodeError):
        # Without Arrow's own words, which may quote what is in the file.
        raise ValueError(
            f"{path.name} must be a whole Parquet file with numbers for coordinates"
        ) from None


@contextmanager
def _rows(path: Path) -> Iterator[tuple[Iterator[list[str]], BinaryIO]]:
    """Yield the rows of a CSV file, and the open file; say which file is damaged."""
    try:
        with path.open("rb") as raw:
            opened: Any = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
            yield csv.reader(io.TextIOWrapper(opened, encoding="utf-8", newline="")), raw
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} must be a CSV file in UTF-8") from None
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path.name} must be a whole CSV file: {error}") from None

"""CSV files that others wrote: a damaged one is a bad argument like any other."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def csv_rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """Open a CSV file and yield its rows; raises ValueError where it is none.

    :param path: the file
    """
    with path.open(newline="", encoding="utf-8") as lines:
        try:
            yield csv.reader(lines)
        except csv.Error as error:
            raise ValueError(f"{path.name} must be a CSV file: {error}") from None

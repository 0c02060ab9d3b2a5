"""CSV files that others wrote: a damaged one is a bad argument like any other."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opendp_optimal.files import read_regular


@contextmanager
def csv_rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """Open a CSV file and yield its rows; raises ValueError where it is none.

    :param path: the file
    """
    with io.StringIO(read_regular(path).decode(), newline="") as lines:
        try:
            yield csv.reader(lines)
        except csv.Error as error:
            raise ValueError(f"{path.name} must be a CSV file: {error}") from None

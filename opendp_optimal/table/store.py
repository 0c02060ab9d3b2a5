"""Where tables are kept: one file each, named by the problem, written atomically.

The directory follows the platform's convention and can be set by ``OPENDP_OPTIMAL_CACHE``. A file
that is damaged, or does not prove what it claims, is reported and never used. Only regular files
are opened. A directory that cannot be written is no error here: the table is just not kept.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import platformdirs

from opendp_optimal import files as disk
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.losses.base import Loss
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.table.files.noise import SUFFIX, VERSION, decode, encode, peek
from opendp_optimal.table.noise import NoiseTable

BOUNDED_SUFFIX = ".bounded"
ENVIRONMENT = "OPENDP_OPTIMAL_CACHE"

_log = logging.getLogger(__name__)
_extra_directories: list[Any] = []


def cache_directory() -> Path:
    """The directory that tables are written to; it need not exist yet."""
    chosen = os.environ.get(ENVIRONMENT)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("opendp-optimal"))
    return root / f"tables-{VERSION}"


def bundled_directory() -> Any:
    """The tables that come with the package."""
    return files("opendp_optimal.table") / "bundled"


def add_directory(directory: Any) -> None:
    """Look for tables in another directory too (a path or an importlib resource)."""
    if directory not in _extra_directories:
        _extra_directories.append(directory)


def directories() -> list[Any]:
    """All places that are searched, in order."""
    return [cache_directory(), bundled_directory(), *_extra_directories]


def file_name(problem: NoiseProblem) -> str:
    """The name of a problem's file in any directory of tables."""
    return problem.fingerprint + SUFFIX


def contents(place: Any) -> bytes:
    """The bytes of a table file; raises OSError if it is not a regular file of bounded size."""
    if isinstance(place, Path):
        return disk.read_regular(place)
    data: bytes = place.read_bytes()  # a resource that is no file, as in a zipped package
    return data


def read(place: Any) -> bytes | None:
    """The bytes of a table file; None, with a warning, if it is there but cannot be used."""
    try:
        return contents(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _log.warning("table %s cannot be read: %s", place, error)
        return None


def _read(place: Any, problem: NoiseProblem | None, loss: Loss | None = None) -> NoiseTable | None:
    data = read(place)
    if data is None:
        return None
    try:
        table = decode(data, loss if problem is None else problem.loss)
        if problem is not None and table.problem.fingerprint != problem.fingerprint:
            raise TableFormatError("it answers another question than its name says")
    except (TableFormatError, CertificateError) as error:
        _log.warning("table %s is not used: %s", place, error)
        return None
    return table


def load(problem: NoiseProblem, gap: float = 0.0) -> NoiseTable | None:
    """A stored table for a problem, verified: the first that meets the gap, else the best.

    None if there is none.
    """
    best: NoiseTable | None = None
    for directory in directories():
        table = _read(directory / file_name(problem), problem)
        if table is not None and problem.loss.custom and not _same_costs(table):
            _log.warning("the stored table is for another function named %s", problem.loss.name)
            table = None
        if table is not None and (best is None or table.gap < best.gap):
            best = table
        if best is not None and best.gap <= gap:
            break
    return best


def _same_costs(table: NoiseTable) -> bool:
    """Whether the loss at hand has the costs that the table was made for."""
    problem = table.problem
    return table.costs == (
        problem.cost(table.cells, table.radius),
        problem.cost(table.dual.cells, table.dual.reach),
    )


def store(table: NoiseTable) -> Path | None:
    """Keep a table; returns its file, or None if the directory cannot be written."""
    return write(file_name(table.problem), encode(table))


def write(name: str, data: bytes) -> Path | None:
    """Write a file of the cache, whole or not at all; None if the directory cannot be written."""
    target = cache_directory() / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        disk.write_whole(target, data)
    except OSError as error:
        _log.info("table is not kept: %s", error)
        return None
    return target


def check_writable() -> None:
    """Raise OSError unless tables can be kept: a file is written and removed again."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    trial = directory / f"{os.getpid()}.trial.part"
    disk.write_whole(trial, b"")
    trial.unlink()


def stored_files(suffix: str = SUFFIX) -> Iterator[Any]:
    """Every table file in every directory, unverified."""
    for directory in directories():
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for place in sorted(directory.iterdir(), key=lambda p: p.name):
                if place.name.endswith(suffix):
                    yield place


def clear() -> int:
    """Remove all files of the writable cache; returns how many tables there were."""
    count = 0
    directory = cache_directory()
    if directory.is_dir():
        for place in directory.iterdir():
            if not place.is_dir() and place.suffix in (SUFFIX, BOUNDED_SUFFIX, ".part"):
                place.unlink(missing_ok=True)
                count += place.suffix != ".part"
    return count


def load_dominating(problem: NoiseProblem) -> NoiseTable | None:
    """The best stored table that is at least as private as what is asked, verified.

    It has a smaller or equal epsilon and delta and otherwise answers the same problem.
    """
    same = problem.describe()
    found = []
    for place in stored_files():
        data = read(place)
        try:
            about = peek(b"" if data is None else data)
        except TableFormatError:
            continue
        agrees = all(about.get(key) == same[key] for key in same if key not in ("epsilon", "delta"))
        if agrees and about["epsilon"] <= problem.epsilon and about["delta"] <= problem.delta:
            found.append((about["upper"], place.name, place))
    for _, _, place in sorted(found, key=lambda entry: entry[:2]):
        table = _read(place, None, problem.loss)
        if table is not None:
            return table
    return None

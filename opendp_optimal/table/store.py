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
from typing import TYPE_CHECKING, Any

import platformdirs

from opendp_optimal import files as disk
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.losses.base import Loss
from opendp_optimal.table.base import kind_for, kind_of, kinds

if TYPE_CHECKING:
    from opendp_optimal.table.files.container import Kind

ENVIRONMENT = "OPENDP_OPTIMAL_CACHE"
_FOLDER = "tables-1"
"""The number is that of the container's version."""

_log = logging.getLogger(__name__)
_extra_directories: list[Any] = []


def cache_directory() -> Path:
    """The directory that tables are written to; it need not exist yet."""
    chosen = os.environ.get(ENVIRONMENT)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("opendp-optimal"))
    return root / _FOLDER


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


def file_name(problem: Any) -> str:
    """The name of a problem's file in any directory of tables."""
    return str(problem.fingerprint) + kind_for(problem).suffix


def stored_files(*only: Kind[Any]) -> Iterator[Any]:
    """Every table file in every directory, unverified: of all kinds, or of some."""
    for kind in only or kinds():
        for directory in directories():
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                for place in sorted(directory.iterdir(), key=lambda p: p.name):
                    if place.name.endswith(kind.suffix):
                        yield place


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


def load(problem: Any, gap: float = 0.0) -> Any:
    """A stored table for a problem, verified: the first that meets the gap, else the best.

    None if there is none.
    """
    kind = kind_for(problem)
    best = None
    if problem.loss.by_samples and not kind.own_losses:
        return best
    fingerprint = problem.fingerprint
    for directory in directories():
        place = directory / (fingerprint + kind.suffix)
        table = _verified(kind, place, problem.loss, fingerprint)
        if table is not None and (best is None or table.gap < best.gap):
            best = table
        if best is not None and best.gap <= gap:
            break
    return best


def dominating(problem: Any) -> Any:
    """The best stored table that is at least as private as what is asked, verified.

    It has a smaller or equal epsilon and delta and otherwise answers the same problem. None if
    there is none.
    """
    kind = kind_for(problem)
    same = kind.plain(problem.describe())
    found = []
    for place in stored_files(kind):
        try:
            about = kind.peek(read(place) or b"")
        except TableFormatError:
            continue
        agrees = all(about.get(key) == same[key] for key in same if key not in ("epsilon", "delta"))
        if agrees and about["epsilon"] <= problem.epsilon and about["delta"] <= problem.delta:
            found.append((about["upper"], place.name, place))
    for _, _, place in sorted(found, key=lambda entry: entry[:2]):
        table = _verified(kind, place, problem.loss)
        if table is not None:
            return table
    return None


def _verified(kind: Kind[Any], place: Any, loss: Loss, fingerprint: str | None = None) -> Any:
    """The table of a file; None, with a warning, if it is there but cannot be used."""
    data = read(place)
    if data is None:
        return None
    try:
        table = kind.decode(data, loss)
        if fingerprint not in (None, table.problem.fingerprint):
            raise TableFormatError("it answers another question than its name says")
    except (TableFormatError, CertificateError) as error:
        _log.warning("table %s is not used: %s", place, error)
        return None
    return table


def keep(table: Any) -> Path | None:
    """Keep a table; returns its file, or None if it cannot be kept."""
    kind = kind_for(table.problem)
    if table.loss.by_samples and not kind.own_losses:
        return None
    try:
        data = kind.encode(table)
    except TableFormatError as error:
        _log.info("table is not kept: %s", error)
        return None
    return write(file_name(table.problem), data)


def is_kept(problem: Any) -> bool:
    """Whether the writable cache has a file for a problem."""
    return (cache_directory() / file_name(problem)).is_file()


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


def clear() -> int:
    """Remove all files of the writable cache; returns how many tables there were."""
    count = 0
    endings = {kind.suffix for kind in kinds()}
    directory = cache_directory()
    if directory.is_dir():
        for place in directory.iterdir():
            if not place.is_dir() and place.suffix in {*endings, ".part"}:
                place.unlink(missing_ok=True)
                count += place.suffix in endings
    return count


def describe(place: Any) -> dict[str, Any]:
    """What a table file says about itself, unverified; an ``error`` if it cannot be read."""
    try:
        data = contents(place)
        return {"file": place.name, **kind_of(data).peek(data)}
    except (OSError, TableFormatError) as error:
        return {"file": place.name, "error": str(error)}


def fault(place: Any) -> str:
    """Why a table file does not verify; nothing if it does."""
    try:
        data = contents(place)
        kind_of(data).decode(data)
    except (CertificateError, TableFormatError) as error:
        return f"{type(error).__name__}: {error}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""

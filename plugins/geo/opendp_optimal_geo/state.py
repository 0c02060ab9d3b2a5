"""Budgets on disk: written to a temporary file first, so that a file is old or new, never torn."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
import zipfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from opendp_optimal_geo.allowances import WHOLE, Allowances

FORMAT = "opendp-optimal-geo budgets 2"
_MALFORMED = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    EOFError,
    MemoryError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
)


def save_allowances(path: Path, allowances: Allowances, settings: dict[str, Any]) -> None:
    """Write budgets and settings, all or nothing.

    :param path: file to replace
    :param allowances: what was paid
    :param settings: anything JSON can hold
    """
    body = io.BytesIO()
    np.savez(body, paid=allowances.paid, halted=allowances.halted)
    data = body.getvalue()
    header = {
        "format": FORMAT,
        "capacity": str(allowances.capacity),
        "size": allowances.size,
        "settings": settings,
        "crc32": zlib.crc32(data),
        "bytes": len(data),
    }
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def load_allowances(path: Path) -> tuple[Allowances, dict[str, Any]]:
    """Read budgets and settings; a file that is not whole is refused.

    :param path: file written by :func:`save_allowances`
    """
    path = Path(path)
    try:
        head, data = path.read_bytes().split(b"\n", 1)
        header = json.loads(head)
        if header["format"] != FORMAT:
            raise ValueError("another format")
        if len(data) != header["bytes"] or zlib.crc32(data) != header["crc32"]:
            raise ValueError("not whole")
        capacity = exact(header["capacity"])
        settings = header["settings"]
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            paid, halted = arrays["paid"], arrays["halted"]
        # No memory is taken for a size that the arrays do not have.
        if paid.shape != (int(header["size"]),):
            raise ValueError("wrong sizes")
        allowances = Allowances(capacity, int(header["size"]))
        if paid.shape != (allowances.size,) or halted.shape != (allowances.size,):
            raise ValueError("wrong sizes")
        if paid.dtype != np.int64 or (paid < 0).any() or (paid > WHOLE).any():
            raise ValueError("impossible totals")
    except _MALFORMED as error:
        raise ValueError(f"path ({path.name}) must hold saved budgets: {error}") from None
    allowances.restore(paid, halted)
    return allowances, settings


def exact(text: Any) -> Fraction:
    """Read a number that was written as a fraction of two whole numbers, and nothing else."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,999}(/[1-9][0-9]{0,999})?", text):
        raise ValueError("not a fraction")
    return Fraction(text)


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # pragma: no cover (systems that cannot open folders)
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

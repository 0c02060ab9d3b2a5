"""Files of bounded tables, and where they are kept: beside the noise tables.

Version 1 has the weights of bins. Version 2 has none, but a whole noise table, in the bytes of its
own file.

The container is that of noise tables, with the magic "ODPBOUND". Tables for a user's own loss are
not kept: their proofs need the function itself.
"""

from __future__ import annotations

import json
import logging
import struct
from pathlib import Path
from typing import Any

import numpy as np

from opendp_optimal.certify.channel import ChannelDual
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.losses.base import parse
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.table import store as cache
from opendp_optimal.table.bounded import BoundedTable
from opendp_optimal.table.files.noise import MALFORMED, seal, unseal
from opendp_optimal.table.files.noise import decode as decode_noise
from opendp_optimal.table.files.noise import encode as encode_noise

MAGIC = b"ODPBOUND"
VERSION = 1
VERSION_WITH_NOISE = 2
"""Tables of noise that is the same for all answers; all others stay as they were."""
SUFFIX = cache.BOUNDED_SUFFIX
_MOST_BINS = 1 << 9

_log = logging.getLogger(__name__)


def encode(table: BoundedTable) -> bytes:
    """The bytes of a table's file."""
    if table.loss.custom:
        raise ValueError(f"loss ({table.loss.name}) must have a name: functions cannot be stored")
    dual = table.dual
    header: dict[str, Any] = {
        "version": VERSION if table.noise is None else VERSION_WITH_NOISE,
        "problem": table.problem.describe(),
        "bins": table.bins,
        "cells": table.cells,
        "dual_bins": table.dual_bins,
        "dual_cells": table.dual_cells,
        "scale": dual.scale,
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
        "levels": list(table.levels),
    }
    arrays = {
        "weights": table.weights,
        "pairs": dual.pairs,
        "budget": dual.budget,
        "slack": dual.slack,
        "caps": dual.caps,
    }
    if table.noise is not None:
        arrays["noise"] = np.frombuffer(encode_noise(table.noise), np.uint8).astype(np.int64)
    return seal(MAGIC, header, arrays)


def decode(data: bytes) -> BoundedTable:
    """Read a table and repeat both of its proofs.

    :raises TableFormatError: the bytes are damaged or of an unknown version
    :raises CertificateError: the table does not prove what it claims
    """
    try:
        table = _decode(data)
        table.verify()
    except (TableFormatError, CertificateError):
        raise
    except MALFORMED as error:
        raise TableFormatError(f"the file is not a bounded table: {error}") from None
    return table


def _decode(data: bytes) -> BoundedTable:
    header, arrays = unseal(MAGIC, _version(data), data)
    numbers = [int(header[key]) for key in ("bins", "cells", "dual_bins", "dual_cells")]
    scale = int(header["scale"])
    if not (-4096 <= scale <= 4096 and min(numbers) >= 0 and max(numbers) <= _MOST_BINS):
        raise TableFormatError("a lattice is out of range")
    described = header["problem"]
    problem = BoundedProblem.from_description(described, parse(described["loss"]))
    if problem.describe() != described:
        raise TableFormatError("the problem in the file is not written as it should be")
    weights = arrays["weights"]
    noise = None
    if header["version"] == VERSION_WITH_NOISE:
        noise = decode_noise(arrays["noise"].astype(np.uint8).tobytes())
    rows = numbers[0] + 1 if noise is None else 0
    fits = weights.ndim == 2 and len(weights) == rows
    if not fits or arrays["slack"].ndim != 2 or numbers[2] > _MOST_BINS:
        raise TableFormatError("an array has an impossible shape")
    dual = ChannelDual(arrays["pairs"], arrays["budget"], arrays["slack"], arrays["caps"], scale)
    return BoundedTable(
        problem=problem,
        bins=numbers[0],
        cells=numbers[1],
        weights=weights,
        dual=dual,
        dual_bins=numbers[2],
        dual_cells=numbers[3],
        upper=float.fromhex(header["upper"]),
        lower=float.fromhex(header["lower"]),
        levels=tuple(int(v) for v in header["levels"]),
        noise=noise,
    )


def _version(data: bytes) -> int:
    """Which of the versions a file says it has; the older one for anything else."""
    head = _header(data)
    return VERSION_WITH_NOISE if head.get("version") == VERSION_WITH_NOISE else VERSION


def _header(data: bytes) -> dict[str, Any]:
    """The header of a file, unverified."""
    (length,) = struct.unpack("<I", data[8:12])
    if data[:8] != MAGIC or length > len(data):
        raise TableFormatError("the file does not begin like a bounded table")
    header = json.loads(data[12 : 12 + length])
    if not isinstance(header, dict):
        raise TableFormatError("the header of the file is no object")
    return header


def peek(data: bytes) -> dict[str, Any]:
    """What a file says it is, unverified: for looking through directories."""
    try:
        header = _header(data)
        described = header["problem"]
        numbers = ("epsilon", "delta", "sensitivity", "low", "high")
        return {
            **described,
            **{key: float.fromhex(described[key]) for key in numbers},
            "upper": float.fromhex(header["upper"]),
            "lower": float.fromhex(header["lower"]),
            "bins": int(header["bins"]),
        }
    except MALFORMED as error:
        raise TableFormatError(f"the file is not a bounded table: {error}") from None


def load(problem: BoundedProblem) -> BoundedTable | None:
    """The stored table of smallest gap for a problem, verified; None if there is none."""
    if problem.loss.custom:
        return None
    best: BoundedTable | None = None
    for directory in cache.directories():
        place = directory / (problem.fingerprint + SUFFIX)
        data = cache.read(place)
        if data is None:
            continue
        try:
            table = decode(data)
            if table.problem.fingerprint != problem.fingerprint:
                raise TableFormatError("it answers another question than its name says")
        except (TableFormatError, CertificateError) as error:
            _log.warning("table %s is not used: %s", place, error)
            continue
        if best is None or table.gap < best.gap:
            best = table
    return best


def store(table: BoundedTable) -> Path | None:
    """Keep a table; returns its file, or None if it cannot be kept."""
    if table.loss.custom:
        return None
    return cache.write(table.problem.fingerprint + SUFFIX, encode(table))

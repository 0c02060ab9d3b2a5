"""The file format of noise tables, version 1. Nothing in a file is executed or trusted.

    8 bytes   magic "ODPNOISE"
    4 bytes   length h of the header, little-endian
    h bytes   header, JSON: version, problem, lattice, bounds, and a list of arrays
    ...       the arrays' bytes, compressed with zlib, one after the other
    32 bytes  SHA-256 of everything before

Integers are stored in the narrowest type that holds them, byte planes apart, which compresses
well. A published meaning never changes: another meaning gets another version.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.certify.bound import LARGEST_SCALE, DualCertificate
from opendp_optimal.certify.endless import PureTail
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.losses.base import LatticeCost, Loss, parse
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.table.noise import MOST_CELLS, NoiseTable

Integers = NDArray[np.int64]

MAGIC = b"ODPNOISE"
VERSION = 1
SUFFIX = ".noise"
_MOST_HEADER = 1 << 24
_MOST_ELEMENTS = 1 << 25
_MOST_ARRAYS = 16
MALFORMED = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    zlib.error,
    struct.error,
)
"""What reading hostile bytes may raise on the way; all of it means: not a table."""


def _pack(array: Integers) -> tuple[dict[str, Any], bytes]:
    width = 8
    for candidate in (1, 2, 4):
        edge = 1 << (8 * candidate - 1)
        if array.size == 0 or (array.min() >= -edge and array.max() < edge):
            width = candidate
            break
    raw = np.ascontiguousarray(array.astype(f"<i{width}")).view(np.uint8)
    planes = np.ascontiguousarray(raw.reshape(-1, width).T).tobytes()
    packed = zlib.compress(planes, 6)
    return {"shape": list(array.shape), "width": width, "bytes": len(packed)}, packed


def _unpack(entry: dict[str, Any], data: bytes) -> Integers:
    shape, width = tuple(entry["shape"]), entry["width"]
    if width not in (1, 2, 4, 8) or len(shape) not in (1, 2) or min(shape) < 0:
        raise TableFormatError("an array has an impossible shape")
    size = math.prod(shape) * width
    if math.prod(shape) > _MOST_ELEMENTS:
        raise TableFormatError("an array is too large")
    expander = zlib.decompressobj()
    planes = expander.decompress(data, size + 1)
    if len(planes) != size or not expander.eof or expander.unused_data:
        raise TableFormatError("an array has another size than its header says")
    raw = np.frombuffer(planes, np.uint8).reshape(width, -1).T
    return np.ascontiguousarray(raw).view(f"<i{width}").reshape(shape).astype(np.int64)


def _cost_header(cost: LatticeCost) -> dict[str, Any]:
    return {
        "upper": [str(v) for v in cost.upper],
        "lower": [str(v) for v in cost.lower],
        "atom": str(cost.atom),
        "denominator": str(cost.denominator),
    }


def _cost_of(header: dict[str, Any]) -> LatticeCost:
    denominator = int(header["denominator"])
    if denominator < 1:
        raise TableFormatError("costs must be divided by something positive")
    return LatticeCost(
        [int(v) for v in header["upper"]],
        [int(v) for v in header["lower"]],
        int(header["atom"]),
        denominator,
    )


def encode(table: NoiseTable) -> bytes:
    """The bytes of a table's file."""
    dual = table.dual
    arrays = {
        "weights": table.weights,
        "shifts": dual.shifts,
        "budget": dual.budget,
        "slack": dual.slack,
        "order": dual.order,
        "tail": dual.tail,
    }
    if table.tail is not None:
        arrays["endless"] = np.array(
            [table.tail.weight, table.tail.again, *table.tail.weights], np.int64
        )
    header: dict[str, Any] = {
        "version": VERSION,
        "problem": table.problem.describe(),
        "cells": table.cells,
        "atom": table.atom,
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
        "dual_cells": dual.cells,
        "mirrored": dual.mirrored,
        "scale": dual.scale,
    }
    if table.costs is not None:
        header["costs"] = [_cost_header(cost) for cost in table.costs]
    return seal(MAGIC, header, arrays)


def seal(magic: bytes, header: dict[str, Any], arrays: dict[str, Integers]) -> bytes:
    """A file of some kind: its header, its arrays and the digest of both."""
    packed = {name: _pack(array) for name, array in arrays.items()}
    header = {**header, "arrays": {name: entry for name, (entry, _) in packed.items()}}
    text = json.dumps(header, separators=(",", ":")).encode()
    body = magic + struct.pack("<I", len(text)) + text + b"".join(d for _, d in packed.values())
    return body + hashlib.sha256(body).digest()


def _problem_of(header: dict[str, Any], loss: Loss | None) -> NoiseProblem:
    described = dict(header)
    name = described.pop("loss")
    if loss is None:
        loss = parse(name) if not name.startswith("custom:") else Loss(None, name)
    fields: dict[str, Any] = {}
    for key, value in described.items():
        hexed = key in ("epsilon", "delta", "support", "impossible") and value is not None
        fields[key] = float.fromhex(value) if hexed else value
    if not all(isinstance(fields[key], bool) for key in ("symmetric", "monotone")):
        raise TableFormatError("symmetric and monotone must be true or false")
    problem = NoiseProblem(loss=loss, **fields)
    if problem.describe() != header:
        raise TableFormatError("the problem in the file is not the one that was asked for")
    return problem


def decode(data: bytes, loss: Loss | None = None) -> NoiseTable:
    """Read a table and repeat both of its proofs.

    :param data: the bytes of a file
    :param loss: the loss it must be for; needed to use a table of a user's own loss
    :raises TableFormatError: the bytes are damaged or of an unknown version
    :raises CertificateError: the table does not prove what it claims
    """
    try:
        table = _decode(data, loss)
        table.verify()
    except (TableFormatError, CertificateError):
        raise
    except MALFORMED as error:
        raise TableFormatError(f"the file is not a noise table: {error}") from None
    return table


def unseal(magic: bytes, version: int, data: bytes) -> tuple[dict[str, Any], dict[str, Integers]]:
    """The header and the arrays of a file that is whole, of the kind and version that is meant."""
    if data[:8] != magic or len(data) < 44:
        raise TableFormatError("the file does not begin like a noise table")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        raise TableFormatError("the file is damaged: its digest does not fit")
    (length,) = struct.unpack("<I", data[8:12])
    if length > min(_MOST_HEADER, len(data) - 44):
        raise TableFormatError("the header is longer than the file")
    header = json.loads(data[12 : 12 + length])
    if header.get("version") != version:
        raise TableFormatError(f"version {header.get('version')!r} of the format is unknown")
    arrays: dict[str, Integers] = {}
    at = 12 + length
    entries = header["arrays"]
    elements = sum(math.prod(entry["shape"]) for entry in entries.values())
    if len(entries) > _MOST_ARRAYS or elements > _MOST_ELEMENTS:
        raise TableFormatError("the arrays are too large")
    for name, entry in entries.items():
        arrays[name] = _unpack(entry, data[at : at + entry["bytes"]])
        at += entry["bytes"]
    if at != len(data) - 32:
        raise TableFormatError("the arrays do not fill the file")
    return header, arrays


def _decode(data: bytes, loss: Loss | None) -> NoiseTable:
    header, arrays = unseal(MAGIC, VERSION, data)
    dual = DualCertificate(
        cells=int(header["dual_cells"]),
        shifts=arrays["shifts"],
        budget=arrays["budget"],
        slack=arrays["slack"],
        mirrored=bool(header["mirrored"]),
        order=arrays["order"],
        tail=arrays["tail"],
        scale=int(header["scale"]),
    )
    cells = int(header["cells"])
    lattices = (cells, dual.cells)
    if abs(dual.scale) > LARGEST_SCALE or min(lattices) < 1 or max(lattices) > MOST_CELLS:
        raise TableFormatError("a lattice is out of range")
    tail = None
    if "endless" in arrays:
        endless = arrays["endless"]
        tail = PureTail(int(endless[0]), endless[2:], int(endless[1]))
    problem = _problem_of(header["problem"], loss)
    if (tail is not None) != (problem.delta == 0):
        raise TableFormatError("endless noise and delta 0 go together")
    costs = None
    if "costs" in header:
        first, second = (_cost_of(cost) for cost in header["costs"])
        costs = (first, second)
    if (costs is not None) != header["problem"]["loss"].startswith("custom:"):
        raise TableFormatError("costs and a user's own loss go together")
    return NoiseTable(
        problem=problem,
        cells=cells,
        weights=arrays["weights"],
        atom=int(header["atom"]),
        dual=dual,
        upper=float.fromhex(header["upper"]),
        lower=float.fromhex(header["lower"]),
        tail=tail,
        costs=costs,
    )


def peek(data: bytes) -> dict[str, Any]:
    """What a file says it is, unverified: for looking through directories."""
    try:
        (length,) = struct.unpack("<I", data[8:12])
        if data[:8] != MAGIC or length > min(_MOST_HEADER, len(data)):
            raise TableFormatError("the file does not begin like a noise table")
        header = json.loads(data[12 : 12 + length])
        return {
            **header["problem"],
            "epsilon": float.fromhex(header["problem"]["epsilon"]),
            "delta": float.fromhex(header["problem"]["delta"]),
            "upper": float.fromhex(header["upper"]),
            "lower": float.fromhex(header["lower"]),
            "cells": int(header["cells"]),
        }
    except MALFORMED as error:
        raise TableFormatError(f"the file is not a noise table: {error}") from None

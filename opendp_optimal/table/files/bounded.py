"""Files of bounded tables.

Version 1 has the weights of bins. Version 2 has none, but a whole noise table, in the bytes of its
own file. Tables for a user's own loss are not kept: their proofs need the function itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opendp_optimal.certify.channel import ChannelDual
from opendp_optimal.errors import TableFormatError
from opendp_optimal.losses.base import Loss
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.table.bounded import BoundedTable
from opendp_optimal.table.files import noise
from opendp_optimal.table.files.container import Arrays, Header, Kind, bounds

_WITH_BINS, _WITH_NOISE = 1, 2
_MOST_BINS = 1 << 9
_NUMBERS = ("bins", "cells", "dual_bins", "dual_cells")
_PRICES = ("pairs", "budget", "slack", "caps")


def _parts(table: BoundedTable) -> tuple[Header, Arrays]:
    if table.loss.by_samples:
        raise ValueError(f"loss ({table.loss.name}) must have a name: functions cannot be stored")
    dual = table.dual
    header: Header = {
        "version": _WITH_BINS if table.noise is None else _WITH_NOISE,
        "problem": table.problem.describe(),
        **{name: getattr(table, name) for name in _NUMBERS},
        "scale": dual.scale,
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
        "levels": list(table.levels),
    }
    arrays = {"weights": table.weights, **{name: getattr(dual, name) for name in _PRICES}}
    if table.noise is not None:
        inner = noise.KIND.encode(table.noise)
        arrays["noise"] = np.frombuffer(inner, np.uint8).astype(np.int64)
    return header, arrays


def _build(header: Header, arrays: Arrays, loss: Loss | None) -> BoundedTable:
    numbers: dict[str, Any] = {name: int(header[name]) for name in _NUMBERS}
    scale, most = int(header["scale"]), max(numbers.values())
    if not (-4096 <= scale <= 4096 and min(numbers.values()) >= 0 and most <= _MOST_BINS):
        raise TableFormatError("a lattice is out of range")
    problem = BoundedProblem.from_description(header["problem"], loss)
    inner = None
    if header["version"] == _WITH_NOISE:
        inner = noise.KIND.decode(arrays["noise"].astype(np.uint8).tobytes())
    weights = arrays["weights"]
    rows = numbers["bins"] + 1 if inner is None else 0
    if weights.ndim != 2 or len(weights) != rows or arrays["slack"].ndim != 2:
        raise TableFormatError("an array has an impossible shape")
    dual = ChannelDual(scale=scale, **{name: arrays[name] for name in _PRICES})
    return BoundedTable(
        problem=problem,
        weights=weights,
        dual=dual,
        **(numbers | bounds(header)),
        levels=tuple(int(v) for v in header["levels"]),
        noise=inner,
    )


KIND: Kind[BoundedTable] = Kind(
    name="bounded",
    magic=b"ODPBOUND",
    versions=(_WITH_BINS, _WITH_NOISE),
    problem=BoundedProblem,
    parts=_parts,
    build=_build,
    numbers=("epsilon", "delta", "sensitivity", "low", "high"),
    sizes=("bins",),
)

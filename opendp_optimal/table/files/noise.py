"""Files of noise tables: version 1, and version 2 for those with a spike.

A table for a user's own loss holds bounds on its costs, so that it proves itself without the
function.
"""

from __future__ import annotations

import numpy as np

from opendp_optimal.certify.endless import PureTail
from opendp_optimal.certify.noise import LARGEST_SCALE, DualCertificate
from opendp_optimal.certify.spike import Spike
from opendp_optimal.errors import TableFormatError
from opendp_optimal.losses.base import LatticeCost, Loss
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.table.files.container import Arrays, Header, Kind, bounds
from opendp_optimal.table.noise import MOST_CELLS, NoiseTable

_VERSION, _SPIKED = 1, 2
_PRICES = ("shifts", "budget", "slack", "order", "tail")


def _parts(table: NoiseTable) -> tuple[Header, Arrays]:
    dual = table.dual
    arrays = {"weights": table.weights, **{name: getattr(dual, name) for name in _PRICES}}
    if table.tail is not None:
        arrays["endless"] = np.array(
            [table.tail.weight, table.tail.again, *table.tail.weights], np.int64
        )
    header: Header = {
        "version": _VERSION if table.spike is None else _SPIKED,
        "problem": table.problem.describe(),
        "cells": table.cells,
        "atom": table.atom,
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
        "dual_cells": dual.cells,
        "mirrored": dual.mirrored,
        "scale": dual.scale,
    }
    if table.spike is not None:
        header["spike"] = [table.spike.weight, table.spike.parts]
    if table.costs is not None:
        header["costs"] = [_cost_header(cost) for cost in table.costs]
    return header, arrays


def _build(header: Header, arrays: Arrays, loss: Loss | None) -> NoiseTable:
    dual = DualCertificate(
        cells=int(header["dual_cells"]),
        mirrored=bool(header["mirrored"]),
        scale=int(header["scale"]),
        **{name: arrays[name] for name in _PRICES},
    )
    cells = int(header["cells"])
    lattices = (cells, dual.cells)
    if abs(dual.scale) > LARGEST_SCALE or min(lattices) < 1 or max(lattices) > MOST_CELLS:
        raise TableFormatError("a lattice is out of range")
    tail = None
    if "endless" in arrays:
        endless = arrays["endless"]
        tail = PureTail(int(endless[0]), endless[2:], int(endless[1]))
    spike = None
    if header["version"] == _SPIKED:
        weight, parts = header["spike"]
        spike = Spike(int(weight), int(parts))
    problem = NoiseProblem.from_description(header["problem"], loss)
    if (tail is not None) != (problem.delta == 0):
        raise TableFormatError("endless noise and delta 0 go together")
    costs = None
    if "costs" in header:
        first, second = (_cost(cost) for cost in header["costs"])
        costs = (first, second)
    if (costs is not None) != problem.loss.by_samples:
        raise TableFormatError("costs and a user's own loss go together")
    return NoiseTable(
        problem=problem,
        cells=cells,
        weights=arrays["weights"],
        atom=int(header["atom"]),
        dual=dual,
        **bounds(header),
        tail=tail,
        costs=costs,
        spike=spike,
    )


def _cost_header(cost: LatticeCost) -> Header:
    return {
        "upper": [str(v) for v in cost.upper],
        "lower": [str(v) for v in cost.lower],
        "atom": str(cost.atom),
        "denominator": str(cost.denominator),
    }


def _cost(header: Header) -> LatticeCost:
    denominator = int(header["denominator"])
    if denominator < 1:
        raise TableFormatError("costs must be divided by something positive")
    return LatticeCost(
        [int(v) for v in header["upper"]],
        [int(v) for v in header["lower"]],
        int(header["atom"]),
        denominator,
    )


KIND: Kind[NoiseTable] = Kind(
    name="noise",
    magic=b"ODPNOISE",
    versions=(_VERSION, _SPIKED),
    problem=NoiseProblem,
    parts=_parts,
    build=_build,
    sizes=("cells",),
    own_losses=True,
)

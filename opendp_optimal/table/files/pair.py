"""Files of pair tables, version 1."""

from __future__ import annotations

from opendp_optimal.certify.pair import PairDual
from opendp_optimal.losses.base import Loss
from opendp_optimal.problem.pair import PairProblem
from opendp_optimal.table.files.container import Arrays, Header, Kind, bounds
from opendp_optimal.table.pair import PairTable

_VERSION = 1
_PRICES = ("moves", "budget", "slack")


def _parts(table: PairTable) -> tuple[Header, Arrays]:
    dual = table.dual
    header: Header = {
        "version": _VERSION,
        "problem": table.problem.describe(),
        "cells": table.cells,
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
        "dual_cells": dual.cells,
        "reach": dual.reach,
        "scale": dual.scale,
    }
    return header, {"weights": table.weights, **{name: getattr(dual, name) for name in _PRICES}}


def _build(header: Header, arrays: Arrays, loss: Loss | None) -> PairTable:
    dual = PairDual(
        cells=int(header["dual_cells"]),
        reach=int(header["reach"]),
        scale=int(header["scale"]),
        **{name: arrays[name] for name in _PRICES},
    )
    return PairTable(
        problem=PairProblem.from_description(header["problem"], loss),
        cells=int(header["cells"]),
        weights=arrays["weights"],
        dual=dual,
        **bounds(header),
    )


KIND: Kind[PairTable] = Kind(
    name="pair",
    magic=b"ODPPAIRS",
    versions=(_VERSION,),
    problem=PairProblem,
    parts=_parts,
    build=_build,
    sizes=("cells",),
)

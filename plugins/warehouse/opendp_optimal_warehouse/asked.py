"""What is asked for in a release, checked: keys, measured columns, quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from opendp_optimal.extend import design_quantiles
from opendp_optimal_warehouse.expressions import col
from opendp_optimal_warehouse.given import constants
from opendp_optimal_warehouse.grids import bins_of, grid_of
from opendp_optimal_warehouse.kinds import Kind, check_constants, kind_of
from opendp_optimal_warehouse.layout import Cut, Key, Layout, Measured

STEPS = 1 << 20
"""Whole numbers in the range of a column."""
Bounds = Mapping[str, Any]


def secret_key(name: str, kinds: Mapping[str, Kind]) -> Key:
    """A column whose keys only the data have."""
    kind = kind_of(col(name), kinds)
    if not kind.listable:
        raise ValueError(f"names ({name!r}) must be no column of kind {kind.name}")
    return Key(name, kind)


def cut_of(name: str, asked: Any, kinds: Mapping[str, Kind]) -> Cut:
    """A column whose quantiles are asked for."""
    kind = _number_kind(name, kinds)
    if not isinstance(asked, tuple | list) or len(asked) != 3:
        raise ValueError(f"quantiles[{name!r}] ({asked!r}) must be (low, high, [probabilities])")
    low, high, wanted = asked
    design = design_quantiles(wanted, Fraction(1))  # for its checks
    grid = bins_of(f"quantiles[{name!r}]", (low, high), kind)
    return Cut(name, kind, grid, (float(low), float(high)), design.wanted)


def check_answers(layout: Layout) -> None:
    """Every column of the answer has a name of its own."""
    found = [key.name for key in layout.keys]
    found += ["people"] * layout.people + ["count"] * layout.count
    for column in layout.columns:
        flags = {"sum": column.total, "mean": column.mean, "variance": column.spread}
        found += [f"{column.name}_{what}" for what, asked in flags.items() if asked]
    ends = ("", "_accuracy", "_lower", "_upper")
    told = found[: len(layout.keys)]
    told += [f"{name}{end}" for name in found[len(layout.keys) :] for end in ends]
    told += [f"{c.name}_{p!r}{end}" for c in layout.cuts for p in c.wanted for end in ends]
    twice = sorted({name for name in told if told.count(name) > 1})
    if twice:
        raise ValueError(
            f"the answer would have two columns {twice[0]!r}: derive one with a new name"
        )


def _number_kind(name: str, kinds: Mapping[str, Kind]) -> Kind:
    kind = kind_of(col(name), kinds)
    if kind.name not in ("whole", "float", "boolean"):
        raise ValueError(f"column ({name!r}) must hold numbers, not {kind.name}")
    return kind


def key_of(name: str, values: Any, kinds: Mapping[str, Kind]) -> Key:
    """A column with public keys."""
    kind = kind_of(col(name), kinds)
    found = check_constants("keys", constants("keys", values), kind)
    if len(set(found)) != len(found):
        raise ValueError(f"keys of {name} must be different from each other")
    return Key(name, kind, found)


def measured_of(
    name: str, kinds: Mapping[str, Kind], asked: Mapping[str, Bounds], clip: Bounds | None
) -> Measured:
    """A column of numbers, with the bounds that all that is asked of it agrees on."""
    kind = _number_kind(name, kinds)
    given = {what: bounds[name] for what, bounds in asked.items() if name in bounds}
    if len({repr(tuple(b) if isinstance(b, list) else b) for b in given.values()}) > 1:
        raise ValueError(f"bounds of {name} must be the same in {' and '.join(given)}")
    what, bounds = next(iter(given.items()))
    told = f"{what}[{name!r}]"
    flags = "means" in given, "sums" in given, "variances" in given
    if clip is None:
        return Measured(name, kind, grid_of(told, bounds, STEPS), *flags)
    if name not in clip:
        raise ValueError(f"clip_per_person(sum=...) must have bounds for {name!r}")
    person = grid_of(f"sum[{name!r}]", clip[name], STEPS)
    row = grid_of(told, bounds, STEPS, within=clip[name])
    return Measured(name, kind, row, *flags, person)

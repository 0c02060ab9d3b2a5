"""What the engine answered, as arrays: a row for each group. It is private still."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_warehouse.aggregate import CHOSEN, GROUP, LARGEST_SUM, day_number, key_names
from opendp_optimal_warehouse.kinds import Kind
from opendp_optimal_warehouse.layout import Key, Layout

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Counted:
    """The integers of every group.

    :param keys: of the groups as the engine has them, one tuple each; public ones in their order
    :param totals: a row for each group, a column for each integer; sums are centred
    :param chosen: what keys of the data are chosen by
    :param bins: group, bin and number of rows for each column whose quantiles are asked for
    """

    keys: list[tuple[Any, ...]]
    totals: Integers
    chosen: Integers | None
    bins: tuple[tuple[Integers, Integers, Integers], ...]


def counted(found: Any, bins: list[Any], layout: Layout) -> Counted:
    """What the engine answered, in order.

    :param found: integers of groups, an Arrow table; none where none are asked for
    :param bins: numbers of rows in bins, an Arrow table for each column
    :param layout: of the release
    """
    if layout.secret:
        keys = _keys(found, layout)
    else:
        keys = list(itertools.product(*map(_as_sent, layout.keys)))
    places = {key: at for at, key in enumerate(keys)} if layout.raw else {}
    totals = np.zeros((len(keys), len(layout.totals)), np.int64)
    if found is not None:
        kept, place = _places(found, layout, places)
        for at in range(len(layout.totals)):
            totals[place, at] = found[f"total{at}"].to_numpy()[kept]
    chosen = found[CHOSEN].to_numpy().astype(np.int64) if layout.secret else None
    tables = []
    for table in bins:
        kept, place = _places(table, layout, places)
        sides = [table[name].to_numpy().astype(np.int64)[kept] for name in ("bin", "number")]
        tables.append((place, sides[0], sides[1]))
    return Counted(keys, _centred(totals, layout), chosen, tuple(tables))


def totals_from(found: Any, layout: Layout) -> Integers:
    """The integers alone, a row for each group.

    :param found: integers of groups, an Arrow table
    :param layout: of the release
    """
    return counted(found, [], layout).totals


def _places(found: Any, layout: Layout, places: dict[Any, int]) -> tuple[Any, Integers]:
    """Which rows of an answer are of groups that are asked for, and which groups these are."""
    if not layout.keys:
        return slice(None), np.zeros(len(found), np.int64)
    if not layout.raw:
        return slice(None), found[GROUP].to_numpy().astype(np.int64)
    known = np.array([places.get(key, -1) for key in _keys(found, layout)], np.int64)
    kept = known >= 0
    return kept, known[kept]


def _keys(found: Any, layout: Layout) -> list[tuple[Any, ...]]:
    """Keys as the engine has them: texts are bytes, days are whole numbers."""
    columns = [found[name].to_pylist() for name in key_names(layout)]
    return list(zip(*columns, strict=True))


def _as_sent(key: Key) -> list[Any]:
    """Public keys as the engine has them."""
    values = key.values or ()
    if key.kind.name == "text":
        return [value.encode() for value in values]
    return [day_number(value) for value in values] if key.kind.name == "date" else list(values)


def as_shown(values: Iterable[Any], kind: Kind) -> list[Any]:
    """Keys of the engine as they are shown.

    :param values: as the engine has them
    :param kind: of the column
    """
    if kind.name == "text":  # a column of texts may hold bytes that are none
        return [value.decode(errors="replace") for value in values]
    if kind.name == "date":
        return [date(value // 10000, value // 100 % 100, value % 100) for value in values]
    return list(values)


def _centred(totals: Integers, layout: Layout) -> Integers:
    """Sums from the middle of the range, twice."""
    found = totals.copy()
    for at, total in enumerate(layout.totals):
        if total.what in ("sum", "squares"):
            number = totals[:, layout.counted_by(total.column)]
            # In Python's integers: twice a clamped sum may not fit.
            exact = 2 * totals[:, at].astype(object) - total.move * number.astype(object)
            found[:, at] = np.clip(exact, -LARGEST_SUM, LARGEST_SUM).astype(np.int64)
    return found

"""From rows to a handful of integers for each group, in one statement that the engine runs.

Row by row to whole numbers, then as many rows of each person as are allowed, then sums. Which rows
of a person are kept depends on this person's rows alone: they are put in order by a hash of
everything that is used of them, and where hashes agree by these numbers themselves, so that rows
that no order tells apart are equal. ``BETWEEN`` on the row's number: DuckDB rewrites ``<=`` into an
operation that needs memory for all rows of a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import ibis
import numpy as np

from opendp_optimal_warehouse.engine import PRIME, constant, hashed, whole
from opendp_optimal_warehouse.kinds import Kind
from opendp_optimal_warehouse.layout import Key, Layout, Measured

__all__ = ["clip_people", "few_groups", "few_rows", "tally", "totals_from", "whole_rows"]

PERSON, GROUP, SOME, ROWS = "person", "place", "part", "rows"
"""Columns of a table of whole numbers: who, which group, which of the groups that are bounded."""
LARGEST_SUM = 1 << 62
"""Sums are clamped to this: a person moves a clamped sum no farther."""
_DIGITS = "0123456789abcdef"
_HASHED_DIGITS = 7


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: str) -> str:  # type: ignore[empty-body]
    """The engine's own."""


def value_name(at: int) -> str:
    """Of the column with the numbers of a measured column."""
    return f"value{at}"


def whole_rows(table: Any, person: str | None, columns: Mapping[str, Any], layout: Layout) -> Any:
    """Each row as whole numbers: who, which group, where each measured value is in its range.

    Rows without a person, and rows of other groups, are left out.

    :param table: of Ibis
    :param person: column that says whose row it is; none: every row is its own person's
    :param columns: values of Ibis by name, as they are computed with
    :param layout: of the release
    """
    chosen = {value_name(at): _placed(m, columns) for at, m in enumerate(layout.columns)}
    for at, key in enumerate(layout.keys):
        chosen[f"key{at}"] = columns[key.name]
    if person is not None:
        table = table.filter(table[person].notnull())
        chosen[PERSON] = table[person]
    if not chosen:
        chosen[GROUP] = whole(0)
    rows = table.select(**chosen)
    for at, key in enumerate(layout.keys):
        rows = _numbered(rows, at, key)
    places = [rows[f"index{at}"] for at in range(len(layout.keys))]
    kept = {name: rows[name] for name in rows.columns if name == PERSON or name.startswith("value")}
    kept[GROUP] = _combined(places, [len(key.values) for key in layout.keys])
    if layout.groups is not None:
        some = [
            (p, k) for p, k in zip(places, layout.keys, strict=True) if k.name in layout.group_keys
        ]
        kept[SOME] = _combined([p for p, _ in some], [len(k.values) for _, k in some])
    return rows.select(**kept)


def _placed(measured: Measured, columns: Mapping[str, Any]) -> Any:
    """A value's place in its range, from 0 on."""
    place = measured.grid.place(columns[measured.name], measured.kind)
    return place - whole(measured.grid.low)


def _numbered(rows: Any, at: int, key: Key) -> Any:
    """The rows whose key is one of the public ones, with its number."""
    one = ibis.literal(1).name("one").as_table()
    public = one.select(
        known=_listed(key).unnest(),
        # Typed smaller than it is meant, so that the cast to 64 bits is not left out.
        number=ibis.literal(list(range(len(key.values))), "array<int32>").unnest().cast("int64"),
    )
    joined = rows.inner_join(public, rows[f"key{at}"] == public.known)
    kept = {name: rows[name] for name in rows.columns if name != f"key{at}"}
    return joined.select(**kept, **{f"index{at}": public.number})


def _listed(key: Key) -> Any:
    """The values of a key as one array: a thousand constants would take long to write down."""
    typed = {"whole": "array<int64>", "text": "array<string>"}.get(key.kind.name)
    if typed is not None:
        return ibis.literal(list(key.values), typed)
    return ibis.array([constant(value, key.kind) for value in key.values])


def _combined(places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """One number for several, the last one changing fastest."""
    if not places:
        return whole(0)
    return reduce(
        lambda total, more: total * whole(more[1]) + more[0],
        zip(places[1:], sizes[1:], strict=True),
        places[0],
    )


def _salt(rows: Any, person: Kind) -> Any:
    """A number of a person, the same on every engine."""
    who = rows[PERSON]
    if person.name == "whole":
        return (who.cast("int64") % whole(PRIME) + whole(PRIME)) % whole(PRIME)
    digest = md5(who.cast("string"))
    total = whole(0)
    for at in range(_HASHED_DIGITS):
        digit = ibis.literal(_DIGITS).find(digest.substr(at, 1)).cast("int64")
        total = total * whole(16) + digit
    return total


def _shown(rows: Any, layout: Layout) -> list[Any]:
    """Everything that is used of a row, from 0 on; missing values have a number of their own."""
    values = [
        ibis.coalesce(rows[value_name(at)], whole(m.grid.width + 1))
        if m.kind.nullable
        else rows[value_name(at)]
        for at, m in enumerate(layout.columns)
    ]
    return [rows[GROUP], *values]


def few_groups(rows: Any, person: Kind, layout: Layout) -> Any:
    """The rows in so many groups of each person.

    :param rows: whole numbers
    :param person: kind of the column that says who
    :param layout: of the release
    """
    order = [hashed([_salt(rows, person), rows[SOME]]), rows[SOME]]
    place = ibis.dense_rank().over(ibis.window(group_by=rows[PERSON], order_by=order)) + 1
    ranked = rows.mutate(rank=place)
    kept = ranked.filter(ranked.rank.between(1, layout.groups))
    return kept.drop("rank")


def few_rows(rows: Any, person: Kind, layout: Layout) -> Any:
    """So many rows of each person.

    :param rows: whole numbers
    :param person: kind of the column that says who
    :param layout: of the release
    """
    shown = _shown(rows, layout)
    order = [hashed([_salt(rows, person), *shown]), *shown]
    place = ibis.row_number().over(ibis.window(group_by=rows[PERSON], order_by=order)) + 1
    ranked = rows.mutate(rank=place)
    kept = ranked.filter(ranked.rank.between(1, layout.rows))
    return kept.drop("rank")


def clip_people(rows: Any, layout: Layout) -> Any:
    """One record for each person in each group: clipped sums, and a clipped number of rows.

    :param rows: whole numbers
    :param layout: of the release
    """
    found = {}
    for at, measured in enumerate(layout.columns):
        assert measured.person is not None
        low, high = measured.person.low, measured.person.high
        total = (rows[value_name(at)] + whole(measured.grid.low)).sum()
        clipped = ibis.greatest(ibis.least(total, whole(high)), whole(low)) - whole(low)
        # An engine's least of a missing value and a number may be the number.
        found[value_name(at)] = ibis.ifelse(total.isnull(), ibis.null("int64"), clipped)
    if layout.clipped_rows is not None:
        found[ROWS] = ibis.least(rows.count(), whole(layout.clipped_rows))
    return rows.group_by([PERSON, GROUP]).agg(**found)


def tally(rows: Any, layout: Layout) -> Any:
    """The integers of the groups that have any.

    :param rows: whole numbers of which each person has few, or records of people
    :param layout: of the release
    """
    clipped = layout.rows is None
    found = {}
    for at, total in enumerate(layout.totals):
        value: Any = rows[value_name(total.column)] if total.column >= 0 else None
        if total.what == "people":
            number = rows.count() if clipped else rows[PERSON].nunique()
        elif total.what == "rows":
            number = _clamped(rows[ROWS].sum()) if clipped else rows.count()
        elif total.what == "present":
            number = value.count()
        elif total.what == "sum":
            number = _clamped(value.sum())
        else:
            width = total.move
            square = value * value + whole(width // 2)
            number = _clamped(
                ((square - square % whole(width)) // whole(width)).cast("int64").sum()
            )
        found[f"total{at}"] = number
    if not layout.keys:
        return rows.agg(**found)
    return rows.group_by(GROUP).agg(**found)


def _clamped(total: Any) -> Any:
    most = whole(LARGEST_SUM)
    return ibis.greatest(ibis.least(ibis.coalesce(total, whole(0)), most), -most).cast("int64")


def totals_from(found: Any, layout: Layout) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The integers as an array, a row for each group; sums are centred.

    :param found: what the engine answered, an Arrow table
    :param layout: of the release
    """
    totals = layout.totals
    table = np.zeros((layout.size, len(totals)), np.int64)
    place = found[GROUP].to_numpy() if layout.keys else np.zeros(len(found), np.int64)
    for at in range(len(totals)):
        table[place, at] = found[f"total{at}"].to_numpy()
    centred = table.copy()
    for at, total in enumerate(totals):
        if total.what in ("sum", "squares"):
            counted = table[:, layout.counted_by(total.column)]
            # In Python's integers: twice a clamped sum may not fit.
            exact = 2 * table[:, at].astype(object) - total.move * counted.astype(object)
            centred[:, at] = np.clip(exact, -LARGEST_SUM, LARGEST_SUM).astype(np.int64)
    return centred

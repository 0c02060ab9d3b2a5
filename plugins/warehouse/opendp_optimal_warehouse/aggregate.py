"""From rows to a handful of integers for each group, which the engine adds up.

Row by row to whole numbers, then as many rows of each person as are allowed, then sums. Which rows
of a person are kept depends on this person's rows alone: they are put in order by a hash of
everything that is used of them, and where hashes agree by these values themselves, so that rows
that no order tells apart are equal. ``BETWEEN`` on the row's number: DuckDB rewrites ``<=`` into an
operation that needs memory for all rows of a person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import ibis

from opendp_optimal_warehouse.constants import whole
from opendp_optimal_warehouse.engine import bytes_of, engine_of, read_number, value_of
from opendp_optimal_warehouse.expressions import Column, Part
from opendp_optimal_warehouse.grids import PRIME, hashed
from opendp_optimal_warehouse.kinds import Kind
from opendp_optimal_warehouse.layout import Key, Layout
from opendp_optimal_warehouse.public import listed

PERSON, GROUP, SOME, ROWS, CHOSEN = "person", "place", "part", "rows", "chosen"
"""Who, which group, which of the groups that are bounded, how many rows, what chooses keys."""
LARGEST_SUM = 1 << 62
"""Sums are clamped to this: a person moves a clamped sum no farther."""
_DIGITS = "0123456789abcdef"
_HASHED_DIGITS = 7
_LOOSE = 4
"""Whole keys need no list where so many times as many fit between the first and the last."""


@ibis.udf.scalar.builtin  # type: ignore[untyped-decorator]
def md5(text: bytes) -> str:  # type: ignore[empty-body]
    """The engine's own."""


def value_name(at: int) -> str:
    """Of the column with the numbers of a measured column."""
    return f"value{at}"


def bin_name(at: int) -> str:
    """Of the column with the bins of a column whose quantiles are asked for."""
    return f"bin{at}"


def key_names(layout: Layout) -> list[str]:
    """The columns that tell groups apart."""
    if not layout.keys:
        return []
    return [f"key{at}" for at in range(len(layout.keys))] if layout.raw else [GROUP]


def whole_rows(table: Any, person: str | None, columns: Mapping[str, Any], layout: Layout) -> Any:
    """Each row as whole numbers: who, which group, where each measured value is in its range.

    Rows without a person, rows without a key, and rows of other groups are left out.

    :param table: of Ibis
    :param person: column that says whose row it is; none: every row is its own person's
    :param columns: values of Ibis by name, as they are computed with
    :param layout: of the release
    """
    if person is not None:
        table = table.filter(table[person].notnull())
    chosen: dict[str, Any] = {}
    asked: list[tuple[str, Any]] = [
        *((value_name(at), m) for at, m in enumerate(layout.columns)),
        *((bin_name(at), cut) for at, cut in enumerate(layout.cuts)),
    ]
    for name, one in asked:
        number = read_number(table, columns, one.name, one.kind)
        chosen[name] = one.grid.place(number, one.kind) - whole(one.grid.low)
    for at, key in enumerate(layout.keys):
        value = columns[key.name]
        days = layout.raw and key.kind.name == "date"
        chosen[f"key{at}"] = _day(value, key.kind) if days else value
    if person is not None:
        who = table[person]
        numeric = who.type().is_integer()
        chosen[PERSON] = who.cast("int64") if numeric else bytes_of(who, engine_of(table))
    if not chosen:
        chosen[GROUP] = whole(0)
    rows = table.select(**chosen)
    if layout.raw:
        for at, key in enumerate(layout.keys):
            rows = _known(rows, at, key)
        return rows
    for at, key in enumerate(layout.keys):
        rows = _numbered(rows, at, key)
    places = [rows[f"index{at}"] for at in range(len(layout.keys))]
    kept = {name: rows[name] for name in rows.columns if not name.startswith("index")}
    kept[GROUP] = _combined(places, [len(key.values or ()) for key in layout.keys])
    if layout.groups is not None:
        some = [
            (p, k) for p, k in zip(places, layout.keys, strict=True) if k.name in layout.group_keys
        ]
        kept[SOME] = _combined([p for p, _ in some], [len(k.values or ()) for _, k in some])
    return rows.select(**kept)


def _known(rows: Any, at: int, key: Key) -> Any:
    """The rows whose key is one of the public ones, or there at all."""
    value, kind, values = rows[f"key{at}"], key.kind, key.values
    if values is None:
        return rows.filter(value.notnull())
    if kind.name == "date":
        kind, values = Kind("whole"), tuple(day_number(day) for day in values)
    if kind.name == "whole":
        low, high = min(values), max(values)
        if high - low < _LOOSE * len(values):  # few others: they are left out afterwards
            return rows.filter(value.between(whole(low), whole(high)))
    public = listed(rows.get_backend(), {"known": (kind, values)})
    return rows.semi_join(public, value == public.known)


def day_number(day: Any) -> int:
    """A day as a whole number: its digits."""
    return int(day.year * 10000 + day.month * 100 + day.day)


def _day(value: Any, kind: Kind) -> Any:
    """The same in the engine; missing outside the years 1 to 9999."""
    year, month, day = (
        value_of(Part(Column("it"), part), {"it": value}, {"it": kind})
        for part in ("year", "month", "day")
    )
    return (year * whole(100) + month) * whole(100) + day


def _numbered(rows: Any, at: int, key: Key) -> Any:
    """The rows whose key is one of the public ones, with its number."""
    assert key.values is not None
    numbers = Kind("whole"), tuple(range(len(key.values)))
    public = listed(rows.get_backend(), {"known": (key.kind, key.values), "number": numbers})
    joined = rows.inner_join(public, rows[f"key{at}"] == public.known)
    kept = {name: rows[name] for name in rows.columns if name != f"key{at}"}
    return joined.select(**kept, **{f"index{at}": public.number})


def _combined(places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """One number for several, the last one changing fastest."""
    if not places:
        return whole(0)
    return reduce(
        lambda total, more: total * whole(more[1]) + more[0],
        zip(places[1:], sizes[1:], strict=True),
        places[0],
    )


def _mark(value: Any, kind: Kind) -> Any:
    """A number below 2^31 of a value that is there, the same on every engine."""
    if kind.name in ("whole", "date"):
        return (value % whole(PRIME) + whole(PRIME)) % whole(PRIME)
    if kind.name == "boolean":
        return ibis.ifelse(value, whole(1), whole(0))
    digest = md5(value)
    total = whole(0)
    for at in range(_HASHED_DIGITS):
        digit = ibis.literal(_DIGITS).find(digest.substr(at, 1)).cast("int64")
        total = total * whole(16) + digit
    return total


def _group_order(rows: Any, layout: Layout, some: bool) -> tuple[list[Any], list[Any]]:
    """What tells groups apart: numbers for a hash, and values that settle ties."""
    if not layout.raw:
        number = rows[SOME if some else GROUP] if layout.keys else whole(0)
        return [number], [number] if layout.keys else []
    taken = [
        (rows[f"key{at}"], key.kind)
        for at, key in enumerate(layout.keys)
        if not some or key.name in layout.group_keys
    ]
    return [_mark(value, kind) for value, kind in taken], [value for value, _ in taken]


def _used(rows: Any, layout: Layout) -> list[Any]:
    """The numbers that are used of a row, from 0 on; missing ones have a number of their own."""
    found = []
    for name, kind, grid in [
        *((value_name(at), m.kind, m.grid) for at, m in enumerate(layout.columns)),
        *((bin_name(at), cut.kind, cut.grid) for at, cut in enumerate(layout.cuts)),
    ]:
        value = rows[name]
        found.append(ibis.coalesce(value, whole(grid.width + 1)) if kind.nullable else value)
    return found


def few_groups(rows: Any, person: Kind, layout: Layout) -> Any:
    """The rows in so many groups of each person.

    :param rows: whole numbers
    :param person: kind of the column that says who
    :param layout: of the release
    """
    marked = _marked(rows, person, _group_order(rows, layout, some=True)[0])
    window = _window(marked, _group_order(marked, layout, some=True)[1])
    ranked = marked.mutate(rank=ibis.dense_rank().over(window) + 1)
    return ranked.filter(ranked["rank"].between(1, layout.groups)).select(rows.columns)


def few_rows(rows: Any, person: Kind, layout: Layout) -> Any:
    """So many rows of each person.

    :param rows: whole numbers
    :param person: kind of the column that says who
    :param layout: of the release
    """
    groups = _group_order(rows, layout, some=False)[0]
    marked = _marked(rows, person, [*groups, *_used(rows, layout)])
    ties = [*_group_order(marked, layout, some=False)[1], *_used(marked, layout)]
    ranked = marked.mutate(rank=ibis.row_number().over(_window(marked, ties)) + 1)
    return ranked.filter(ranked["rank"].between(1, layout.rows)).select(rows.columns)


def _marked(rows: Any, person: Kind, numbers: list[Any]) -> Any:
    """The rows with the number that they are put in order by."""
    return rows.mutate(hash=hashed(_mark(rows[PERSON], person), numbers))


def _window(marked: Any, ties: list[Any]) -> Any:
    """The rows of each person in order."""
    square = marked["hash"] * marked["hash"] % whole(PRIME)
    return ibis.window(group_by=marked[PERSON], order_by=[square, *ties])


def clip_people(rows: Any, layout: Layout) -> Any:
    """One record for each person in each group: clipped sums, and a clipped number of rows.

    :param rows: whole numbers
    :param layout: of the release
    """
    found = {}
    for at, measured in enumerate(layout.columns):
        assert measured.person is not None
        low, high = measured.person.low, measured.person.high
        value = rows[value_name(at)] + whole(measured.grid.low)
        if engine_of(rows) == "pyspark":  # other engines add whole numbers up with more bits
            value = value.cast("decimal(38, 0)")
        total = value.sum()
        clipped = ibis.greatest(ibis.least(total, whole(high)), whole(low)) - whole(low)
        # An engine's least of a missing value and a number may be the number.
        found[value_name(at)] = ibis.ifelse(total.isnull(), ibis.null("int64"), clipped).cast(
            "int64"
        )
    if layout.clipped_rows is not None:
        found[ROWS] = ibis.least(rows.count(), whole(layout.clipped_rows))
    return rows.group_by([PERSON, *key_names(layout)]).agg(**found)


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
    if layout.secret:
        found[CHOSEN] = rows.count() if clipped or layout.alone else rows[PERSON].nunique()
    if not layout.keys:
        return rows.agg(**found)
    return rows.group_by(key_names(layout)).agg(**found)


def histogram(rows: Any, layout: Layout, at: int) -> Any:
    """How many rows of each group are in each bin of a column.

    :param rows: whole numbers of which each person has few
    :param layout: of the release
    :param at: which of the cuts
    """
    there = rows.filter(rows[bin_name(at)].notnull())
    by = {name: there[name] for name in key_names(layout)}
    return there.group_by(bin=there[bin_name(at)], **by).agg(number=there.count())


def _clamped(total: Any) -> Any:
    most = whole(LARGEST_SUM)
    return ibis.greatest(ibis.least(ibis.coalesce(total, whole(0)), most), -most).cast("int64")

"""The integers of a release, natively in Polars: written apart from what the engines are asked."""

import hashlib
from datetime import date, datetime
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub

import polars as pl

from opendp_optimal_warehouse import expressions as e

SIGNS = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge, "+": add, "-": sub, "*": mul}
PRIME = 2**31 - 1


def value(x, kinds):
    """An expression as one of Polars."""
    match x:
        case e.Column():
            kind = kinds[x.name].name
            if kind == "whole":
                return pl.col(x.name).cast(pl.Int64)
            if kind == "float":
                return pl.col(x.name).cast(pl.Float64).fill_nan(None)
            return pl.col(x.name)
        case e.Constant():
            return pl.lit(x.value, pl.Int64)
        case e.Clamp():
            inner = value(x.of, kinds)
            if _is_float(x.of, kinds):
                inner = (inner.clip(-(2.0**53), 2.0**53) - 0.5).ceil().cast(pl.Int64)
            return inner.clip(x.low, x.high)
        case e.Bins():
            inner = value(x.of, kinds)
            return sum((inner >= edge).cast(pl.Int64) for edge in x.edges)
        case e.IsIn():
            inner = value(x.of, kinds)
            return reduce(or_, [inner == pl.lit(v) for v in x.values])
        case e.Lookup():
            inner = value(x.of, kinds)
            return inner.replace_strict(list(x.keys), list(x.values), default=None).cast(pl.Int64)
        case e.IsMissing():
            return value(x.of, kinds).is_null()
        case e.Part():
            inner = value(x.of, kinds)
            is_date = isinstance(x.of, e.Column) and kinds[x.of.name].name == "date"
            ends = (
                (date(1, 1, 1), date(9999, 12, 31))
                if is_date
                else (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
            )
            inside = pl.when(inner.is_between(*ends)).then(inner)
            part = inside.dt.weekday() - 1 if x.part == "weekday" else getattr(inside.dt, x.part)()
            return part.cast(pl.Int64)
        case e.Compare():
            left = value(x.left, kinds)
            constant = isinstance(x.right, e.Constant)
            right = pl.lit(x.right.value) if constant else value(x.right, kinds)
            return SIGNS[x.sign](left, right)
        case e.Both():
            return and_(value(x.left, kinds), value(x.right, kinds))
        case e.Either():
            return or_(value(x.left, kinds), value(x.right, kinds))
        case e.Not():
            return ~value(x.of, kinds)
        case e.Arithmetic():
            return SIGNS[x.sign](value(x.left, kinds), value(x.right, kinds))
        case e.Divide():
            return value(x.of, kinds) // x.by
        case e.Remainder():
            return value(x.of, kinds) % x.by
    raise AssertionError(x)


def _is_float(x, kinds):
    return isinstance(x, e.Column) and kinds[x.name].name == "float"


def place(grid, inner, kind):
    """A value's place in its range."""
    if kind.name != "float" and grid.bits >= 0:
        near = inner.cast(pl.Int64).clip(-(2 ** (62 - grid.bits)), 2 ** (62 - grid.bits))
        placed = (near * 2**grid.bits).clip(grid.low, grid.high)
    else:
        real = inner.cast(pl.Float64).clip(-(2.0**grid.reach), 2.0**grid.reach)
        placed = (real * 2.0**grid.bits - 0.5).ceil().cast(pl.Int64).clip(grid.low, grid.high)
    return placed - grid.low


def hashed(person, numbers):
    """The hash that rows are put in order by."""

    def mixed(h, number):
        return ((h + number) * 1_031_831_647 + 715_225_739) % PRIME

    row = reduce(mixed, numbers, pl.lit(715_225_739, pl.Int64))
    own = mixed(pl.lit(715_225_739, pl.Int64), person) % (PRIME - 1) + 1
    both = (row + 1) * own % PRIME
    return both * both % PRIME


def digest(text):
    """The first digits of an MD5 digest, as a number."""
    return int(hashlib.md5(text.encode()).hexdigest()[:7], 16)


def marks(series):
    """A number of every value, none of which is missing."""
    if series.dtype == pl.String:
        return pl.Series([digest(text) for text in series], dtype=pl.Int64)
    return pl.Series([int(number) % PRIME for number in series], dtype=pl.Int64)


def raw_key(name, kind):
    """A key as groups are told apart by it: days as their digits."""
    if kind.name != "date":
        return pl.col(name)
    year, month, day = (
        value(e.Part(e.Column(name), part), {name: kind}) for part in ("year", "month", "day")
    )
    return year * 10000 + month * 100 + day


def keyed(frame, layout):
    """The rows of known groups: what tells groups apart, and which of it bounds people's groups."""
    if layout.raw:
        names = [f"key{at}" for at in range(len(layout.keys))]
        raw = [raw_key(k.name, k.kind).alias(n) for n, k in zip(names, layout.keys, strict=True)]
        frame = frame.with_columns(raw).drop_nulls(names)
        for name, key in zip(names, layout.keys, strict=True):
            if key.values is not None:
                listed = key.values
                if key.kind.name == "date":
                    listed = [v.year * 10000 + v.month * 100 + v.day for v in key.values]
                frame = frame.filter(pl.col(name).is_in(list(listed)))
        some = [n for n, k in zip(names, layout.keys, strict=True) if k.name in layout.group_keys]
        return frame, names, some
    index, some = pl.lit(0, pl.Int64), pl.lit(0, pl.Int64)
    for at, key in enumerate(layout.keys):
        numbers = pl.DataFrame(
            {
                "k": pl.Series(list(key.values), dtype=frame[key.name].dtype),
                "n": range(len(key.values)),
            },
            schema_overrides={"n": pl.Int64},
        )
        frame = frame.join(numbers, left_on=key.name, right_on="k", how="inner").rename(
            {"n": f"#{at}"}
        )
        index = index * len(key.values) + pl.col(f"#{at}")
        if key.name in layout.group_keys:
            some = some * len(key.values) + pl.col(f"#{at}")
    return frame.with_columns(index.alias("g"), some.alias("s")), ["g"], ["s"]


def joined(frame, public, on):
    """Left of a public table of unique keys."""
    there = pl.DataFrame(public.lists).rename({public.key: on})
    return frame.join(there, on=on, how="left", maintain_order="left")


def groups(frame, kinds, person, plan, layout):
    """The integers of every group that has any, and its bins, by what tells groups apart."""
    if plan.public is not None:
        frame = joined(frame, plan.public, "town")
    for name, what in plan.derived.items():
        frame = frame.with_columns(value(what, kinds).alias(name))
    for predicate in plan.wheres:
        frame = frame.filter(value(predicate, kinds))
    if person is not None:
        frame = frame.filter(pl.col(person).is_not_null())
    frame, by, some = keyed(frame, layout)
    measured = [(f"v{at}", m) for at, m in enumerate(layout.columns)]
    cut = [(f"b{at}", c) for at, c in enumerate(layout.cuts)]
    placed = [
        (n, place(m.grid, value(e.Column(m.name), kinds), m.kind), m) for n, m in measured + cut
    ]
    frame = frame.with_columns([inner.alias(name) for name, inner, _ in placed])
    if person is not None:
        frame = frame.with_columns(
            marks(frame[person]).alias("salt"),
            *(marks(frame[n]).alias(f"m{n}") for n in {*by, *some}),
        )
        if layout.groups is not None:
            frame = frame.with_columns(
                hashed(pl.col("salt"), [pl.col(f"m{n}") for n in some]).alias("h")
            )
            frame = frame.with_columns(pl.struct("h", *some).rank("dense").over(person).alias("r"))
            frame = frame.filter(pl.col("r") <= layout.groups)
        if layout.rows is not None:
            used = [pl.col(n).fill_null(m.grid.width + 1) for n, _, m in placed]
            shown = [*(pl.col(f"m{n}") for n in by), *used]
            filled = [c.alias(f"f{i}") for i, c in enumerate(used)]
            frame = frame.with_columns(hashed(pl.col("salt"), shown).alias("h"), *filled)
            frame = frame.sort(person, "h", *by, *[f"f{i}" for i in range(len(used))])
            frame = frame.group_by(person, maintain_order=True).head(layout.rows)
        else:
            clipped = []
            for name, m in measured:
                total = pl.when(pl.col(name).count() > 0).then((pl.col(name) + m.grid.low).sum())
                clipped.append((total.clip(m.person.low, m.person.high) - m.person.low).alias(name))
            count = pl.len().cast(pl.Int64).clip(0, layout.clipped_rows or 0).alias("n")
            frame = frame.group_by(person, *by).agg(*clipped, count)
    found = {}
    for group, part in frame.group_by(by) if layout.keys else [((), frame)]:
        bins = [dict(part[n].drop_nulls().value_counts().iter_rows()) for n, _ in cut]
        found[group] = numbers_of(part, person, layout), bins
    return found


def numbers_of(part, person, layout):
    """The integers of one group, centred."""
    found = []
    for total in layout.totals:
        name = f"v{total.column}"
        if total.what == "people":
            number = part[person].n_unique()
        elif total.what == "rows":
            number = part.height if layout.rows is not None else part["n"].sum()
        elif total.what == "present":
            number = part[name].count()
        elif total.what == "sum":
            number = part[name].sum()
        else:
            width = total.move
            number = sum((v * v + width // 2) // width for v in part[name].drop_nulls())
        found.append(number)
    for at, total in enumerate(layout.totals):
        if total.what in ("sum", "squares"):
            found[at] = 2 * found[at] - total.move * found[layout.counted_by(total.column)]
    return found

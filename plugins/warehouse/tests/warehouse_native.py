"""The integers of a release, natively in Polars: written apart from what the engines are asked."""

import hashlib
from datetime import date, datetime
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub

import numpy as np
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


def hashed(numbers):
    """The hash of the theory."""
    h = pl.lit(715_225_739, pl.Int64)
    for number in numbers:
        h = ((h + number) * 1_031_831_647 + 715_225_739) % PRIME
    return h


def salt(frame, person):
    if frame[person].dtype == pl.String:
        digests = [hashlib.md5(name.encode()).hexdigest()[:7] for name in frame[person]]
        return pl.Series("salt", [int(digest, 16) for digest in digests], pl.Int64)
    return pl.Series("salt", [int(p) % PRIME for p in frame[person]], pl.Int64)


def totals(frame, kinds, person, wheres, derived, layout):
    """The integers of every group, centred; as the plugin's own."""
    for name, what in derived.items():
        frame = frame.with_columns(value(what, kinds).alias(name))
    known = kinds
    for predicate in wheres:
        frame = frame.filter(value(predicate, known))
    if person is not None:
        frame = frame.filter(pl.col(person).is_not_null())
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
    index, some = pl.lit(0, pl.Int64), pl.lit(0, pl.Int64)
    for at, key in enumerate(layout.keys):
        index = index * len(key.values) + pl.col(f"#{at}")
        if key.name in layout.group_keys:
            some = some * len(key.values) + pl.col(f"#{at}")
    values = [
        place(m.grid, value(e.Column(m.name), kinds), m.kind).alias(f"v{at}")
        for at, m in enumerate(layout.columns)
    ]
    names = [f"v{at}" for at in range(len(values))]
    frame = frame.with_columns(index.alias("g"), some.alias("s"), *values)
    if person is not None:
        frame = frame.with_columns(salt(frame, person))
        if layout.groups is not None:
            frame = frame.with_columns(hashed([pl.col("salt"), pl.col("s")]).alias("h"))
            frame = frame.sort(person, "h", "s").with_columns(
                pl.struct("h", "s").rank("dense").over(person).alias("r")
            )
            frame = frame.filter(pl.col("r") <= layout.groups)
        if layout.rows is not None:
            shown = [pl.col("g")] + [
                pl.col(n).fill_null(m.grid.width + 1)
                for n, m in zip(names, layout.columns, strict=True)
            ]
            frame = frame.with_columns(hashed([pl.col("salt"), *shown]).alias("h"))
            filled = [c.alias(f"f{i}") for i, c in enumerate(shown)]
            frame = frame.with_columns(filled).sort(
                person, "h", *[f"f{i}" for i in range(len(shown))]
            )
            frame = frame.group_by(person, maintain_order=True).head(layout.rows)
        else:
            clipped = []
            for name, m in zip(names, layout.columns, strict=True):
                total = pl.when(pl.col(name).count() > 0).then((pl.col(name) + m.grid.low).sum())
                clipped.append((total.clip(m.person.low, m.person.high) - m.person.low).alias(name))
            count = pl.len().cast(pl.Int64).clip(0, layout.clipped_rows or 0).alias("n")
            frame = frame.group_by(person, "g").agg(*clipped, count)
    found = np.zeros((layout.size, len(layout.totals)), np.int64)
    for (group,), part in frame.group_by("g"):
        for at, total in enumerate(layout.totals):
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
            found[group, at] = number
    centred = found.copy()
    for at, total in enumerate(layout.totals):
        if total.what in ("sum", "squares"):
            centred[:, at] = (
                2 * found[:, at] - total.move * found[:, layout.counted_by(total.column)]
            )
    return centred

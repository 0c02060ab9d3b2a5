"""How many rows and groups a person has, followed through a plan.

The privacy unit and every truncation of a plan bound what a person adds: so many rows in each group
by some columns, so many groups by some columns. A bound by a column is lost when the column is
defined anew: then it says nothing of the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opendp_optimal.measure.frames.expressions import as_json, name_of, roots, same_text, unnamed
from opendp_optimal.measure.frames.plan import Plan, Step

LARGEST = 1 << 20
"""Rows of a person, at most."""


@dataclass(frozen=True)
class Limits:
    """What one person adds to the groups of a query.

    :param rows: in all groups
    :param each: rows in one group
    :param groups: number of groups
    :param people: identifiers in one group
    :param sized: whether rows are exchanged, so that the number of all rows is public
    """

    rows: int
    each: int
    groups: int
    people: int = 1
    sized: bool = False


@dataclass(frozen=True)
class _Bound:
    by: frozenset[str]
    columns: frozenset[str]
    rows: int | None
    groups: int | None


def limits_of(plan: Plan, metric: Any, d_in: Any) -> Limits:
    """The limits of one person, or of as many as the unit has.

    :param plan: what was read
    :param metric: of the context
    :param d_in: distance of the context
    :raises ValueError: if nothing bounds what a person adds
    """
    inner = getattr(metric, "inner_metric", metric)
    kind = str(inner.type)
    identified = kind in ("SymmetricIdDistance", "ChangeOneIdDistance")
    plain = ("SymmetricDistance", "InsertDeleteDistance", "ChangeOneDistance", "HammingDistance")
    if kind not in plain and not identified:
        raise ValueError(f"query: the privacy unit ({metric}) must be of contributions or changes")
    unit = _unit(d_in)
    lost: set[str] = set()
    bounds: list[_Bound] = [] if identified else list(unit)
    person = roots(as_json(inner.identifier)) if identified else frozenset()
    for step in plan.steps:
        bounds = _after(step, bounds, person, lost)
        unit = _kept(step, unit, set()) if identified else unit
    keys = {same_text(key) for key in plan.keys}
    twice = 2 if kind in ("ChangeOneDistance", "HammingDistance", "ChangeOneIdDistance") else 1
    people = _people(unit, keys) if identified else (1, 1)
    found = _limits(bounds, keys, people, lost)
    untouched = not any(step.kind in ("filter", "rows", "groups", "person") for step in plan.steps)
    public = twice == 2 and not identified and untouched and not plan.keys
    groups = found.groups * twice if plan.keys else 1
    limits = Limits(found.rows * twice, found.each * twice, groups, people[1] * twice, public)
    if limits.rows > LARGEST:
        raise ValueError(f"query: a person has too many rows ({limits.rows}); truncate further")
    return limits


def intact(plan: Plan, identifier: Any) -> bool:
    """Whether the identifier still tells people apart after all steps.

    :param plan: what was read
    :param identifier: the expression; None where there is none
    """
    if identifier is None:
        return False
    whose = _Bound(frozenset(), roots(as_json(identifier)), 1, None)
    return all(_kept(step, [whose], set()) for step in plan.steps)


def _unit(d_in: Any) -> list[_Bound]:
    """The bounds that the privacy unit states."""
    if isinstance(d_in, Sequence):
        stated = []
        for bound in d_in:
            nodes = [as_json(as_column(key)) for key in bound.by]
            columns = frozenset().union(*(roots(node) for node in nodes))
            texts = frozenset(same_text(node) for node in nodes)
            stated.append(_Bound(texts, columns, bound.per_group, bound.num_groups))
        return stated
    if isinstance(d_in, bool) or not isinstance(d_in, int) or d_in < 1:
        raise ValueError(f"query: the privacy unit's distance ({d_in!r}) must be at least 1")
    return [_Bound(frozenset(), frozenset(), d_in, None)]


def as_column(key: Any) -> Any:
    """An expression; a string is the name of a column."""
    import polars as pl

    return pl.col(key) if isinstance(key, str) else key


def _after(
    step: Step, bounds: list[_Bound], person: frozenset[str], lost: set[str]
) -> list[_Bound]:
    """What is known after a step."""
    if step.defines:
        bounds = _kept(step, bounds, lost)
        _kept(step, [_Bound(frozenset(), person, 1, None)], lost)
    if step.kind in ("filter", "with_columns", "select"):
        return bounds
    if person & lost:
        raise ValueError("query: the identifier was redefined or left out before a truncation")
    nodes = [n for n in step.nodes if not (step.kind == "person" and roots(n) <= person)]
    by = frozenset(same_text(node) for node in nodes)
    columns = frozenset().union(*(roots(node) for node in nodes))
    if step.kind == "groups":
        return [*bounds, _Bound(by, columns, None, step.most)]
    return [*bounds, _Bound(by, columns, 1 if step.kind == "person" else step.most, None)]


def _kept(step: Step, bounds: list[_Bound], lost: set[str]) -> list[_Bound]:
    """The bounds that say something of the columns after a step."""
    if not step.defines:
        return bounds
    new, left = _defined(step)
    kept = [b for b in bounds if not b.columns & new and (left is None or b.columns <= left)]
    lost.update(name for b in bounds if b not in kept for name in b.columns)
    return kept


def _defined(step: Step) -> tuple[frozenset[str], frozenset[str] | None]:
    """The columns that a step defines, and those that it leaves (None: all others)."""
    new: set[str] = set()
    same: set[str] = set()
    for node in (*step.nodes, *step.extra):
        name = name_of(node)
        (same if unnamed(node) == {"Column": name} else new).add(name)
    if step.kind == "with_columns":
        return frozenset(new), None
    return frozenset(new), frozenset(same)


def _people(found: list[_Bound], keys: set[str]) -> tuple[int, int]:
    """How many identifiers a person has, in all and in one group."""
    whole = min((b.rows for b in found if not b.by and b.rows), default=None)
    if whole is None:
        raise ValueError("query: the privacy unit must bound the identifiers of a person overall")
    return whole, min(b.rows for b in found if b.rows and b.by <= keys)


def _limits(
    bounds: list[_Bound], keys: set[str], people: tuple[int, int], lost: set[str]
) -> Limits:
    """The tightest limits that the bounds imply, for groups by some keys."""
    rows = [b.rows for b in bounds if b.rows is not None and not b.by]
    for some in bounds:
        for other in bounds:
            if some.rows is not None and other.groups is not None and some.by <= other.by:
                rows.append(some.rows * other.groups)
    each = [b.rows for b in bounds if b.rows is not None and b.by <= keys] + rows
    groups = [b.groups for b in bounds if b.groups is not None and keys <= b.by] + rows
    groups += [1] if not keys else []
    told = f" (bounds by {', '.join(sorted(lost))} were lost: redefined)" if lost else ""
    if not each:
        raise ValueError(
            "query: nothing bounds the rows of a person in a group; use truncate_per_group" + told
        )
    if not groups:
        raise ValueError(
            "query: nothing bounds the groups of a person; use truncate_num_groups, or bound "
            "contributions by the keys in the privacy unit" + told
        )
    ids, ids_each = people
    most, side = min(each) * ids_each, min(groups) * ids
    total = min([most * side, *(r * ids for r in rows)])
    return Limits(total, min(most, total), min(side, total))

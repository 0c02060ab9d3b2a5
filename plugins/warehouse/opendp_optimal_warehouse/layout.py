"""What a release is made of: which integers, for which groups, and how far a person moves them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from opendp_optimal.extend import Moves
from opendp_optimal_warehouse.grids import Grid
from opendp_optimal_warehouse.kinds import Kind

MOST_GROUPS = 1 << 20


@dataclass(frozen=True)
class Key:
    """A column that groups are made by.

    :param name: of the column
    :param kind: of the column
    :param values: of the groups; public. None: only the data have them
    """

    name: str
    kind: Kind
    values: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Measured:
    """A column of numbers, made whole.

    :param name: of the column
    :param kind: of the column
    :param grid: what a row's value becomes
    :param mean: whether its mean is asked for
    :param total: whether its sum is asked for
    :param spread: whether its variance is asked for
    :param person: where a person's sum in a group is clipped: the grid of that sum
    """

    name: str
    kind: Kind
    grid: Grid
    mean: bool = False
    total: bool = False
    spread: bool = False
    person: Grid | None = None

    @property
    def added(self) -> Grid:
        """The grid of what is added up: rows, or sums of people."""
        return self.grid if self.person is None else self.person


@dataclass(frozen=True)
class Cut:
    """A column whose quantiles are asked for.

    :param name: of the column
    :param kind: of the column
    :param grid: the bins: each is around a multiple of the grid
    :param bounds: values beyond count as these
    :param wanted: probabilities
    """

    name: str
    kind: Kind
    grid: Grid
    bounds: tuple[float, float]
    wanted: tuple[float, ...]


@dataclass(frozen=True)
class Total:
    """One integer of every group.

    :param what: "people", "rows", "present", "sum" or "squares"
    :param column: which measured column, for the last three
    :param move: how far one record moves it, at most
    """

    what: str
    column: int
    move: int


@dataclass(frozen=True)
class Layout:
    """The integers of a release.

    A record is a row, or what a person has in a group where people's sums are clipped. Sums are
    centred: a record adds twice its place in the range, minus the width of the range.

    :param keys: that groups are made by; none: one group of all
    :param columns: that are measured
    :param people: whether people are counted
    :param count: whether rows are counted
    :param rows: of a person, at most; none where sums are clipped
    :param groups: of a person, at most, among the values of ``group_keys``
    :param group_keys: names of the keys that these groups are made by
    :param clipped_rows: rows that a person counts for in a group, at most, where sums are clipped
    :param cuts: columns whose quantiles are asked for
    :param alone: whether every row is its own person's
    """

    keys: tuple[Key, ...]
    columns: tuple[Measured, ...]
    people: bool
    count: bool
    rows: int | None
    groups: int | None
    group_keys: tuple[str, ...] = ()
    clipped_rows: int | None = None
    cuts: tuple[Cut, ...] = ()
    alone: bool = False

    @property
    def secret(self) -> bool:
        """Whether only the data have the keys."""
        return any(key.values is None for key in self.keys)

    @property
    def raw(self) -> bool:
        """Whether groups are told apart by their keys; by a number otherwise."""
        return bool(self.keys) and (self.secret or self.alone)

    @property
    def size(self) -> int | None:
        """Groups in all; none where only the data have the keys."""
        return None if self.secret else math.prod(len(key.values or ()) for key in self.keys)

    @property
    def person_groups(self) -> int | None:
        """Groups that a person can be in; none where nothing bounds them."""
        others = [key for key in self.keys if key.name not in self.group_keys]
        bounds = [self.rows, self.size]
        if self.groups is not None and all(key.values is not None for key in others):
            bounds.append(self.groups * math.prod(len(key.values or ()) for key in others))
        return min((bound for bound in bounds if bound is not None), default=None)

    @property
    def totals(self) -> tuple[Total, ...]:
        """The integers of every group, in order."""
        found = []
        clipped = self.rows is None
        shared = [not column.kind.nullable for column in self.columns]
        if self.people or (clipped and any(shared)):
            found.append(Total("people", -1, 1))
        if self.count or (not clipped and any(shared)):
            most = 1 if not clipped else self.clipped_rows or 1
            found.append(Total("rows", -1, most))
        for at, column in enumerate(self.columns):
            if not shared[at]:
                found.append(Total("present", at, 1))
            found.append(Total("sum", at, column.added.width))
            if column.spread:
                found.append(Total("squares", at, column.added.width))
        return tuple(found)

    @property
    def moves(self) -> Moves:
        """How far one person moves the integers."""
        row = tuple(total.move for total in self.totals)
        groups = self.person_groups
        assert groups is not None
        same: dict[str, Any] = {"groups": groups, "pair": self._is_pair, "weights": self._weights}
        if self.rows is None:
            return Moves(row=row, person=row, rows=groups, **same)
        most = tuple(t.move if t.what == "people" else t.move * self.rows for t in self.totals)
        return Moves(row=row, person=most, rows=self.rows, **same)

    @property
    def _weights(self) -> tuple[float, ...]:
        """What the squared error of each integer counts in all answers, in units of its move.

        A count that is asked for counts as a mean does, on average over all means, in equal noise;
        the count and the sum that a mean is made of, a twelfth and a quarter of that noise; those
        of a sum from 0 up, a quarter each.
        """
        found = []
        for at, total in enumerate(self.totals):
            asked = self.people if total.what == "people" else self.count and total.what == "rows"
            weight = 1 / 3 if asked else 0.0
            for number, column in enumerate(self.columns):
                if total.column == number and total.what in ("sum", "squares"):
                    weight += 1 / 4
                elif self.counted_by(number) == at:
                    weight += (column.mean or column.spread) / 12 + column.total / 4
            found.append(weight or 1 / 12)
        return tuple(found)

    @property
    def _is_pair(self) -> bool:
        """Whether a record moves a count by 1 and one sum with it, or neither."""
        first, *rest = self.totals
        counted = first.what in ("people" if self.rows is None else "rows", "present")
        return counted and [total.what for total in rest] == ["sum"]

    def counted_by(self, column: int) -> int:
        """Which of the integers counts the records of a measured column."""
        whole = "people" if self.rows is None else "rows"
        for at, total in enumerate(self.totals):
            if total.what == "present" and total.column == column:
                return at
        return next(at for at, total in enumerate(self.totals) if total.what == whole)

"""Plans on data: steps, truncations, integers of every group.

Plans run in Polars' streaming engine. Truncations need all rows of a person at once; where there
are many rows, people are divided into classes by a hash, one pass over the data for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.measure.frames.plan import Step, applied

CLASS_ROWS = 5_000_000
"""Rows of the data in a pass, about, where people are truncated."""


_CELL, _GROUP, _ROWS = "\x1fcell", "\x1fgroup", "\x1frows"


@dataclass(frozen=True)
class Collector:
    """Makes the integers of every group from a frame.

    :param steps: of the plan
    :param values: expressions that are counted or added, by name
    :param keys: expressions that groups are made by, by name; text where they are categories
    :param key_frame: the public keys, in the same names; None where there is one group
    :param integers: expressions for the integers of a group
    :param person: the expression that tells people apart; None where there is none
    :param split: whether people may be divided into classes
    """

    steps: tuple[Step, ...]
    values: dict[str, Any]
    keys: dict[str, Any]
    key_frame: Any
    integers: tuple[Any, ...]
    person: Any
    split: bool

    def __call__(self, frame: Any, *, passes: int | None = None) -> Integers:
        """A row of integers for each key.

        :param frame: the data
        :param passes: classes that people are divided into; by the number of rows by default
        """
        if not self.integers:  # nothing but quantiles is asked
            return np.zeros((1 if self.key_frame is None else self.key_frame.height, 0), np.int64)
        return reduce(np.add, map(self._collect, self._classes(frame, passes)))

    def groups(self, frame: Any, *, passes: int | None = None) -> Any:
        """The groups that the data have: a frame with their keys and integers.

        :param frame: the data
        :param passes: classes that people are divided into; by the number of rows by default
        """
        import polars as pl

        parts = [self._groups(some) for some in self._classes(frame, passes)]
        if len(parts) == 1:
            return parts[0]
        return pl.concat(parts).group_by(list(self.keys)).agg(pl.all().sum())

    def histogram(
        self, frame: Any, place: Any, *, passes: int | None = None
    ) -> tuple[Integers, Integers, Integers]:
        """How many rows of each group are in each cell: groups, cells, numbers, in any order.

        :param frame: the data
        :param place: the expression for the cell of a row; rows without one are left out
        :param passes: classes that people are divided into; by the number of rows by default
        """
        import polars as pl

        parts = []
        for some in self._classes(frame, passes):
            rows = self.lazy(some).select(*self.keys, place.alias(_CELL)).drop_nulls(_CELL)
            found = rows.group_by(*self.keys, _CELL).agg(pl.len().cast(pl.Int64).alias(_ROWS))
            parts.append(found.collect(engine="streaming"))
        there = pl.concat(parts)
        if self.key_frame is None:
            there = there.with_columns(pl.lit(0, pl.Int64).alias(_GROUP))
        else:
            numbered = self.key_frame.with_columns(pl.int_range(pl.len()).alias(_GROUP))
            there = there.join(numbered, on=list(self.keys), how="inner", nulls_equal=True)
        group, cells, counts = (there[name].to_numpy() for name in (_GROUP, _CELL, _ROWS))
        return group, cells, counts

    def _classes(self, frame: Any, passes: int | None) -> Iterator[Any]:
        """The rows of some people after those of others."""
        import polars as pl

        many = self._passes(frame) if passes is None else passes
        for number in range(many):
            mine = self.person.hash(0) % pl.lit(many, pl.UInt64) == number if many > 1 else None
            yield frame if mine is None else frame.filter(mine)

    def _groups(self, frame: Any) -> Any:
        groups = self.lazy(frame).group_by(list(self.keys)).agg(self.integers)
        return groups.collect(engine="streaming")

    def _passes(self, frame: Any) -> int:
        import polars as pl

        truncated = any(step.kind in ("rows", "groups", "person") for step in self.steps)
        if not truncated or not self.split or self.person is None:
            return 1
        rows = frame.select(pl.len()).collect(engine="streaming").item()
        return max(1, -(-int(rows) // CLASS_ROWS))

    def lazy(self, frame: Any) -> Any:
        """The rows that are counted: values and keys."""
        for step in self.steps:
            frame = applied(frame, step, self.person)
        named = [value.alias(name) for name, value in {**self.values, **self.keys}.items()]
        return frame.select(named) if named else frame

    def _collect(self, frame: Any) -> Integers:
        if self.key_frame is None:
            found = self.lazy(frame).select(self.integers).collect(engine="streaming")
        else:
            there = self._groups(frame)
            found = self.key_frame.join(
                there, on=list(self.keys), how="left", nulls_equal=True, maintain_order="left"
            ).drop(list(self.keys))
        return whole_numbers(found.fill_null(0))


def whole_numbers(frame: Any) -> Integers:
    """The numbers of a frame, which may have no columns.

    :param frame: of integers
    """
    if not frame.width:
        return np.zeros((frame.height, 0), np.int64)
    whole: Integers = frame.to_numpy().astype(np.int64)
    return whole

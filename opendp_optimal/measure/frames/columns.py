"""From what a query asks to columns of integers, and from noisy columns to answers.

A sum of values within bounds is kept as twice the sum of their distances from the middle of the
bounds, in whole steps: one row moves it by at most the range, where it moves the plain sum by the
larger bound. With the count beside it, sum, mean and variance follow. Values that are missing
(null, NaN) are not counted, and a column that may have such values brings a count of its own;
whether it may is a matter of its domain, never of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.checks import interval
from opendp_optimal.measure.frames.answer import ALPHA, combined_accuracy
from opendp_optimal.measure.frames.expressions import same_text
from opendp_optimal.measure.frames.limits import Limits
from opendp_optimal.measure.frames.moves import MEAN, Moves
from opendp_optimal.measure.frames.noise import TableNoise, rounded
from opendp_optimal.measure.frames.plan import Aggregate
from opendp_optimal.measure.frames.values import (
    EXACT,
    STEPS,
    TINY,
    Value,
    centred,
    share_of,
    there,
    whole,
)

_EACH = 1 / 3
"""What the squared error of a count or a sum counts, in units of what a row moves it: as much as
that of a mean does, in equal noise."""
_VARIANCE = 0.075, 1 / 3, 1 / 4
"""The same of count and doubled sums in a variance: halfway to the largest that each mean has, on
average over all means."""
_WHOLE = float(1 << 32)
"""Sums of integers within larger bounds are floats: they may be longer than 64 bits."""
_LONGEST = float(1 << 62)
"""Whole answers are at most so long."""
_LIGHTEST = 1e-4
"""No column counts less than such a part of the one that counts most."""


@dataclass(frozen=True)
class Asked:
    """One answer: its column, and how it and its accuracy come from noisy columns.

    :param name: of the answer
    :param told: what it is, in words
    :param exact: whether the answer is a whole number
    :param uses: the columns that it comes from
    :param answer: from these columns, as floats
    :param weights: of their noise in the answer, given the noisy columns
    :param costs: what the squared error of each counts, in units of a row's move
    :param limit: no error is larger
    """

    name: str
    told: str
    exact: bool
    uses: tuple[int, ...]
    answer: Callable[..., Floats]
    weights: Callable[..., tuple[Floats, ...]]
    costs: tuple[float, ...]
    limit: float = math.inf


@dataclass
class Table:
    """Columns of integers, with how far a row and a person move each.

    :param limits: of a person
    :param expressions: the integers of a group, as Polars expressions
    :param row: how far one row moves each column
    :param person: how far a person moves each column in one group
    :param asked: the answers
    :param split: whether tables of separate people add up to the table of all
    """

    limits: Limits
    expressions: list[Any] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    person: list[int] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    split: bool = True
    pair: bool = False
    known: dict[Any, int] = field(default_factory=dict)

    def column(self, key: Any, expression: Any, row: int, person: int | None = None) -> int:
        """The place of a column; the same key gives the same column."""
        if key not in self.known:
            self.known[key] = len(self.expressions)
            self.expressions.append(expression.alias(f"{len(self.expressions)}"))
            self.row.append(row)
            self.person.append(row * self.limits.each if person is None else person)
        return self.known[key]

    @property
    def moves(self) -> Moves:
        """How far a person moves the table."""
        most, groups = self.limits.rows, self.limits.groups
        row, person = tuple(self.row), tuple(self.person)
        return Moves(row, person, most, groups, self.pair, weights=self._weights)

    @property
    def _weights(self) -> tuple[float, ...]:
        """What the error of each column counts in all answers."""
        costs = np.zeros(len(self.row))
        for one in self.asked:
            np.add.at(costs, list(one.uses), one.costs)
        return tuple(np.maximum(costs, _LIGHTEST * costs.max(initial=0.0)).tolist())

    def answers(self, noise: TableNoise, values: Integers) -> dict[str, Any]:
        """The columns of the answer, by name."""
        whole, above = noise.noisy(values)
        noisy = [whole[:, j] + above[:, j] for j in range(whole.shape[1])]
        found: dict[str, Any] = {}
        with np.errstate(all="ignore"):  # bounds may be as wide as floats are
            for one in self.asked:
                used = [noisy[j] for j in one.uses]
                answer: Any = one.answer(*used)
                if not one.exact:
                    answer = np.nan_to_num(answer)
                elif len(one.uses) == 1 and self.row[one.uses[0]] <= 1:
                    answer = whole[:, one.uses[0]] + (above[:, one.uses[0]] >= 0.5)
                else:
                    answer = np.rint(np.clip(answer, -_LONGEST, _LONGEST)).astype(np.int64)
                weights = dict(zip(one.uses, one.weights(*used), strict=True))
                within = combined_accuracy(noise, weights, ALPHA)
                if one.exact:
                    within = rounded(within)
                found[one.name] = answer
                found[f"{one.name}_accuracy"] = np.fmin(within, one.limit)
        return found


def table_of(
    aggregates: tuple[Aggregate, ...],
    values: Mapping[str, Value],
    limits: Limits,
    *,
    sized: bool = False,
    variance: tuple[str, ...] = (),
    identifier: str | None = None,
) -> Table:
    """The columns that a query needs, and its answers.

    :param aggregates: what is asked
    :param values: the columns that are counted or added, by the text of their expression
    :param limits: of a person
    :param sized: whether the number of rows in every group is public
    :param variance: names of means whose variance is asked
    :param identifier: the text of the identifier
    """
    table = Table(limits)
    asks_rows = any(
        a.kind == "len" or (a.kind in ("mean", "count") and not values[same_text(a.value)].gaps)
        for a in aggregates
    )
    for a in aggregates:
        if a.kind in ("sum", "mean"):
            _sum_or_mean(table, a, values[same_text(a.value)], asks_rows or sized, sized)
            if a.name in variance:
                _variance(table, a, values[same_text(a.value)], sized)
        elif a.kind != "quantile":  # which comes from a release of its own
            _count(table, a, values, sized, identifier)
    means = {a.name for a in aggregates if a.kind == "mean"}
    for name in variance:
        if name not in means:
            raise ValueError(f"variance ({name!r}) must name a mean of the query")
    counts = [key for key in table.known if key[0] in ("rows", "numbers")]
    sums = [key for key in table.known if key[0] == "centred"]
    table.pair = len(table.row) == 2 and len(counts) == len(sums) == 1
    if table.pair:
        table.pair = table.row[table.known[counts[0]]] == 1
    if table.pair and table.known[counts[0]] == 1:
        _swap(table)
    return table


def _swap(table: Table) -> None:
    """The count comes first in a pair."""
    for each in (table.expressions, table.row, table.person):
        each.reverse()
    table.asked = [replace(a, uses=tuple(1 - j for j in a.uses)) for a in table.asked]


def _plain(column: Floats) -> Floats:
    return column


def _ones(*columns: Floats) -> tuple[Floats, ...]:
    return tuple(np.ones(len(column)) for column in columns)


def _rows(table: Table, sized: bool) -> int:
    import polars as pl

    fixed = sized or table.limits.sized
    return table.column(("rows",), pl.len().cast(pl.Int64), 0 if fixed else 1)


def _numbers(table: Table, value: Value, sized: bool) -> int:
    """The count of what is added: of rows, or of values where some may be missing."""
    if not value.gaps:
        return _rows(table, sized)
    return table.column(("numbers", value.name), _total(there(value)), 1)


def _total(expression: Any) -> Any:
    """A sum in whole numbers; 0 where there are no rows."""
    import polars as pl

    return expression.cast(pl.Int64).sum()


def _count(
    table: Table, a: Aggregate, values: Mapping[str, Value], sized: bool, identifier: str | None
) -> None:
    import polars as pl

    told = {
        "len": "number of rows",
        "count": "number of values",
        "null_count": "number of nulls",
        "n_unique": "number of different values",
    }
    value = None if a.value is None else values[same_text(a.value)]
    if a.kind == "len" or (a.kind == "count" and value is not None and not value.nulls):
        at = _rows(table, sized)
    else:
        assert value is not None
        column = pl.col(value.name)
        if a.kind == "count":
            plain = "numbers" if not value.nans else "count"
            at = table.column((plain, value.name), _total(column.is_not_null()), 1)
        elif a.kind == "null_count":
            at = table.column(("nulls", value.name), _total(column.is_null()), 1)
        else:
            people = a.value is not None and same_text(a.value) == identifier
            most = table.limits.people if people else table.limits.each
            told["n_unique"] = "number of people" if people else told["n_unique"]
            found = column.n_unique().cast(pl.Int64)
            at = table.column(("unique", value.name), found, 1, most)
            table.split = table.split and people
    table.asked.append(Asked(a.name, told[a.kind], True, (at,), _plain, _ones, (_EACH,)))


def bounds_of(a: Aggregate) -> tuple[float, float]:
    """The bounds of a sum or a mean, checked.

    :param a: the aggregate
    """
    assert a.bounds is not None
    low, high = interval(*a.bounds, names=(f"{a.name}: low", f"{a.name}: high"))
    return float(low), float(high)


def _sum_or_mean(table: Table, a: Aggregate, value: Value, rows: bool, sized: bool) -> None:
    low, high = bounds_of(a)
    beside = rows if not value.gaps else ("numbers", value.name) in table.known
    if a.kind == "sum" and not (beside or table.limits.sized):
        _plain_sum(table, a, value, low, high)
        return
    count = _numbers(table, value, sized)
    steps, expression = centred(value, low, high)
    at = table.column(("centred", value.name, low, high), _total(expression), steps)
    step, middle = (high / 2 - low / 2) / steps * 2, low / 2 + high / 2
    if a.kind == "sum":

        def total(n: Floats, s: Floats) -> Floats:
            return s * (step / 2) + n * middle

        def shares(n: Floats, s: Floats) -> tuple[Floats, ...]:
            return np.full(len(n), middle), np.full(len(n), step / 2)

        largest = max(abs(low), abs(high))
        exact = value.whole and largest <= _WHOLE
        half = high / 2 - low / 2
        costs = _EACH * (middle / largest) ** 2, _EACH * (half / largest) ** 2
        told = f"sum of values in [{low:g}, {high:g}]"
        table.asked.append(Asked(a.name, told, exact, (count, at), total, shares, costs))
        return

    def mean(n: Floats, s: Floats) -> Floats:
        off = np.clip(s / (2 * steps) / np.maximum(n, 1.0), -0.5, 0.5)
        return np.clip(low * (0.5 - off) + high * (0.5 + off), low, high)

    def pulls(n: Floats, s: Floats) -> tuple[Floats, ...]:
        many = np.maximum(n, 1.0)
        return (mean(n, s) - middle) / many, step / 2 / many

    told = f"mean of values in [{low:g}, {high:g}]"
    table.asked.append(Asked(a.name, told, False, (count, at), mean, pulls, MEAN, high - low))


def _plain_sum(table: Table, a: Aggregate, value: Value, low: float, high: float) -> None:
    """A sum without a count: values as they are, 0 where they are missing."""
    import polars as pl

    largest = max(abs(low), abs(high))
    number = pl.col(value.name).cast(pl.Float64, strict=False).clip(low, high)
    exact = value.whole and low == int(low) and high == int(high) and largest <= EXACT
    steps = int(largest) if exact else STEPS
    up = TINY if largest < 1 / TINY else 1.0
    place = number if exact else (number * up * (STEPS / (largest * up))).round()
    at = table.column(("plain", value.name, low, high), _total(whole(value, place, steps)), steps)
    unit = 1.0 if exact else largest / STEPS

    def total(s: Floats) -> Floats:
        return s * unit

    def shares(s: Floats) -> tuple[Floats, ...]:
        return (np.full(len(s), unit),)

    told = f"sum of values in [{low:g}, {high:g}]"
    whole_sum = value.whole and largest <= _WHOLE
    table.asked.append(Asked(a.name, told, whole_sum, (at,), total, shares, (_EACH,)))


def _variance(table: Table, a: Aggregate, value: Value, sized: bool) -> None:
    low, high = bounds_of(a)
    count = _numbers(table, value, sized)
    steps, _ = centred(value, low, high)
    first = table.known["centred", value.name, low, high]
    share = share_of(value, low, high)
    square = whole(value, (share * share * STEPS).round() * 2 - STEPS, STEPS)
    second = table.column(("square", value.name, low, high), _total(square), STEPS)
    half = high / 2 - low / 2

    def shares(n: Floats, s: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
        many = np.maximum(n, 1.0)
        one = np.clip(0.5 + s / (2 * steps) / many, 0, 1)
        return many, one, np.clip(0.5 + q / (2 * STEPS) / many, 0, 1)

    def spread(n: Floats, s: Floats, q: Floats) -> Floats:
        _, one, two = shares(n, s, q)
        return 4 * half * np.clip(two - one * one, 0, one * (1 - one)) * half

    def pulls(n: Floats, s: Floats, q: Floats) -> tuple[Floats, ...]:
        many, one, two = shares(n, s, q)
        scale = 4 * half * half / many
        by_count = scale * ((two - 0.5) - 2 * one * (one - 0.5))
        return by_count, scale * one / steps, scale / (2 * STEPS)

    told = f"variance of values in [{low:g}, {high:g}]"
    uses = count, first, second
    name = f"{a.name}_variance"
    table.asked.append(Asked(name, told, False, uses, spread, pulls, _VARIANCE, half * half))

"""Quantiles of columns in every group, from one release for each column.

A row of the data is a record of one group, and the quantiles of a group cost each of its records so
much (:mod:`opendp_optimal.measure.quantiles`). So one row more or less costs this once, however
many groups there are, and a person costs it as many times as the person has rows in all groups.
Several columns add up. A value's cell is a function of the value alone; missing values have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.exact.numbers import float_down
from opendp_optimal.measure.concentrated import pure_epsilon
from opendp_optimal.measure.frames.columns import bounds_of
from opendp_optimal.measure.frames.expressions import same_text
from opendp_optimal.measure.frames.limits import Limits
from opendp_optimal.measure.frames.noise import Price
from opendp_optimal.measure.frames.plan import Aggregate
from opendp_optimal.measure.frames.values import Value, there
from opendp_optimal.measure.quantiles import (
    MOST_POWER,
    Line,
    QuantileDesign,
    bounds_of_powers,
    design_quantiles,
)
from opendp_optimal.measure.space import is_real
from opendp_optimal.problem.noise import MIN_EPSILON
from opendp_optimal.sample.quantiles import MOST_BINS

BINS = 1 << 14
"""Between the bounds of a column, at most."""
_FINDING = Fraction(1, 10)
"""The share of a column's budget that finds its bounds."""
_EXACT = 1 << 53


@dataclass(frozen=True)
class Candidates(Line):
    """The numbers that a query names.

    :param named: rising
    """

    named: tuple[Any, ...] = ()

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """The candidates."""
        return np.array(self.named, np.int64 if self.whole else np.float64)

    def outward(self, end: float, sign: int) -> Any:
        """The next candidate: where the data lie between two, either may be selected."""
        below = int(np.searchsorted(self.numbers, end, "left"))
        until = int(np.searchsorted(self.numbers, end, "right"))
        at = below - 1 if sign < 0 else until
        return self.named[min(max(at, 0), len(self.named) - 1)]


@dataclass(frozen=True)
class GroupQuantiles:
    """The quantiles of one column.

    :param name: of the column, of the sum or mean whose column it is, or of the first answer
    :param value: the column
    :param line: the candidates; None as long as its bounds are not found
    :param design: for every group
    :param shown: the name of each answer, and which of the quantiles it is
    :param finding: what finding the bounds costs a record
    """

    name: str
    value: Value
    line: Line | None
    design: QuantileDesign
    shown: tuple[tuple[str, int], ...]
    finding: Fraction = Fraction(0)

    @property
    def names(self) -> list[str]:
        """The columns of the answer: each quantile, and the ends of its interval."""
        return [f"{name}{end}" for name, _ in self.shown for end in ("", "_low", "_high")]

    @property
    def power(self) -> Any:
        """The power of two of a row's value, with its sign; null where it is missing."""
        import polars as pl

        number = pl.col(self.value.name).cast(pl.Float64, strict=False)
        powers = pl.lit(pl.Series(2.0 ** np.arange(-1074, 1024)))
        size = powers.search_sorted(number.abs(), "right").cast(pl.Int64)
        place = pl.when(size == 0).then(0).when(number < 0).then(-1 - size).otherwise(1 + size)
        return pl.when(there(self.value)).then(place.cast(pl.Int64)).otherwise(None)

    def bounded(self, histogram: tuple[Any, Any, Any]) -> GroupQuantiles:
        """The same between bounds that are found privately, common to all groups.

        :param histogram: group, power and number of records, in any order
        """
        _, powers, numbers = histogram
        counts = np.zeros(2 * MOST_POWER + 1, np.int64)
        np.add.at(counts, powers + MOST_POWER, numbers)
        low, high = bounds_of_powers(counts, self.value.whole, self.finding)
        if self.value.whole:  # and so are the answers, whatever was found
            low = min(max(low, -_EXACT), _EXACT - 1)
            high = max(min(high, _EXACT), low + 1)
        return replace(self, line=_line(self.value, low, high))

    @property
    def cell(self) -> Any:
        """The cell of a row among the candidates; null where its value is missing."""
        import polars as pl

        assert self.line is not None
        number = pl.col(self.value.name).cast(pl.Float64, strict=False)
        numbers = pl.lit(pl.Series(self.line.numbers.astype(np.float64)))
        inside = number.clip(self.line.low, self.line.high)
        below, until = (numbers.search_sorted(inside, side) for side in ("left", "right"))
        return pl.when(there(self.value)).then((below + until).cast(pl.Int64)).otherwise(None)

    def answers(self, groups: int, histogram: tuple[Any, Any, Any]) -> list[Any]:
        """The quantiles of every group, as Polars columns.

        :param groups: how many there are
        :param histogram: group, cell and number of records, in any order
        """
        import polars as pl

        assert self.line is not None
        group, cells, counts = histogram
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(groups + 1))
        found = []
        for at in range(groups):
            mine = order[ends[at] : ends[at + 1]]
            told = self.design.release(self.line, cells[mine], counts[mine])
            sides = told.values, told.low, told.high
            found.append([side[j] for _, j in self.shown for side in sides])
        kind = pl.Int64 if self.line.whole else pl.Float64
        return [
            pl.Series(name, [row[j] for row in found], dtype=kind)
            for j, name in enumerate(self.names)
        ]


def shared(price: Price, parts: int) -> Price:
    """What each of some parts may cost: the table and every column with quantiles, equally.

    :param price: of all
    :param parts: how many
    """
    if parts < 2:
        return price
    return Price(float_down(Fraction(price.main) / parts), price.delta, price.concentrated)


def quantiles_of(
    wanted: Mapping[str, Sequence[float]],
    aggregates: tuple[Aggregate, ...],
    values: Mapping[str, Value],
    limits: Limits,
    price: Price,
) -> tuple[GroupQuantiles, ...]:
    """The quantiles of some columns, designed: those of the query, and those that are wanted more.

    :param wanted: probabilities, by the name of a sum or mean, or of a column without bounds
    :param aggregates: of the query
    :param values: columns by the text of their expression
    :param limits: of a person
    :param price: of the table and of all quantiles
    :raises ValueError: if a name is no such thing, or the budget is too small
    """
    asked = [*_in_query(aggregates), *_beside(wanted, aggregates, values)]
    table = any(a.kind != "quantile" for a in aggregates)
    part = shared(price, len(asked) + table).main
    epsilon = Fraction(pure_epsilon(part) if price.concentrated else part) / limits.rows
    if asked and epsilon < Fraction(MIN_EPSILON):
        raise ValueError(
            f"quantiles: the budget must leave each row of a person at least {MIN_EPSILON:g}"
        )
    found = []
    for name, text, line, named in asked:
        probabilities = sorted({p for _, p in named})
        shown = tuple((each, probabilities.index(p)) for each, p in named)
        finding = epsilon * _FINDING if line is None else Fraction(0)
        design = design_quantiles(probabilities, epsilon - finding)
        found.append(GroupQuantiles(name, values[text], line, design, shown, finding))
    return tuple(found)


_Asked = tuple[str, str, Line | None, list[tuple[str, float]]]
"""A name, the text of the column, its candidates, and the name and probability of each answer."""


def _in_query(aggregates: tuple[Aggregate, ...]) -> Iterator[_Asked]:
    """Quantiles and medians of the query: those of one column and its candidates together."""
    together: dict[tuple[str, Candidates], list[tuple[str, float]]] = {}
    for a in aggregates:
        if a.kind == "quantile":
            assert a.rank is not None
            known = same_text(a.value), _candidates(a.name, a.candidates)
            together.setdefault(known, []).append((a.name, float(a.rank)))
    for (text, line), named in together.items():
        yield named[0][0], text, line, named


def _beside(
    wanted: Mapping[str, Sequence[float]],
    aggregates: tuple[Aggregate, ...],
    values: Mapping[str, Value],
) -> Iterator[_Asked]:
    """Quantiles of the columns of sums and means, and of columns without bounds."""
    sums = {a.name: a for a in aggregates if a.kind in ("sum", "mean")}
    for name, probabilities in wanted.items():
        design_quantiles(probabilities, Fraction(1))  # raises unless they rise
        text = same_text(sums[name].value if name in sums else {"Column": name})
        line = _line(values[text], *bounds_of(sums[name])) if name in sums else None
        yield name, text, line, [(f"{name}_{p!r}", float(p)) for p in probabilities]


def _candidates(name: str, numbers: tuple[Any, ...]) -> Candidates:
    """Candidates, checked."""
    if not all(map(is_real, numbers)) or not 1 <= len(numbers) <= MOST_BINS:
        raise ValueError(f"query: {name}: candidates must be 1 to {MOST_BINS} numbers")
    whole = all(isinstance(n, int) for n in numbers)
    if not all(math.isfinite(n) for n in numbers) or (whole and max(map(abs, numbers)) > _EXACT):
        raise ValueError(f"query: {name}: candidates must be finite, whole ones up to 2**53")
    if not all(a < b for a, b in pairwise(numbers)):
        raise ValueError(f"query: {name}: candidates must rise")
    return Candidates(numbers[0], numbers[-1], whole, len(numbers), tuple(numbers))


def _line(value: Value, low: Any, high: Any) -> Line:
    ends = int(low), int(high)
    if value.whole and ends == (low, high) and max(abs(low), abs(high)) <= _EXACT:
        return Line(*ends, whole=True, count=min(BINS, ends[1] - ends[0] + 1))
    return Line(float(low), float(high), whole=False, count=BINS)

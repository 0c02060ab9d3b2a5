"""Quantiles of columns in every group, from one release for each column.

A row of the data is a record of one group, and the quantiles of a group cost each of its records so
much (:mod:`opendp_optimal.measure.quantiles`). So one row more or less costs this once, however
many groups there are, and a person costs it as many times as the person has rows in all groups.
Several columns add up. A value's bin is a function of the value alone; missing values have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from opendp_optimal.exact.numbers import float_down
from opendp_optimal.measure.concentrated import pure_epsilon
from opendp_optimal.measure.frames.columns import Value, bounds_of, share_of, there
from opendp_optimal.measure.frames.expressions import same_text
from opendp_optimal.measure.frames.limits import Limits
from opendp_optimal.measure.frames.noise import Price
from opendp_optimal.measure.frames.plan import Aggregate
from opendp_optimal.measure.quantiles import (
    LEAST_EPSILON,
    Line,
    QuantileDesign,
    design_quantiles,
)
from opendp_optimal.sample.quantiles import MOST_BINS

__all__ = ["GroupQuantiles", "quantiles_of", "shared"]

BINS = 1 << 14
"""Between the bounds of a column, at most."""
_EXACT = 1 << 53


@dataclass(frozen=True)
class Candidates(Line):
    """The numbers that a quantile is chosen from; a value is in the bin of the nearest one.

    :param numbers: rising
    """

    numbers: tuple[Any, ...] = ()

    def value(self, at: int) -> Any:
        """The candidate of a bin."""
        return self.numbers[at]

    def outward(self, end: float, sign: int) -> Any:
        """The next candidate: a value in the bin of another one is between both."""
        ends = np.array(self.numbers, np.float64)
        nearest = int(np.searchsorted(ends[:-1] / 2 + ends[1:] / 2, end))
        return self.numbers[min(max(nearest + sign, 0), len(ends) - 1)]


@dataclass(frozen=True)
class GroupQuantiles:
    """The quantiles of one column.

    :param name: of the sum or mean whose column it is, or of the first answer
    :param value: the column
    :param line: its bins
    :param design: for every group
    :param shown: the name of each answer, and which of the quantiles it is
    """

    name: str
    value: Value
    line: Line
    design: QuantileDesign
    shown: tuple[tuple[str, int], ...]

    @property
    def names(self) -> list[str]:
        """The columns of the answer: each quantile, and the ends of its interval."""
        return [f"{name}{end}" for name, _ in self.shown for end in ("", "_low", "_high")]

    @property
    def bin(self) -> Any:
        """The bin of a row; null where its value is missing."""
        import polars as pl

        line = self.line
        number = pl.col(self.value.name).cast(pl.Float64, strict=False)
        if isinstance(line, Candidates):
            ends = np.array(line.numbers, np.float64)
            whole = pl.lit(pl.Series(ends[:-1] / 2 + ends[1:] / 2)).search_sorted(number)
        elif line.whole:
            above = number.clip(line.low, line.high) - line.low
            span = int(line.span)
            whole = above.floor() if line.count == span else (above * (line.count / span)).floor()
        else:
            whole = (share_of(self.value, line.low, line.high) * line.count).floor()
        place = whole.cast(pl.Float64).clip(0, line.count - 1).fill_nan(0).cast(pl.Int64)
        return pl.when(there(self.value)).then(place.fill_null(0)).otherwise(None)

    def answers(self, groups: int, histogram: tuple[Any, Any, Any]) -> list[Any]:
        """The quantiles of every group, as Polars columns.

        :param groups: how many there are
        :param histogram: group, bin and number of records, in any order
        """
        import polars as pl

        group, bins, counts = histogram
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(groups + 1))
        found = []
        for at in range(groups):
            mine = order[ends[at] : ends[at + 1]]
            told = self.design.release(self.line, np.repeat(bins[mine], counts[mine]))
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

    :param wanted: probabilities, by the name of a sum or mean
    :param aggregates: of the query
    :param values: columns by the text of their expression
    :param limits: of a person
    :param price: of the table and of all quantiles
    :raises ValueError: if a name is no sum or mean, or the budget is too small
    """
    asked = [*_in_query(aggregates), *_beside(wanted, aggregates, values)]
    table = any(a.kind != "quantile" for a in aggregates)
    part = shared(price, len(asked) + table).main
    epsilon = Fraction(pure_epsilon(part) if price.concentrated else part) / limits.rows
    if asked and epsilon < Fraction(LEAST_EPSILON):
        raise ValueError(
            f"quantiles: the budget must leave each row of a person at least {LEAST_EPSILON:g}"
        )
    found = []
    for name, text, line, named in asked:
        probabilities = sorted({p for _, p in named})
        shown = tuple((each, probabilities.index(p)) for each, p in named)
        design = design_quantiles(probabilities, epsilon)
        found.append(GroupQuantiles(name, values[text], line, design, shown))
    return tuple(found)


_Asked = tuple[str, str, Line, list[tuple[str, float]]]
"""A name, the text of the column, its bins, and the name and probability of each answer."""


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
    """Quantiles of the columns of sums and means."""
    sums = {a.name: a for a in aggregates if a.kind in ("sum", "mean")}
    for name, probabilities in wanted.items():
        if name not in sums:
            raise ValueError(f"quantiles ({name!r}) must name a sum or a mean of the query")
        design_quantiles(probabilities, Fraction(1))  # raises unless they rise
        text = same_text(sums[name].value)
        line = _line(values[text], *bounds_of(sums[name]))
        yield name, text, line, [(f"{name}_{p!r}", float(p)) for p in probabilities]


def _candidates(name: str, numbers: tuple[Any, ...]) -> Candidates:
    """Candidates, checked."""
    plain = all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
    if not plain or not 1 <= len(numbers) <= MOST_BINS:
        raise ValueError(f"query: {name}: candidates must be 1 to {MOST_BINS} numbers")
    whole = all(isinstance(n, int) for n in numbers)
    if not all(math.isfinite(n) for n in numbers) or (whole and max(map(abs, numbers)) > _EXACT):
        raise ValueError(f"query: {name}: candidates must be finite, whole ones up to 2**53")
    if not all(a < b for a, b in pairwise(numbers)):
        raise ValueError(f"query: {name}: candidates must rise")
    return Candidates(numbers[0], numbers[-1], whole, len(numbers), numbers)


def _line(value: Value, low: float, high: float) -> Line:
    ends = int(low), int(high)
    if value.whole and ends == (low, high) and max(abs(low), abs(high)) <= _EXACT:
        return Line(*ends, whole=True, count=min(BINS, ends[1] - ends[0] + 1))
    return Line(low, high, whole=False, count=BINS)

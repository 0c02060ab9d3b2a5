"""Quantiles of a column in every group, from one release.

A row of the data is a record of one group, and the quantiles of a group cost each of its records so
much (:mod:`opendp_optimal.measure.quantiles`). So one row more or less costs this once, however
many groups there are, and a person costs it as many times as the person has rows in all groups.
Several columns add up. A value's bin is a function of the value alone; missing values have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
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

__all__ = ["GroupQuantiles", "quantiles_of", "shared"]

BINS = 1 << 14
"""Between the bounds of a column, at most."""
_EXACT = 1 << 53


@dataclass(frozen=True)
class GroupQuantiles:
    """The quantiles of one column.

    :param name: of the sum or mean whose column it is
    :param value: the column
    :param line: its bins
    :param design: for every group
    """

    name: str
    value: Value
    line: Line
    design: QuantileDesign

    @property
    def names(self) -> list[str]:
        """The columns of the answer: each quantile, and the ends of its interval."""
        return [f"{self.name}_{p!r}{e}" for p in self.design.wanted for e in ("", "_low", "_high")]

    @property
    def bin(self) -> Any:
        """The bin of a row; null where its value is missing."""
        import polars as pl

        line = self.line
        if line.whole:
            number = pl.col(self.value.name).cast(pl.Float64, strict=False)
            above = number.clip(line.low, line.high) - line.low
            span = int(line.span)
            place = above if line.count == span else above * (line.count / span)
        else:
            place = share_of(self.value, line.low, line.high) * line.count
        whole = place.floor().clip(0, line.count - 1).fill_nan(0).cast(pl.Int64, strict=False)
        return pl.when(there(self.value)).then(whole.fill_null(0)).otherwise(None)

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
            sides = zip(told.values, told.low, told.high, strict=True)
            found.append([end for three in sides for end in three])
        kind = pl.Int64 if self.line.whole else pl.Float64
        return [
            pl.Series(name, [row[j] for row in found], dtype=kind)
            for j, name in enumerate(self.names)
        ]


def shared(price: Price, columns: int) -> Price:
    """What the table may cost beside so many columns of quantiles, and each of them: equal parts.

    :param price: of all
    :param columns: with quantiles
    """
    if not columns:
        return price
    main = float_down(Fraction(price.main) / (columns + 1))
    return Price(main, price.delta, price.concentrated)


def quantiles_of(
    wanted: Mapping[str, Sequence[float]],
    aggregates: tuple[Aggregate, ...],
    values: Mapping[str, Value],
    limits: Limits,
    price: Price,
) -> tuple[GroupQuantiles, ...]:
    """The quantiles of some columns, designed.

    :param wanted: probabilities, by the name of a sum or mean
    :param aggregates: of the query
    :param values: columns by the text of their expression
    :param limits: of a person
    :param price: of the table and of all quantiles
    :raises ValueError: if a name is no sum or mean, or the budget is too small
    """
    named = {a.name: a for a in aggregates if a.kind in ("sum", "mean")}
    part = shared(price, len(wanted)).main
    epsilon = Fraction(pure_epsilon(part) if price.concentrated else part) / limits.rows
    if wanted and epsilon < Fraction(LEAST_EPSILON):
        raise ValueError(
            f"quantiles: the budget must leave each row of a person at least {LEAST_EPSILON:g}"
        )
    found = []
    for name, probabilities in wanted.items():
        if name not in named:
            raise ValueError(f"quantiles ({name!r}) must name a sum or a mean of the query")
        value = values[same_text(named[name].value)]
        line = _line(value, *bounds_of(named[name]))
        found.append(GroupQuantiles(name, value, line, design_quantiles(probabilities, epsilon)))
    return tuple(found)


def _line(value: Value, low: float, high: float) -> Line:
    ends = int(low), int(high)
    if value.whole and ends == (low, high) and max(abs(low), abs(high)) <= _EXACT:
        return Line(*ends, whole=True, count=min(BINS, ends[1] - ends[0] + 1))
    return Line(low, high, whole=False, count=BINS)

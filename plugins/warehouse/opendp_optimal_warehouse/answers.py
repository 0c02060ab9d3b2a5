"""The frame that is released: keys, and for each answer its value, accuracy and interval."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import Candidates, TableNoise, combined_accuracy, count_accuracy
from opendp_optimal_warehouse.counted import Counted, as_shown
from opendp_optimal_warehouse.designs import Designs
from opendp_optimal_warehouse.grids import Grid
from opendp_optimal_warehouse.layout import Cut, Layout

ALPHA = 0.05
"""The chance that an error is larger than the accuracy that stands beside it."""
Floats = NDArray[np.float64]
_KINDS = {"text": "String", "whole": "Int64", "boolean": "Boolean", "date": "Date"}


def frame_of(layout: Layout, designs: Designs, found: Counted) -> Any:
    """The noisy answers of every group; every number in it was drawn with noise.

    :param layout: of the release
    :param designs: of what is drawn
    :param found: the integers
    """
    import polars as pl

    keys, kept, told = found.keys, None, None
    if designs.keys is not None:
        assert found.chosen is not None
        shown, counts = designs.keys.release(found.chosen)
        places = np.flatnonzero(shown)
        kept = np.array(sorted(places.tolist(), key=lambda at: keys[at]), np.int64)
        keys, told = [keys[at] for at in kept], counts[kept]
    sides = zip(*keys, strict=True) if keys else [()] * len(layout.keys)
    series = [
        pl.Series(key.name, as_shown(side, key.kind), getattr(pl, _KINDS[key.kind.name]))
        for key, side in zip(layout.keys, sides if layout.keys else (), strict=True)
    ]
    if designs.alone:
        assert designs.keys is not None
        assert told is not None
        name = "count" if layout.alone else "people"
        within = np.full(len(told), count_accuracy(designs.keys, ALPHA))
        return pl.DataFrame(series + _series(name, told, within))
    if designs.table is not None:
        totals = found.totals if kept is None else found.totals[kept]
        series += _table(layout, designs.table, totals)
    for cut, design, histogram in zip(layout.cuts, designs.cuts, found.bins, strict=True):
        series += _quantiles(cut, design, histogram, np.arange(len(keys)) if kept is None else kept)
    return pl.DataFrame(series)


def _table(layout: Layout, noise: TableNoise, totals: Any) -> list[Any]:
    """Counts, sums, means and variances."""
    whole, above = noise.noisy(totals)
    found = []
    for at, total in enumerate(layout.totals):
        if {"people": layout.people, "rows": layout.count}.get(total.what, False):
            name = "people" if total.what == "people" else "count"
            answer = whole[:, at] + (above[:, at] >= 0.5)
            within = noise.accuracy(at, ALPHA, whole=True)
            found += _series(name, answer, np.full(len(totals), within))
    for at, _ in enumerate(layout.columns):
        found += _measured(layout, noise, whole + above, at)
    return found


def _series(
    name: str, values: Any, accuracy: Floats, ends: tuple[float, float] | None = None
) -> list[Any]:
    """An answer, its accuracy, and the interval that follows."""
    import polars as pl

    low, high = values - accuracy, values + accuracy
    if ends is not None:
        low, high = np.clip(low, *ends), np.clip(high, *ends)
    sides = {"": values, "_accuracy": accuracy, "_lower": low, "_upper": high}
    return [pl.Series(f"{name}{side}", told) for side, told in sides.items()]


def _measured(layout: Layout, noise: TableNoise, noisy: Floats, at: int) -> list[Any]:
    """Sum, mean and variance of a column."""
    column = layout.columns[at]
    grid = column.added
    count_at = layout.counted_by(at)
    places = {t.what: i for i, t in enumerate(layout.totals) if t.column == at}
    count, centred = noisy[:, count_at], noisy[:, places["sum"]]
    step, middle = float(grid.step), _middle(grid)
    ones = np.ones(len(noisy))
    found = []
    if column.total:
        weights = {count_at: middle * ones, places["sum"]: step / 2 * ones}
        total = middle * count + step / 2 * centred
        found += _series(f"{column.name}_sum", total, combined_accuracy(noise, weights, ALPHA))
    records = np.maximum(count, 1.0)
    # From the middle of the range, in halves of its width.
    off = np.clip(centred / (grid.width * records), -1.0, 1.0)
    half = step * grid.width / 2
    if column.mean:
        weights = {count_at: half * off / records, places["sum"]: step / 2 / records}
        accuracy = np.minimum(combined_accuracy(noise, weights, ALPHA), 2 * half)
        mean, ends = middle + half * off, (middle - half, middle + half)
        found += _series(f"{column.name}_mean", mean, accuracy, ends)
    if column.spread:
        second = np.clip(noisy[:, places["squares"]] / (grid.width * records), -1.0, 1.0)
        share, square = (off + 1) / 2, (second + 1) / 2
        spread = np.clip(square - share**2, 0.0, share * (1 - share))
        # What moves the variance: the squares, and twice the mean times the sum.
        squares = {places["squares"]: 0.5 / grid.width / records}
        weights = {
            count_at: (square - 2 * share**2 + share - 0.5) / records,
            places["sum"]: share / grid.width / records,
        }
        parts = [combined_accuracy(noise, part, ALPHA / 2) for part in (squares, weights)]
        size = (2 * half) ** 2
        accuracy = np.minimum(parts[0] + parts[1], 0.25) * size
        found += _series(f"{column.name}_variance", spread * size, accuracy, (0.0, size / 4))
    return found


def _middle(grid: Grid) -> float:
    return float(Fraction(grid.low + grid.high, 2) * grid.step)


def _quantiles(cut: Cut, design: Any, histogram: Any, groups: Any) -> list[Any]:
    """The quantiles of a column in some groups, each with the interval of its rank."""
    import polars as pl

    line, whole = line_of(cut), cut.kind.name == "whole"
    place, bins, numbers = histogram
    order = np.argsort(place, kind="stable")
    sorted_places = place[order]
    starts, ends = (np.searchsorted(sorted_places, groups, side) for side in ("left", "right"))
    told = np.empty((len(groups), len(cut.wanted), 3))
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        mine = order[start:end]
        cells = 2 * bins[mine] + 1  # at the candidate, not between two
        answer = design.release(line, cells, numbers[mine])
        told[at] = np.clip(np.array([answer.values, answer.low, answer.high]).T, *cut.bounds)
    found = []
    for at, p in enumerate(cut.wanted):
        for side, end in enumerate(("", "_lower", "_upper")):
            values = np.rint(told[:, at, side]).astype(np.int64) if whole else told[:, at, side]
            found.append(pl.Series(f"{cut.name}_{p!r}{end}", values))
    return found


def line_of(cut: Cut) -> Candidates:
    """The numbers that quantiles are selected from: the multiples of the grid.

    :param cut: a column whose quantiles are asked for
    """
    grid, whole = cut.grid, cut.kind.name == "whole" and cut.grid.bits <= 0
    numbers = np.arange(grid.low, grid.high + 1)
    unit = 1 << -grid.bits if whole else float(grid.step)
    named = tuple((numbers * unit).tolist())
    return Candidates(named[0], named[-1], whole, len(named), named)

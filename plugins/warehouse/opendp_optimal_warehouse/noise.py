"""Noise on the integers of all groups: one measurement, one price, one frame."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opendp.measures import (
    approximate,
    max_divergence,
)
from opendp.mod import Domain, Measure, Measurement, Metric

from opendp_optimal.extend import (
    Price,
    TableNoise,
    combined_accuracy,
    defer,
    make_measurement,
    record_text,
    table_noise,
    to_then,
)
from opendp_optimal_warehouse.engine import Grid
from opendp_optimal_warehouse.layout import Layout
from opendp_optimal_warehouse.steps import Totals, described, totals_distance

__all__ = ["make_noisy_table", "then_noisy_table"]

ALPHA = 0.05
"""The chance that an error is larger than the accuracy that stands beside it."""
Floats = NDArray[np.float64]


def make_noisy_table(
    input_domain: Domain,
    input_metric: Metric,
    d_in: int,
    d_out: Any,
    *,
    output_measure: Measure | None = None,
) -> Measurement:
    """Make a measurement that releases a table of integers as a Polars frame.

    :param input_domain: of integers that :func:`make_tally` makes
    :param input_metric: how many people moved them
    :param d_in: how many people are hidden: 1
    :param d_out: an epsilon, ``(epsilon, delta)``, or a rho
    :param output_measure: "rho" is meant where it is zero-concentrated
    """
    layout: Layout = described(input_domain, Totals).layout
    if str(input_metric) != str(totals_distance()):
        raise ValueError(f"input_metric ({input_metric}) must be {totals_distance()}")
    if isinstance(d_in, bool) or d_in != 1:
        raise ValueError(f"d_in ({d_in!r}) must be 1: one person is hidden")
    measure = output_measure or (
        approximate(max_divergence()) if isinstance(d_out, tuple) else max_divergence()
    )
    price = price_of(d_out, measure)
    noise = table_noise(layout.moves, price, layout.size)

    def privacy_map(distance: Any) -> Any:
        if distance == 0:
            return (0.0, 0.0) if isinstance(d_out, tuple) else 0.0
        if isinstance(distance, bool) or distance != 1:
            raise ValueError(f"d_in ({distance!r}) must be 1: one person is hidden")
        return d_out

    made = make_measurement(
        input_domain,
        input_metric,
        measure,
        lambda totals: frame_of(layout, noise, totals),
        privacy_map,
        TO="ExtrinsicObject",
        record=record_text("make_noisy_table", d_out),
    )
    made.noise = noise
    return made


then_noisy_table = to_then(make_noisy_table)
make_noisy = defer(make_noisy_table, "make_noisy")


def price_of(d_out: Any, measure: Measure) -> Price:
    """What a release may cost, as the noise is asked for.

    :param d_out: the price
    :param measure: in which it is meant
    """
    main, delta = d_out if isinstance(d_out, tuple) else (d_out, 0.0)
    inner = str(measure)
    return Price(float(main), float(delta), concentrated="Concentrated" in inner)


def frame_of(layout: Layout, noise: TableNoise, totals: Any) -> Any:
    """The noisy answers of every group.

    :param layout: of the release
    :param noise: of the integers
    :param totals: the integers
    """
    import polars as pl

    whole, above = noise.noisy(totals)
    noisy = whole + above
    names = [key.name for key in layout.keys]
    groups = list(itertools.product(*(key.values for key in layout.keys)))
    found = [
        pl.Series(name, list(column))
        for name, column in zip(names, zip(*groups, strict=True), strict=True)
    ]
    for at, total in enumerate(layout.totals):
        asked = {"people": layout.people, "rows": layout.count}.get(total.what, False)
        if asked:
            name = "people" if total.what == "people" else "count"
            answer = whole[:, at] + (above[:, at] >= 0.5)
            found += _series(name, answer, np.full(layout.size, noise.accuracy(at, ALPHA)))
    for at, _ in enumerate(layout.columns):
        found += _measured(layout, noise, noisy, at)
    return pl.DataFrame(found)


def _series(name: str, values: Any, accuracy: Floats) -> list[Any]:
    import polars as pl

    return [pl.Series(name, values), pl.Series(f"{name}_accuracy", accuracy)]


def _measured(layout: Layout, noise: TableNoise, noisy: Floats, at: int) -> list[Any]:
    """Sum, mean and variance of a column."""
    column = layout.columns[at]
    grid = column.added
    count_at = layout.counted_by(at)
    places = {t.what: i for i, t in enumerate(layout.totals) if t.column == at}
    count, centred = noisy[:, count_at], noisy[:, places["sum"]]
    step, middle = float(grid.step), _middle(grid)
    ones = np.ones(layout.size)
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
        found += _series(f"{column.name}_mean", middle + half * off, accuracy)
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
        found += _series(f"{column.name}_variance", spread * size, accuracy)
    return found


def _middle(grid: Grid) -> float:
    return float(Fraction(grid.low + grid.high, 2) * grid.step)

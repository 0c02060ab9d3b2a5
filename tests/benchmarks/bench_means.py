"""Means: the variance of their error beside that of OpenDP's ``dp.mean``, on the same data.

    python tests/benchmarks/bench_means.py [--data DIR] [--releases 30] [--json]

The same Polars query runs in an OpenDP context as it is, and with ``optimal`` around it. Every
group of a frame has the same number of rows and one row is all that a person has, so that each
release has an error for every group. Errors are in units of the range of the bounds, times the rows
of a group. Ends with 1 if a ratio of both variances is below what is wanted.

First one mean at four values of epsilon and delta 1e-6, on average over true means at 0.1, 0.5 and
0.9 of the range; then several columns at epsilon 1, beside ``dp.mean`` of each and beside OpenDP's
Gaussian noise at the rho that OpenDP itself converts to (1, 1e-6). With ``--data``, real incomes
and ages.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from opendp_optimal import optimal

DELTA = 1e-6
MEANS = (0.1, 0.5, 0.9)
BOUNDS = ((0.0, 1.0), (20.0, 80.0))
GROUPS, ROWS = 600, 1_000
"""Groups in a frame, a multiple of twelve, and rows in a group."""
ONE = {1.0: 8.0, 2.0: 9.2, 3.0: 11.3, 4.0: 14.5}
"""Targets for one mean, by epsilon."""
SEVERAL = {2: 18.0, 4: 34.0, 9: 55.0}
"""Targets for several at epsilon 1, by columns."""
GAUSSIAN = {9: 35.0}
"""The same beside Gaussian noise."""


@dataclass(frozen=True)
class Compared:
    """A line of the table.

    :param name: what was asked
    :param peer: the variance of OpenDP's error
    :param ours: that of ``optimal``
    :param target: what the ratio must reach; 0 where none was set
    """

    name: str
    peer: float
    ours: float
    target: float = 0.0

    @property
    def ratio(self) -> float:
        """OpenDP's variance over ours."""
        return self.peer / self.ours


def frame(columns: Sequence[np.ndarray], groups: int) -> pl.LazyFrame:
    """Groups that take turns: each has the values in a row of every column."""
    turns, rows = columns[0].shape
    data = {
        f"x{j}": np.tile(column, (groups // turns, 1)).ravel() for j, column in enumerate(columns)
    }
    return pl.DataFrame({"group": np.repeat(np.arange(groups), rows), **data}).lazy()


def asked(data: pl.LazyFrame, groups: int, bounds: Sequence[tuple[float, float]], loss: Any) -> Any:
    """The mean of every column, by group."""
    rows = data.select(pl.len()).collect().item()
    lengths = [
        dp.polars.Margin(by=("group",), max_length=rows // groups),
        dp.polars.Margin(by=(), max_length=rows),
    ]
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=lengths,
    )
    means = [
        pl.col(f"x{j}").fill_nan(low).fill_null(low).dp.mean((low, high))
        for j, (low, high) in enumerate(bounds)
    ]
    keys = pl.LazyFrame({"group": np.arange(groups)})
    return context.query().group_by("group").agg(*means).with_keys(keys)


def native(query: Any) -> Callable[[pl.LazyFrame], pl.DataFrame]:
    """OpenDP's release; the search for its scale is done once."""
    made = query.resolve()
    return lambda data: made(data).collect()


def ours(query: Any) -> Callable[[pl.LazyFrame], pl.DataFrame]:
    """The release of ``optimal``."""
    made: Callable[[pl.LazyFrame], pl.DataFrame] = optimal(query).resolve()
    return made


def variance(
    release: Callable[[pl.LazyFrame], pl.DataFrame],
    data: pl.LazyFrame,
    columns: Sequence[np.ndarray],
    bounds: Sequence[tuple[float, float]],
    releases: int,
) -> float:
    """Of the error times the rows of a group, in units of the range, on average over columns."""
    squares = []
    for _ in range(releases):
        told = release(data).sort("group")
        for j, (low, high) in enumerate(bounds):
            true = np.resize(columns[j].mean(1), len(told))
            off = (told[f"x{j}"].to_numpy() - true) / (high - low)
            squares.append(np.mean((off * columns[j].shape[1]) ** 2))
    return float(np.mean(squares))


def both(
    columns: Sequence[np.ndarray],
    bounds: Sequence[tuple[float, float]],
    loss: Any,
    peer: Any,
    releases: int,
    groups: int = GROUPS,
) -> tuple[float, float]:
    """Both variances on the same frame."""
    data = frame(columns, groups)
    found = [
        variance(made(asked(data, groups, bounds, price)), data, columns, bounds, releases)
        for made, price in ((native, peer), (ours, loss))
    ]
    return found[0], found[1]


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho that OpenDP converts to (epsilon, delta)."""
    space = dp.atom_domain(T=int), dp.absolute_distance(T=float)

    def made(scale: float) -> Any:
        gaussian = dp.m.make_gaussian(*space, scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), delta)

    scale = dp.binary_search_param(made, 1.0, (epsilon, delta), T=float)
    return float(1 / (2 * scale**2))


def spread(bounds: tuple[float, float], rows: int, first: int = 0) -> np.ndarray:
    """A row of values around each of the means, from one of them on."""
    low, high = bounds
    means = np.roll(MEANS, -first)[:, None]
    return low + (high - low) * (means + 0.05 * np.cos(np.arange(rows) * np.pi))


def one_mean(releases: int) -> list[Compared]:
    """One mean, by epsilon and bounds."""
    lines = []
    for epsilon, target in ONE.items():
        loss = dp.loss_of(epsilon=epsilon, delta=DELTA)
        for bounds in BOUNDS:
            found = both([spread(bounds, ROWS)], [bounds], loss, loss, releases)
            name = f"one mean, epsilon {epsilon:g}, bounds ({bounds[0]:g}, {bounds[1]:g})"
            lines.append(Compared(name, *found, target))
    return lines


def several_means(releases: int) -> list[Compared]:
    """Several columns at epsilon 1."""
    lines = []
    loss = dp.loss_of(epsilon=1.0, delta=DELTA)
    gaussian = dp.loss_of(rho=rho_of(1.0, DELTA))
    for many, target in SEVERAL.items():
        bounds = [BOUNDS[0]] * many
        # Long groups: OpenDP's noisy counts must stay far from 0.
        columns = [spread(each, 4 * ROWS, j) for j, each in enumerate(bounds)]
        peers = ("dp.mean of each", loss, target), ("Gaussian", gaussian, GAUSSIAN.get(many, 0.0))
        for word, price, wanted in peers:
            found = both(columns, bounds, loss, price, releases, GROUPS // 4)
            lines.append(Compared(f"{many} means, beside {word}", *found, wanted))
    return lines


def real(data: Path, releases: int) -> list[Compared]:
    """Real incomes and ages, each with its own bounds."""
    with (data / "income" / "pums_oregon_hincp.csv").open(newline="") as lines:
        incomes = [float(row["HINCP"]) for row in csv.DictReader(lines) if row["HINCP"]]
    with gzip.open(data / "uci" / "adult.csv.gz", "rt", newline="") as lines:
        ages = [float(row["age"]) for row in csv.DictReader(lines)]
    found = []
    for name, values, bounds in (
        ("incomes of households in Oregon", incomes, (0.0, 500_000.0)),
        ("ages of adults in a census", ages, (17.0, 90.0)),
    ):
        column = np.clip(np.array([values]), *bounds)
        groups = max(1, GROUPS * ROWS // len(values))
        loss = dp.loss_of(epsilon=1.0, delta=DELTA)
        times = -(-releases * GROUPS // groups // 4)
        found.append(Compared(name, *both([column], [bounds], loss, loss, times, groups)))
    return found


def main() -> int:
    """Print the table, and say whether every target was met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--releases", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    dp.enable_features("contrib")
    warnings.simplefilter("ignore")
    lines = one_mean(given.releases) + several_means(given.releases)
    lines += real(given.data, given.releases) if given.data else []
    if given.json:
        json.dump([{**asdict(line), "ratio": line.ratio} for line in lines], sys.stdout, indent=2)
    else:
        print(f"{'':<46}{'OpenDP':>10}{'optimal':>10}{'ratio':>8}{'wanted':>8}")
        for line in lines:
            wanted = f"{line.target:>8.1f}" if line.target else ""
            figures = f"{line.peer:>10.4g}{line.ours:>10.4g}{line.ratio:>8.2f}"
            print(f"{line.name:<46}{figures}{wanted}")
    return 0 if all(line.ratio >= line.target for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())

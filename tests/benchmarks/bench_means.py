"""Means: the variance of their error beside that of OpenDP's ``dp.mean``, on the same data.

    python tests/benchmarks/bench_means.py [--data DIR] [--releases 8] [--json]

The same Polars query runs in an OpenDP context as it is, and with ``optimal`` around it. Every
group of a frame has the same number of rows and one row is all that a person has, so that each
release has an error for every group. Errors are in units of the range of the bounds, times the rows
of a group. Ends with 1 if a ratio of both variances is below what is wanted.

``error`` is the standard error of ``ratio``, by the spread of the releases. For several columns
``known`` is the ratio without it: OpenDP's variance by the scales that it states, over the
certified one of the table that ours is drawn from. Where that is what is wanted, or more, what was
measured may be less by three standard errors.

True means mu are at 0.1, 0.5 and 0.9 of the range. The variance is quadratic in mu, so that these
three say what it is on average over all mu in [0, 1], exactly: the column ``ratio``. ``three`` is
the ratio of the plain averages over the three, ``each`` the average of their three ratios. For one
mean, ``least`` is a certified lower bound of all additive noise on sum and count, for the plain
average, and ``limit`` what ``three`` would be with that.

First one mean at four values of epsilon and delta 1e-6; then several columns at epsilon 1, beside
``dp.mean`` of each and beside OpenDP's Gaussian noise at the rho that OpenDP itself converts to
(1, 1e-6). With ``--data``, real incomes and ages, which have one mean each.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from opendp_optimal import optimal, solve_pair
from opendp_optimal.losses.l2 import L2
from opendp_optimal.losses.pairs import SquaredPairs

DELTA = 1e-6
MEANS = (0.1, 0.5, 0.9)
RULE = np.array([25, 46, 25]) / 96
"""Weights of the three that average every quadratic function over [0, 1]."""
BOUNDS = ((0.0, 1.0), (20.0, 80.0))
GROUPS, ROWS = 12_000, 250
"""Groups in a frame, a multiple of three, and rows in a group."""
FEWER, LONGER = 1_200, 1_000
"""The same for several columns: OpenDP's noisy counts must stay far from 0."""
ONE = {1.0: 8.0, 2.0: 9.2, 3.0: 11.3, 4.0: 14.5}
"""Targets for one mean, by epsilon."""
SEVERAL = {2: 18.0, 4: 34.0, 9: 55.0}
"""Targets for several at epsilon 1, by columns."""
GAUSSIAN = {9: 35.0}
"""The same beside Gaussian noise."""


class ThreeMeans(L2):
    """The squared loss, on average over the three means."""

    pairs = SquaredPairs(Fraction(8, 75))


@dataclass(frozen=True)
class Compared:
    """A line of the table.

    :param name: what was asked
    :param peer: the variance of OpenDP's error, at each mean
    :param ours: that of ``optimal``
    :param target: what the ratio must reach; 0 where none was set
    :param least: no additive noise has a smaller variance, on average over the three; 0 if unknown
    :param error: the standard error of the ratio, as a part of it
    :param known: the ratio by the scales of both, 0 if unknown
    """

    name: str
    peer: np.ndarray
    ours: np.ndarray
    target: float = 0.0
    least: float = 0.0
    error: float = 0.0
    known: float = 0.0

    @property
    def met(self) -> bool:
        """Whether the ratio is what is wanted, as far as the draws can tell."""
        spare = 3 * self.error if self.known >= self.target else 0.0
        return self.figures()["ratio"] * (1 + spare) >= self.target

    def figures(self) -> dict[str, float]:
        """What is printed."""
        rule = RULE if len(self.peer) == len(RULE) else np.ones(1)
        peer, ours = float(rule @ self.peer), float(rule @ self.ours)
        found = {"OpenDP": peer, "optimal": ours, "ratio": peer / ours}
        found["error"] = self.error * peer / ours
        if self.known:
            found["known"] = self.known
        if len(rule) > 1:
            found["three"] = float(self.peer.mean() / self.ours.mean())
            found["each"] = float((self.peer / self.ours).mean())
        if self.least:
            found["least"] = self.least
            found["limit"] = float(self.peer.mean()) / self.least
        return found | ({"wanted": self.target} if self.target else {})


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
) -> np.ndarray:
    """Of the error times the rows of a group, in units of the range: of each release and mean."""
    turns, rows = columns[0].shape
    squares = np.zeros((releases, turns))
    for number in range(releases):
        told = release(data).sort("group")
        for j, (low, high) in enumerate(bounds):
            true = np.resize(columns[j].mean(1), len(told))
            off = (told[f"x{j}"].to_numpy() - true) / (high - low)
            by_turn = np.mean(((off * rows) ** 2).reshape(-1, turns), axis=0)
            squares[number] += np.roll(by_turn, j)  # the column j begins with the mean j
    return squares / len(bounds)


def both(
    columns: Sequence[np.ndarray],
    bounds: Sequence[tuple[float, float]],
    loss: Any,
    peer: Any,
    releases: int,
    groups: int,
) -> tuple[dict[str, Any], Any]:
    """Both variances on the same frame, the error of their ratio, and OpenDP's query."""
    data = frame(columns, groups)
    queries = [asked(data, groups, bounds, price) for price in (peer, loss)]
    found = [
        variance(made(query), data, columns, bounds, releases)
        for made, query in zip((native, ours), queries, strict=True)
    ]
    rule = RULE if len(columns[0]) == len(RULE) else np.ones(1)
    each = [squares @ rule for squares in found]
    parts = [np.std(one, ddof=1) / np.mean(one) / math.sqrt(releases) for one in each]
    sides = {"peer": found[0].mean(0), "ours": found[1].mean(0)}
    return {**sides, "error": float(np.hypot(*parts))}, queries


def known_ratio(queries: Any, columns: int) -> float:
    """OpenDP's variance by its scales over ours by its table, for bounds (0, 1), over all means."""
    peer, own = queries
    scales = peer.summarize()
    squares = scales["scale"].to_numpy() ** 2
    gaussian = scales["distribution"].str.contains("Gaussian").to_numpy()
    variances = np.where(gaussian, squares, 2 * squares)
    counts = scales["aggregate"].str.contains("Len").to_numpy()
    by_opendp = variances[~counts].mean() + variances[counts].mean() / 3  # mu^2 is 1/3 on average
    count, *sums = optimal(own).resolve().table.losses()
    return float(by_opendp / (sum(sums) / columns / 4 + count / 12))


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


def one_mean(releases: int) -> Iterator[Compared]:
    """One mean, by epsilon and bounds."""
    for epsilon, target in ONE.items():
        loss = dp.loss_of(epsilon=epsilon, delta=DELTA)
        least = solve_pair(epsilon, DELTA, loss=ThreeMeans(), cache=False).lower
        for bounds in BOUNDS:
            found, _ = both([spread(bounds, ROWS)], [bounds], loss, loss, releases, GROUPS)
            name = f"one mean, epsilon {epsilon:g}, bounds ({bounds[0]:g}, {bounds[1]:g})"
            yield Compared(name, **found, target=target, least=least)


def several_means(releases: int) -> Iterator[Compared]:
    """Several columns at epsilon 1."""
    loss = dp.loss_of(epsilon=1.0, delta=DELTA)
    gaussian = dp.loss_of(rho=rho_of(1.0, DELTA))
    for many, target in SEVERAL.items():
        bounds = [BOUNDS[0]] * many
        columns = [spread(each, LONGER, j) for j, each in enumerate(bounds)]
        peers = ("dp.mean of each", loss, target), ("Gaussian", gaussian, GAUSSIAN.get(many, 0.0))
        for word, price, wanted in peers:
            found, queries = both(columns, bounds, loss, price, releases, FEWER)
            known = known_ratio(queries, many)
            yield Compared(f"{many} means, beside {word}", **found, target=wanted, known=known)


def real(data: Path, releases: int) -> Iterator[Compared]:
    """Real incomes and ages, each with its own bounds."""
    with (data / "income" / "pums_oregon_hincp.csv").open(newline="") as lines:
        incomes = [float(row["HINCP"]) for row in csv.DictReader(lines) if row["HINCP"]]
    with gzip.open(data / "uci" / "adult.csv.gz", "rt", newline="") as lines:
        ages = [float(row["age"]) for row in csv.DictReader(lines)]
    for name, values, bounds in (
        ("incomes of households in Oregon", incomes, (0.0, 500_000.0)),
        ("ages of adults in a census", ages, (17.0, 90.0)),
    ):
        column = np.clip(np.array([values]), *bounds)
        groups = max(1, 600_000 // len(values))
        loss = dp.loss_of(epsilon=1.0, delta=DELTA)
        times = -(-releases * 600 // groups)
        yield Compared(name, **both([column], [bounds], loss, loss, times, groups)[0])


def main() -> int:
    """Print the table line by line, and say whether every target was met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--releases", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    dp.enable_features("contrib")
    warnings.simplefilter("ignore")
    lines = [one_mean(given.releases), several_means(given.releases)]
    lines += [real(given.data, given.releases)] if given.data else []
    heads = "OpenDP", "optimal", "ratio", "error", "known", "three", "each", "least", "limit"
    heads = (*heads, "wanted")
    if not given.json:
        print(f"{'':<42}" + "".join(f"{head:>9}" for head in heads), flush=True)
    told, met = [], True
    for line in itertools.chain(*lines):
        figures = line.figures()
        told.append({"name": line.name, **figures})
        met &= line.met
        row = "".join(f"{figures[h]:>9.4g}" if h in figures else " " * 9 for h in heads)
        print(f"{line.name:<42}{row}", file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        json.dump(told, sys.stdout, indent=2)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

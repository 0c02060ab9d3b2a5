"""``opendp-optimal bayes posterior``: a CSV file of a released table in, estimates out."""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import (
    csv_rows,
    json_option,
    plot_option,
    positive,
    print_json,
    progress_bar,
    whole,
    writable,
    write_whole,
)

if TYPE_CHECKING:
    from opendp_optimal.extend import known
    from opendp_optimal_bayes.table_posterior.posterior import Posterior

Floats = NDArray[np.float64]

LAWS = {
    "geometric": "Geometric",
    "laplace": "Laplace",
    "gaussian": "Gaussian",
    "discrete-gaussian": "DiscreteGaussian",
}
OPTIMAL = ("optimal", "optimal-sums")
"""Optimised noise: epsilon, delta and sensitivity, of which the last two may be left out."""


@dataclass(frozen=True)
class _Table:
    """A CSV file: a grid of numbers, or rows under names.

    :param header: the names; empty for a grid
    :param rows: the rows as they are
    :param column: the name of what was released; None for a grid
    :param values: what was released
    """

    header: list[str]
    rows: list[list[str]]
    column: str | None
    values: Floats

    def keys(self) -> dict[str, NDArray[Any]]:
        """The other columns by name, as labels."""
        columns = zip(self.header, zip(*self.rows, strict=True), strict=False)
        return {name: np.array(labels) for name, labels in columns if name != self.column}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read(path: Path, column: str | None) -> _Table:
    with csv_rows(path) as rows:
        lines = [row for row in rows if row]
    if not lines:
        raise click.UsageError(f"{path.name} is empty")
    if any(len(row) != len(lines[0]) for row in lines):
        raise click.UsageError(f"{path.name}: every row must have {len(lines[0])} values")
    if all(_number(text) is not None for text in lines[0]):
        if column is not None:
            raise click.UsageError(f"{path.name} has no names of columns: --column is not for it")
        return _Table([], lines, None, _numbers(path, lines))
    header, body = lines[0], lines[1:]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise click.UsageError(f"{path.name} has two columns {twice[0]!r}")
    if not body:
        raise click.UsageError(f"{path.name} has no rows")
    column = header[-1] if column is None else column
    if column not in header:
        raise click.UsageError(f"--column ({column!r}) must be one of {', '.join(header)}")
    place = header.index(column)
    return _Table(header, body, column, _numbers(path, [[row[place]] for row in body])[:, 0])


def _numbers(path: Path, rows: list[list[str]]) -> Floats:
    for line, row in enumerate(rows, 1):
        for text in row:
            if _number(text) is None:
                raise click.UsageError(f"{path.name}, row {line}: {text!r} is no number")
    return np.array([[float(text) for text in row] for row in rows])


def _law(text: str) -> known.Law:
    from opendp_optimal.extend import known

    name, _, rest = text.partition(":")
    most = 1 if name in LAWS else 3 if name in OPTIMAL else 0
    try:
        numbers = [float(each) for each in rest.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= most:
        kinds = ", ".join([f"{each}:NUMBER" for each in LAWS] + [f"{o}:E,D,S" for o in OPTIMAL])
        raise click.BadParameter(f"noise ({text!r}) must be one of {kinds}")
    if name in OPTIMAL:
        return _optimal_law(name == "optimal", *numbers)
    law: known.Law = getattr(known, LAWS[name])(positive("noise", numbers[0]))
    return law


def _optimal_law(
    counts: bool, epsilon: float, delta: float = 0.0, sensitivity: float = 1.0
) -> known.Law:
    """The law of optimised noise, as it is for counts or for sums."""
    from opendp_optimal import solve

    try:
        if counts:
            exact = int(sensitivity) if sensitivity.is_integer() else sensitivity
            moved = whole("noise (the sensitivity)", exact)
            return solve(epsilon, delta, integer_sensitivity=moved).law()
        return solve(epsilon, delta).law(positive("noise (the sensitivity)", sensitivity))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _bounds(text: str) -> tuple[float | None, float | None]:
    try:
        low, high = (float(part) if part.strip() else None for part in text.split(","))
    except ValueError:
        message = f"bounds ({text!r}) must be two numbers such as 0,100 or 0,"
        raise click.BadParameter(message) from None
    return low, high


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"shape ({text!r}) must be whole numbers such as 100x100")
    return tuple(int(part) for part in parts)


def _alike(table: _Table, like: tuple[str, ...], shape: tuple[int, ...] | None) -> Any:
    """Which cells are alike: rows under names share their keys; a grid has axes."""
    found: list[Any] = []
    keys = table.keys()
    for each in like:
        if each == "margins" and table.header and shape is None:
            if len(keys) < 2:
                raise click.UsageError("--like margins needs two columns of keys")
            found.extend(keys.values())
        elif each == table.column:
            raise click.UsageError(f"--like {each} is what was released: it says nothing of itself")
        else:
            found.append(keys.get(each, each))
    return tuple(found) or None


def _csv(table: _Table, found: Posterior, low: Any, high: Any) -> str:
    """The same rows with more columns; a grid as rows of places."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    new = [found.median, np.round(found.mean, 6), low, high]
    columns = [np.asarray(each).ravel().tolist() for each in new]
    header: list[str] = table.header
    rows: list[list[Any]] = [*table.rows]
    if not header:
        header = ["row", "column", "released"]
        rows = [[*at, f"{released:.15g}"] for at, released in np.ndenumerate(table.values)]
    writer.writerow([*header, "median", "mean", "low", "high"])
    writer.writerows([*row, *values] for row, *values in zip(rows, *columns, strict=True))
    return out.getvalue()


@click.command(name="posterior")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--noise",
    required=True,
    help="geometric:RATE, laplace:RATE, gaussian:SIGMA, discrete-gaussian:SIGMA; optimal:1,1e-6 or "
    "optimal-sums:1,1e-6,100 (epsilon, delta, sensitivity) for optimised noise.",
)
@click.option("--column", help="What was released; the last column by default.")
@click.option("--like", multiple=True, help="margins, neighbours, or a column; again for more.")
@click.option("--shape", help="Of the table, if the rows are its cells: 100x100.")
@click.option("--bounds", default="0,", show_default=True, help="Of true values: low,high.")
@click.option("--threshold", type=float, help="Smaller noisy values were not released.")
@click.option("--level", type=float, default=0.9, show_default=True, help="Of the intervals.")
@click.option("--shortest", is_flag=True, help="Shortest intervals, not those of equal tails.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write the table with its estimates here, as CSV.",
)
@plot_option
@json_option
def posterior_command(
    file: Path,
    noise: str,
    column: str | None,
    like: tuple[str, ...],
    shape: str | None,
    bounds: str,
    threshold: float | None,
    level: float,
    shortest: bool,
    output: Path | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Estimate the true values of a released table, at no privacy cost.

    FILE is a CSV file: rows under names, of which one column was released, or a grid of numbers.
    """
    from opendp_optimal_bayes.table_posterior.learning import posterior
    from opendp_optimal_bayes.table_posterior.posterior import PosteriorWarning

    law, ends, wanted = _law(noise), _bounds(bounds), _shape(shape)
    table = _read(file, column)
    with progress_bar("posterior") as step, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PosteriorWarning)
        found = posterior(
            table.values,
            law,
            shape=wanted,
            like=_alike(table, like, wanted),
            bounds=ends,
            threshold=threshold,
            progress=lambda text: step(),
        )
        low, high = found.interval(level, shortest)
    for each in told:
        click.echo(f"warning: {each.message}", err=True)
    if output is not None:
        write_whole(output, _csv(table, found, low, high).encode())
    if plot is not None:
        found.plot(plot)
    total = found.sum()
    facts = {
        "cells": found.observed.size,
        "gap": found.gap,
        "error_before": found.gain.before,
        "error_after": found.gain.after,
        "level": level,
        "claimed": found.claimed(level, shortest),
        "total": total.raw,
        "total_deviation": total.raw_deviation,
    }
    if as_json:
        arrays = {"median": np.asarray(found.median), "mean": found.mean, "low": low, "high": high}
        print_json({**facts, **arrays})
        return
    click.echo(f"{found.observed.size} cells, fitted to within {found.gap:.1e} nat per cell")
    click.echo(
        f"mean absolute error to expect: {found.gain.before:.4g} released, "
        f"{found.gain.after:.4g} estimated by medians"
    )
    click.echo(f"intervals of {level:g} should hold {facts['claimed']:.1%} of the cells")
    click.echo(f"total {total.raw:.10g}, deviation {total.raw_deviation:.4g}")
    if output is None:
        click.echo("--output FILE writes the estimate of every cell")

"""Noise that depends on the answer, at the terminal: the family of ``opendp-optimal show``."""

from __future__ import annotations

import warnings
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from click.core import ParameterSource

import opendp_optimal
from opendp_optimal.cli.plots import COLOURS, new_figure, save_figure
from opendp_optimal.cli.shapes import Shape, bars
from opendp_optimal.cli.terminal import F, figure, figure_down, note, print_json, working
from opendp_optimal.table.bounded import BoundedTable

ROWS = 9
"""So many answers are shown, as in Figure 5 of Selvi, Liu and Wiesemann."""
DEFAULT_GAP = 1e-2


def bounded_options(command: F) -> F:
    """Add the options of bounded queries."""
    for option in (
        click.option("--cap", type=float, help="Bound the loss at every answer; with --range."),
        click.option("--bins", type=click.IntRange(min=1), help="Equal bins; with --range."),
        click.option(
            "--sensitivity", type=float, help="How far neighbours are apart; with --range."
        ),
        click.option(
            "--range",
            "ends",
            type=(float, float),
            metavar="LOW HIGH",
            help="Show noise that depends on the answer, for answers within LOW and HIGH.",
        ),
    ):
        command = option(command)
    return command


def show_family(
    epsilon: float,
    delta: float,
    *,
    loss: str,
    ends: tuple[float, float],
    sensitivity: float | None,
    whole: int | None,
    bins: int | None,
    cap: float | None,
    gap: float,
    plot: str | None,
    as_json: bool,
) -> None:
    """Solve or load a bounded table and show its conditional noises."""
    apart = sensitivity if whole is None else float(whole)
    if apart is None or (sensitivity is not None and whole is not None):
        raise click.UsageError("--range needs either --sensitivity or --integer")
    context = click.get_current_context(silent=True)
    if context and context.get_parameter_source("gap") == ParameterSource.DEFAULT:
        gap = DEFAULT_GAP
    with warnings.catch_warnings(record=True) as caught, working("solving"):
        warnings.simplefilter("always")
        table = opendp_optimal.solve_bounded(
            epsilon,
            delta,
            sensitivity=apart,
            range=ends,
            bins=bins,
            loss=loss,
            cap=cap,
            integer=whole is not None,
            gap=gap,
        )
    for warning in caught:
        note(f"note: {warning.message}")
    if as_json:
        print_json(summary(table))
    else:
        for line in lines(table):
            click.echo(line)
    if plot is not None:
        draw(table, plot)
        note(f"saved {plot}")


def summary(table: BoundedTable) -> dict[str, Any]:
    """Return the facts of a table and its conditional noises."""
    answers, outputs, chances = table.family()
    return {
        "epsilon": table.epsilon,
        "delta": table.delta,
        "loss": table.loss.name,
        "kind": table.kind,
        "sensitivity": table.problem.sensitivity,
        "range": [table.problem.low, table.problem.high],
        "bins": table.bins,
        "upper": table.upper,
        "lower": table.lower,
        "gap": table.gap,
        "largest_conditional_loss": table.largest_conditional_loss,
        "answers": answers.tolist(),
        "outputs": outputs.tolist(),
        "chances": chances.tolist(),
    }


def lines(table: BoundedTable, width: int = 64) -> list[str]:
    """Return a small plot in characters: one line for each of some answers."""
    answers, outputs, chances = table.family()
    shown = chosen(len(answers))
    edges = _edges(outputs)
    densities = chances / np.diff(edges)
    top = float(densities[shown].max())
    labels = [figure(float(answers[x]), 4) for x in shown]
    label = max(map(len, labels))
    rows = [
        f"{text.rjust(label)} {bars(Shape(text, edges, densities[x]), top, width)}"
        for text, x in zip(labels, shown, strict=True)
    ]
    low, high = f"{edges[0]:.3g}", f"{edges[-1]:.3g}"
    axis = " " * (label + 1) + low + " " * max(1, width - len(low) - len(high)) + high
    return [
        "what is released, by answer:",
        *rows,
        axis,
        "",
        f"expected {table.loss.name} loss {figure(table.upper)}, no mechanism below "
        f"{figure_down(table.lower)} (gap {100 * table.gap:.3g} %); at most "
        f"{figure(table.largest_conditional_loss)} at any one answer",
    ]


def draw(table: BoundedTable, path: str) -> None:
    """Save a plot of the family: the density of the error at some answers, one panel each."""
    answers, outputs, chances = table.family()
    edges = _edges(outputs)
    densities = chances / np.diff(edges)
    shown = chosen(len(answers))
    side = int(np.ceil(np.sqrt(len(shown))))
    picture, axes = new_figure(3.0 * side, 2.2 * side, side, -(-len(shown) // side))
    top = 1.05 * float(densities[shown].max())
    for axis, x in zip(axes, shown, strict=False):
        axis.stairs(
            densities[x], edges - answers[x], fill=True, color=COLOURS["optimal"], alpha=0.6
        )
        axis.axvline(0, color="#444444", linewidth=0.8)
        span = table.problem.high - table.problem.low
        axis.set_xlim(-span, span)
        axis.set_ylim(0, top)
        axis.set_title(f"answer {figure(float(answers[x]), 4)}", fontsize=9, loc="left")
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    picture.suptitle(
        f"epsilon {table.epsilon:g}, delta {table.delta:g}, sensitivity "
        f"{table.problem.sensitivity:g}: noise by answer"
    )
    save_figure(picture, path)


def chosen(count: int) -> list[int]:
    """Return which of so many answers are shown."""
    return sorted(set(np.linspace(0, count - 1, min(ROWS, count)).round().astype(int).tolist()))


def _edges(places: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the middles between places, and as much again at both ends."""
    middles = (places[1:] + places[:-1]) / 2
    first, last = 2 * places[0] - middles[0], 2 * places[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])

"""``opendp-optimal show``: what the noise looks like, beside the usual ones or by answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

import opendp_optimal
from opendp_optimal.arrays import Floats
from opendp_optimal.cli import terminal
from opendp_optimal.cli.plots import (
    COLOURS,
    Shape,
    bars,
    draw_shapes,
    new_figure,
    pair_shapes,
    radial_shape,
    rivals,
    save_told,
    shape_of,
)
from opendp_optimal.cli.solve import find_kind, noted, verdict
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.base import Table
from opendp_optimal.table.bounded import BoundedTable
from opendp_optimal.table.pair import PairTable
from opendp_optimal.table.radial import RadialTable

BOUNDED_GAP = 1e-2
MOST_ANSWERS = 9
"""So many answers are shown, as in Figure 5 of Selvi, Liu and Wiesemann."""


@click.command()
@terminal.target
@terminal.loss_option
@terminal.integer_option
@terminal.gap_option
@click.option(
    "--range",
    "ends",
    type=(float, float),
    metavar="LOW HIGH",
    help="Show noise that depends on the answer, for answers within LOW and HIGH.",
)
@click.option("--sensitivity", type=float, help="How far neighbours are apart; with --range.")
@click.option("--bins", type=click.IntRange(min=1), help="Equal bins; with --range.")
@click.option("--cap", type=float, help="Bound the loss at every answer; with --range.")
@terminal.kind_options
@terminal.plot_option
@terminal.json_option
def show(
    integer_sensitivity: int | None,
    gap: float,
    ends: tuple[float, float] | None,
    sensitivity: float | None,
    bins: int | None,
    cap: float | None,
    size: int | None,
    norm: str,
    mean: bool,
    plot: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Show the optimal noise for EPSILON and DELTA beside Laplace, Gaussian and staircase noise.

    With --range, show the family of noises that depend on the answer; with --size, the length of
    noise for vectors; with --mean, noise for a mean and its count.
    """
    table: Table
    if ends is not None:
        if size is not None or mean:
            raise click.UsageError("--range goes with neither --size nor --mean")
        moves = [move for move in (sensitivity, integer_sensitivity) if move is not None]
        if len(moves) != 1:
            raise click.UsageError("--range needs either --sensitivity or --integer")
        source = click.get_current_context().get_parameter_source("gap")
        table = noted(
            opendp_optimal.solve_bounded,
            sensitivity=float(moves[0]),
            range=ends,
            bins=bins,
            cap=cap,
            integer=integer_sensitivity is not None,
            gap=BOUNDED_GAP if source == ParameterSource.DEFAULT else gap,
            **asked,
        )
    elif sensitivity is not None or bins is not None or cap is not None:
        raise click.UsageError("--sensitivity, --bins and --cap need --range")
    else:
        asked["integer_sensitivity"] = integer_sensitivity
        table = find_kind(size, norm, mean, gap, **asked)
    shown = view(table)
    if as_json:
        terminal.print_json({**table.summary(), **shown.facts})
    else:
        for line in shown.lines:
            click.echo(line)
    if plot is not None:
        save_told(shown.picture(), plot)


@dataclass(frozen=True)
class View:
    """What there is to see of a table: facts beside its summary, lines, and a picture."""

    facts: dict[str, Any]
    lines: list[str]
    picture: Callable[[], Any]


@singledispatch
def view(table: Table) -> View:
    """Return what is shown of a table; each kind adds its own."""
    raise TypeError(f"there is no view of {type(table).__name__}")


@view.register
def _noise(table: NoiseTable) -> View:
    own = shape_of(table)
    shapes = [own, *rivals(table, own.edges)]
    cut = [_middle(shape, own) for shape in shapes]

    def picture() -> Any:
        drawn, (axis,) = new_figure(7.5, 4.5)
        draw_shapes(axis, cut)
        title = f"epsilon {table.epsilon:g}, delta {table.delta:g}, {table.loss.name}"
        axis.set_title(title, loc="left")
        return drawn

    density = {shape.name: shape.density for shape in shapes}
    lines = [*characters(cut, 72, "0"), "", verdict(table)]
    return View({"edges": own.edges, "density": density}, lines, picture)


@view.register
def _family(table: BoundedTable) -> View:
    answers, outputs, chances = table.family()
    edges = _edges(outputs)
    densities = chances / np.diff(edges)
    count = min(MOST_ANSWERS, len(answers))
    chosen = np.linspace(0, len(answers) - 1, count).round().astype(int).tolist()
    shapes = [Shape(terminal.figure(float(answers[x]), 4), edges, densities[x]) for x in chosen]

    largest = table.largest_conditional_loss
    facts = {"largest_conditional_loss": largest, "answers": answers}
    facts |= {"outputs": outputs, "chances": chances}
    lines = [
        "what is released, by answer:",
        *characters(shapes, 64),
        "",
        f"{verdict(table)}; at most {terminal.figure(largest)} at any one answer",
    ]
    places = [float(answers[x]) for x in chosen]
    return View(facts, lines, lambda: _panels(table, shapes, places))


@view.register
def _lengths(table: RadialTable) -> View:
    whole = radial_shape(table)
    own = _middle(whole, whole)
    reached = f"expected {table.loss.name} loss {terminal.figure(table.upper)}"
    bound = verdict(table) if table.lower else reached
    lines = [f"how long the noise is, in the {table.norm} norm:", *characters([own], 72), "", bound]
    return View({"edges": own.edges, "density": own.density}, lines, lambda: _picture(table, [own]))


@view.register
def _pair(table: PairTable) -> View:
    shapes = [_middle(shape, shape) for shape in pair_shapes(table)]
    drawn = (line for shape in shapes for line in characters([shape], 64))
    whole = f"with whole noise on the count none below {terminal.figure_down(table.whole_lower)}"
    lines = [*drawn, "", f"{verdict(table)}; {whole}"]
    facts = {shape.name: {"edges": shape.edges, "density": shape.density} for shape in shapes}
    return View(facts, lines, lambda: _picture(table, shapes))


def _picture(table: Table, shapes: list[Shape]) -> Any:
    """Draw shapes on different scales, one panel each."""
    drawn, axes = new_figure(7.5, 3.5 * len(shapes), 1, len(shapes))
    for axis, shape in zip(axes, shapes, strict=True):
        axis.stairs(shape.density, shape.edges, fill=True, color=COLOURS["optimal"], alpha=0.6)
        title = f"{shape.name}: epsilon {table.epsilon:g}, delta {table.delta:g}, {table.loss.name}"
        axis.set_title(title, loc="left")
    return drawn


def characters(shapes: list[Shape], width: int, middle: str = "") -> list[str]:
    """Return a small plot in characters: one line for each shape, and an axis.

    The first shape is the highest, if ``middle`` names what is in the middle of the axis.
    """
    highest = shapes[:1] if middle else shapes
    top = max(float(np.max(shape.density)) for shape in highest)
    label = max(len(shape.name) for shape in shapes)
    rows = [f"{shape.name.rjust(label)} {bars(shape, top, width)}" for shape in shapes]
    low, high = f"{shapes[0].edges[0]:.3g}", f"{shapes[0].edges[-1]:.3g}"
    between = width - len(low) - len(high)
    gap = middle.center(between - 1) if middle else " " * max(1, between)
    return [*rows, " " * (label + 1) + low + gap + high]


def _panels(table: BoundedTable, shapes: list[Shape], answers: list[float]) -> Any:
    """Draw the density of the error at some answers, one panel each."""
    side = int(np.ceil(np.sqrt(len(shapes))))
    picture, axes = new_figure(3.0 * side, 2.2 * side, side, -(-len(shapes) // side))
    top = 1.05 * max(float(shape.density.max()) for shape in shapes)
    span = table.problem.high - table.problem.low
    for axis, shape, answer in zip(axes, shapes, answers, strict=False):
        errors = shape.edges - answer
        axis.stairs(shape.density, errors, fill=True, color=COLOURS["optimal"], alpha=0.6)
        axis.axvline(0, color="#444444", linewidth=0.8)
        axis.set_xlim(-span, span)
        axis.set_ylim(0, top)
        axis.set_title(f"answer {shape.name}", fontsize=9, loc="left")
    for axis in axes[len(shapes) :]:
        axis.set_visible(False)
    picture.suptitle(
        f"epsilon {table.epsilon:g}, delta {table.delta:g}, sensitivity "
        f"{table.problem.sensitivity:g}: noise by answer"
    )
    return picture


def _middle(shape: Shape, own: Shape) -> Shape:
    """Return the part of a shape where all but one in ten thousand of the noise is."""
    cumulative = np.cumsum(own.density * np.diff(own.edges))
    low = int(np.searchsorted(cumulative, 5e-5 * cumulative[-1]))
    high = int(np.searchsorted(cumulative, (1 - 5e-5) * cumulative[-1]))
    return Shape(shape.name, shape.edges[low : high + 2], shape.density[low : high + 1])


def _edges(places: Floats) -> Floats:
    """Return the middles between places, and as much again at both ends."""
    middles = (places[1:] + places[:-1]) / 2
    first, last = 2 * places[0] - middles[0], 2 * places[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])

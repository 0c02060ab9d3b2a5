"""Shapes of noise on common bins, and figures; matplotlib is an extra and loaded here only."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.certify.decay import Decay
from opendp_optimal.certify.pair import unfolded
from opendp_optimal.cli.terminal import note
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.pair import PairTable
from opendp_optimal.table.radial import RadialTable

BLOCKS = " ▁▂▃▄▅▆▇█"
MOST_BLOCKS = 2000

COLOURS = {
    "optimal": "#c1272d",
    "laplace": "#4575b4",
    "gaussian": "#888888",
    "staircase": "#e0a030",
}


@dataclass(frozen=True)
class Shape:
    """A density that is constant between edges."""

    name: str
    edges: Floats
    density: Floats


def shape_of(table: NoiseTable) -> Shape:
    """Return the density of a table, in units of the sensitivity (integers: in whole numbers)."""
    cells = table.cells if table.kind == "real" else 1
    mass = np.asarray(table.weights, dtype=np.float64) / table.total
    spike = 0 if table.spike is None else table.spike.weight
    mass[table.radius] += (table.atom + spike) / table.total
    if table.tail is not None:
        # Pure noise goes on for ever, block after block; show it until little is left.
        block = np.asarray(table.tail.weights, dtype=np.float64) / table.total
        again = table.tail.again / table.total
        blocks = min(MOST_BLOCKS, max(1, math.ceil(math.log(1e-5) / math.log(again))))
        side = np.concatenate([again**i * block for i in range(blocks)])
        side *= table.tail.weight / table.total
        mass = np.concatenate([side[::-1], mass, side])
    radius = len(mass) // 2
    points = np.arange(-radius, radius + 2) - 0.5
    return Shape("optimal", points / cells, mass * cells)


def radial_shape(table: RadialTable, bins: int = 240) -> Shape:
    """Return the density of the length of noise for vectors, in its norm, in sensitivities."""
    law, size = table.law, table.size
    if isinstance(law, Decay):
        top = size / max(law.c + (2 * law.k * size) ** 0.5, 1e-9)
        end = top + (12 * size**0.5 + 30) / (law.c + (2 * law.k * size) ** 0.5)
        edges = np.linspace(0.0, end, bins + 1)
        r = (edges[1:] + edges[:-1]) / 2
        logs = (size - 1) * np.log(r) - law.c * r - law.k * r * r
    else:
        ends = law.radii / law.step
        edges = np.linspace(0.0, float(ends[-1]), bins + 1)
        r = (edges[1:] + edges[:-1]) / 2
        # A point of ball j is below r with chance (r / radius)^size.
        shares = np.log(law.weights / table.total) - size * np.log(ends)
        inside = np.where(r[:, None] <= ends, shares, -np.inf)
        peak = inside.max(axis=1)
        logs = (size - 1) * np.log(r) + peak + np.log(np.exp(inside - peak[:, None]).sum(axis=1))
    density = np.exp(logs - logs.max())
    return Shape("length", edges, density / float((density * np.diff(edges)).sum()))


def pair_shapes(table: PairTable) -> list[Shape]:
    """Return the densities of the noise on a count and on a centred sum, in units of the range."""
    mass = unfolded(table.weights) / table.total
    rows, columns = ((n - 1) / 2 for n in mass.shape)
    counts, sums = mass.sum(axis=1), mass.sum(axis=0) * table.cells
    return [
        Shape("count", np.arange(-rows - 0.5, rows + 1), counts),
        Shape("centred sum", np.arange(-columns - 0.5, columns + 1) / table.cells, sums),
    ]


def rivals(table: NoiseTable, edges: Floats) -> list[Shape]:
    """Return Laplace, Gaussian and staircase noise for the same target, on the same bins."""
    from opendp_optimal import known

    names = ["laplace", "staircase"]
    if table.delta > 0:
        names.insert(1, "analytic_gaussian")
    scale = 1 if table.kind == "real" else table.cells
    shapes = []
    for name in names:
        cumulative = known.cdf(name, table.epsilon, table.delta, edges / scale, loss=table.loss)
        density = np.diff(cumulative) / np.diff(edges)
        shapes.append(Shape(name.removeprefix("analytic_"), edges, density))
    return shapes


def bars(shape: Shape, top: float, width: int = 72) -> str:
    """Return a shape as one line of block characters, its height relative to ``top``."""
    at = np.linspace(shape.edges[0], shape.edges[-1], width + 1)
    cumulative = np.concatenate([[0.0], np.cumsum(shape.density * np.diff(shape.edges))])
    density = np.diff(np.interp(at, shape.edges, cumulative)) / np.diff(at)
    levels = np.clip(np.ceil(density / top * 8), 0, 8).astype(int)
    return "".join(BLOCKS[level] for level in levels)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:  # pragma: no cover
        raise click.ClickException(
            "plots need matplotlib: pip install opendp-optimal[plot]"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def check_ending(path: str) -> None:
    """Raise unless a picture of this name can be drawn: its ending is known, matplotlib is there.

    :raises click.ClickException: saying what is missing.
    """
    known = sorted(_figure(1, 1).canvas.get_supported_filetypes())
    ending = os.path.splitext(path)[1].lower().lstrip(".")
    if ending not in known:
        wanted = ", ".join(f".{name}" for name in known)
        raise click.BadParameter(f"plot ({path!r}) must end in one of {wanted}")


def new_figure(
    width: float, height: float, columns: int = 1, rows: int = 1
) -> tuple[Any, list[Any]]:
    """Return a figure and its axes, row by row.

    :raises click.ClickException: if matplotlib is not installed.
    """
    figure = _figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def save_figure(figure: Any, path: str) -> None:
    """Save a figure; the ending of the path chooses the format."""
    figure.savefig(path, dpi=150)


def save_told(figure: Any, path: str) -> None:
    """Save a figure and say so on stderr."""
    save_figure(figure, path)
    note(f"saved {path}")


def draw_shapes(axis: Any, shapes: Sequence[Shape]) -> None:
    """Draw noise densities as steps, on a logarithmic scale."""
    for shape in shapes:
        axis.stairs(
            shape.density,
            shape.edges,
            label=shape.name,
            color=COLOURS.get(shape.name),
            linewidth=2.2 if shape.name == "optimal" else 1.3,
            baseline=None,
        )
    axis.set_yscale("log")
    axis.set_xlabel("noise, in units of the sensitivity")
    axis.set_ylabel("density")
    axis.legend(frameon=False)


def draw_bars(axis: Any, names: Sequence[str], values: Sequence[float], label: str) -> None:
    """Draw one bar for each name, the optimum in its own colour."""
    colours = [COLOURS.get(name, "#a0a0a0") for name in names]
    bars = axis.barh(range(len(names)), values, color=colours)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.bar_label(bars, labels=[f"{value:.4g}" for value in values], padding=3)
    axis.set_xlabel(label)
    axis.margins(x=0.18)

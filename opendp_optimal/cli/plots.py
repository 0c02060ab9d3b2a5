"""Plots, for the commands that save one; matplotlib is an extra and loaded here only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from opendp_optimal.cli.shapes import Shape

COLOURS = {
    "optimal": "#c1272d",
    "laplace": "#4575b4",
    "gaussian": "#888888",
    "staircase": "#e0a030",
}


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

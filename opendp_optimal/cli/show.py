"""``opendp-optimal show``: what the noise looks like, beside the usual ones."""

from __future__ import annotations

import click
import numpy as np

from opendp_optimal.cli.bounded import bounded_options, show_family
from opendp_optimal.cli.plots import draw_shapes, new_figure, save_figure
from opendp_optimal.cli.shapes import Shape, bars, rivals, shape_of
from opendp_optimal.cli.solve import find
from opendp_optimal.cli.terminal import (
    figure,
    figure_down,
    gap_option,
    integer_option,
    json_option,
    loss_option,
    note,
    plot_option,
    print_json,
    target,
)


@click.command()
@target
@loss_option
@integer_option
@gap_option
@bounded_options
@plot_option
@json_option
def show(
    epsilon: float,
    delta: float,
    loss: str,
    integer_sensitivity: int | None,
    gap: float,
    ends: tuple[float, float] | None,
    sensitivity: float | None,
    bins: int | None,
    cap: float | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Show the optimal noise for EPSILON and DELTA beside Laplace, Gaussian and staircase noise.

    With --range, show the family of noises that depend on the answer.
    """
    if ends is not None:
        show_family(
            epsilon,
            delta,
            loss=loss,
            ends=ends,
            sensitivity=sensitivity,
            whole=integer_sensitivity,
            bins=bins,
            cap=cap,
            gap=gap,
            plot=plot,
            as_json=as_json,
        )
        return
    if sensitivity is not None or bins is not None or cap is not None:
        raise click.UsageError("--sensitivity, --bins and --cap need --range")
    table = find(epsilon, delta, loss, integer_sensitivity, gap)
    own = shape_of(table)
    shapes = [own, *rivals(table, own.edges)]
    if as_json:
        print_json(
            {
                **table.summary(),
                "edges": own.edges.tolist(),
                "density": {shape.name: shape.density.tolist() for shape in shapes},
            }
        )
    else:
        for line in lines(shapes):
            click.echo(line)
        click.echo(
            f"\nexpected {table.loss.name} loss {figure(table.upper)}, no mechanism below "
            f"{figure_down(table.lower)} (gap {100 * table.gap:.3g} %)"
        )
    if plot is not None:
        picture, (axis,) = new_figure(7.5, 4.5)
        draw_shapes(axis, [_middle(shape, own) for shape in shapes])
        axis.set_title(f"epsilon {epsilon:g}, delta {delta:g}, {table.loss.name}", loc="left")
        save_figure(picture, plot)
        note(f"saved {plot}")


def lines(shapes: list[Shape], width: int = 72) -> list[str]:
    """Return a small plot in characters: one line for each shape, and an axis."""
    own = _middle(shapes[0], shapes[0])
    cut = [_middle(shape, shapes[0]) for shape in shapes]
    top = float(np.max(own.density))
    label = max(len(shape.name) for shape in shapes)
    rows = [f"{shape.name.rjust(label)} {bars(shape, top, width)}" for shape in cut]
    low, high = f"{own.edges[0]:.3g}", f"{own.edges[-1]:.3g}"
    gap = width - len(low) - len(high) - 1
    axis = " " * (label + 1) + low + "0".center(gap) + high
    return [*rows, axis]


def _middle(shape: Shape, own: Shape) -> Shape:
    """Return the part of a shape where all but one in ten thousand of the noise is."""
    cumulative = np.cumsum(own.density * np.diff(own.edges))
    low = int(np.searchsorted(cumulative, 5e-5 * cumulative[-1]))
    high = int(np.searchsorted(cumulative, (1 - 5e-5) * cumulative[-1]))
    return Shape(shape.name, shape.edges[low : high + 2], shape.density[low : high + 1])

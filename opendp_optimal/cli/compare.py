"""``opendp-optimal compare``: expected losses of every mechanism at the user's parameters."""

from __future__ import annotations

import math
from typing import Any

import click

import opendp_optimal
from opendp_optimal import known
from opendp_optimal.cli.plots import draw_bars, new_figure, save_told
from opendp_optimal.cli.solve import noted
from opendp_optimal.cli.terminal import (
    figure,
    figure_down,
    gap_option,
    json_option,
    plot_option,
    print_json,
    print_table,
    target,
)

LOSSES = ("l1", "l2")
CALLED = {
    "laplace": "laplace",
    "analytic_gaussian": "gaussian",
    "staircase": "staircase",
    "truncated_laplace": "truncated laplace",
    "tulap": "canonical (tulap)",
    "uniform_bernoulli": "uniform-bernoulli",
}
CALLED_INTEGER = {
    "discrete_laplace": "discrete laplace",
    "discrete_canonical": "discrete canonical",
}


@click.command()
@target
@click.option("--integer", is_flag=True, help="Compare on integer queries of sensitivity 1.")
@gap_option
@plot_option
@json_option
def compare(
    epsilon: float, delta: float, integer: bool, gap: float, plot: str | None, as_json: bool
) -> int:
    """Compare the expected losses of mechanisms at EPSILON and DELTA, at sensitivity 1.

    Laplace, staircase and discrete Laplace noise do not use delta. The optimum is certified within
    a gap: mechanisms that are as good within it are shown with its loss (--json has all figures).
    """
    rows = losses(epsilon, delta, integer, gap)
    if as_json:
        print_json({"epsilon": epsilon, "delta": delta, "integer": integer, "mechanisms": rows})
    else:
        print_table(
            ["mechanism", "E|noise|", "/ optimum", "E noise^2", "/ optimum"],
            [
                (row["mechanism"], *_cells(row, rows[0], "l1"), *_cells(row, rows[0], "l2"))
                for row in rows
            ],
            title=f"epsilon {epsilon:g}, delta {delta:g}, sensitivity 1",
        )
    if plot is not None:
        finite = [row for row in rows if math.isfinite(row["l1"]) and row["kind"] != "bound"]
        picture, axes = new_figure(9.0, 3.6, columns=2)
        for axis, loss, label in zip(axes, LOSSES, ("E|noise|", "E noise²"), strict=True):
            draw_bars(axis, [r["mechanism"] for r in finite], [r[loss] for r in finite], label)
        save_told(picture, plot)
    return 0


def losses(epsilon: float, delta: float, integer: bool, gap: float) -> list[dict[str, Any]]:
    """Return the l1 and l2 losses of every mechanism, the optimum and its lower bound first."""
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "gap": gap}
    asked["integer_sensitivity"] = 1 if integer else None
    tables = {loss: noted(opendp_optimal.solve, **asked, loss=loss) for loss in LOSSES}
    optimum = {loss: table.upper for loss, table in tables.items()}
    rows = [
        _row("optimal", "optimal", optimum, optimum),
        _row("no mechanism below", "bound", {k: t.lower for k, t in tables.items()}, optimum),
    ]
    for name, called in (CALLED_INTEGER if integer else CALLED).items():
        values = {loss: known.expected_loss(name, epsilon, delta, loss) for loss in optimum}
        rows.append(_row(called, "baseline", values, optimum))
    return rows


def _row(
    name: str, kind: str, values: dict[str, float], optimum: dict[str, float]
) -> dict[str, Any]:
    row: dict[str, Any] = {"mechanism": name, "kind": kind}
    for loss, value in values.items():
        row |= {loss: value, f"{loss}_ratio": value / optimum[loss]}
    return row


def _cells(row: dict[str, Any], optimum: dict[str, Any], loss: str) -> tuple[str, str]:
    """A loss and its ratio to the optimum, in words; only the bound is below the optimum."""
    value, ratio = row[loss], row[f"{loss}_ratio"]
    if not math.isfinite(value):
        return "-", "-"
    if row["kind"] == "bound":
        return figure_down(value), figure(ratio, 4)
    return figure(max(value, optimum[loss])), figure(max(ratio, 1.0), 4)

"""Figures, for the commands that save one; matplotlib is an extra and loaded here only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendp_optimal_bayes.income import Row


def new_axes(width: float, height: float, columns: int) -> tuple[Any, list[Any]]:
    """Return a figure and its axes.

    :param width: in inches
    :param height: in inches
    :param columns: number of axes
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:  # pragma: no cover
        raise ImportError(
            "plots need matplotlib: pip install opendp-optimal-bayes[plot]"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(figure.subplots(1, columns, squeeze=False)[0])
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def income_figure(rows: Sequence[Row], title: str) -> Any:
    """The losses as N grows, and the excess of truncated Laplace beside Theorem 14's bound.

    :param rows: of one prior and loss
    :param title: above the figure
    """
    figure, (left, right) = new_axes(9.0, 3.6, 2)
    n = [row.n for row in rows]
    left.plot(n, [row.laplace for row in rows], "o-", color="#4575b4", label="truncated Laplace")
    left.plot(n, [row.geometric for row in rows], "s-", color="#e0a030", label="geometric + remap")
    solved = [row for row in rows if row.lower is not None]
    left.plot(
        [row.n for row in solved],
        [row.lower for row in solved],
        "x",
        color="#c1272d",
        markersize=9,
        label="certified lower bound",
    )
    left.set_ylabel("expected loss")
    right.plot(n, [row.excess for row in rows], "o-", color="#4575b4", label="measured")
    right.plot(n, [row.bound for row in rows], "--", color="#888888", label="Theorem 14")
    right.set_yscale("log")
    right.set_ylabel("Laplace minus optimum")
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        axis.set_xlabel("N, number of steps")
        axis.legend(frameon=False)
    figure.suptitle(title, fontsize="medium")
    return figure

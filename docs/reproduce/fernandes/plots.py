"""The figure of the losses on incomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docs.reproduce.fernandes.income import Row
from docs.reproduce.report import canvas


def income_figure(rows: Sequence[Row], title: str) -> Any:
    """The losses as N grows, and the excess of truncated Laplace beside Theorem 14's bound.

    :param rows: of one prior and loss
    :param title: above the figure
    """
    figure, ((left, right),) = canvas(1, 2, (9.0, 3.6))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
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

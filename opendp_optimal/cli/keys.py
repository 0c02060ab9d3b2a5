"""``opendp-optimal keys``: which counts are released where the keys are secret, too."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from opendp_optimal.cli.plots import COLOURS, new_figure, save_told
from opendp_optimal.cli.terminal import (
    count_option,
    figure,
    json_option,
    plot_option,
    print_json,
    print_table,
)

_LINES = 24


@click.command()
@click.argument("epsilon", type=float)
@click.argument("delta", type=float)
@count_option("--keys", "How many keys a person has at most.")
@count_option("--move", "How much a person adds to the count of a key at most.")
@plot_option
@json_option
def keys(
    epsilon: float, delta: float, keys: int, move: int, plot: str | None, as_json: bool
) -> None:
    """Show how often make_optimal_threshold releases a key, for each count.

    Beside it stand the best chance that any mechanism has with the epsilon and delta of one key,
    and the expected absolute error, where a key that is not released counts as 0.
    """
    from opendp_optimal.measure.keys import design_keys

    design = design_keys((keys, keys * move, move), epsilon, delta)
    table = design.table
    last = len(table.nothing)
    counts = sorted({*np.linspace(1, last, min(last, _LINES)).round().astype(int).tolist()})
    rows: list[dict[str, Any]] = [
        {
            "count": count * design.unit,
            "chance": table.chance(count),
            "best": table.best_chance(count),
            "error": table.error(count) * design.unit,
        }
        for count in counts
    ]
    if as_json:
        print_json(
            {
                "epsilon": epsilon,
                "delta": delta,
                "keys": keys,
                "move": move,
                "epsilon_of_a_key": table.epsilon,
                "delta_of_a_key": table.delta,
                "threshold": table.threshold * design.unit,
                "half": design.half,
                "counts": rows,
            }
        )
    else:
        print_table(
            ["count", "released", "best possible", "error"],
            [
                (str(r["count"]), figure(r["chance"]), figure(r["best"]), figure(r["error"], 4))
                for r in rows
            ],
            title=f"epsilon {epsilon:g}, delta {delta:g}, up to {keys} keys a person",
        )
        click.echo(f"from a count of {design.half} on, at least every second key is released")
        click.echo(f"each key has epsilon {table.epsilon:.6g} and delta {table.delta:.3g}")
    if plot is not None:
        picture, axes = new_figure(7.0, 4.0)
        at = np.arange(last + 1)
        best = [table.best_chance(n) for n in at.tolist()]
        own = [table.chance(n) for n in at.tolist()]
        axes[0].step(at * design.unit, best, color="black", linestyle=":", label="best possible")
        axes[0].step(at * design.unit, own, color=COLOURS["optimal"], label="optimal threshold")
        axes[0].set_xlabel("count of a key")
        axes[0].set_ylabel("chance of release")
        axes[0].legend(frameon=False)
        save_told(picture, plot)

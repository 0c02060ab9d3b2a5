"""A command: what a release will cost in accuracy, in the units of the query."""

from __future__ import annotations

import click

from opendp_optimal import solve


@click.command()
@click.argument("epsilon", type=float)
@click.argument("delta", type=float, default=0.0)
@click.option("--sensitivity", default=1.0, show_default=True, help="Sensitivity of the query.")
def quote(epsilon: float, delta: float, sensitivity: float) -> None:
    """Say how far off a release at EPSILON and DELTA will be on average."""
    if not sensitivity > 0:
        raise click.BadParameter(f"sensitivity ({sensitivity}) must be greater than 0")
    table = solve(epsilon=epsilon, delta=delta)
    click.echo(f"{sensitivity * table.upper:.6g}")

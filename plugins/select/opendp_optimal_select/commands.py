"""``opendp-optimal select ...``: results on standard output, progress on standard error.

Exit codes: 0 done, 1 failed (also an audit that refutes the claim), 2 bad arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from opendp.mod import enable_features

from opendp_optimal.extend import (
    CommandGroup,
    drawable,
    json_option,
    print_audit,
    print_json,
    progress_bar,
)

DISUTILITIES: dict[str, Callable[[float], float] | None] = {
    "identity": None,
    "square": lambda t: t * t,
    "sqrt": math.sqrt,
    "log1p": math.log1p,
}


@click.group(name="select", cls=CommandGroup)
def select() -> None:
    """Multi-selection: one private signal, k answers, the user keeps the best."""
    enable_features("contrib")


_k_option = click.option("--k", type=int, default=3, show_default=True, help="Answers.")
_epsilon_option = click.option(
    "--epsilon", type=float, default=1.0, show_default=True, help="Privacy loss per unit."
)


@select.command(name="offsets")
@_k_option
@_epsilon_option
@click.option("--disutility", type=click.Choice(sorted(DISUTILITIES)), default="identity")
@json_option
def offsets_command(k: int, epsilon: float, disutility: str, as_json: bool) -> None:
    """Print the optimal offsets and their cost."""
    from opendp_optimal_select.placing import cost, offsets

    h = DISUTILITIES[disutility]
    points = offsets(k, epsilon=epsilon, disutility=h)
    value = cost(k, epsilon=epsilon, disutility=h)
    if as_json:
        print_json({"k": k, "epsilon": epsilon, "offsets": points, "cost": value}, indent=None)
        return
    for point in points:
        click.echo(f"{point:+.9f}")
    click.echo(f"cost {value:.9f}")


@select.command(name="ring")
@click.option("--k", type=int, default=2, show_default=True, help="Answers.")
@click.option("--epsilon", type=float, default=0.375, show_default=True, help="Loss per radian.")
@click.option("--tolerance", type=float, default=2e-3, show_default=True, help="Width to reach.")
@click.option("--cells", type=int, default=32, show_default=True, help="Cells per half gap.")
@json_option
def ring_command(k: int, epsilon: float, tolerance: float, cells: int, as_json: bool) -> None:
    """Enclose the optimal cost on the ring and compare it with Laplace noise."""
    from opendp_optimal_select.ring.optimum import laplace_ring, optimal_ring

    with _widths(tolerance) as progress:
        optimum = optimal_ring(
            k, epsilon=epsilon, tolerance=tolerance, cells=cells, progress=progress
        )
    laplace = laplace_ring(k, epsilon=epsilon)[0]
    if as_json:
        fields = ("epsilon", "k", "lower", "upper", "offsets", "cells", "discretisation")
        report = {name: getattr(optimum, name) for name in fields}
        print_json({**report, "laplace": laplace, "programmes": optimum.programmes}, indent=None)
        return
    click.echo(f"optimal client  {optimum.lower:.6f} to {optimum.upper:.6f} (certified)")
    click.echo(f"Laplace client  {laplace:.6f}")
    click.echo(
        f"{optimum.programmes} programmes, {optimum.cells} cells per half gap, "
        f"discretisation error at most {optimum.discretisation:.1e} (included)"
    )


@select.command(name="audit")
@_k_option
@_epsilon_option
@click.option("--draws", type=int, default=5000, show_default=True, help="Releases per value.")
@click.option("--false-alarm", type=float, default=1e-6, show_default=True)
@json_option
def audit_command(k: int, epsilon: float, draws: int, false_alarm: float, as_json: bool) -> None:
    """Audit the privacy of the signal, statistically, through the whole chain."""
    import opendp.prelude as dp

    from opendp_optimal_select.audit import audit_signal
    from opendp_optimal_select.measure import make_multi_selection

    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    measurement = make_multi_selection(*space, epsilon, k)
    distance = 1.0 / epsilon
    with progress_bar("releases") as update:
        report = audit_signal(
            measurement,
            claimed=float(measurement.map(distance)),
            values=(0.0, distance),
            draws=draws,
            false_alarm=false_alarm,
            progress=lambda done: update(done, 2 * draws),
        )
    print_audit(report, as_json)


@select.group(name="plot")
def plot_group() -> None:
    """Draw the figures."""


_output_option = click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    callback=drawable,
    help="File to write.",
)


@plot_group.command(name="offsets")
@_output_option
@click.option("--k", type=int, default=5, show_default=True, help="Answers.")
def plot_offsets_command(output: Path, k: int) -> None:
    """Draw the offsets on the density of the noise."""
    from opendp_optimal_select.plots import plot_offsets

    plot_offsets(output, k=k)
    click.echo(str(output))


@plot_group.command(name="cost")
@_output_option
@_epsilon_option
def plot_cost_command(output: Path, epsilon: float) -> None:
    """Draw the cost against the number of answers."""
    from opendp_optimal_select.plots import plot_cost

    plot_cost(output, epsilon=epsilon)
    click.echo(str(output))


@plot_group.command(name="ring")
@_output_option
@click.option("--tolerance", type=float, default=2e-3, show_default=True, help="Width to reach.")
def plot_ring_command(output: Path, tolerance: float) -> None:
    """Draw the ring optimum for two answers against Laplace noise (Figure 4)."""
    from opendp_optimal_select.plots import plot_ring
    from opendp_optimal_select.ring.optimum import optimal_ring

    with _widths(tolerance) as progress:
        optima = [
            optimal_ring(2, epsilon=rate, tolerance=tolerance, progress=progress)
            for rate in (0.375, 1.0)
        ]
    plot_ring(output, optima)
    click.echo(str(output))


@select.command(name="serve")
@click.option(
    "--catalogue",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="CSV file with the columns item,position.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=8765, show_default=True)
@click.option("--max-answers", type=int, default=100, show_default=True)
def serve_command(catalogue: Path, host: str, port: int, max_answers: int) -> None:
    """Run the reference service until interrupted."""
    from opendp_optimal_select.parties import Server
    from opendp_optimal_select.service import serve

    server = Server(_read_catalogue(catalogue), max_answers=max_answers)
    click.echo(f"serving {len(server.catalogue)} items on http://{host}:{port}", err=True)
    serve(server, host=host, port=port)


@select.command(name="ask")
@click.option("--url", default="http://127.0.0.1:8765", show_default=True)
@click.option("--value", type=float, required=True, help="The private value; it stays here.")
@_k_option
@_epsilon_option
@click.option(
    "--ledger",
    envvar="OPENDP_OPTIMAL_LEDGER",
    show_envvar=True,
    help="Where budgets are kept: a file, or postgresql://...",
)
@click.option("--name", help="The budget in the ledger to charge: an epsilon per unit.")
@click.option("--question", help="Asked again, the same signal is sent and nothing is charged.")
@json_option
def ask_command(
    url: str,
    value: float,
    k: int,
    epsilon: float,
    ledger: str | None,
    name: str | None,
    question: str | None,
    as_json: bool,
) -> None:
    """Send one private signal to a service and print the best of its answers."""
    from opendp_optimal.budget import open_ledger
    from opendp_optimal_select.parties import Client
    from opendp_optimal_select.service import http_transport

    source = click.get_current_context().get_parameter_source("ledger")
    charged = name is not None or source is ParameterSource.COMMANDLINE
    budgets = open_ledger(ledger) if charged and ledger is not None else None
    client = Client(epsilon, k, ledger=budgets, name=name)
    answer = client.ask(value, http_transport(url), question=question)
    if as_json:
        print_json({"item": answer.item, "position": answer.position}, indent=None)
    else:
        click.echo(str(answer.item))


def _read_catalogue(path: Path) -> Any:
    from opendp_optimal.extend import csv_rows
    from opendp_optimal_select.catalogue import Catalogue

    items, positions = [], []
    with csv_rows(path) as reader:
        if next(reader, []) != ["item", "position"]:
            raise ValueError(f"catalogue ({path.name}) must begin with the columns item,position")
        for number, row in enumerate(reader, start=2):
            try:
                items.append(row[0])
                positions.append(float(row[1]))
            except (IndexError, ValueError):
                raise ValueError(
                    f"catalogue ({path.name}, line {number}) must hold an item and a number"
                ) from None
    return Catalogue(positions, items)


@contextmanager
def _widths(tolerance: float) -> Iterator[Callable[[float], None]]:
    """Show how the width of an enclosure falls towards ``tolerance``."""
    widest = [0.0]

    with progress_bar("ring") as update:

        def progress(width: float) -> None:
            widest[0] = max(widest[0], width)
            span = math.log(max(widest[0], tolerance * 1.001) / tolerance)
            update(round(100 * math.log(widest[0] / max(width, tolerance)) / span), 100)

        yield progress

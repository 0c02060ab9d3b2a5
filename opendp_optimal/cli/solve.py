"""``opendp-optimal solve``: from a privacy target to a certified table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import click

import opendp_optimal
from opendp_optimal.cli import terminal
from opendp_optimal.table.base import Table

T = TypeVar("T")


@click.command()
@terminal.target
@terminal.loss_option
@terminal.integer_option
@terminal.gap_option
@terminal.kind_options
@click.option("--no-cache", is_flag=True, help="Solve afresh and keep nothing.")
@terminal.json_option
def solve(
    size: int | None, norm: str, mean: bool, gap: float, no_cache: bool, as_json: bool, **asked: Any
) -> int:
    """Find the optimal noise for EPSILON and DELTA (0 if left out) and its certificate.

    With --size, the best noise in a norm for vectors, losses l1 and l2; how close to optimal it is
    is proved under l2 for the loss l2. Exits with 3 if the gap asked for was not reached; of
    vectors none is asked for.
    """
    started = time.perf_counter()
    table = find_kind(size, norm, mean, gap, cache=not no_cache, **asked)
    seconds = time.perf_counter() - started
    facts = table.summary()
    if size is not None and not table.lower:
        facts = {name: value for name, value in facts.items() if name not in ("lower", "gap")}
    if as_json:
        terminal.print_json({**facts, "seconds": round(seconds, 4)})
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            click.echo(f"{name.ljust(width)}  {terminal.shown(name, value)}")
        terminal.note(f"took {seconds:.3f} s")
    return 0 if size is not None or table.gap <= gap else terminal.GAP_NOT_REACHED


def find_kind(size: int | None, norm: str, mean: bool, gap: float, **asked: Any) -> Table:
    """Solve or load a table of additive noise: for a number, a vector, or a mean and its count."""
    if mean:
        if size is not None or asked.pop("integer_sensitivity") is not None:
            raise click.UsageError("--mean goes with neither --size nor --integer")
        return noted(opendp_optimal.solve_pair, **asked, gap=gap)
    if size is not None:
        return noted(opendp_optimal.solve_radial, **asked, size=size, norm=norm)
    return noted(opendp_optimal.solve, **asked, gap=gap)


def noted(solve: Callable[..., T], **asked: Any) -> T:
    """Solve or load a table of any kind; a gap that was not reached is a note, not a warning."""
    with warnings.catch_warnings(record=True) as caught, terminal.working("solving"):
        warnings.simplefilter("always")
        table = solve(**asked)
    for warning in caught:
        terminal.note(f"note: {warning.message}")
    return table


def verdict(table: Table) -> str:
    """Return the certified interval in words."""
    return (
        f"expected {table.loss.name} loss {terminal.figure(table.upper)}, no mechanism below "
        f"{terminal.figure_down(table.lower)} (gap {100 * table.gap:.3g} %)"
    )

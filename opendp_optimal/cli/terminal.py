"""What every command shares at the terminal: where things are printed, exit codes, options.

JSON has no infinite numbers: with ``--json``, a number that is not finite is printed as null.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, USAGE, GAP_NOT_REACHED, INTERRUPTED = 0, 1, 2, 3, 130

NORMS = click.Choice(["l1", "l2", "linf"])

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
loss_option = click.option(
    "--loss", default="l1", show_default=True, help='What to minimise: l1, l2, "pinball:0.9", ...'
)
gap_option = click.option(
    "--gap", default=1e-3, show_default=True, help="Largest acceptable certified relative gap."
)
integer_option = click.option(
    "--integer",
    "integer_sensitivity",
    type=click.IntRange(min=1),
    help="Design for integer queries of this sensitivity.",
)


def writable(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Check an option that names a file to write, before any work: for ``callback=``."""
    from opendp_optimal.files import check_output

    if value is not None:
        try:
            check_output(value)
        except OSError as error:
            raise click.BadParameter(f"{str(value)!r}: {error.strerror}", ctx, param) from None
    return value


def drawable(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Check an option that names a picture to write: that it can be, and that its kind is known."""
    if writable(ctx, param, value) is not None:
        from opendp_optimal.cli.plots import check_ending

        check_ending(str(value))
    return value


plot_option = click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True),
    callback=drawable,
    help="Save a plot; the ending chooses the format (.png, .svg, .pdf).",
)


def target(command: F) -> F:
    """Add the arguments EPSILON and DELTA."""
    command = click.argument("delta", type=float, default=0.0)(command)
    return click.argument("epsilon", type=float)(command)


def count_option(name: str, help: str, default: int = 1) -> Callable[[F], F]:
    """An option that takes a positive number."""
    positive = click.IntRange(min=1)
    return click.option(name, type=positive, default=default, show_default=True, help=help)


def norm_option(help: str) -> Callable[[F], F]:
    """The option --norm of vectors."""
    return click.option("--norm", type=NORMS, default="l2", show_default=True, help=help)


def kind_options(command: F) -> F:
    """Add the options for noise of more than one number: --size, --norm and --mean."""
    command = click.option("--mean", is_flag=True, help="Noise for a mean and its count.")(command)
    command = norm_option("In which neighbouring vectors are 1 apart.")(command)
    return click.option(
        "--size", type=click.IntRange(1), help="Length of vectors: noise for all of one."
    )(command)


def console(*, stderr: bool = False) -> Console:
    """Return a console; wide and plain when nobody is looking."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 500  # in a file or a pipe nothing is cut off
    return Console(file=stream, width=width, highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """Print a line about what is going on, to stderr."""
    click.echo(text, err=True)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a result as JSON, to stdout.

    :param value: plain values; numpy's arrays and numbers are made plain.
    :param indent: None for a single line.
    """
    click.echo(json_text(value, indent=indent))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return a result as JSON that every reader takes: numbers that are not finite are null.

    >>> json_text({"gap": math.inf, "cells": (1, 2)})
    '{"gap": null, "cells": [1, 2]}'
    """
    return json.dumps(_plain(value), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    """The same in JSON's own types."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def print_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None
) -> None:
    """Print rows under headers, the first column to the left and the others to the right.

    What is in them is shown as it is: a note that somebody wrote is neither markup nor a command
    to the terminal.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for i, header in enumerate(headers):
        table.add_column(header, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text("".join(c if c.isprintable() else " " for c in cell)) for cell in row))
    console().print(table)


def print_audit(report: Any, as_json: bool) -> None:
    """Print what an audit proves; exit code 1 where it refutes the claim.

    :param report: an :class:`~opendp_optimal.testing.AuditReport`
    :param as_json: as JSON on one line
    """
    if as_json:
        print_json({**asdict(report), "violated": report.violated}, indent=None)
    else:
        click.echo(f"claimed {report.claimed:.6f}, proven at least {report.proven:.6f}")
        click.echo("REFUTED" if report.violated else "not refuted")
    if report.violated:
        raise click.exceptions.Exit(FAILED)


def figure(value: float, digits: int = 6) -> str:
    """Return a number in at most so many significant digits."""
    return f"{value:.{digits}g}"


def figure_down(value: float, digits: int = 6) -> str:
    """Return a lower bound in so many significant digits, which are nowhere above it.

    >>> figure_down(0.95951775), figure(0.95951775)
    ('0.959517', '0.959518')
    """
    if not math.isfinite(value):
        return figure(value, digits)
    rounded = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(value))
    # Where printing the nearest float would show more, it shows what was rounded already.
    return figure(float(rounded), digits)


def shown(name: str, value: Any) -> str:
    """Return a fact about a table in words: a bound from below is nowhere above it."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return figure_down(value) if name.endswith("lower") else figure(value)


def working(text: str) -> AbstractContextManager[object]:
    """Show a spinner on stderr while something takes its time; nothing without a terminal."""
    return console(stderr=True).status(text) if sys.stderr.isatty() else nullcontext()


def listed(text: str, name: str) -> list[float]:
    """Return the numbers of a comma-separated option."""
    try:
        values = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise click.BadParameter(f"{name} ({text!r}) must be numbers separated by commas") from None
    if not values:
        raise click.BadParameter(f"{name} ({text!r}) must hold at least one number")
    return values


class CommandGroup(click.Group):
    """Commands whose bad arguments are usage errors (exit code 2) and missing extras messages."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        except (ImportError, ConnectionError) as error:
            raise click.ClickException(str(error)) from None


@contextmanager
def progress_bar(label: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr while something is done step by step; nothing without a terminal.

    Yields a function: called with nothing, one more step is done; called with ``(done, total)``,
    so many of so many are.

    :param label: what is being done.
    :param total: how many steps there are, where that is known.
    """
    from rich.progress import Progress

    shown = console(stderr=True)
    with Progress(console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task(label, total=total)

        def update(done: int | None = None, total: int | None = None) -> None:
            if done is None:
                bar.advance(task)
            else:
                bar.update(task, completed=done, total=total)

        yield update

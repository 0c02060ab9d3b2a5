"""``opendp-optimal verify``: repeat both proofs of stored tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from opendp_optimal.cli.terminal import FAILED, json_option, note, print_json
from opendp_optimal.table import store as tables


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@json_option
def verify(files: tuple[str, ...], as_json: bool) -> int:
    """Repeat both proofs of table FILES, or of every stored table.

    Nothing but the files is used: no solver, no earlier result. Exits with 1 if a proof fails.
    """
    # Tables that plugins ship are stored tables too.
    import opendp_optimal

    opendp_optimal.load_plugins()
    places: list[Any] = [Path(name) for name in files] or list(tables.stored_files())
    results = [(str(place), tables.fault(place)) for place in places]
    wrong = [(place, reason) for place, reason in results if reason]
    if as_json:
        print_json([{"file": p, "verified": not why, "reason": why} for p, why in results])
    else:
        for place, reason in wrong:
            click.echo(f"{place}: {reason}")
        click.echo(f"{len(results) - len(wrong)} of {len(results)} tables verified")
    if wrong:
        note("a table that does not verify is never used; `opendp-optimal cache clear` removes it")
    return FAILED if wrong else 0

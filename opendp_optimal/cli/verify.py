"""``opendp-optimal verify``: repeat both proofs of stored tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from opendp_optimal.cli.terminal import FAILED, json_option, note, print_json
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.table import store as tables
from opendp_optimal.table.files import bounded as bounded_files
from opendp_optimal.table.files.noise import decode


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
    places: list[Any] = [Path(name) for name in files] or [
        *tables.stored_files(),
        *tables.stored_files(bounded_files.SUFFIX),
    ]
    results = [(str(place), check(place)) for place in places]
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


def check(place: Any) -> str:
    """Return why a table file does not verify; nothing if it does."""
    try:
        data = tables.contents(place)
        if data[:8] == bounded_files.MAGIC:
            bounded_files.decode(data)
        else:
            decode(data).verify()
    except (CertificateError, TableFormatError) as error:
        return f"{type(error).__name__}: {error}"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""

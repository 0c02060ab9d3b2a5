"""``opendp-optimal cache``: where tables are kept, which there are, and a way to clear them."""

from __future__ import annotations

import click

from opendp_optimal.cli.terminal import json_option, note, print_json, print_table, shown
from opendp_optimal.table import store as tables

COLUMNS = ("epsilon", "delta", "loss", "integer_sensitivity", "upper", "lower")


@click.group()
def cache() -> None:
    """List, locate or clear stored tables."""


@cache.command()
@json_option
def path(as_json: bool) -> None:
    """Print the folders that are searched; new tables go to the first."""
    folders = [str(folder) for folder in tables.directories()]
    if as_json:
        print_json(folders)
    else:
        click.echo("\n".join(folders))


@cache.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Bundled tables and those of plugins too.")
@json_option
def list_(everything: bool, as_json: bool) -> None:
    """List stored tables, as their files describe them."""
    if everything:
        import opendp_optimal

        opendp_optimal.load_plugins()
    own = str(tables.cache_directory())
    entries = [
        tables.describe(place)
        for place in tables.stored_files()
        if everything or str(place).startswith(own)
    ]
    if as_json:
        print_json(entries)
        return
    print_table(
        ["file", "epsilon", "delta", "loss", "integer", "upper", "lower"],
        [(entry["file"], *(shown(key, entry.get(key)) for key in COLUMNS)) for entry in entries],
    )


@cache.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(yes: bool) -> None:
    """Remove the tables in the cache; bundled ones stay."""
    if not yes:
        click.confirm(f"Remove all tables in {tables.cache_directory()}?", abort=True, err=True)
    note(f"removed {tables.clear()} tables")

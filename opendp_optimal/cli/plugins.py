"""``opendp-optimal plugins``: what is installed, what it adds, what was skipped."""

from __future__ import annotations

from dataclasses import asdict

import click

from opendp_optimal import plugins as registry
from opendp_optimal.cli.terminal import FAILED, json_option, note, print_json

KINDS = ("mechanisms", "losses", "tables", "commands", "candidates")


@click.command()
@json_option
def plugins(as_json: bool) -> int:
    """List installed plugins, what each adds, and what was skipped.

    Exits with 1 if a plugin was skipped.
    """
    found = registry.load()
    rows = []
    for plugin in found.found:
        added = {kind: sorted(one.name for one in found.of(plugin, kind)) for kind in KINDS}
        rows.append((plugin, {kind: names for kind, names in added.items() if names}))
    if as_json:
        print_json(
            {
                "plugins": [{**asdict(plugin), "adds": added} for plugin, added in rows],
                "failures": [asdict(failure) for failure in found.failures],
            }
        )
    else:
        for plugin, added in rows:
            click.echo(f"{plugin.distribution} {plugin.version} ({plugin.entry_point})")
            for kind, names in added.items():
                click.echo(f"    {kind}: {', '.join(names)}")
        for failure in found.failures:
            note(f"skipped: {failure}")
    return FAILED if found.failures else 0

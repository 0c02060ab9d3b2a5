"""The command line ``opendp-optimal``: results on stdout, everything else on stderr.

Exit codes: 0 done; 1 something failed (a table that does not verify, a plugin that was skipped, an
error while working); 2 wrong usage or a bad argument; 3 done, but the certified gap that was asked
for was not reached; 130 interrupted (the cache is whole: tables are written in one step).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from opendp_optimal import plugins as registry
from opendp_optimal.cli.terminal import DONE, FAILED, INTERRUPTED, USAGE, note


class Commands(click.Group):
    """A group whose commands are those that plugins register, the built-in ones first of all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(registry.load().commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name."""
        found = registry.load().commands.get(cmd_name)
        return found.value if found else None


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="opendp-optimal", message="%(package)s %(version)s")
def command_line() -> None:
    """Noise that is provably optimal for a differential privacy target.

    Exit codes: 0 done, 1 something failed, 2 wrong usage, 3 the gap asked for was not reached,
    130 interrupted.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    :param argv: the arguments, those of the process by default.
    """
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = command_line.main(argv, prog_name="opendp-optimal", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        note("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ValueError as error:
        note(f"error: {error}")
        return USAGE
    except BrokenPipeError:
        # The reader has gone (as in `| head`): nothing more to say, nor to flush.
        sys.stdout = None
        return DONE
    except Exception as error:
        note(f"error: {type(error).__name__}: {error}")
        return FAILED
    return code if isinstance(code, int) else DONE

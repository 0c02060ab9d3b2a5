"""Write the reference pages that describe code: ``python tests/docs/reference.py``.

The tests compare the pages with what this module makes of the code.
"""

import ast
import copy
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from opendp_optimal import extend, hookspecs, plugins
from opendp_optimal.builtins import opendp_optimal_register_commands
from opendp_optimal.cli import command_line

DOCS = Path(__file__).parents[2] / "docs"

CLI_HEAD = """# The command line

`opendp-optimal COMMAND`, or `python -m opendp_optimal COMMAND`. Results go to standard output,
progress and remarks to standard error. `--json` prints results for machines; JSON has no infinite
numbers, so a number that is not finite is `null`. Lower bounds are printed rounded down. Plots need
the extra `plot`; where a file cannot be written, a command says so before it does any work.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | something failed: a proof, a plugin, an agreement, or an error while working |
| 2 | wrong usage, or a bad argument |
| 3 | done, but the certified gap that was asked for was not reached |
| 130 | interrupted; the cache is whole, tables appear in it in one step |

## Environment

`OPENDP_OPTIMAL_CACHE` is the folder in which tables are kept; by default it is the platform's
cache folder for the user. Tables have the permissions of any new file there: whom the umask lets
read them, can use them. Only regular files are read.
"""

HOOKS_HEAD = """# Hooks

A plugin is a module that an installed distribution names in the entry-point group
`opendp_optimal`. It implements any of these hooks, each marked with `opendp_optimal.hookimpl`.
[Write a plugin](../tutorials/write-a-plugin.md) is the tutorial.

Plugins are loaded by `opendp_optimal.load_plugins()` and by the command line, not at import. Each
is loaded and checked on its own. One that does not import, has a misspelt or unmarked hook,
registers something that is not what it should be, or takes a name that is taken, is reported with
its distribution and skipped: as a warning of the logger `opendp_optimal.plugins`, in
`load_plugins().failures`, and by `opendp-optimal plugins`. What other plugins register stays. All
of what one hook of a plugin registers counts, or none of it. The package's own noise and commands
come in by the same door, and come first.
"""

EXTEND_HEAD = """# What plugins may use

`opendp_optimal.extend` is everything of the core that a plugin may use beside the public names of
`opendp_optimal`, `opendp_optimal.budget` and `opendp_optimal.testing`. It has no proof and no
solver: a plugin hands over masses or a table, and what it gets back is proved. Names are loaded
when they are first used, so importing it costs nothing. `make check` refuses other imports of a
plugin. [Write a plugin](../tutorials/write-a-plugin.md) is the tutorial, [hooks](hooks.md) are the
other half.
"""


def commands() -> list[click.Command]:
    """The built-in commands and their subcommands, by name."""
    found: list[click.Command] = []
    opendp_optimal_register_commands(register=found.append)
    return sorted(found, key=lambda command: command.name or "")


def help_text(command: click.Command, *parents: str) -> str:
    # A command remembers the help option of its first use, which may have been on its own.
    command = copy.copy(command)
    command._help_option = None
    above = click.Context(command_line, info_name="", **command_line.context_settings)
    name = " ".join([*parents, command.name or ""])
    context = click.Context(command, info_name=name, parent=above)
    context.terminal_width = 90
    context.max_content_width = 90
    return command.get_help(context)


def cli_page() -> str:
    parts = [CLI_HEAD]
    for command in commands():
        parts.append(f"## `opendp-optimal {command.name}`\n")
        parts.append(f"```\n{help_text(command, 'opendp-optimal')}\n```\n")
        if isinstance(command, click.Group):
            for name, inner in sorted(command.commands.items()):
                parts.append(f"### `opendp-optimal {command.name} {name}`\n")
                text = help_text(inner, "opendp-optimal", command.name or "")
                parts.append(f"```\n{text}\n```\n")
    return "\n".join(parts)


def hook_users() -> dict[str, list[str]]:
    """Which distributions of the repository implement each hook."""
    root = DOCS.parent
    own = {"opendp-optimal"}
    for manifest in root.glob("plugins/*/pyproject.toml"):
        own.add(f"opendp-optimal-{manifest.parent.name}")
    users: dict[str, list[str]] = {}
    for plugin in plugins.load().found:
        if plugin.distribution in own:
            for hook in plugin.hooks:
                users.setdefault(hook, []).append(plugin.distribution)
    return {hook: sorted(set(names)) for hook, names in users.items()}


def hooks() -> dict[str, object]:
    return {
        name: value
        for name, value in vars(hookspecs).items()
        if name.startswith("opendp_optimal_register")
    }


def hooks_page() -> str:
    parts = [HOOKS_HEAD]
    for name, function in hooks().items():
        parts.append(f"## `{name}(register)`\n")
        parts.append(f"{inspect.getdoc(function)}\n".replace("``", "`"))
        users = ", ".join(f"`{user}`" for user in hook_users()[name])
        parts.append(f"Used in this repository by {users}.\n")
    return "\n".join(parts)


def extend_homes() -> dict[str, list[str]]:
    """The modules that the names of ``extend`` come from, as its source lists them."""
    homes: dict[str, list[str]] = {}
    for line in ast.walk(ast.parse(Path(extend.__file__).read_text())):
        if isinstance(line, ast.ImportFrom):
            own = [name.name for name in line.names if name.name == name.asname]
            homes.setdefault(str(line.module), []).extend(own)
    return homes


def described(docstring: str) -> str:
    """A docstring as Markdown: parameters as a list, examples in blocks."""
    text = re.sub(r":\w+:`[~!]?([^`]+)`", r"`\1`", docstring.replace("``", "`"))
    text = re.sub(r"^:param (\w+):\s*", r"* `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^:returns?:\s*", "* returns ", text, flags=re.MULTILINE)
    text = re.sub(r"^:raises (\w+):\s*", r"* raises `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^( +)(?=\S)(?!\s*>>>)", "  ", text, flags=re.MULTILINE)
    return re.sub(r"((?:^>>> .*\n?)(?:^.+\n?)*)", r"```pycon\n\1\n```\n", text, flags=re.MULTILINE)


def call_of(name: str, value: Any) -> str:
    """A function or class with its parameters, without their types."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    bare = [p.replace(annotation=p.empty) for p in found.parameters.values()]
    text = f"{name}{found.replace(parameters=bare, return_annotation=found.empty)}"
    return re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)


def attribute_doc(module: ModuleType, name: str) -> str:
    """The string below an assignment, and what is assigned."""
    body = ast.parse(inspect.getsource(module)).body
    for node, below in zip(body, [*body[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in (getattr(target, "id", None) for target in targets):
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            words = f"\n\n{inspect.cleandoc(below.value.value)}" if said else ""
            return f"`{ast.unparse(node)}`{words}"
    return f"`{name} = {getattr(module, name)!r}`"


def _first(module: ModuleType, name: str) -> str:
    said = (inspect.getdoc(getattr(module, name)) or "").split("\n\n")[0]
    return described(" ".join(said.split()))


def described_name(home: str, name: str) -> str:
    """The part of the page about one name."""
    module = importlib.import_module(home)
    value = getattr(extend, name)
    if isinstance(value, ModuleType):
        public = [n for n in value.__all__ if callable(getattr(value, n))]
        lines = [f"* `{call_of(n, getattr(value, n))}`: {_first(value, n)}" for n in public]
        return "\n".join([f"### `{name}`\n", "A module:\n", *lines, ""])
    if inspect.isclass(value) or (inspect.isroutine(value) and inspect.getdoc(value)):
        words = described(inspect.getdoc(value) or "").rstrip()
        return f"### `{call_of(name, value)}`\n\n{words}\n"
    return f"### `{name}`\n\n{described(attribute_doc(module, name))}\n"


def extend_page() -> str:
    """The names by the room they come from."""
    rooms: dict[str, list[str]] = {}
    for home, names in extend_homes().items():
        for name in names:  # a room itself, or a name of its
            room = f"{home}.{name}".split(".")[1]
            rooms.setdefault(room, []).append(described_name(home, name))
    parts = [EXTEND_HEAD]
    for room, names in sorted(rooms.items()):
        said = inspect.getdoc(importlib.import_module(f"opendp_optimal.{room}")) or ""
        parts += [f"## {room}\n", described(said.split("\n\n")[0]) + "\n", *names]
    return "\n".join(parts)


PAGES = {"cli.md": cli_page, "hooks.md": hooks_page, "extend.md": extend_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / "reference" / name).write_text(page())

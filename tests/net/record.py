"""What may not change by accident: solved tables, signatures, commands and hooks.

``python tests/net/record.py`` compares everything with ``recorded.json`` (solved tables too, which
takes a minute); ``--write`` records it anew. Names are imported from the public faces only.

The last bits of solved tables depend on the processor. ``--against TREE`` compares only them, with
those that another tree of the project (``git worktree add TREE f5f4322``) solves on this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

_MODULE = re.compile(r"\bopendp_optimal(_\w+)?\.[\w.]*\.(?=\w)")
RECORDED = Path(__file__).parent / "recorded.json"
FACES = (
    "opendp_optimal",
    "opendp_optimal.budget",
    "opendp_optimal.extend",
    "opendp_optimal.testing",
    "opendp_optimal_select",
    "opendp_optimal_bayes",
    "opendp_optimal_geo",
    "opendp_optimal_learn",
    "opendp_optimal_example",
    "opendp_optimal_warehouse",
)
JSON = (
    "solve 1.7 0.01",
    "cache list",
    "advise 1 1e-6",
    "advise 0.5 --integer",
    "bayes geometric --n 2 --decay 1/2",
    "bayes posterior counts.csv --noise geometric:1",
    "bayes refine --n 2 --t 4",
    "budget create survey --epsilon 1",
    "budget log",
    "budget show",
    "budget verify",
    "cache path",
    "compare 1 1e-6",
    "demo",
    "geo audit --draws 100",
    "geo count points.csv --budget 1 --region region.wkt",
    "geo count-map points.csv --rho 1 --bounds 0,0,100,100 --cells 2",
    "geo density points.csv --budget 1 --bounds 0,0,100,100 --bandwidth 50 --cells 2",
    "geo kde points.csv --budget 1 --at 50,50 --bandwidth 50",
    "geo neighbours points.csv --budget 1 --at 50,50 --k 1",
    "keys 1 1e-6",
    "learn budget --numerical 1",
    "plugins",
    "select ask --value 1.5 --k 2",
    "select audit --draws 100",
    "select offsets",
    "select ring --tolerance 1 --cells 2",
    "show 1 0.1",
    "solve 1 1e-6",
    "verify",
    "warehouse demo --trips 1000",
    "warehouse release --url duckdb:///rows.db --table people --rows-are-people --count "
    "--epsilon 0.5 --delta 0 --ledger budgets.db --name survey",
    "warm --epsilon 1 --delta 1e-6 --jobs 1",
)
"""Commands that print for machines, asked one after the other in a folder with :data:`FILES`."""
FILES = {
    "counts.csv": "place,count\na,3\nb,0\nc,5\n",
    "points.csv": "x,y\n10,20\n30,40\n50,60\n",
    "region.wkt": "POLYGON ((0 0, 100 0, 100 100, 0 100, 0 0))",
}


def noise_requests() -> list[dict[str, Any]]:
    """Requests for additive noise, one of each sort."""
    asked: list[dict[str, Any]] = []
    for epsilon, delta in ((0.3, 1e-3), (1.0, 1e-6), (1.0, 0.1), (2.0, 1e-6), (3.0, 0.01)):
        for loss in ("l1", "l2"):
            asked.append({"epsilon": epsilon, "delta": delta, "loss": loss})
    for epsilon in (0.5, 1.0, 2.0, 5.0):
        for loss in ("l1", "l2"):
            asked.append({"epsilon": epsilon, "delta": 0.0, "loss": loss})
    asked += [
        {"epsilon": 1.0, "delta": 1e-6, "integer_sensitivity": 1},
        {"epsilon": 0.2, "delta": 1e-4, "integer_sensitivity": 3},
        {"epsilon": 1.0, "delta": 0.0, "integer_sensitivity": 2},
        {"epsilon": 2.0, "delta": 0.05, "integer_sensitivity": 4, "loss": "l2"},
        {"epsilon": 1.0, "delta": 0.05, "loss": "pinball:0.9"},
        {"epsilon": 0.5, "delta": 0.1, "loss": "pinball:0.2", "symmetric": True},
        {"epsilon": 3.0, "delta": 0.3, "monotone": True, "gap": 2e-3},
        {"epsilon": 1.0, "delta": 0.1, "support": 4.0},
        {"epsilon": 1.0, "delta": 0.1, "impossible": 0.02},
        {"epsilon": 1.0, "delta": 0.2, "cells": 12, "method": "highs", "gap": 0.05},
    ]
    return asked


def bounded_requests() -> list[dict[str, Any]]:
    """Requests for noise that depends on the answer."""
    return [
        {"epsilon": 1.0, "delta": 0.2, "sensitivity": 2, "range": (0, 4), "bins": 8},
        {"epsilon": 0.5, "delta": 0.0, "sensitivity": 1, "range": (0, 5), "bins": 10},
        {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1, "range": (0, 10), "integer": True},
        {"epsilon": 0.3, "delta": 0.0, "sensitivity": 1, "range": (0, 12), "integer": True},
        {"epsilon": 1.0, "delta": 0.1, "sensitivity": 2, "range": (0, 4), "bins": 6, "loss": "l2"},
        {"epsilon": 2.0, "delta": 0.05, "sensitivity": 1, "range": (0, 3), "bins": 9},
    ]


def channel_requests() -> list[dict[str, Any]]:
    """Requests for channels, by the sizes of what they hide."""
    return [
        {"epsilon": 1.0, "delta": 0.0, "size": 6, "power": 1},
        {"epsilon": 0.5, "delta": 0.0, "size": 9, "power": 2},
        {"epsilon": 1.0, "delta": 0.05, "size": 6, "power": 1},
        {"epsilon": 2.0, "delta": 1e-3, "size": 5, "power": 2},
        {"epsilon": 0.2, "delta": 0.0, "size": 12, "power": 1},
        {"epsilon": 1.5, "delta": 0.0, "size": 7, "power": 2},
    ]


def _digest(*parts: Any) -> str:
    text = hashlib.sha256()
    for part in parts:
        text.update(part.tobytes() if hasattr(part, "tobytes") else repr(part).encode())
    return text.hexdigest()[:24]


def _summary(table: Any, *parts: Any) -> dict[str, str]:
    table.verify()
    return {
        "digest": _digest(table.weights, *parts),
        "upper": table.upper.hex(),
        "lower": table.lower.hex(),
    }


def tables() -> Iterator[tuple[str, dict[str, str]]]:
    """Solve every request anew and yield what it became."""
    from opendp_optimal import solve, solve_bounded, solve_channel

    for request in noise_requests():
        noise = solve(**request, cache=False)
        yield f"noise {request}", _summary(noise, noise.atom, noise.cells)
    for request in bounded_requests():
        yield f"bounded {request}", _summary(solve_bounded(**request, cache=False))
    for request in channel_requests():
        size, power = request["size"], request["power"]
        distance = [[abs(x - y) for y in range(size)] for x in range(size)]
        loss = [[float(d) ** power for d in row] for row in distance]
        prior = [(x + 1) / (size * (size + 1) / 2) for x in range(size)]
        channel = solve_channel(prior, loss, request["epsilon"], distance, delta=request["delta"])
        yield f"channel {request}", _summary(channel)


def signatures() -> dict[str, str]:
    """The signature of every public name of the core and the plugins."""
    found = {}
    for face in FACES:
        module = importlib.import_module(face)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            try:
                shape = str(inspect.signature(value))
            except (TypeError, ValueError):
                shape = type(value).__name__
            found[f"{face}.{name}"] = re.sub(r" at 0x\w+", "", _MODULE.sub("", shape))
    return found


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in sorted(getattr(group, "commands", {}) or []):
        yield from _commands(group.commands[name], (*path, name))


def commands() -> dict[str, str]:
    """The help of every command, and the keys of what some print for machines."""
    from click.testing import CliRunner

    from opendp_optimal import load_plugins

    runner = CliRunner(env={"COLUMNS": "80"})  # as wide everywhere
    top = {name: added.value for name, added in load_plugins().commands.items()}
    found = {}
    for name in sorted(top):
        for path in _commands(top[name], (name,)):
            command = top[name]
            for part in path[1:]:
                command = command.commands[part]
            result = runner.invoke(command, ["--help"], prog_name=" ".join(path))
            found[" ".join(path)] = _words(result.output)
    return found | printed(runner, top)


def printed(runner: Any, top: dict[str, Any]) -> dict[str, str]:
    """The keys of what every command that has ``--json`` prints."""
    import duckdb

    from opendp_optimal_select import Catalogue, Server, service

    found = {}
    server = Server(Catalogue([1.0, 2.0], ["a", "b"]))
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, {"OPENDP_OPTIMAL_CACHE": "tables"}),
        mock.patch.object(service, "http_transport", return_value=server.handle),
    ):
        for name, text in FILES.items():
            Path(name).write_text(text)
        with duckdb.connect("rows.db") as rows:
            rows.sql("CREATE TABLE people AS SELECT 1 AS age")
        for line in JSON:
            name, *rest = line.split()
            result = runner.invoke(top[name], [*rest, "--json"], prog_name=name)
            try:
                found[f"json {line}"] = _keys(json.loads(result.stdout))
            except ValueError:
                raise RuntimeError(f"{line}: {result.output} {result.exception!r}") from None
    return found


def _words(text: str) -> str:
    """Help without its layout, which depends on who asked for it first."""
    return " ".join(text.replace("-h, --help", "--help").split())


def _keys(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_keys(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, list):
        return "[" + (_keys(value[0]) if value else "") + "]"
    return type(value).__name__.replace("NoneType", "null")


def hooks() -> dict[str, str]:
    """Every hook with its parameters."""
    from opendp_optimal import hookspecs

    return {
        name: str(inspect.signature(value))
        for name, value in sorted(vars(hookspecs).items())
        if name.startswith("opendp_optimal_register")
    }


def bundled() -> dict[str, str]:
    """The digest of every table that comes with the package."""
    folder = Path(importlib.import_module("opendp_optimal").__file__).parent / "table" / "bundled"
    return {
        place.name: hashlib.sha256(place.read_bytes()).hexdigest()[:24]
        for place in sorted(folder.iterdir())
        if place.suffix in (".noise", ".pair", ".radial")
    }


def everything() -> dict[str, Any]:
    """All of it; solved tables last."""
    return {
        "signatures": signatures(),
        "commands": commands(),
        "hooks": hooks(),
        "bundled": bundled(),
        "tables": dict(tables()),
    }


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """One line for each thing that is not as it was."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            here = f"{path} / {key}" if path else key
            if key not in new:
                yield f"gone: {here}"
            elif key not in old:
                yield f"new: {here}"
            else:
                yield from differences(old[key], new[key], here)
    elif old != new:
        yield f"changed: {path}\n    {old}\n    {new}"


def solved_by(tree: Path) -> Any:
    """The tables that another tree of the project solves."""
    known = os.pathsep.join(map(str, [tree.resolve(), *tree.resolve().glob("plugins/*")]))
    command = [sys.executable, str(Path(__file__)), "--solve"]
    environment = {**os.environ, "PYTHONPATH": known}
    return json.loads(
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    )


def main() -> int:
    """Compare, or record."""
    parser = argparse.ArgumentParser(description=__doc__)
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--write", action="store_true", help="record what is there now")
    other.add_argument("--solve", action="store_true", help="print solved tables")
    other.add_argument("--against", type=Path, metavar="TREE", help="compare solved tables")
    warnings.simplefilter("ignore")
    given = parser.parse_args()
    if given.solve:
        print(json.dumps(dict(tables())))
        return 0
    now = {"tables": dict(tables())} if given.against else everything()
    if given.write:
        RECORDED.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
        return 0
    known = {"tables": solved_by(given.against)} if given.against else None
    found = list(differences(known or json.loads(RECORDED.read_text()), now))
    print("\n".join(found) or "nothing changed")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

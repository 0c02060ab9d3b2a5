"""Hostile inputs for the parsers of the core: table files, the command line, its words."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import click
import numpy as np

from opendp_optimal import CertificateError, TableFormatError, load_plugins, solve, solve_bounded
from opendp_optimal.cli.terminal import listed
from opendp_optimal.losses import base as losses
from opendp_optimal.table.files.bounded import KIND as BOUNDED
from opendp_optimal.table.files.noise import KIND as NOISE
from opendp_optimal.testing import independent
from tests.attacks.hostile import FuzzError, mutate_bytes, mutate_json, mutate_text

# --- table files ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sealed:
    """A table file, and what it is sealed from."""

    data: bytes
    header: dict[str, Any]
    arrays: dict[str, Any]


def sealed_files(kind: Any, tables: list[Any]) -> list[Sealed]:
    out = []
    for table in tables:
        data = kind.encode(table)
        header, arrays = kind.unseal(data)
        header.pop("arrays")
        out.append(Sealed(data, header, arrays))
    return out


SMALL: dict[str, Any] = {"gap": 10.0, "cache": False}


@cache
def noise_tables() -> list[Sealed]:
    """Small files of every kind of noise table."""
    tables = [
        solve(1.0, 0.2, integer_sensitivity=1, **SMALL),
        solve(1.0, 0.3, integer_sensitivity=2, **SMALL),
        solve(1.5, 0.2, cells=2, **SMALL),
        solve(1.5, 0.2, cells=2, loss="pinball:0.7", **SMALL),
        solve(1.5, 0.2, cells=2, monotone=True, **SMALL),
        solve(1.5, 0.2, cells=2, support=3.0, impossible=0.15, **SMALL),
        solve(2.0, 0.0, integer_sensitivity=1, **SMALL),
        solve(2.0, 0.0, **SMALL),
    ]
    return sealed_files(NOISE, tables)


@cache
def bounded_tables() -> list[Sealed]:
    """Small files of both kinds of bounded table."""
    tables = [
        solve_bounded(1.0, 0.1, sensitivity=1, range=(0, 2), integer=True, **SMALL),
        solve_bounded(1.0, 0.1, sensitivity=1.0, range=(0.0, 2.0), bins=2, **SMALL),
    ]
    return sealed_files(BOUNDED, tables)


def _mutate_arrays(rng: random.Random, arrays: dict[str, Any]) -> dict[str, Any]:
    name = rng.choice(list(arrays))
    array = arrays[name].copy()
    kind = rng.randrange(7)
    if kind <= 2 and array.size >= 2:
        # Mass moved from one entry to another: the sums stay right.
        flat = array.reshape(-1)
        i, j = rng.randrange(flat.size), rng.randrange(flat.size)
        part = int(flat[i]) >> rng.choice((0, 1, 3, 10, 30, 50)) if rng.random() < 0.8 else 1
        flat[i] -= part
        flat[j] += part
    elif kind == 3 and array.size:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(
            (0, 1, -1, 1 << 62, -(1 << 62), (1 << 63) - 1)
        )
    elif kind == 4:
        array = array[::-1].copy()
    elif kind == 5:
        array = array.reshape(-1)[: rng.randrange(array.size + 1)]
    else:
        array = np.zeros(rng.choice(((0,), (1,), (3,), (0, 0), (1, 3), (2, 2))), np.int64)
    return {**arrays, name: array}


def _candidate(rng: random.Random, kind: Any, sealed: Sealed) -> bytes:
    """The file damaged, damaged and sealed again, or made of other parts."""
    way = rng.randrange(128)
    if way < 126:
        candidate = mutate_bytes(rng, sealed.data)
        if way >= 110:
            candidate = candidate[:-32] + hashlib.sha256(candidate[:-32]).digest()
        return candidate
    if way == 126:
        return kind.seal(sealed.header, _mutate_arrays(rng, sealed.arrays))
    changed = mutate_json(rng, sealed.header)
    if not isinstance(changed, dict):
        changed = {"version": 1}
    return kind.seal(changed, sealed.arrays)


def accepted(rng: random.Random, kind: Any, tables: list[Sealed]) -> Any:
    """What a kind of table makes of a hostile file: a table, or None if it refuses."""
    sealed = rng.choice(tables)
    candidate = _candidate(rng, kind, sealed)
    with contextlib.suppress(TableFormatError):
        kind.peek(candidate)
    try:
        table = kind.decode(candidate)
    except (TableFormatError, CertificateError):
        return None
    if not table.lower <= table.upper:
        raise FuzzError("a table was accepted with its bounds crossed")
    return table


def noise_table(rng: random.Random) -> bool:
    """A noise table: damaged, or changed and sealed again."""
    table = accepted(rng, NOISE, noise_tables())
    if table is None:
        return False
    if not independent.holds(table):
        raise FuzzError("a table was accepted whose proof fails in plain fractions")
    table.draw(2)
    table.draw()
    return True


def bounded_table(rng: random.Random) -> bool:
    """A bounded table: damaged, or changed and sealed again."""
    table = accepted(rng, BOUNDED, bounded_tables())
    if table is None:
        return False
    if not independent.channel_holds(table):
        raise FuzzError("a bounded table was accepted whose proof fails in plain fractions")
    return True


# --- the command line ----------------------------------------------------------------------------


@cache
def _commands() -> list[tuple[list[str], click.Command]]:
    """Every command and subcommand with the words that lead to it."""

    def walk(words: list[str], command: click.Command) -> Iterator[tuple[list[str], click.Command]]:
        if isinstance(command, click.Group):
            for name, inner in sorted(command.commands.items()):
                yield from walk([*words, name], inner)
        else:
            yield words, command

    found: list[tuple[list[str], click.Command]] = []
    for name, added in sorted(load_plugins().commands.items()):
        found += list(walk([name], added.value))
    return found


ARGUMENTS = [
    "1", "0", "-1", "1e-6", "nan", "inf", "-inf", "1e999", "0x10", "1,2", "1,,2", ",", "", " ",
    "--", "-", "-h", "l1", "pinball:2", "-o", "--json", "--gap", "0.5", "\u00e9", "9" * 40, "1_0",
    "even:3", "--no-such-option", "--json=1", "=", "@x", "%s", "{}",
]  # fmt: skip


def command_line(rng: random.Random) -> bool:
    """The words of a command line, for every command; parsed and not run."""
    words, command = rng.choice(_commands())
    options = [o for p in command.params for o in p.opts if o.startswith("-")]
    given = []
    for _ in range(rng.randrange(7)):
        kind = rng.randrange(5)
        if kind < 2 and options:
            given.append(rng.choice(options))
        elif kind == 2:
            given.append(mutate_text(rng, rng.choice(ARGUMENTS)).replace("\0", ""))
        else:
            given.append(rng.choice(ARGUMENTS))
    given = [word for word in given if word not in ("-h", "--help")]
    try:
        with command.make_context(words[-1], given):
            return True
    except (click.ClickException, ValueError):
        return False


WORDS = ["l1", "l2", "pinball:0.5", "pinball:1e-3", "1,2", "0.5", "1e-6,1e-9", "custom:a:b"]


def option_word(rng: random.Random) -> bool:
    """The names of losses and the lists of numbers that options hold."""
    text = mutate_text(rng, rng.choice(WORDS))
    accepted = False
    with contextlib.suppress(ValueError):
        accepted = isinstance(losses.loss_of(text), losses.Loss)
    with contextlib.suppress(click.BadParameter):
        accepted = all(isinstance(value, float) for value in listed(text, "epsilon"))
    return accepted


PARSERS: dict[str, Callable[[random.Random], bool]] = {
    "noise table files": noise_table,
    "bounded table files": bounded_table,
    "command line": command_line,
    "words of options": option_word,
}

"""Hostile inputs for every parser, many a second, from a seed: the same inputs again every time.

A target makes an input from random choices and gives it to its parser. The parser may refuse it
with its own error; any other error is a crash. What it accepts is checked by the target: an
accepted table must be private by the proof in plain fractions, an accepted message must survive
being written and read again. ``FuzzError`` says what went wrong, with the input.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np

from opendp_optimal import CertificateError, TableFormatError, load_plugins, solve, solve_bounded
from opendp_optimal.table import bounded_files, format
from opendp_optimal.testing import independent

Parse = Callable[[random.Random], bool]

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, -1e308, 2**31, 2**62, 2**63, 2**64, -(2**63),
    10**30, "", "x", "0x1p0", "0x1p-1074", "inf", "nan", "-inf", "0x1p99999", [], {}, [[]], [1, 2],
    {"a": 1}, "l1", "l2", "pinball:0.5", "pinball:nan", "custom:x:00", "9" * 50, "\ud83d\ude00",
]  # fmt: skip
TEXT = [*list("0123456789.,-+eE:;/\\\"'[]{}()<>= \n\tnaifNULPOYGM"), "é", "😀"]


CHUNK = 256


class FuzzError(AssertionError):
    """A parser crashed on an input, or accepted what it must refuse."""


@dataclass(frozen=True)
class Fuzzed:
    """What a run did."""

    target: str
    inputs: int
    accepted: int
    seconds: float


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Flip, cut, repeat, insert or overwrite a few bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + rng.randrange(1, 9)]
        elif kind == 2:
            out[at:at] = out[at : at + rng.randrange(1, 40)]
        elif kind == 3:
            out[at:at] = rng.randbytes(rng.randrange(1, 5))
        elif kind == 4 and at < len(out):
            out[at] = rng.choice(b'0189-"[]{},:.eE\\\x00\xff')
        else:
            del out[rng.randrange(len(out) + 1) :]
            out += rng.randbytes(rng.randrange(3))
    return bytes(out)


def mutate_json(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Another value somewhere in a JSON document; a shallow copy of the rest."""
    if isinstance(value, dict) and value and rng.random() < 0.9 - 0.1 * depth:
        key = rng.choice(list(value))
        kind = rng.randrange(10)
        if kind == 0:
            return {k: v for k, v in value.items() if k != key}
        if kind == 1:
            return {**value, rng.choice(("x", "", key + "s")): rng.choice(VALUES)}
        return {**value, key: mutate_json(rng, value[key], depth + 1)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        if rng.randrange(5) == 0:
            return value[:at] + value[at + 1 :]
        return [*value[:at], mutate_json(rng, value[at], depth + 1), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return value + rng.choice((-1, 1, 2, -2, 1 << 20))
    if isinstance(value, str) and value.startswith("0x") and rng.random() < 0.5:
        try:
            return (float.fromhex(value) * rng.choice((0.5, 0.9, 1.1, 2.0, -1.0))).hex()
        except (ValueError, OverflowError):
            return rng.choice(VALUES)
    return rng.choice(VALUES)


def mutate_text(rng: random.Random, text: str) -> str:
    """Insert, drop, repeat or replace a few characters."""
    out = list(text)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            out[at:at] = rng.choice(TEXT)
        elif kind == 1:
            del out[at : at + rng.randrange(1, 5)]
        elif kind == 2:
            out[at:at] = out[at : at + rng.randrange(1, 30)]
        else:
            out[at : at + 1] = rng.choice(TEXT)
    return "".join(out)


# --- table files ---------------------------------------------------------------------------------


@cache
def _noise_tables() -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
    small: dict[str, Any] = {"gap": 10.0, "cache": False}
    tables = [
        solve(1.0, 0.2, integer_sensitivity=1, **small),
        solve(1.0, 0.3, integer_sensitivity=2, **small),
        solve(1.5, 0.2, cells=2, **small),
        solve(1.5, 0.2, cells=2, loss="pinball:0.7", **small),
        solve(1.5, 0.2, cells=2, monotone=True, **small),
        solve(1.5, 0.2, cells=2, support=3.0, impossible=0.15, **small),
        solve(2.0, 0.0, integer_sensitivity=1, **small),
        solve(2.0, 0.0, **small),
    ]
    out = []
    for table in tables:
        data = format.encode(table)
        header, arrays = format.unseal(format.MAGIC, format.VERSION, data)
        header.pop("arrays")
        out.append((data, header, arrays))
    return out


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


def noise_table(rng: random.Random) -> bool:
    """A noise table: damaged, or changed and sealed again."""
    data, header, arrays = rng.choice(_noise_tables())
    kind = rng.randrange(64)
    if kind < 62:
        candidate = mutate_bytes(rng, data)
        if kind >= 54:
            candidate = candidate[:-32] + hashlib.sha256(candidate[:-32]).digest()
    elif kind == 62:
        candidate = format.seal(format.MAGIC, header, _mutate_arrays(rng, arrays))
    else:
        changed = mutate_json(rng, header)
        if not isinstance(changed, dict):
            changed = {"version": 1}
        candidate = format.seal(format.MAGIC, changed, arrays)
    with contextlib.suppress(TableFormatError):
        format.peek(candidate)
    try:
        table = format.decode(candidate)
    except (TableFormatError, CertificateError):
        return False
    if candidate == data:
        return True
    if not independent.holds(table) or not table.lower <= table.upper:
        raise FuzzError("a table was accepted whose proof fails in plain fractions")
    table.draw(2)
    table.draw()
    return True


@cache
def _bounded_tables() -> list[tuple[bytes, dict[str, Any], dict[str, Any]]]:
    small: dict[str, Any] = {"gap": 10.0, "cache": False}
    tables = [
        solve_bounded(1.0, 0.1, sensitivity=1, range=(0, 2), integer=True, **small),
        solve_bounded(1.0, 0.1, sensitivity=1.0, range=(0.0, 2.0), bins=2, **small),
    ]
    out = []
    for table in tables:
        data = bounded_files.encode(table)
        header, arrays = format.unseal(bounded_files.MAGIC, bounded_files.VERSION, data)
        header.pop("arrays")
        out.append((data, header, arrays))
    return out


def bounded_table(rng: random.Random) -> bool:
    """A bounded table: damaged, or changed and sealed again."""
    data, header, arrays = rng.choice(_bounded_tables())
    kind = rng.randrange(64)
    if kind < 62:
        candidate = mutate_bytes(rng, data)
        if kind >= 54:
            candidate = candidate[:-32] + hashlib.sha256(candidate[:-32]).digest()
    elif kind == 62:
        candidate = format.seal(bounded_files.MAGIC, header, _mutate_arrays(rng, arrays))
    else:
        changed = mutate_json(rng, header)
        if not isinstance(changed, dict):
            changed = {"version": 1}
        candidate = format.seal(bounded_files.MAGIC, changed, arrays)
    with contextlib.suppress(TableFormatError):
        bounded_files.peek(candidate)
    try:
        table = bounded_files.decode(candidate)
    except (TableFormatError, CertificateError):
        return False
    if not table.lower <= table.upper:
        raise FuzzError("a bounded table was accepted with its bounds crossed")
    if not independent.channel_holds(table):
        raise FuzzError("a bounded table was accepted whose proof fails in plain fractions")
    return True


# --- messages between parties --------------------------------------------------------------------


def _message(rng: random.Random, document: dict[str, Any]) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return mutate_bytes(rng, json.dumps(document).encode())
    changed = mutate_json(rng, document)
    if kind == 1 and isinstance(changed, dict):
        changed = mutate_json(rng, changed)
    return json.dumps(changed).encode()


REQUESTS: list[dict[str, Any]] = [
    {"kind": "request", "signal": 1.5, "noise": "laplace", "scale": 1.0, "k": 3},
    {"kind": "request", "signal": [1.5, 2.0], "noise": "gaussian", "scale": 0.5, "k": 1},
]
RESPONSE: dict[str, Any] = {
    "kind": "response",
    "answers": [{"item": "a", "position": 1.0}, {"item": 2, "position": [0.5, 1]}],
}


def select_request(rng: random.Random) -> bool:
    """What a client of multi-selection sends."""
    from opendp_optimal_select.messages import FORMAT, MessageError, Request

    data = _message(rng, {"format": FORMAT, **rng.choice(REQUESTS)})
    try:
        request = Request.decode(data)
    except MessageError:
        return False
    if Request.decode(request.encode()) != request:
        raise FuzzError("an accepted request does not survive being written")
    return True


def select_response(rng: random.Random) -> bool:
    """What a server of multi-selection sends back."""
    from opendp_optimal_select.messages import FORMAT, MessageError, Response

    data = _message(rng, {"format": FORMAT, **RESPONSE})
    try:
        response = Response.decode(data, k=2)
    except MessageError:
        return False
    if Response.decode(response.encode(), k=2) != response:
        raise FuzzError("an accepted response does not survive being written")
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


# --- files of the plugins ------------------------------------------------------------------------

REGIONS = [
    "POLYGON ((0 0, 4 0, 4 3, 0 3, 0 0))",
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))",
    '{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,3],[0,3],[0,0]]]}',
    '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{},"geometry":'
    '{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,3],[0,0]]]}}]}',
]


def geo_region(rng: random.Random) -> bool:
    """A region as WKT or GeoJSON."""
    from opendp_optimal_geo.commands import _region

    text = rng.choice(REGIONS)
    if text.startswith("{") and rng.random() < 0.5:
        text = json.dumps(mutate_json(rng, json.loads(text)))
    else:
        text = mutate_text(rng, text)
    try:
        region = _region(text, None)
    except ValueError:
        return False
    if region.is_empty or not region.is_valid or not 0 < region.area < float("inf"):
        raise FuzzError("a region was accepted that has no area")
    return True


@cache
def _folder() -> Path:
    quick = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=quick if quick.is_dir() else None))


def _file(name: str, data: bytes) -> Path:
    place = _folder() / name
    place.write_bytes(data)
    return place


def geo_points(rng: random.Random) -> bool:
    """A CSV file of points."""
    from opendp_optimal_geo.files import read_columns

    data = mutate_bytes(rng, b"id,x,y\n1,0.5,2\n2,-3e5,1e-3\n")
    try:
        points = read_columns(_file("points.csv", data), ["x", "y"])
    except ValueError:
        return False
    return bool(points.shape[1] == 2)


@cache
def _ledger() -> bytes:
    from fractions import Fraction

    from opendp_optimal_geo.prices import Ledger
    from opendp_optimal_geo.state import save_ledger

    place = _folder() / "whole.budgets"
    save_ledger(place, Ledger(Fraction(3, 2), 4), {"a": 1})
    return place.read_bytes()


def geo_budgets(rng: random.Random) -> bool:
    """A file of budgets."""
    import zlib

    from opendp_optimal_geo.state import load_ledger

    head, body = _ledger().split(b"\n", 1)
    if rng.random() < 0.3:
        data = mutate_bytes(rng, _ledger())
    else:
        header = json.loads(head)
        if rng.random() < 0.3:
            body = mutate_bytes(rng, body)
            header["crc32"], header["bytes"] = zlib.crc32(body), len(body)
        else:
            header = mutate_json(rng, header)
        data = json.dumps(header).encode() + b"\n" + body
    try:
        ledger, _ = load_ledger(_file("people.budgets", data))
    except ValueError:
        return False
    if (ledger.paid < 0).any():
        raise FuzzError("budgets were accepted that nobody can have")
    return True


def select_catalogue(rng: random.Random) -> bool:
    """A CSV file of a catalogue."""
    from opendp_optimal_select.commands import _read_catalogue

    data = mutate_bytes(rng, b"item,position\na,0.5\nb,-2\nc,1e3\n")
    try:
        catalogue = _read_catalogue(_file("items.csv", data))
    except ValueError:
        return False
    return len(catalogue) > 0


TARGETS: dict[str, Parse] = {
    "noise table files": noise_table,
    "bounded table files": bounded_table,
    "select requests": select_request,
    "select responses": select_response,
    "command line": command_line,
    "geo region files": geo_region,
    "geo point files": geo_points,
    "geo budget files": geo_budgets,
    "select catalogue files": select_catalogue,
}


def run(name: str, inputs: int, seed: int, seconds: float = float("inf")) -> Fuzzed:
    """Give a parser so many inputs (or as many as the time allows); raises on the first failure."""
    target = TARGETS[name]
    started = time.perf_counter()
    accepted = done = 0
    rng = random.Random()
    for number in range(inputs):
        if number % CHUNK == 0:
            rng.seed(f"{name}/{seed}/{number // CHUNK}")  # a failure is found again from here
        try:
            accepted += target(rng)
        except Exception as error:
            raise FuzzError(f"{name}: input {number} of seed {seed}: {error!r}") from error
        done += 1
        if number % CHUNK == 0 and time.perf_counter() - started > seconds:
            break
    return Fuzzed(name, done, accepted, time.perf_counter() - started)

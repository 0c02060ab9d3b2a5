"""Hostile inputs made from good ones: bytes, JSON documents and text, changed at random."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, -1e308, 2**31, 2**62, 2**63, 2**64, -(2**63),
    10**30, "", "x", "0x1p0", "0x1p-1074", "inf", "nan", "-inf", "0x1p99999", [], {}, [[]], [1, 2],
    {"a": 1}, "l1", "l2", "pinball:0.5", "pinball:nan", "custom:x:00", "9" * 50, "\ud83d\ude00",
]  # fmt: skip
TEXT = [*list("0123456789.,-+eE:;/\\\"'[]{}()<>= \n\tnaifNULPOYGM"), "é", "😀"]


class FuzzError(AssertionError):
    """A parser crashed on an input, or accepted what it must refuse."""


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


def mutate_rows(rng: random.Random, data: bytes) -> bytes:
    """A CSV file with a few bytes changed, or with a cell of another kind."""
    if rng.random() < 0.5:
        return mutate_bytes(rng, data)
    lines = [line.split(b",") for line in data.split(b"\n")]
    cells = rng.choice(lines)
    cells[rng.randrange(len(cells))] = rng.choice(CELLS)
    return b"\n".join(b",".join(line) for line in lines)


CELLS = [
    b"", b"x", b"nan", b"inf", b"-inf", b"1e999", b"-0", b"0x10", b"1_0", b'"', b'"a\nb"', b"\0",
    b"\xff\xfe", b"\r", b"9" * 400, b'"' + b"z" * 140_000 + b'"', b",,,", b"?", b" 1 ",
    b"-1", b"2.5",
]  # fmt: skip


@cache
def folder() -> Path:
    """A folder for files, in memory where the system has such a place."""
    quick = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=quick if quick.is_dir() else None))


def file(name: str, data: bytes) -> Path:
    """A file with this content."""
    place = folder() / name
    place.write_bytes(data)
    return place

"""Who is who: people by identifiers, of which only keyed hashes are kept.

Without the key nobody can tell whose budget is whose, or try whether somebody is there. The key is
in a file of its own, for its owner alone; whoever loses it cannot go on spending the budgets.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import read_regular
from opendp_optimal_geo.allowances import BLOCK, Users

Ids = NDArray[np.bytes_]
"""An identifier for each person."""
Keys = NDArray[np.uint64]
"""A keyed hash of 128 bits for each person, in two words."""

LONGEST = 1000
"""The most letters of an identifier."""


class Pseudonyms:
    """Turns identifiers into keyed hashes; the same in every run, other ones for another name.

    :param path: file with the key
    :param name: of the population
    """

    def __init__(self, path: Path, name: str) -> None:
        """Read the key."""
        self._key = hashlib.blake2b(name.encode(), key=_read_key(path), digest_size=32).digest()

    @property
    def commitment(self) -> str:
        """A text that is the same for the same key and tells nothing else about it."""
        return hashlib.blake2b(b"", key=self._key, digest_size=16, person=b"commitment").hexdigest()

    def of(self, ids: Ids) -> Keys:
        """Return the keyed hash of each identifier.

        :param ids: from :func:`check_ids`
        """
        hashed = partial(hashlib.blake2b, key=self._key, digest_size=16, person=b"person")
        keys = np.empty((len(ids), 2), np.uint64)
        for begin in range(0, len(ids), BLOCK):
            some = map(hashed, ids[begin : begin + BLOCK].tolist())
            joined = b"".join(map(methodcaller("digest"), some))
            keys[begin : begin + BLOCK] = np.frombuffer(joined, np.uint64).reshape(-1, 2)
        return keys


def find(keys: Keys, known: Keys) -> tuple[Users, Users]:
    """Return where people stand among those who are known, and the rows of newcomers.

    Newcomers stand behind all others, in their order.

    :param keys: of the rows
    :param known: of everybody, in the order of the columns
    :raises ValueError: if two rows have the same identifier
    """
    both = np.concatenate([known, keys])
    order = np.lexsort((both[:, 1], both[:, 0]))
    ranked = both[order]
    same = np.zeros(len(both), np.bool_)  # as the one before
    same[1:] = (ranked[1:] == ranked[:-1]).all(axis=1)
    # Sorting is stable: of those who are the same the known one comes first.
    mine = order >= len(known)
    again = mine & same
    if (again[1:] & mine[:-1]).any():
        raise ValueError("ids must be different: two rows have the same")
    places = np.full(len(keys), -1)
    after = np.flatnonzero(again)
    places[order[after] - len(known)] = order[after - 1]
    new = np.flatnonzero(places < 0)
    places[new] = len(known) + np.arange(len(new))
    return places, new


def create_key(path: Path) -> None:
    """Make a key for its owner alone, unless there is one.

    :param path: file to make
    """
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # a link, unlike a move, replaces nothing
            os.link(draft, path)
    finally:
        os.unlink(draft)


def _read_key(path: Path) -> bytes:
    try:
        text = read_regular(path, 1000).decode("ascii").strip()
        key = bytes.fromhex(text)
        if len(key) != 32:
            raise ValueError
    except FileNotFoundError:
        raise ValueError(
            f"key ({path.name}) must be the file that was made with the population: it is missing"
        ) from None
    except ValueError:
        raise ValueError(f"key ({path.name}) must hold 64 hexadecimal digits") from None
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ValueError(f"key ({path.name}) must be readable by its owner alone: chmod 600")
    return key


def check_ids(ids: Any, size: int) -> Ids:
    """Return identifiers as bytes; messages never repeat one.

    :param ids: whole numbers or texts; 7 and "7" are the same
    :param size: how many there must be
    """
    wrong = ValueError("ids must be whole numbers or texts, one for each user, and none empty")
    if not isinstance(ids, np.ndarray) or ids.dtype == object:
        if isinstance(ids, str | bytes):
            raise wrong
        try:
            kinds = set(map(type, ids))
        except TypeError:
            raise wrong from None
        alike = any(all(issubclass(k, t) for k in kinds) for t in (str, (int, np.integer)))
        if not alike or bool in kinds:
            raise wrong
        ids = np.array(list(map(str, ids)))
    if ids.shape != (size,) or ids.dtype.kind not in "iuUS":
        raise wrong
    if ids.dtype.itemsize > 4 * LONGEST:
        raise ValueError(f"ids must have at most {LONGEST} letters")
    try:
        ids = np.char.encode(ids, "utf-8") if ids.dtype.kind == "U" else ids.astype("S")
    except UnicodeEncodeError:
        raise wrong from None
    if (ids == b"").any():
        raise wrong
    result: Ids = ids
    return result

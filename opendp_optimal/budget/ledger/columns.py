"""Bytes that a plugin keeps in a ledger: budgets of many people as columns, no row for each.

A column is a list of pieces, such as what somebody paid in one look. Each piece is a line of the
log with its digest, and can only be added by one who has seen the piece before it: two who pay at
once cannot both pay from what was there before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opendp_optimal.budget.ledger.chain import Entry, as_text
from opendp_optimal.budget.ledger.ledger import Ledger
from opendp_optimal.budget.ledger.lines import detail_of
from opendp_optimal.budget.ledger.tables import NOTHING
from opendp_optimal.errors import LedgerError

CHUNK = 1 << 26
"""Bytes in a row of the database; databases take a thousand million at most."""


@dataclass(frozen=True)
class Piece:
    """A piece of a column.

    :param number: its line in the log
    :param sort: what it is, as its writer called it
    :param content: its bytes
    """

    number: int
    sort: str
    content: bytes


class Columns:
    """The pieces of one name in a ledger.

    Made by :meth:`Ledger.columns`.

    :param ledger: where they are kept
    :param name: whose they are
    """

    def __init__(self, ledger: Ledger, name: str) -> None:
        """Keep the name."""
        self._ledger, self.name = ledger, name

    def add(
        self,
        sort: str,
        content: bytes,
        *,
        seen: int,
        replaces: Collection[str] = (),
        note: str = "",
        **detail: Any,
    ) -> int | None:
        """Add a piece, on disk, unless somebody else has added one meanwhile.

        :param sort: what it is
        :param content: its bytes
        :param seen: the number of the last piece that was read; 0 if there was none
        :param replaces: earlier pieces of these sorts are dropped: this one has them in it
        :param note: who, what, which query
        :param detail: what else is to stand in the log; nothing secret
        :returns: its number; None if there is a piece that was not read, and nothing was added
        """
        digest = hashlib.sha256(content).hexdigest()
        line = detail_of(note, **detail, sort=sort, digest=digest, replaces=sorted(replaces))
        with self._ledger._writing() as change:
            last = change.all("SELECT max(number) FROM ledger_columns WHERE name = ?", self.name)
            if (last[0][0] or 0) != seen:
                return None
            for old in replaces:
                change.all("DELETE FROM ledger_columns WHERE name = ? AND sort = ?", self.name, old)
            number: int = change.append(self.name, "columns", NOTHING, as_text(line))
            for place in range(0, max(1, len(content)), CHUNK):
                change.all(
                    "INSERT INTO ledger_columns VALUES (?, ?, ?, ?, ?)",
                    *(self.name, number, place, sort, content[place : place + CHUNK]),
                )
            return number

    def since(self, number: int) -> list[Piece]:
        """Return the pieces after a number, in order.

        :param number: of the last piece that was read; 0 for all
        :raises LedgerError: if they are not what the log says, or an older copy of the ledger
        """
        with self._ledger._reading() as look:
            rows = look.all(
                "SELECT number, sort, content FROM ledger_columns "
                "WHERE name = ? AND number > ? ORDER BY number, place",
                *(self.name, number),
            )
            lines = look.all(
                "SELECT number, detail FROM ledger_log WHERE name = ? AND number > ? "
                "AND action = 'columns' ORDER BY number",
                *(self.name, number),
            )
        pieces = list(_joined(rows))
        said = _kept((line, self.name, json.loads(detail)) for line, detail in lines)
        found = {piece.number: hashlib.sha256(piece.content).hexdigest() for piece in pieces}
        if found != {number: detail["digest"] for number, (_, detail) in said.items()}:
            raise LedgerError(
                f"{self._ledger.address}: the columns of {self.name!r} are not what the log says"
            )
        return pieces


def _kept(
    lines: Iterable[tuple[int, str, dict[str, Any]]],
) -> dict[int, tuple[str, dict[str, Any]]]:
    """Return the lines whose pieces were not replaced by later ones, by number."""
    kept: dict[int, tuple[str, dict[str, Any]]] = {}
    for number, name, detail in lines:
        for old, (whose, said) in list(kept.items()):
            if whose == name and said["sort"] in detail["replaces"]:
                del kept[old]
        kept[number] = name, detail
    return kept


def _joined(rows: Sequence[tuple[Any, ...]]) -> Iterator[Piece]:
    """Put the rows of each piece together."""
    begin = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end][0] != rows[begin][0]:
            number, sort, _ = rows[begin]
            yield Piece(number, sort, b"".join(bytes(row[2]) for row in rows[begin:end]))
            begin = end


def check_columns(look: Any, entries: Sequence[Entry]) -> None:
    """Raise unless the pieces that are there are those that the log speaks of.

    :param look: a transaction
    :param entries: the whole log
    """
    lines = ((e.number, e.name, e.detail) for e in entries if e.action == "columns")
    wanted = _kept(lines)
    found = look.all("SELECT DISTINCT number, name, sort FROM ledger_columns ORDER BY number")
    if [(number, name, detail["sort"]) for number, (name, detail) in wanted.items()] != found:
        raise LedgerError("the columns are not those that the log speaks of")
    for number, (_, detail) in wanted.items():
        digest = hashlib.sha256()
        for (content,) in look.all(
            "SELECT content FROM ledger_columns WHERE number = ? ORDER BY place", number
        ):
            digest.update(content)
        if digest.hexdigest() != detail["digest"]:
            raise LedgerError(f"the columns of line {number} are not what was written")

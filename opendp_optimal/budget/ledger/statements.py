"""What the embedded ledger does within a transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

from opendp_optimal.budget.ledger.chain import BEGINNING, Amount, link_of
from opendp_optimal.budget.ledger.lines import now

__all__ = ["Transaction"]

_HEAD = "SELECT number, link FROM ledger_log ORDER BY number DESC LIMIT 1"
_PAY = (
    "UPDATE ledger_budgets "
    "SET spent_main = spent_main + ?3, spent_delta = spent_delta + ?4 WHERE name = ?1 "
    "AND kind = ?2 AND ?3 <= limit_main - spent_main AND ?4 <= limit_delta - spent_delta"
)
_LINE = "INSERT INTO ledger_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Transaction:
    """What a ledger does within a transaction."""

    begun = generation = 0
    """The number of the last line of the log, when it began and now."""
    link = BEGINNING
    """The digest of this line."""
    told = "nothing was charged"
    """What a failure means."""

    def __init__(self, db: sqlite3.Connection, cursor: sqlite3.Cursor) -> None:
        """Use a connection, and a cursor of it that is free."""
        self.db, self.execute = db, cursor.execute

    def find_head(self) -> int:
        """Find the last line of the log, and return its number."""
        for head in self.execute(_HEAD):
            self.generation, self.link = head
        self.begun = self.generation
        return self.generation

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self.execute(statement, values).fetchall()

    def append(self, name: str, action: str, amount: Amount, detail: str) -> int:
        """Write a line of the log, linked to the one before, and return its number."""
        number = self.generation + 1
        line = number, now(), name, action, amount.main, amount.delta, detail
        link = link_of(self.link, *line)
        self.execute(_LINE, (*line, link))
        self.generation, self.link = number, link
        return number

    def charge(self, name: str, kind: str, price: Amount, detail: str) -> int | None:
        """Charge a budget of a kind, and write a line of it, if so much is left.

        :returns: the number of the line, or none
        """
        paid = self.execute(_PAY, (name, kind, price.main, price.delta)).rowcount
        return self.append(name, "charge", price, detail) if paid == 1 else None

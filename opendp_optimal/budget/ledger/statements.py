"""What the embedded ledger does within a transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

from opendp_optimal.budget.ledger.chain import BEGINNING, Amount, link_of
from opendp_optimal.budget.ledger.lines import now

_HEAD = "SELECT number, link FROM ledger_log ORDER BY number DESC LIMIT 1"
_PAY = (
    "UPDATE ledger_budgets "
    "SET spent_main = spent_main + ?3, spent_delta = spent_delta + ?4 WHERE name = ?1 "
    "AND kind = ?2 AND ?3 <= limit_main - spent_main AND ?4 <= limit_delta - spent_delta "
    f"AND (?5, ?6) = ({_HEAD})"
)
_LINE = "INSERT INTO ledger_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class Transaction:
    """What a ledger does within a transaction; those of a connection come one after the other."""

    begun = 0
    """The number of the last line of the log when it began."""
    told = ""
    """What a failure means."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Use a connection."""
        self.db, self.execute = db, db.cursor().execute
        self.forget()

    def forget(self) -> None:
        """Know of no line of the log."""
        self.generation, self.link = -1, ""

    def find_head(self) -> int:
        """Find the last line of the log, and return its number."""
        self.generation, self.link = 0, BEGINNING
        for head in self.execute(_HEAD):
            self.generation, self.link = head
        self.begun = self.generation
        return self.generation

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self.execute(statement, values).fetchall()

    def append(self, name: str, action: str, amount: Amount, detail: str) -> int:
        """Write a line of the log, linked to the one before, and return its number."""
        number, time = self.generation + 1, now()
        main, delta = amount
        link = link_of(self.link, number, time, name, action, main, delta, detail)
        self.execute(_LINE, (number, time, name, action, main, delta, detail, link))
        self.generation, self.link = number, link
        return number

    def charge(self, name: str, kind: str, price: Amount, detail: str) -> int | None:
        """Charge a budget of a kind, and write a line of it, if so much is left.

        :returns: the number of the line; none also if the last line is not the one known here
        """
        asked = name, kind, price.main, price.delta, self.generation, self.link
        if self.execute(_PAY, asked).rowcount == 1:
            return self.append(name, "charge", price, detail)
        return None

"""A durable ledger of privacy budgets: embedded on SQLite, shared on PostgreSQL."""

from __future__ import annotations

import os
from pathlib import Path

from opendp_optimal.budget.ledger.ledger import Budget, Ledger
from opendp_optimal.checks import positive, whole

__all__ = ["Budget", "Ledger", "open_ledger"]


def open_ledger(
    address: str | os.PathLike[str], *, at_least: int = 0, timeout: float = 30.0
) -> Ledger:
    """Open a ledger of privacy budgets; one that is not there is made.

    :param address: the path of a file (SQLite, for one machine), or ``postgresql://...``
    :param at_least: a generation that was seen before: an older copy is refused
    :param timeout: seconds to wait for somebody else's charge

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = open_ledger(f"{folder.name}/budgets.db")
    >>> ledger.create("census", epsilon=2.0, delta=1e-6)
    >>> generation = ledger.charge("census", epsilon=0.5, note="counts by town")
    >>> ledger.remaining("census")[0]
    1.5
    >>> ledger.close(); folder.cleanup()
    """
    seconds = positive("timeout", timeout)
    seen = whole("at_least", at_least, least=0)
    text = os.fspath(address)
    if text.startswith(("postgresql://", "postgres://")):
        from opendp_optimal.budget.ledger.postgres import PostgresStore

        return Ledger(PostgresStore(text, seconds), seen)
    from opendp_optimal.budget.ledger.sqlite import SqliteStore

    path = text.removeprefix("sqlite:///")
    if not path or "://" in path or path.startswith((":", "file:")):
        raise ValueError("address must be the path of a file or begin with postgresql://")
    return Ledger(SqliteStore(Path(path), seconds), seen)

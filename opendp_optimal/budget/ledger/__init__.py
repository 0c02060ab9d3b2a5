"""A durable ledger of privacy budgets: embedded on SQLite, shared on PostgreSQL."""

from __future__ import annotations

import os
import re
from pathlib import Path

from opendp_optimal.budget.ledger.ledger import Budget, Ledger
from opendp_optimal.checks import positive, whole

__all__ = ["Budget", "Ledger", "open_ledger"]

_SETTINGS = re.compile(r"(^|\s)(dbname|host|hostaddr|passfile|password|port|service|user)\s*=")
"""What PostgreSQL's own addresses of the form ``host=... password=...`` are made of."""
_LOGIN = re.compile(r"[^/]*:[^/]*@")
"""How an address begins whose scheme was forgotten: ``user:password@``."""


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

        return Ledger(PostgresStore(text, seconds, seen))
    from opendp_optimal.budget.ledger.sqlite import SqliteStore

    path = text.removeprefix("sqlite:///") if isinstance(text, str) else ""
    # What is refused is not repeated: a password may be in it.
    odd = not path or "\0" in path or "://" in path or path.startswith((":", "file:"))
    if odd or (_LOGIN.match(path) and not os.path.exists(path)):
        raise ValueError("address must be the path of a file or begin with postgresql://")
    if _SETTINGS.search(path) and not os.path.exists(path):
        raise ValueError(
            "address must begin with postgresql://, not be a list of settings; a service of "
            "PostgreSQL is postgresql:///?service=name"
        )
    return Ledger(SqliteStore(Path(path), seconds, seen))

"""The shared ledger: PostgreSQL, for many machines; needs the extra ``postgres``."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

from opendp_optimal.errors import LedgerError

__all__ = ["PostgresStore"]


_PREPARING = 0x0DB0D9E7
"""The lock of whoever makes the tables."""


class PostgresStore:
    """Transactions on a PostgreSQL database, for all threads, processes and machines.

    A process has one connection, opened when it is first needed; a forked process opens its own.
    Writers wait for one another at one row, so that the log has one order.

    :param address: ``postgresql://user:password@host/database``
    :param timeout: seconds to wait for another's transaction
    """

    types: ClassVar = {"whole": "BIGINT", "bytes": "BYTEA", "strict": ""}

    def __init__(self, address: str, timeout: float) -> None:
        """Connect once, to see that it works."""
        self._secret = address
        self.address = without_password(address)
        self.timeout = timeout
        self._forget()
        _stores.add(self)
        self._connection()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._open: Any = None

    def after_fork(self) -> None:
        """Leave the parent's connection alone, in the child: closing it would end the parent's."""
        if self._open is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
        self._forget()

    def __del__(self) -> None:
        """Close the connection with the ledger that used it."""
        with suppress(Exception):
            self._open.close()

    def _connection(self) -> Any:
        if self._open is None or self._open.closed:
            psycopg = _library()
            settings = f"-c synchronous_commit=on -c lock_timeout={int(self.timeout * 1000)}"
            try:
                self._open = psycopg.connect(
                    self._secret,
                    connect_timeout=10,
                    options=settings,
                    application_name="opendp-optimal ledger",
                )
            except psycopg.Error:
                # Whatever it says may repeat the address.
                raise LedgerError(f"{self.address}: cannot connect; nothing was charged") from None
        return self._open

    @contextmanager
    def preparing(self) -> Iterator[Transaction]:
        """A transaction in which tables are made, by one process at a time."""
        with self.transaction(write=False, moving=True) as change:
            change.all(f"SELECT pg_advisory_xact_lock({_PREPARING})")
            yield change

    @contextmanager
    def transaction(self, *, write: bool, moving: bool = False) -> Iterator[Transaction]:
        """All of the block, or nothing; on disk when it ends.

        A reader sees the ledger as it was at one moment, unless it is to see it ``moving``.
        """
        psycopg = _library()
        with self._lock:
            db = self._connection()
            levels = psycopg.IsolationLevel
            still = not write and not moving
            db.isolation_level = levels.REPEATABLE_READ if still else levels.READ_COMMITTED
            try:
                yield Transaction(db, write)
                db.commit()
            except psycopg.Error as error:
                with suppress(psycopg.Error):
                    db.rollback()
                failure = self._failure(error, db)
                db.close()
                raise failure from None
            except BaseException:
                with suppress(psycopg.Error):
                    db.rollback()
                raise

    def seen(self) -> int:
        """Nothing is noted beside a database."""
        return 0

    def note_seen(self, generation: int) -> None:
        """Nothing is noted beside a database."""

    def _failure(self, error: Any, db: Any) -> Exception:
        code = getattr(error, "sqlstate", None)
        if code == "55P03":
            return LedgerError(
                f"{self.address} is in use{_holder(db)} for more than {self.timeout:g} s; "
                "nothing was charged"
            )
        if code == "42501":
            return LedgerError(f"{self.address}: no right to write; nothing was charged")
        told = f" ({code})" if code else ": the connection was lost"
        return LedgerError(
            f"{self.address}: the database failed{told}; nothing is released, what was being "
            "charged may have been"
        )

    def where(self) -> tuple[str, float]:
        """Never told: the address may hold a password."""
        raise TypeError(f"{self.address} cannot be pickled: the address may hold a password")

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None


def _holder(db: Any) -> str:
    """Who is in a transaction on the ledger."""
    rows = []
    with suppress(Exception):
        rows = Transaction(db, False).all(
            "SELECT DISTINCT a.pid, a.usename FROM pg_locks l JOIN pg_stat_activity a "
            "ON a.pid = l.pid WHERE l.relation = 'ledger_state'::regclass "
            "AND a.pid <> pg_backend_pid() AND a.wait_event_type IS DISTINCT FROM 'Lock'"
        )
    told = ", ".join(f"{user} (process {pid})" for pid, user in rows)
    return f" by {told}" if told else ""


class Transaction:
    """What a ledger does within a transaction."""

    def __init__(self, db: Any, write: bool) -> None:
        """Use a connection that has begun one."""
        self._db = db
        if write:
            self.all("SELECT generation FROM ledger_state FOR UPDATE")

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self._db.cursor() as cursor:
            cursor.execute(statement.replace("?", "%s"), values or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def without_password(address: str) -> str:
    """An address as it may be shown.

    >>> without_password("postgresql://ann:secret@host/db?password=other")
    'postgresql://ann@host/db'
    """
    try:
        parts = urlsplit(address)
        user = f"{parts.username}@" if parts.username else ""
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://..."
    return urlunsplit((parts.scheme, f"{user}{host}{port}", parts.path, "", ""))


_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _library() -> Any:
    try:
        import psycopg
    except ImportError as error:  # pragma: no cover
        raise ImportError(
            "a ledger on PostgreSQL needs psycopg: pip install opendp-optimal[postgres]"
        ) from error
    return psycopg

"""The shared ledger: PostgreSQL, for many machines; needs the extra ``postgres``."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from opendp_optimal.errors import LedgerError

__all__ = ["PostgresStore"]

SCHEMA = "opendp_optimal"
"""Where the tables are: one ledger in a database, whatever the search path of a user."""
_PREPARING = 0x0DB0D9E7
"""The lock of whoever makes the tables."""
_BEGIN = {
    True: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
"""Writers take turns at one row and then see what is committed; a look sees one state."""
_NO_RIGHT = ("42501", "25006")


class PostgresStore:
    """Transactions on a PostgreSQL database, for all threads, processes and machines.

    A process has one connection, opened when it is first needed; a forked process opens its own.
    Writers wait for one another at one row, so that the log has one order.

    :param address: ``postgresql://user:password@host/database``
    :param timeout: seconds to wait for another's transaction
    """

    types: ClassVar = {"whole": "BIGINT", "bytes": "BYTEA", "strict": ""}
    for_update = " FOR UPDATE"

    def __init__(self, address: str, timeout: float) -> None:
        """Connect once, to see that it works."""
        self._secret = address
        self.address = without_password(address)
        self.timeout = timeout
        self._settings = (
            f"SET LOCAL lock_timeout = {max(1, int(timeout * 1000))}; "
            "SET LOCAL synchronous_commit = on"
        )
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
            try:
                self._open = psycopg.connect(
                    self._secret,
                    autocommit=True,
                    connect_timeout=10,
                    application_name="opendp-optimal ledger",
                )
            except psycopg.Error:
                self._open = None
            if self._open is None:  # out of the error, whose text may repeat the address
                raise LedgerError(f"{self.address}: cannot connect; nothing was charged")
        return self._open

    @contextmanager
    def preparing(self) -> Iterator[Transaction]:
        """A transaction in which tables are made, by one process at a time."""
        with self.transaction(write=True) as change:
            change.all(f"SELECT pg_advisory_xact_lock({_PREPARING})")
            if not change.all("SELECT 1 FROM pg_namespace WHERE nspname = ?", SCHEMA):
                change.all(f"CREATE SCHEMA {SCHEMA}")
            yield change

    def exists(self, look: Transaction) -> bool:
        """Whether the tables are there."""
        return look.all(f"SELECT to_regclass('{SCHEMA}.ledger_state')::text") != [(None,)]

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """All of the block, or nothing; on disk when it ends."""
        psycopg = _library()
        failure: Exception | None = None
        with self._lock:
            told = "nothing was charged"
            db = self._open
            try:
                db = self._begun(f"{_BEGIN[write]}; {self._settings}")
                yield Transaction(db)
                told = "nothing is released, what was being charged may have been"
                db.execute("COMMIT")
            except psycopg.Error as error:
                failure = self._failure(error, db, told)
                self._drop()
            except BaseException:
                try:
                    db.execute("ROLLBACK")
                except Exception:
                    self._drop()
                raise
        if failure is not None:
            raise failure from None

    def _begun(self, begin: str) -> Any:
        """A connection on which a transaction has begun; one that was lost meanwhile is renewed."""
        psycopg = _library()
        known = self._open is not None and not self._open.closed
        db = self._connection()
        if known:
            with suppress(psycopg.OperationalError):
                db.execute(begin)
                return db
            self._drop()
            db = self._connection()
        db.execute(begin)
        return db

    def seen(self) -> int:
        """Nothing is noted beside a database."""
        return 0

    def note_seen(self, generation: int) -> None:
        """Nothing is noted beside a database."""

    def _failure(self, error: Any, db: Any, told: str) -> Exception:
        code = getattr(error, "sqlstate", None)
        if code == "55P03":
            return LedgerError(
                f"{self.address} is in use{_holder(db)} for more than {self.timeout:g} s; {told}"
            )
        if code in _NO_RIGHT:
            return LedgerError(f"{self.address}: no right to read or write; {told}")
        why = f" ({code})" if code else ": the connection was lost"
        return LedgerError(f"{self.address}: the database failed{why}; {told}")

    def where(self) -> tuple[str, float]:
        """Never told: the address may hold a password."""
        raise TypeError(f"{self.address} cannot be pickled: the address may hold a password")

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        """Close the connection, whatever its state: what was not committed is undone."""
        if self._open is not None:
            with suppress(Exception):
                self._open.close()
        self._open = None


def _holder(db: Any) -> str:
    """Who is in a transaction on the ledger."""
    rows = []
    with suppress(Exception):
        db.execute("ROLLBACK")
        rows = Transaction(db).all(
            "SELECT DISTINCT a.pid, a.usename FROM pg_locks l JOIN pg_stat_activity a "
            f"ON a.pid = l.pid WHERE l.relation = '{SCHEMA}.ledger_state'::regclass "
            "AND a.pid <> pg_backend_pid() AND a.wait_event_type IS DISTINCT FROM 'Lock'"
        )
    told = ", ".join(f"{user} (process {pid})" for pid, user in rows)
    return f" by {told}" if told else ""


class Transaction:
    """What a ledger does within a transaction."""

    generation = 0
    """That of the ledger after it, if it writes a line."""

    def __init__(self, db: Any) -> None:
        """Use a connection that has begun one."""
        self._db = db

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        cursor = self._db.execute(_translated(statement), values or None)
        return cursor.fetchall() if cursor.description else []

    def run(self, statement: str, *values: Any) -> int:
        """Run a statement and return how many rows it changed."""
        return int(self._db.execute(_translated(statement), values or None).rowcount)


@cache
def _translated(statement: str) -> str:
    """Placeholders and table names as PostgreSQL has them."""
    named = re.sub(r"(?<![.\w])(ledger_\w+)", rf"{SCHEMA}.\1", statement)
    return named.replace("?", "%s")


_PLAIN = re.compile(r"[\w.,:\[\]-]*")


def without_password(address: str) -> str:
    """An address as it may be shown: user, host and database, if nothing else can be in them.

    >>> without_password("postgresql://ann:secret@host/db?password=other")
    'postgresql://ann@host/db'
    >>> without_password("postgresql://ann:12/secret@host/db")
    'postgresql://...'
    """
    hidden = "postgresql://..."
    if address.count("@") > 1:
        return hidden
    try:
        parts = urlsplit(address)
        user, host = parts.username or "", parts.netloc.rpartition("@")[2]
    except ValueError:
        return hidden
    shown = (user, host, parts.path.removeprefix("/"))
    if not all(_PLAIN.fullmatch(part) for part in shown):
        return hidden
    return f"postgresql://{user}{'@' if user else ''}{host}{parts.path}"


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

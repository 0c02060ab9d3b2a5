"""The shared ledger: PostgreSQL, for many machines; needs the extra ``postgres``."""

from __future__ import annotations

import ctypes
import os
import re
import select
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from opendp_optimal.budget.ledger.chain import BEGINNING, Amount, link_of
from opendp_optimal.budget.ledger.lines import now
from opendp_optimal.budget.ledger.tables import refuse_old
from opendp_optimal.errors import LedgerError

SCHEMA = "opendp_optimal"
"""Where the tables are: one ledger in a database, whatever the search path of a user."""
_PREPARING = 0x0DB0D9E7
"""The lock of whoever makes the tables."""
_BEGIN = {
    True: "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    False: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
}
"""Writers take turns at one row and then see what is committed; a look sees one state."""
_SESSION = (
    "SET search_path = pg_catalog; "
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE"
)
"""For the statement that is a transaction of its own, with functions of the server alone."""
_UNKNOWN = "nothing is released, what was being charged may have been"
_NO_RIGHT = ("42501", "25006")


class PostgresStore:
    """Transactions on a PostgreSQL database, for all threads, processes and machines.

    A process has one connection, opened when it is first needed; a forked process opens its own.
    Writers wait for one another at one row, so that the log has one order.

    :param address: ``postgresql://user:password@host/database``
    :param timeout: seconds to wait for another's transaction
    :param at_least: a generation that was seen before; ``seen`` is the newest
    """

    types: ClassVar = {"whole": "BIGINT", "bytes": "BYTEA", "strict": ""}

    def __init__(self, address: str, timeout: float, at_least: int = 0) -> None:
        """Connect once, to see that it works."""
        self._secret = address
        self.address = without_password(address)
        self.timeout = timeout
        self.seen = at_least
        self._wait = f"lock_timeout = {max(1, int(timeout * 1000))}"
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
        try:  # noqa: SIM105 (at the end of a process the names of this module may be gone)
            self._open.close()
        except Exception:
            pass

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
                self._open.execute(f"SET {self._wait}; {_SESSION}")
                self._spoken = _listening(self._open.fileno())
            except psycopg.Error:
                self._drop()
            if self._open is None:  # out of the error, whose text may repeat the address
                raise LedgerError(f"{self.address}: cannot connect; nothing was charged")
        return self._open

    @contextmanager
    def preparing(self) -> Iterator[Transaction]:
        """A transaction in which tables are made, by one process at a time."""
        with self.transaction(write=True, made=False) as change:
            change.all(f"SELECT pg_advisory_xact_lock({_PREPARING})")
            if not change.all("SELECT 1 FROM pg_namespace WHERE nspname = ?", SCHEMA):
                change.all(f"CREATE SCHEMA {SCHEMA}")
            if not self.exists(change):
                change.all(
                    "CREATE TABLE ledger_head (generation BIGINT NOT NULL, link TEXT NOT NULL)"
                )
                change.all("INSERT INTO ledger_head VALUES (0, ?)", BEGINNING)
            yield change

    def exists(self, look: Transaction) -> bool:
        """Whether the tables are there."""
        return look.all(f"SELECT to_regclass('{SCHEMA}.ledger_state')::text") != [(None,)]

    @contextmanager
    def transaction(self, *, write: bool, made: bool = True) -> Iterator[Transaction]:
        """All of the block, or nothing; on disk when it ends.

        :param write: whether it may write; writers take turns
        :param made: whether there are tables: a ledger older than one that was seen is refused
        """
        psycopg = _library()
        failure: Exception | None = None
        with self._lock:
            told = "nothing was charged"
            db = self._open
            try:
                db = self._begun(
                    f"{_BEGIN[write]}; SET LOCAL {self._wait}; SET LOCAL synchronous_commit = on"
                )
                change = Transaction(db)
                if made:
                    refuse_old(self.address, change.find_head(write), self.seen)
                yield change
                told = _UNKNOWN
                db.execute("COMMIT")
                self.seen = change.generation or self.seen
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

    def charge(self, name: str, kind: str, price: Amount, detail: str) -> int | None:
        """Charge in a transaction of its own, one statement; see :meth:`Transaction.charge`."""
        psycopg = _library()
        failure: Exception | None = None
        number: int | None = None
        with self._lock:
            db = self._alive()
            try:
                number = Transaction(db).charge(name, kind, price, detail, self.seen)
                self.seen = number or self.seen
            except psycopg.Error as error:
                # The server has answered: it did nothing. It has not: nobody knows.
                known = getattr(error, "sqlstate", None) and not db.closed
                failure = self._failure(error, db, "nothing was charged" if known else _UNKNOWN)
                self._drop()
            except BaseException:
                self._drop()
                raise
        if failure is not None:
            raise failure from None
        return number

    def _alive(self) -> Any:
        """A connection that the server has not closed; one that was lost meanwhile is renewed."""
        if self._open is not None and not self._open.closed:
            if not self._spoken():
                return self._open
            with suppress(Exception):
                self._open.execute("SELECT 1")
                return self._open
            self._drop()
        return self._connection()

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


def _listening(file: int) -> Callable[[], bool]:
    """Ask whether the server has said something, such as that it ends the connection."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(file, select.POLLIN)
        return lambda: bool(poll.poll(0))
    return lambda: bool(select.select([file], [], [], 0)[0])


def _holder(db: Any) -> str:
    """Who is in a transaction on the ledger."""
    rows = []
    with suppress(Exception):
        db.execute("ROLLBACK")
        rows = Transaction(db).all(
            "SELECT DISTINCT a.pid, a.usename FROM pg_locks l JOIN pg_stat_activity a "
            f"ON a.pid = l.pid WHERE l.relation = '{SCHEMA}.ledger_head'::regclass "
            "AND a.pid <> pg_backend_pid() AND a.wait_event_type IS DISTINCT FROM 'Lock'"
        )
    told = ", ".join(f"{user} (process {pid})" for pid, user in rows)
    return f" by {told}" if told else ""


_HEAD = "SELECT generation, link FROM ledger_head"
_LINE = (
    "WITH moved AS (UPDATE ledger_head SET generation = ?, link = ?) "
    "INSERT INTO ledger_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_CHARGE = """
WITH head AS (
    SELECT generation + 1 AS number, link FROM ledger_head
    WHERE generation >= ? AND set_config('synchronous_commit', 'on', true) = 'on' FOR UPDATE
), asked AS (
    SELECT ?::text AS name, ?::text AS kind, ?::bigint AS main, ?::bigint AS delta,
    ?::text AS time, ?::text AS detail
), paid AS (
    UPDATE ledger_budgets b SET spent_main = spent_main + main, spent_delta = spent_delta + delta
    FROM head, asked WHERE b.name = asked.name AND b.kind = asked.kind
    AND main <= limit_main - spent_main AND delta <= limit_delta - spent_delta
    RETURNING number, time, asked.name, main, delta, detail, encode(sha256(convert_to(concat_ws(
        chr(10), link, number, time, asked.name, 'charge', main, delta, detail
    ), 'UTF8')), 'hex') AS link
), moved AS (
    UPDATE ledger_head SET generation = number, link = paid.link FROM paid
)
INSERT INTO ledger_log SELECT number, time, name, 'charge', main, delta, detail, link FROM paid
RETURNING number, link
"""
"""The head is locked first, by every writer: they take turns, and the log has one order."""


class Transaction:
    """What a ledger does within a transaction."""

    generation = 0
    """The number of the last line of the log."""
    link = BEGINNING
    """Its digest."""

    def __init__(self, db: Any) -> None:
        """Use a connection that has begun one."""
        self._db = db

    def find_head(self, write: bool) -> int:
        """Find the last line of the log, and return its number; whoever writes waits for it."""
        heads = self.all(f"{_HEAD} FOR UPDATE" if write else _HEAD)
        if len(heads) != 1:
            raise LedgerError("ledger_head must have one row: the ledger was changed")
        self.generation, self.link = heads[0]
        return self.generation

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        cursor = self._db.execute(_translated(statement), values or None)
        return cursor.fetchall() if cursor.description else []

    def append(self, name: str, action: str, amount: Amount, detail: str) -> int:
        """Write a line of the log, linked to the one before, and return its number."""
        number = self.generation + 1
        line = number, now(), name, action, amount.main, amount.delta, detail
        link = link_of(self.link, *line)
        self.all(_LINE, number, link, *line, link)
        self.generation, self.link = number, link
        return number

    def charge(self, name: str, kind: str, price: Amount, detail: str, seen: int = 0) -> int | None:
        """Charge a budget of a kind, and write a line of it, if so much is left.

        :returns: the number of the line, or none
        """
        asked = seen, name, kind, *price, now(), detail
        written = self._db.execute(_translated(_CHARGE), asked).fetchall()
        for line in written:
            self.generation, self.link = line
        return self.generation if written else None


@cache
def _translated(statement: str) -> str:
    """Placeholders and table names as PostgreSQL has them."""
    named = re.sub(r"(?<![.\w])(ledger_\w+)", rf"{SCHEMA}.\1", statement)
    return named.replace("?", "%s")


_PLAIN = re.compile(r"[\w.-]*")
_HOST = r"(?:[\w.-]*|\[[\w.:]*\])(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")


def without_password(address: str) -> str:
    """An address as it may be shown: user, host and database, if nothing else can be in them.

    >>> without_password("postgresql://ann:secret@host/db?password=other")
    'postgresql://ann@host/db'
    >>> without_password("postgresql://ann:12#secret@host/db")
    'postgresql://...'
    """
    hidden = "postgresql://..."
    try:
        parts = urlsplit(address)
        user, host = parts.username or "", parts.netloc.rpartition("@")[2]
    except ValueError:
        return hidden
    plain = _PLAIN.fullmatch(user) and _PLAIN.fullmatch(parts.path.removeprefix("/"))
    # With an @ elsewhere, what looks like a host may be the beginning of a password.
    if not plain or not _HOSTS.fullmatch(host) or address.count("@") > parts.netloc.count("@"):
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

"""The embedded ledger: one SQLite file on one machine, every charge on disk before it counts."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path
from typing import Any, ClassVar

from opendp_optimal.budget.ledger.chain import Amount
from opendp_optimal.budget.ledger.places import check_file, holder, identity, refuse_networked
from opendp_optimal.budget.ledger.statements import Transaction
from opendp_optimal.budget.ledger.tables import refuse_old
from opendp_optimal.errors import LedgerError

APPLICATION = 0x0DB0D9E7
"""Marks the file as a ledger, for ``file`` and for us."""
PAGE = 1024
"""Bytes of a page: a charge writes two of them, a line of the log is some 200 bytes."""
_NOW = LOCK_EX | LOCK_NB
_NOTE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_NUMBER = 21
"""Bytes of the noted generation: twenty digits and the end of the line."""
LOOK_AGAIN = 0.1
"""Seconds until the ledger's names are looked up again: a file that is replaced is noticed then, at
the latest. Whoever opens an older one in its place notices at once, by what is noted beside it."""


class SqliteStore:
    """Transactions on a file, for all threads and processes of one machine.

    A process has one connection, opened when it is first needed. It is closed before a fork:
    SQLite forgets what is locked in a child, whose writes would be lost.
    The generation of the ledger is noted in a second file beside it, so that an old copy put in
    the ledger's place is noticed. Whoever writes, opens or closes holds a lock of this file, too:
    SQLite's own locks are gone as soon as anything in the process, such as a backup, has read the
    ledger's files and closed them. The second file is mapped into memory, as SQLite does with the
    one of its locks: a note costs no call of the system, and outlives a process that is killed.

    :param path: of the file
    :param timeout: seconds to wait for another process's transaction
    :param at_least: a generation that was seen before; ``seen`` is the newest
    """

    types: ClassVar = {"whole": "INTEGER", "bytes": "BLOB", "strict": " STRICT"}

    def __init__(self, path: Path, timeout: float, at_least: int = 0) -> None:
        """Open the file, or create it."""
        self.address = str(path)
        self.timeout = timeout
        self.seen = at_least
        try:
            self.path = path.resolve()
        except (OSError, RuntimeError):
            raise ValueError(f"address ({self.address!r}) must be the path of a file") from None
        if not self.path.parent.is_dir():
            raise ValueError(f"address ({self.address!r}) must be in a folder that exists")
        refuse_networked(self.path.parent)
        self._lock = threading.Lock()
        self._held = False
        self._open: sqlite3.Connection | None = None
        self._beside = -1
        self._noted: Any = None
        self._files: list[tuple[int, int] | None] = []
        self._looked = -math.inf
        self._names = [f"{self.path}{end}" for end in ("", "-wal", "-shm", "-generation")]
        _stores.add(self)
        with self._lock:
            self._connection()

    def __del__(self) -> None:
        """Close the connection with the ledger that used it."""
        try:  # noqa: SIM105 (at the end of a process the names of this module may be gone)
            self._shut(wait=False)  # this thread may have its turn by another connection
        except Exception:
            pass

    def before_fork(self) -> None:
        """Wait for the transaction of another thread to end, then close."""
        self._held = self._lock.acquire(timeout=self.timeout)
        if self._held:
            self._shut()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent and in the child."""
        if not self._held and child:
            if self._open is not None:
                # Never closed here: closing would let go of locks and files of the parent.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
                _spoilt.add(self.path)
            self._open, self._beside, self._noted = None, -1, None
        held, self._held = self._held, False
        if child:
            self._lock = threading.Lock()
        elif held:
            self._lock.release()

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            if self.path in _spoilt:
                raise LedgerError(
                    f"{self.address}: this process was forked in the middle of a charge; open the "
                    "ledger in a new one"
                )
            check_file(self.path, self.address)
            failure: Exception | None = None
            try:
                self._reach()
            except (sqlite3.Error, OSError) as error:
                failure = self._failure(error, "nothing was charged")
            except BaseException:
                self._shut()
                raise
            if failure is not None:
                self._shut()
                raise failure
            flock(self._beside, LOCK_UN)
        assert self._open is not None
        return self._open

    def _reach(self) -> None:
        if not os.path.exists(self._names[-1]):
            with _opening:
                self._connected().close()  # only beside a ledger is a file made
        self._beside = os.open(self._names[-1], _NOTE, 0o666)
        self._take_turn(self._beside)
        noted = self._number(os.pread(self._beside, 100, 0) or b"0")
        os.pwrite(self._beside, _note(noted), 0)  # all of it is there before it is mapped
        self._noted = mmap.mmap(self._beside, _NUMBER)
        with _opening:
            self._open = self._connected()
        self._change = Transaction(self._open)
        self._files, self._looked = [*map(identity, self._names)], -math.inf

    def _take_turn(self, beside: int, *, wait: bool = True) -> None:
        """Wait until nobody else writes, opens or closes the ledger."""
        try:
            flock(beside, _NOW)
        except BlockingIOError:
            if wait:
                self._wait_for_turn(beside)

    def _wait_for_turn(self, beside: int) -> None:
        end, pause = time.monotonic() + self.timeout, 0.001
        while True:
            time.sleep(pause)
            try:
                return flock(beside, _NOW)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise self._in_use("nothing was charged") from None
            pause = min(2 * pause, 0.005)

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA fullfsync = ON")
            mark = db.execute("PRAGMA application_id").fetchone()[0]
            empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if mark not in (0, APPLICATION) or (mark == 0 and not empty):
                raise ValueError(f"address ({self.address!r}) must be a ledger, not another file")
            db.execute(f"PRAGMA page_size = {PAGE}")  # of a file that is made now
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise LedgerError(f"{self.address}: the file system does not support SQLite's log")
            if mark == 0:
                db.execute(f"PRAGMA application_id = {APPLICATION}")
        except BaseException:
            db.close()
            raise
        return db

    def preparing(self) -> AbstractContextManager[Transaction]:
        """A transaction in which tables are made, by one process at a time."""
        return self.transaction(write=True, made=False)

    def exists(self, look: Transaction) -> bool:
        """Whether the tables are there."""
        return bool(look.all("SELECT name FROM sqlite_master WHERE name = 'ledger_state'"))

    @contextmanager
    def transaction(self, *, write: bool, made: bool = True) -> Iterator[Transaction]:
        """All of the block, or nothing; on disk when it ends.

        :param write: whether it may write; writers take turns
        :param made: whether there are tables: a ledger older than one that was seen is refused
        """
        failure: Exception | None = None
        with self._lock:
            if self._open is None:
                self._connection()
            beside, change = self._beside, self._change
            try:
                noted = self._begin(change, write=write)
                if made:
                    self._find_head(change, noted, write=write)
                yield change
                self._commit(change)
            except sqlite3.Error as error:
                failure = self._undone(change, error)
            except BaseException:
                self._undo(change)
                raise
            finally:
                flock(beside, LOCK_UN)
        if failure is not None:
            raise failure from None

    def charge(self, name: str, kind: str, price: Amount, detail: str) -> int | None:
        """Charge in a transaction of its own; see :meth:`Transaction.charge`."""
        # As above, without the price of a generator.
        failure: Exception
        with self._lock:
            if self._open is None:
                self._connection()
            beside, change = self._beside, self._change
            try:
                noted, number = self._begin(change, write=True), None
                if noted == change.generation:  # most likely nobody else was here meanwhile
                    number = change.charge(name, kind, price, detail)
                if number is None:
                    self._find_head(change, noted, write=True)
                    number = change.charge(name, kind, price, detail)
                self._commit(change)
                return number
            except sqlite3.Error as error:
                failure = self._undone(change, error)
            except BaseException:
                self._undo(change)
                raise
            finally:
                flock(beside, LOCK_UN)
        raise failure from None

    def _begin(self, change: Transaction, *, write: bool) -> int:
        """Begin a transaction on the file that has the ledger's name; return what was noted."""
        change.told = "nothing was charged"
        if write:
            try:
                flock(self._beside, _NOW)
            except BlockingIOError:
                self._wait_for_turn(self._beside)
        if (moment := time.monotonic()) > self._looked + LOOK_AGAIN:
            whole = os.fstat(self._beside).st_size >= _NUMBER
            if not whole or [*map(identity, self._names)] != self._files:
                raise self._replaced()
            self._looked = moment
        noted = self._noted[:]  # before a look: others go on, and may be in the middle of a note
        while not write and noted != (again := self._noted[:]):
            noted = again
        change.begun = change.generation
        change.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        return self._number(noted)

    def _number(self, noted: bytes) -> int:
        try:
            return int(noted)
        except ValueError:
            raise LedgerError(
                f"{self.address}-generation must hold a number: it is damaged"
            ) from None

    def _find_head(self, change: Transaction, noted: int, *, write: bool) -> None:
        """Find the last line of the log; an older copy is refused."""
        generation = change.find_head()
        if write and noted < generation:
            self._noted[:] = _note(generation)
        if generation < noted or generation < self.seen:
            refuse_old(self.address, generation, max(self.seen, noted))

    def _commit(self, change: Transaction) -> None:
        change.told = "nothing is released, what was being charged may have been"
        change.execute("COMMIT")
        if (generation := change.generation) > self.seen:
            self.seen = generation
            if change.begun < generation:
                self._noted[:] = _note(generation)

    def _undone(self, change: Transaction, error: sqlite3.Error) -> Exception:
        self._undo(change)
        return self._failure(error, change.told)

    @staticmethod
    def _undo(change: Transaction) -> None:
        change.forget()
        with suppress(sqlite3.Error):
            if change.db.in_transaction:
                change.db.execute("ROLLBACK")

    def _failure(self, error: Exception, told: str) -> Exception:
        text = str(error)
        if isinstance(error, OSError):
            return LedgerError(f"{self.address}: {error.strerror}; {told}")
        if "locked" in text or "busy" in text:
            return self._in_use(told)
        if "not a database" in text or "malformed" in text:
            return ValueError(f"address ({self.address!r}) must be a ledger: {text}")
        return LedgerError(f"{self.address}: {text}; {told}")

    def _in_use(self, told: str) -> LedgerError:
        by = holder(self._names)
        return LedgerError(f"{self.address} is in use{by} for more than {self.timeout:g} s; {told}")

    def _replaced(self) -> LedgerError:
        return LedgerError(
            f"{self.address}: the file, or its -wal, -shm or -generation, was replaced or removed "
            "while it was in use; nothing was charged. Opened again, it says whether charges are "
            "missing"
        )

    def _shut(self, *, wait: bool = True) -> None:
        db, beside = self._open, self._beside
        if db is not None:
            # SQLite removes its own files with the last connection: in one's turn, or late.
            with suppress(LedgerError):
                self._take_turn(beside, wait=wait)
            with _opening:
                self._open = None
                db.close()
        self._beside = -1
        if self._noted is not None:
            self._noted.close()
            self._noted = None
        if beside >= 0:
            flock(beside, LOCK_UN)  # also where a child of this process has the file open
            os.close(beside)

    def where(self) -> tuple[str, float]:
        """The address and the time to wait, for a copy."""
        return str(self.path), self.timeout

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        with self._lock:
            self._shut()


def _note(generation: int) -> bytes:
    """A generation as it is noted beside a ledger."""
    return b"%020d\n" % generation


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_spoilt: set[Path] = set()
"""Files that this process may not open: it was forked while another thread used them."""


_forking, _opening = threading.Lock(), threading.RLock()
"""Threads fork one after the other; while one does, none opens or closes a connection."""


def _before_fork() -> None:
    _forking.acquire()
    tried: set[SqliteStore] = set()
    while True:
        for store in set(_stores) - tried:
            store.before_fork()
            tried.add(store)
        _opening.acquire()
        if all(store in tried or store._open is None for store in list(_stores)):
            return
        _opening.release()


def _after_fork(child: bool) -> None:
    global _forking, _opening
    for store in list(_stores):
        store.after_fork(child=child)
    if child:
        _forking, _opening = threading.Lock(), threading.RLock()
    else:
        _opening.release()
        _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )

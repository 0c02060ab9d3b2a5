"""The embedded ledger: one SQLite file on one machine, every charge on disk before it counts."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from opendp_optimal.errors import LedgerError

__all__ = ["SqliteStore"]

APPLICATION = 0x0DB0D9E7
"""Marks the file as a ledger, for ``file`` and for us."""
NETWORKED = {
    *("9p", "afs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"),
    *("glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs", "vboxsf"),
}
"""File systems that are shared by machines, where SQLite's locks and its log do not hold."""


class SqliteStore:
    """Transactions on a file, for all threads and processes of one machine.

    A process has one connection, opened when it is first needed; a forked process opens its own.
    The generation of the ledger is noted in a second file beside it, so that an old copy put in
    the ledger's place is noticed.

    :param path: of the file
    :param timeout: seconds to wait for another process's transaction
    """

    types: ClassVar = {"whole": "INTEGER", "bytes": "BLOB", "strict": " STRICT"}

    def __init__(self, path: Path, timeout: float) -> None:
        """Open the file, or create it."""
        self.path = path.absolute()
        self.timeout = timeout
        self.address = str(path)
        _refuse_networked(self.path.parent)
        if not self.path.parent.is_dir():
            raise ValueError(f"address ({str(path)!r}) must be in a folder that exists")
        self._forget()
        _stores.add(self)
        with self._lock:
            self._connection()

    def _forget(self) -> None:
        """Begin anew in this process: a connection must not be used by two."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def after_fork(self) -> None:
        """Leave the parent's connection alone, in the child."""
        if self._open is not None:
            # Never closed here: closing would let go of locks and files that are the parent's.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
        self._forget()

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            try:
                db = sqlite3.connect(
                    self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False
                )
                db.execute("PRAGMA synchronous = FULL")
                db.execute("PRAGMA fullfsync = ON")
                mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                mark = db.execute("PRAGMA application_id").fetchone()[0]
                empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                if mark == 0 and empty:
                    db.execute(f"PRAGMA application_id = {APPLICATION}")
            except sqlite3.Error as error:
                raise self._failure(error) from None
            if mode != "wal":
                raise LedgerError(f"{self.address}: the file system does not support SQLite's log")
            if mark not in (0, APPLICATION) or (mark == 0 and not empty):
                db.close()
                raise ValueError(f"address ({self.address!r}) must be a ledger, not another file")
            self._open, self._file = db, _identity(self.path)
        return self._open

    @contextmanager
    def preparing(self) -> Iterator[Transaction]:
        """A transaction in which tables are made, by one process at a time."""
        with self.transaction(write=True) as change:
            yield change

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """All of the block, or nothing; on disk when it ends."""
        with self._lock:
            db = self._connection()
            if _identity(self.path) != self._file:
                raise LedgerError(
                    f"{self.address}: the file was replaced or removed while it was in use; what "
                    "was charged is in the old one"
                )
            try:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            except sqlite3.Error as error:
                raise self._failure(error) from None
            try:
                yield Transaction(db)
                db.execute("COMMIT")
            except sqlite3.Error as error:
                self._undo(db)
                raise self._failure(error) from None
            except BaseException:
                self._undo(db)
                raise

    @staticmethod
    def _undo(db: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")

    def seen(self) -> int:
        """The generation that was noted beside the file."""
        try:
            return int((self._beside.read_text(encoding="ascii") or "0").strip())
        except FileNotFoundError:
            return 0
        except (ValueError, OSError):
            raise LedgerError(f"{self._beside.name} must hold a number: it is damaged") from None

    def note_seen(self, generation: int) -> None:
        """Note a generation, within a transaction that writes: nobody else does so meanwhile."""
        try:
            self._beside.write_text(f"{generation:020d}\n", encoding="ascii")
        except OSError as error:
            raise LedgerError(
                f"{self._beside.name}: {error.strerror}; nothing was charged"
            ) from None

    @property
    def _beside(self) -> Path:
        return self.path.with_name(self.path.name + "-generation")

    def _failure(self, error: sqlite3.Error) -> Exception:
        text = str(error)
        if "locked" in text or "busy" in text:
            return LedgerError(
                f"{self.address} is in use{_holder(self.path)} for more than {self.timeout:g} s; "
                "nothing was charged"
            )
        if "not a database" in text or "malformed" in text:
            return ValueError(f"address ({self.address!r}) must be a ledger: {text}")
        return LedgerError(f"{self.address}: {text}; nothing was charged")

    def where(self) -> tuple[str, float]:
        """The address and the time to wait, for a copy."""
        return str(self.path), self.timeout

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None


class Transaction:
    """What a ledger does within a transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Use a connection that has begun one."""
        self._db = db

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, values).fetchall()


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _refuse_networked(folder: Path) -> None:
    """Refuse a folder that other machines can write to, where that can be told (Linux)."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    real = folder.resolve()
    best, kind = -1, ""
    for line in mounts.splitlines():
        _, place, system, *_ = line.split(" ")
        root = Path(place.encode().decode("unicode_escape"))
        if real.is_relative_to(root) and len(root.parts) >= best:
            best, kind = len(root.parts), system
    if kind in NETWORKED:
        raise ValueError(
            f"address ({str(folder)!r}) must not be on a network file system ({kind}): SQLite "
            "cannot keep a budget there; use PostgreSQL"
        )


def _holder(path: Path) -> str:
    """Who holds the lock, where the system tells (Linux)."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
        places = {Path(f"{path}{end}").stat().st_ino for end in ("", "-shm")}
    except OSError:
        return ""
    holders = set()
    for line in lines:
        parts = line.split()
        inode = parts[5].rsplit(":", 1)[-1] if len(parts) > 5 and "WRITE" in parts else ""
        if inode.isdigit() and int(inode) in places and parts[4] != str(os.getpid()):
            holders.add(parts[4])
    return f" by process {', '.join(sorted(holders))}" if holders else ""

"""The embedded ledger: one SQLite file on one machine, every charge on disk before it counts."""

from __future__ import annotations

import ctypes
import os
import re
import sqlite3
import stat
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
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs2", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb2"),
    *("smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs"),
}
"""File systems that are shared by machines, where SQLite's locks and its log do not hold; those of
the kind ``fuse.something`` are taken for such, too."""
LOCAL_FUSE = {"fuse.fuse-overlayfs", "fuse.ntfs", "fuse.ntfs-3g", "fuse.exfat"}


class SqliteStore:
    """Transactions on a file, for all threads and processes of one machine.

    A process has one connection, opened when it is first needed. It is closed before a fork:
    SQLite forgets what is locked in a child, whose writes would be lost.
    The generation of the ledger is noted in a second file beside it, so that an old copy put in
    the ledger's place is noticed.

    :param path: of the file
    :param timeout: seconds to wait for another process's transaction
    """

    types: ClassVar = {"whole": "INTEGER", "bytes": "BLOB", "strict": " STRICT"}
    for_update = ""

    def __init__(self, path: Path, timeout: float) -> None:
        """Open the file, or create it."""
        self.address = str(path)
        self.timeout = timeout
        try:
            self.path = path.resolve()
        except (OSError, RuntimeError):
            raise ValueError(f"address ({self.address!r}) must be the path of a file") from None
        if not self.path.parent.is_dir():
            raise ValueError(f"address ({self.address!r}) must be in a folder that exists")
        _refuse_networked(self.path.parent)
        self._lock = threading.Lock()
        self._held = False
        self._open: sqlite3.Connection | None = None
        self._beside: int | None = None
        self._file: tuple[int, int] | None = None
        self._name = str(self.path)
        _stores.add(self)
        with self._lock:
            self._connection()

    def __del__(self) -> None:
        """Close the connection with the ledger that used it."""
        with suppress(Exception):
            self._shut()

    def before_fork(self) -> None:
        """Wait for the transaction of another thread to end, then close."""
        self._held = self._lock.acquire(timeout=self.timeout)
        if self._held:
            self._shut()

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent and in the child."""
        if self._held and not child:
            self._lock.release()
        if not self._held and child and self._open is not None:
            # Never closed here: closing would let go of locks and files that are the parent's.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._open))
            self._open, self._beside = None, None
            _spoilt.add(self.path)
        if child:
            self._lock = threading.Lock()
        self._held = False

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            if self.path in _spoilt:
                raise LedgerError(
                    f"{self.address}: this process was forked in the middle of a charge; open the "
                    "ledger in a new one"
                )
            _check_file(self.path, self.address)
            failure: Exception | None = None
            try:
                self._open = self._connected()
            except (sqlite3.Error, OSError) as error:
                failure = self._failure(error, "nothing was charged")
            if failure is not None:
                self._shut()
                raise failure
            assert self._open is not None
        return self._open

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
            if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise LedgerError(f"{self.address}: the file system does not support SQLite's log")
            if mark == 0:
                db.execute(f"PRAGMA application_id = {APPLICATION}")
            self._file = _identity(self._name)
            name = f"{self.path}-generation"
            self._beside = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def preparing(self) -> Iterator[Transaction]:
        """A transaction in which tables are made, by one process at a time."""
        with self.transaction(write=True) as change:
            yield change

    def exists(self, look: Transaction) -> bool:
        """Whether the tables are there."""
        return bool(look.all("SELECT name FROM sqlite_master WHERE name = 'ledger_state'"))

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """All of the block, or nothing; on disk when it ends."""
        failure: Exception | None = None
        with self._lock:
            db = self._connection()
            if _identity(self._name) != self._file:
                raise LedgerError(
                    f"{self.address}: the file was replaced or removed while it was in use; what "
                    "was charged is in the old one"
                )
            told = "nothing was charged"
            try:
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                change = Transaction(db)
                yield change
                told = "nothing is released, what was being charged may have been"
                db.execute("COMMIT")
                if change.generation:
                    self._note_committed(change.generation)
            except sqlite3.Error as error:
                self._undo(db)
                failure = self._failure(error, told)
            except BaseException:
                self._undo(db)
                raise
        if failure is not None:
            raise failure from None

    @staticmethod
    def _undo(db: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")

    def seen(self) -> int:
        """The generation that was noted beside the file."""
        try:
            if self._beside is not None:
                noted = os.pread(self._beside, 100, 0)
            else:
                noted = Path(f"{self.path}-generation").read_bytes()
            return int(noted or b"0")
        except FileNotFoundError:
            return 0
        except (ValueError, OSError):
            raise LedgerError(
                f"{self.address}-generation must hold a number: it is damaged"
            ) from None

    def note_seen(self, generation: int) -> None:
        """Note a generation, within a transaction that writes: nobody else does so meanwhile."""
        try:
            assert self._beside is not None
            os.pwrite(self._beside, b"%020d\n" % generation, 0)
        except OSError as error:
            raise LedgerError(
                f"{self.address}-generation: {error.strerror}; nothing was charged"
            ) from None

    def _note_committed(self, generation: int) -> None:
        """Note the generation of a charge that counts, if that is possible."""
        # Two who come here at once may leave the smaller number; the next charge mends it.
        with suppress(LedgerError):
            self.note_seen(generation)

    def _failure(self, error: Exception, told: str) -> Exception:
        text = str(error)
        if isinstance(error, OSError):
            return LedgerError(f"{self.address}: {error.strerror}; {told}")
        if "locked" in text or "busy" in text:
            return LedgerError(
                f"{self.address} is in use{_holder(self.path)} for more than {self.timeout:g} s; "
                f"{told}"
            )
        if "not a database" in text or "malformed" in text:
            return ValueError(f"address ({self.address!r}) must be a ledger: {text}")
        return LedgerError(f"{self.address}: {text}; {told}")

    def _shut(self) -> None:
        if self._open is not None:
            self._open.close()
        if self._beside is not None:
            os.close(self._beside)
        self._open, self._beside = None, None

    def where(self) -> tuple[str, float]:
        """The address and the time to wait, for a copy."""
        return str(self.path), self.timeout

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        with self._lock:
            self._shut()


class Transaction:
    """What a ledger does within a transaction."""

    generation = 0
    """That of the ledger after it, if it writes a line."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Use a connection that has begun one."""
        self._db = db

    def all(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._db.execute(statement, values).fetchall()

    def run(self, statement: str, *values: Any) -> int:
        """Run a statement and return how many rows it changed."""
        return self._db.execute(statement, values).rowcount


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
_spoilt: set[Path] = set()
"""Files that this process may not open: it was forked while another thread used them."""


def _before_fork() -> None:
    for store in list(_stores):
        store.before_fork()


def _after_fork(child: bool) -> None:
    for store in list(_stores):
        store.after_fork(child=child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_file(path: Path, address: str) -> None:
    """Refuse what is no file, or one with two names, which would have two logs."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise LedgerError(f"{address}: {error.strerror}; nothing was charged") from None
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"address ({address!r}) must be the path of a file")
    if found.st_nlink > 1:
        raise ValueError(f"address ({address!r}) must be a file with one name, without hard links")


def _refuse_networked(folder: Path) -> None:
    """Refuse a folder that other machines can write to, where that can be told (Linux)."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    best, kind = -1, ""
    for line in mounts.splitlines():
        _, place, system, *_ = line.split(" ")
        root = Path(re.sub(r"\\(0\d\d|1\d\d)", lambda found: chr(int(found[1], 8)), place))
        if folder.is_relative_to(root) and len(root.parts) >= best:
            best, kind = len(root.parts), system
    if kind in NETWORKED or (kind.startswith("fuse.") and kind not in LOCAL_FUSE):
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

"""Files that are old, replaced, cut, full, locked or changed: all of it is noticed."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from opendp_optimal.budget.ledger import open_ledger
from opendp_optimal.budget.ledger.sqlite import LOOK_AGAIN
from opendp_optimal.errors import LedgerError


def test_an_old_copy_is_refused(tmp_path):
    path = tmp_path / "budgets.db"
    ledger = open_ledger(path)
    ledger.create("a", epsilon=1.0)
    ledger.close()
    shutil.copy(path, tmp_path / "backup.db")
    ledger = open_ledger(path)
    for _ in range(2):
        ledger.charge("a", epsilon=0.5)
    generation = ledger.generation
    ledger.close()
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"budgets.db{end}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", path)
    with pytest.raises(LedgerError, match="old copy"):
        open_ledger(path)
    (tmp_path / "budgets.db-generation").unlink()
    with pytest.raises(LedgerError, match="old copy"):
        open_ledger(path, at_least=generation)


@pytest.mark.parametrize("left", [b"", b"7\n", b"x" * 21, b"%020d\n" % 99])
def test_a_noted_generation_that_was_written_to(tmp_path, left):
    """Noticed by whoever has the ledger open, at the next charge; a shorter number can be read."""
    path = tmp_path / "budgets.db"
    ledger = open_ledger(path)
    ledger.create("a", epsilon=1.0)
    time.sleep(2 * LOOK_AGAIN)
    (tmp_path / "budgets.db-generation").write_bytes(left)
    with pytest.raises(LedgerError, match=r"removed|damaged|old copy"):
        ledger.charge("a", epsilon=0.5)
    ledger.close()
    if left:
        with pytest.raises(LedgerError, match=r"old copy|damaged"):
            open_ledger(path)
        return
    with open_ledger(path) as again:
        again.charge("a", epsilon=0.5)
        assert again.remaining("a") == 0.5
        again.verify()
    assert int((tmp_path / "budgets.db-generation").read_bytes()) == 2


def test_a_file_that_is_replaced_while_open(tmp_path):
    path = tmp_path / "budgets.db"
    ledger = open_ledger(path)
    ledger.create("a", epsilon=1.0)
    ledger.charge("a", epsilon=0.5)
    os.rename(path, tmp_path / "moved.db")
    other = open_ledger(tmp_path / "other.db")
    other.create("a", epsilon=1.0)
    other.close()
    os.rename(tmp_path / "other.db", path)
    time.sleep(2 * LOOK_AGAIN)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.charge("a", epsilon=0.5)


@pytest.mark.parametrize("cut", [0, 1, 33, 5000, 10**9])
def test_a_truncated_log_of_the_file(tmp_path, cut):
    """A power cut that lost part of the last writes: noticed, or everything is there."""
    path = tmp_path / "budgets.db"
    ledger = open_ledger(path)
    ledger.create("a", epsilon=8.0)
    for _ in range(8):
        ledger.charge("a", epsilon=1.0)
    copied = tmp_path / "after"
    copied.mkdir()
    for end in ("", "-wal", "-generation"):
        shutil.copy(f"{path}{end}", copied / f"budgets.db{end}")
    wal = copied / "budgets.db-wal"
    size = wal.stat().st_size
    os.truncate(wal, max(0, size - cut))
    ledger.close()
    try:
        again = open_ledger(copied / "budgets.db")
        left = again.remaining("a")
        again.verify()
    except LedgerError:
        return
    # The number beside the file is that of the charge before the last.
    assert left <= 1.0


def test_a_full_disk_and_a_read_only_file(tmp_path):
    ledger = open_ledger(tmp_path / "budgets.db")
    ledger.create("a", epsilon=1000.0)
    connection = ledger._store._open
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    charged = 0

    def fill():
        nonlocal charged
        for _ in range(2000):
            ledger.charge("a", epsilon=0.1, note="x" * 500)
            charged += 1

    with pytest.raises(LedgerError, match="full"):
        fill()
    connection.execute("PRAGMA max_page_count = 100000")
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match="readonly"):
        ledger.charge("a", epsilon=0.1)
    connection.execute("PRAGMA query_only = OFF")
    assert len(ledger.log("a")) == charged + 1
    ledger.verify()


@pytest.mark.process
def test_a_locked_file_says_by_whom(tmp_path):
    path = tmp_path / "budgets.db"
    ledger = open_ledger(path, timeout=0.3)
    ledger.create("a", epsilon=1.0)
    hold = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    holder.stdout.readline()
    with pytest.raises(LedgerError, match=rf"in use by process {holder.pid} .*nothing was charged"):
        ledger.charge("a", epsilon=0.5)
    holder.communicate("")
    ledger.charge("a", epsilon=1.0)


def test_what_is_no_ledger(tmp_path):
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 20)
    with pytest.raises(ValueError, match="must be a ledger"):
        open_ledger(tmp_path / "text.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE people (name TEXT)")
    other.commit()
    other.close()
    with pytest.raises(ValueError, match="must be a ledger"):
        open_ledger(tmp_path / "other.db")
    with pytest.raises(ValueError, match="folder that exists"):
        open_ledger(tmp_path / "none" / "budgets.db")
    for address in (":memory:", "", "file:x?mode=memory", "mysql://host/db"):
        with pytest.raises(ValueError, match="address"):
            open_ledger(address)
    ledger = open_ledger(tmp_path / "newer.db")
    ledger._store._open.execute("UPDATE ledger_state SET format = 2")
    ledger.close()
    with pytest.raises(ValueError, match="format 2"):
        open_ledger(tmp_path / "newer.db")


def change(ledger, statement):
    with ledger._store.transaction(write=True) as db:
        db.all(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_budgets SET spent_main = 0",
        "UPDATE ledger_budgets SET limit_main = limit_main * 2",
        "UPDATE ledger_log SET main = 1 WHERE number = 2",
        "UPDATE ledger_log SET detail = '{}' WHERE number = 2",
        "DELETE FROM ledger_log WHERE number = 3",
        "DELETE FROM ledger_log WHERE number = 2",
        "DELETE FROM ledger_budgets",
    ],
)
def test_whatever_is_changed_is_noticed(ledger, statement):
    ledger.create("a", epsilon=1.0)
    ledger.charge("a", epsilon=0.25)
    ledger.charge("a", epsilon=0.25)
    ledger.verify()
    change(ledger, statement)
    with pytest.raises(LedgerError):
        ledger.verify()

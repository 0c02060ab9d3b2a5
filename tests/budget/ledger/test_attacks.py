"""Ways to get more out of a ledger than is in it, each of which must fail."""

import contextlib
import fcntl
import os
import signal
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from opendp_optimal.budget.ledger import open_ledger, places, sqlite
from opendp_optimal.budget.ledger.tables import check
from opendp_optimal.errors import BudgetError, LedgerError


@pytest.fixture
def spent(ledger):
    """A ledger with lines of every kind."""
    ledger.create("a", epsilon=1.0, note="why")
    ledger.fix_unit("a", "SymmetricDistance() at 1")
    ledger.charge("a", epsilon=0.25, note="who")
    ledger.answer_once("a", "key", "question", lambda: b"41", epsilon=0.25)
    ledger.charge_request("a", "open", "question", epsilon=0.25)
    ledger.verify()
    return ledger


CHANGES = {
    "ledger_state": ["format = 2"],
    "ledger_budgets": [
        *("name = 'b'", "kind = 'rho'", "kind = 'odd'", "limit_main = limit_main * 2"),
        *("limit_delta = 1", "exact = '9/1'", "spent_main = 0", "unit = 'x'", "unit = NULL"),
    ],
    "ledger_log": [
        *(
            "number = number + 100",
            "time = 'x'",
            "name = 'b'",
            "action = 'unit'",
            "main = main + 1",
        ),
        *("delta = 1", "detail = '{}'", "detail = 'x'", "detail = '[]'", "link = 'x'"),
    ],
    "ledger_requests": [
        *("name = 'b'", "request = request || 'x'", "question = 'x'", "number = 1"),
        *("answer = NULL", "answer = '43'"),
    ],
}


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in CHANGES for column in CHANGES[table]]
)
def test_every_column_is_vouched_for(spent, address, table, column):
    if column == "answer = '43'" and not address.startswith("postgresql"):
        column = "answer = x'3433'"
    with spent._store.transaction(write=True) as change:
        change.all(f"UPDATE {table} SET {column}")
    with pytest.raises((LedgerError, ValueError)):
        open_ledger(address).verify()


@pytest.mark.parametrize("table", [table for table in CHANGES if table != "ledger_state"])
def test_rows_that_are_gone(spent, table):
    def check_without():
        with spent._store.transaction(write=True) as change:
            change.all(f"DELETE FROM {table}")
            check(change)

    with pytest.raises(LedgerError):
        check_without()
    spent.verify()


@pytest.mark.process
def test_a_fork_whose_parent_goes_away(tmp_path):
    """What a child charges after its parent closed the file is there for everybody."""
    ledger = open_ledger(tmp_path / "budgets.db")
    ledger.create("a", epsilon=1.0)
    wait, go = os.pipe()
    child = os.fork()
    if not child:
        try:
            ledger.charge("a", epsilon=0.25)
            os.read(wait, 1)
            ledger.charge("a", epsilon=0.25)
            os._exit(0)
        except BaseException:
            os._exit(1)
    ledger.close()
    with open_ledger(tmp_path / "budgets.db") as other:
        other.charge("a", epsilon=0.25)
    os.write(go, b"x")
    assert os.waitpid(child, 0)[1] == 0
    with open_ledger(tmp_path / "budgets.db") as again:
        assert again.remaining("a") == 0.25
        again.verify()
    os.close(wait)
    os.close(go)


@pytest.mark.process
def test_a_fork_in_the_middle_of_a_charge(tmp_path):
    """A fork waits for the charge of another thread; if it cannot, the child has no ledger."""
    ledger = open_ledger(tmp_path / "budgets.db", timeout=0.05)
    ledger.create("a", epsilon=1.0)
    with ledger._store.transaction(write=True):
        child = os.fork()
        if not child:
            try:
                ledger.charge("a", epsilon=1.0)
            except LedgerError as error:
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    ledger.charge("a", epsilon=1.0)
    assert not sqlite._spoilt


@pytest.mark.process
def test_threads_that_open_close_and_fork(tmp_path):
    """Nothing is lost, no child waits for ever, and what each has released was charged."""
    with open_ledger(tmp_path / "budgets.db") as ledger:
        ledger.create("a", epsilon=1e6)
    read, write = os.pipe()
    parents = []
    for _ in range(2):
        parent = os.fork()
        if not parent:
            _open_close_and_fork(tmp_path / "budgets.db", write)
            os._exit(0)
        parents.append(parent)
    os.close(write)
    for parent in parents:
        assert os.waitpid(parent, 0)[1] == 0
    with os.fdopen(read, "rb") as told:
        released = len(told.read())
    with open_ledger(tmp_path / "budgets.db") as ledger:
        assert 0 < released == ledger.budget("a").spent.main >> 40
        ledger.verify()


def _open_close_and_fork(path, told):
    """Charge from two threads, and from children of each; say so in one byte for each release."""
    end = time.monotonic() + 1.5

    def spend():
        while time.monotonic() < end:
            with open_ledger(path) as ledger:
                ledger.charge("a", epsilon=1.0)
                os.write(told, b"x")
                child = os.fork()
                if not child:
                    with contextlib.suppress(BaseException):
                        ledger.charge("a", epsilon=1.0)
                        os.write(told, b"x")
                    os._exit(0)
                os.waitpid(child, 0)

    threads = [threading.Thread(target=spend) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.process
def test_files_that_are_read_meanwhile():
    """A backup in the same process lets go of SQLite's locks, when it closes what it has read."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = f"{folder}/budgets.db"
        with open_ledger(path) as ledger:
            ledger.create("a", epsilon=1e6)
        children = []
        for _ in range(3):
            result, told = os.pipe()
            child = os.fork()
            if not child:
                os.write(told, b"%d" % _spend_and_copy(path))
                os._exit(0)
            os.close(told)
            children.append((child, result))
        released = 0
        for child, result in children:
            released += int(os.read(result, 100))
            os.close(result)
            assert os.waitpid(child, 0)[1] == 0
        with open_ledger(path) as ledger:
            assert 50 < released <= ledger.budget("a").spent.main >> 40
            ledger.verify()


def _spend_and_copy(path):
    """Charge for a second while another thread reads the files; return how often it worked."""
    paid, end = 0, time.monotonic() + 1.0

    def copy():
        while time.monotonic() < end:
            for name in ("-shm", "", "-wal"):
                with contextlib.suppress(OSError), open(path + name, "rb") as file:
                    file.read(10)

    with contextlib.suppress(LedgerError), open_ledger(path) as ledger:
        threading.Thread(target=copy, daemon=True).start()
        while time.monotonic() < end:
            ledger.charge("a", epsilon=1.0)
            paid += 1
    return paid


@pytest.mark.process
def test_locks_that_are_held_too_long(tmp_path):
    """Who holds the turn is named; a note that was removed is noticed soon."""
    ledger = open_ledger(tmp_path / "budgets.db", timeout=0.1)
    ledger.create("a", epsilon=1.0)
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        with open(tmp_path / "budgets.db-generation") as note:
            fcntl.flock(note, fcntl.LOCK_EX)
            os.write(told, b"x")
            time.sleep(60)
    os.read(ready, 1)
    by = f" by process {child}" if os.path.exists("/proc/locks") else ""
    with pytest.raises(LedgerError, match=f"in use{by}.*nothing was charged"):
        ledger.charge("a", epsilon=1.0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)
    assert ledger.remaining("a") == 1.0
    (tmp_path / "budgets.db-generation").unlink()
    time.sleep(sqlite.LOOK_AGAIN + 0.01)
    with pytest.raises(LedgerError, match="removed"):
        ledger.charge("a", epsilon=1.0)
    ledger.close()
    ledger.charge("a", epsilon=1.0)
    ledger.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in others' code
def test_an_interrupt_at_any_place(tmp_path):
    """Ctrl-C leaves no lock behind, and what was charged stays charged."""
    ledger = open_ledger(tmp_path / "budgets.db", timeout=2.0)
    ledger.create("a", epsilon=1000.0)
    paid = 0
    before = signal.getsignal(signal.SIGALRM)

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    try:
        for step in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 * (step + 1))
                for _ in range(50):
                    ledger.charge("a", epsilon=1.0)
                    paid += 1
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    with open_ledger(tmp_path / "budgets.db", timeout=2.0) as other:
        assert paid <= other.budget("a").spent.main >> 40 <= paid + 60
        other.charge("a", epsilon=1.0)
        other.verify()


def test_other_names_of_the_file(tmp_path):
    """A link is the same ledger; a second name, which would have a log of its own, is refused."""
    path, link = tmp_path / "budgets.db", tmp_path / "link.db"
    with open_ledger(path) as ledger:
        ledger.create("a", epsilon=1.0)
        link.symlink_to(path)
        with open_ledger(link) as other:
            other.charge("a", epsilon=1.0)
        with pytest.raises(BudgetError):
            ledger.charge("a", epsilon=0.5)
    assert not (tmp_path / "link.db-generation").exists()
    os.link(path, tmp_path / "second.db")
    with pytest.raises(ValueError, match="hard links"):
        open_ledger(tmp_path / "second.db")
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path, tmp_path / "pipe", "/dev/null"):
        with pytest.raises(ValueError, match="path of a file"):
            open_ledger(odd)


def test_network_file_systems_are_refused(tmp_path, monkeypatch):
    mounts = f"server:/x {str(tmp_path).replace(' ', chr(92) + '040')} nfs4 rw 0 0\n"
    real = places.Path.read_text

    def read(path, **how):
        known = real(path, **how)
        return known + mounts if str(path) == "/proc/self/mounts" else known

    monkeypatch.setattr(places.Path, "read_text", read)
    (tmp_path / "link.db").symlink_to(tmp_path / "there.db")
    for name in ("budgets.db", "link.db"):
        with pytest.raises(ValueError, match="network file system"):
            open_ledger(tmp_path / name)


def test_a_backup_of_the_last_charge(tmp_path):
    """Even the copy from one charge ago is noticed."""
    path = tmp_path / "budgets.db"
    with open_ledger(path) as ledger:
        ledger.create("a", epsilon=1.0)
    copy = path.read_bytes()
    with open_ledger(path) as ledger:
        ledger.charge("a", epsilon=1.0)
    path.write_bytes(copy)
    with pytest.raises(LedgerError, match="old copy"):
        open_ledger(path)


def test_a_look_while_others_write(ledger, address):
    """A look sees one state: nothing is taken for an old copy, or for changed, by mistake."""
    ledger.create("a", epsilon=1000.0)
    stopped = threading.Event()
    failures = []

    def look():
        with open_ledger(address) as other:
            while not stopped.is_set():
                try:
                    other.verify()
                    other.remaining("a")
                except Exception as error:
                    failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        ledger.charge("a", epsilon=1.0)
    stopped.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_that_ask_the_same_at_once(ledger):
    """One draw, one charge, one answer."""
    ledger.create("a", epsilon=1.0)
    draws, answers = [], []

    def draw():
        draws.append(1)
        return os.urandom(4)

    def ask():
        answers.append(ledger.answer_once("a", "key", "question", draw, epsilon=1.0))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(draws) == len(set(answers)) == 1
    assert ledger._turns == {}


def test_a_draw_that_fails_is_drawn_again(ledger):
    ledger.create("a", epsilon=1.0)

    def fails():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        ledger.answer_once("a", "key", "question", fails, epsilon=1.0)
    assert ledger.remaining("a") == 0.0
    assert ledger.answer_once("a", "key", "question", lambda: b"1", epsilon=1.0) == b"1"


@pytest.mark.parametrize("units", [1, 2, (1 << 62) - 1, 1 << 62])
def test_amounts_at_the_ends(ledger, units):
    """The last unit can be spent, and no more."""
    ledger.create("a", epsilon=Fraction(units, 2**40), delta=2.0**-62)
    assert ledger.budget("a").limit.main == units
    ledger.charge("a", epsilon=Fraction(units - 1, 2**40))
    ledger.charge("a", epsilon=5e-324)
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=5e-324)
    ledger.charge("a", epsilon=0.0, delta=2.0**-80)
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=0.0, delta=2.0**-80)
    ledger.verify()


def test_prices_that_call_themselves_equal(ledger):
    """A price is what it is, whatever was charged before."""

    class Chameleon(float):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash(0.0)

    ledger.create("a", epsilon=1.0)
    for price in (0.0, Chameleon(0.0), Chameleon(0.25), -0.0, 0, Fraction(1, 4), 0.25):
        ledger.charge("a", epsilon=price, note="the same")
    assert ledger.remaining("a") == 0.25
    ledger.verify()


def test_hostile_texts(ledger):
    """Notes and requests come back as they were, or are refused; no statement is made of them."""
    ledger.create("a", epsilon=1.0)
    odd = "'; DROP TABLE ledger_log; -- %s ? \\ \" \n\t\x7f 好 🦜 \u202e"
    ledger.charge("a", epsilon=0.0, note=odd)
    ledger.answer_once("a", odd, "q", lambda: odd.encode(), epsilon=0.0)
    assert ledger.answer_once("a", odd, "q", lambda: b"", epsilon=0.0) == odd.encode()
    ledger.answer_once("a", "好" * 500, "q", lambda: b"", epsilon=0.0)
    assert ledger.log("a")[1].detail["note"] == odd
    before = ledger.verify()
    for request in ("", "x" * 501, "a\0b", "\ud800", 5, None, b"x"):
        with pytest.raises(ValueError, match="request"):
            ledger.answer_once("a", request, "q", lambda: b"", epsilon=0.0)
        with pytest.raises(ValueError, match="request"):
            ledger.store_answer("a", request, b"")
    for note in ("a\0b", "\ud800", None, b"x"):
        with pytest.raises(ValueError, match="note"):
            ledger.charge("a", epsilon=0.0, note=note)
    for name in (["a"], {}, "a\0", "é", "a'--"):
        with pytest.raises(ValueError, match="name"):
            ledger.charge(name, epsilon=0.0)
    for delta in (False, "", []):
        with pytest.raises(ValueError, match="delta"):
            ledger.create("b", epsilon=1.0, delta=delta)
    assert ledger.verify() == before


def test_a_clock_that_goes_back(ledger, monkeypatch):
    from opendp_optimal.budget.ledger import lines as module

    ledger.create("a", epsilon=1.0)
    monkeypatch.setattr(module, "time_ns", lambda: 915148800 * 10**9)
    ledger.charge("a", epsilon=1.0)
    assert ledger.log()[-1].time.startswith("1999")
    ledger.verify()
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=1.0)


@pytest.mark.process
def test_no_rights_to_write():
    """Another user, who may read only, cannot charge."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "budgets.db"
        with open_ledger(path) as ledger:
            ledger.create("a", epsilon=1.0)
        child = os.fork()
        if not child:
            try:
                os.setuid(65534)
                open_ledger(path).charge("a", epsilon=0.5)
            except LedgerError as error:
                os._exit(0 if "nothing was charged" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        with open_ledger(path) as ledger:
            assert ledger.remaining("a") == 1.0

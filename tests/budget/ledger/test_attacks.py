"""Ways to get more out of a ledger than is in it, each of which must fail."""

import contextlib
import os
import signal
import tempfile
import threading
import traceback
from fractions import Fraction
from pathlib import Path

import pytest

from opendp_optimal.budget.ledger import open_ledger, sqlite
from opendp_optimal.budget.ledger.postgres import without_password
from opendp_optimal.budget.ledger.tables import check
from opendp_optimal.errors import BudgetError, LedgerError

pytestmark = pytest.mark.process  # forks, servers


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
    "ledger_state": ["format = 2", "generation = 7", "link = 'x'"],
    "ledger_budgets": [
        *("name = 'b'", "kind = 'rho'", "kind = 'odd'", "limit_main = limit_main * 2"),
        *("limit_delta = 1", "spent_main = 0", "unit = 'x'", "unit = NULL"),
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


@pytest.mark.parametrize("table", CHANGES)
def test_rows_that_are_gone(spent, table):
    def check_without():
        with spent._store.transaction(write=True) as change:
            change.all(f"DELETE FROM {table}")
            if table == "ledger_state":
                change.all("INSERT INTO ledger_state SELECT 1, 0, 'x'")
            check(change)

    with pytest.raises(LedgerError):
        check_without()
    spent.verify()


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
    real = sqlite.Path.read_text

    def read(path, **how):
        known = real(path, **how)
        return known + mounts if str(path) == "/proc/self/mounts" else known

    monkeypatch.setattr(sqlite.Path, "read_text", read)
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


SECRETS = [
    "postgresql://ann:pa55@127.0.0.1:1/db",
    "postgres://ann:pa55@127.0.0.1:1/db",
    "postgresql://ann:p%4055@127.0.0.1:1/db?connect_timeout=1",
    "postgresql://ann:12/pa55@127.0.0.1/db",
    "postgresql://ann:pa55@ss@127.0.0.1:1/db",
    "postgresql://ann:x#pa55@127.0.0.1:1/db",
    "postgresql://ann@127.0.0.1:1/db?password=pa55",
    "postgresql://127.0.0.1:1/pa55 pa55?nonsense=pa55",
    "postgresql:///?service=pa55&password=pa55",
    "POSTGRESQL://ann:pa55@127.0.0.1/db",
    "postgresql+psycopg://ann:pa55@127.0.0.1/db",
    "host=127.0.0.1 port=1 password=pa55",
    "password = 'pa55' dbname=x",
    "service=pa55",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_passwords_are_in_no_text(secret, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "pa55")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((LedgerError, ValueError)) as caught:
        open_ledger(secret, timeout=1.0)
    text = "".join(traceback.format_exception(caught.value)).split("open_ledger(secret")[-1]
    for word in ("pa55", "p%40", "p@55"):
        assert word not in str(caught.value)
        assert word not in text
        assert word not in repr(caught.value.__context__)
        assert word not in without_password(secret)
    assert list(tmp_path.iterdir()) == []


def test_a_password_that_is_used(server, postgres):
    """With a password in the address, and in the address alone, it is in no text."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("DROP ROLE IF EXISTS ann")
        db.execute("CREATE ROLE ann LOGIN PASSWORD 'pa55'")
        db.execute("GRANT CREATE ON DATABASE postgres TO ann")
    address = f"postgresql://ann:pa55@/postgres?host={server.pgdata}"
    with open_ledger(address) as ledger:
        ledger.create("a", epsilon=1.0, note="n")
        with pytest.raises(BudgetError) as caught:
            ledger.charge("a", epsilon=2.0)
        shown = [repr(ledger), str(ledger.log()), str(ledger.budgets()), str(caught.value)]
        with psycopg.connect(postgres, autocommit=True) as db:
            db.execute("REVOKE INSERT ON opendp_optimal.ledger_log FROM ann")
            db.execute("ALTER TABLE opendp_optimal.ledger_log OWNER TO postgres")
        with pytest.raises(LedgerError, match=r"no right .* nothing was charged") as caught:
            ledger.charge("a", epsilon=0.5)
        shown += [str(caught.value), ledger.address]
        assert "pa55" not in "".join(shown)
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("DROP OWNED BY ann CASCADE")
        db.execute("DROP ROLE ann")


@pytest.mark.parametrize(
    "settings",
    [
        "-c default_transaction_isolation=serializable",
        "-c default_transaction_isolation=repeatable\\ read",
        "-c default_transaction_read_only=on",
        "-c synchronous_commit=off",
        "-c search_path=elsewhere",
    ],
)
def test_settings_of_the_server_do_not_matter(postgres, settings):
    """Writers wait for one another, and all find the same ledger."""
    from urllib.parse import quote

    with open_ledger(postgres) as plain:
        plain.create("a", epsilon=1.0)
    addresses = [postgres, f"{postgres}&options={quote(settings)}"] * 2
    paid = []

    def spend(address):
        with open_ledger(address) as ledger:
            for _ in range(6):
                with contextlib.suppress(BudgetError):
                    paid.append(ledger.charge("a", epsilon=1 / 16))

    threads = [threading.Thread(target=spend, args=[each]) for each in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 16
    with open_ledger(postgres) as plain:
        plain.verify()


def test_a_connection_that_is_lost_in_the_commit(postgres):
    """Nobody knows whether it was charged: nothing is released, and the log decides."""
    import psycopg

    with open_ledger(postgres) as ledger:
        ledger.create("a", epsilon=1.0)
        with psycopg.connect(postgres, autocommit=True) as db:
            db.execute(
                "CREATE FUNCTION opendp_optimal.cut() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
            )
            db.execute(
                "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON opendp_optimal.ledger_log "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION opendp_optimal.cut()"
            )
        drawn = []
        with pytest.raises(LedgerError, match="may have been"):
            ledger.answer_once("a", "key", "q", lambda: drawn.append(1) or b"1", epsilon=0.5)
        assert drawn == []
        with psycopg.connect(postgres, autocommit=True) as db:
            db.execute("DROP TRIGGER cut ON opendp_optimal.ledger_log")
        assert ledger.answer_once("a", "key", "q", lambda: b"1", epsilon=0.5) == b"1"
        assert ledger.remaining("a") == 0.5
        ledger.verify()


def test_a_connection_that_was_lost_meanwhile(postgres):
    """A server that was restarted between two charges is connected to again."""
    import psycopg

    with open_ledger(postgres) as ledger:
        ledger.create("a", epsilon=1.0)
        with psycopg.connect(postgres, autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'opendp-optimal ledger'"
            )
        ledger.charge("a", epsilon=0.5)
        assert ledger.remaining("a") == 0.5


def test_a_locked_table_says_by_whom(postgres):
    import psycopg

    with open_ledger(postgres, timeout=0.2) as ledger, psycopg.connect(postgres) as holder:
        ledger.create("a", epsilon=1.0)
        holder.execute("SELECT * FROM opendp_optimal.ledger_state FOR UPDATE")
        pid = holder.info.backend_pid
        with pytest.raises(LedgerError, match=rf"in use by postgres \(process {pid}\)"):
            ledger.charge("a", epsilon=0.5)
        assert ledger.remaining("a") == 1.0  # looking needs no lock
        holder.rollback()
        ledger.charge("a", epsilon=1.0)


def test_a_clock_that_goes_back(ledger, monkeypatch):
    from opendp_optimal.budget.ledger import ledger as module

    ledger.create("a", epsilon=1.0)
    monkeypatch.setattr(module, "time_ns", lambda: 915148800 * 10**9)
    ledger.charge("a", epsilon=1.0)
    assert ledger.log()[-1].time.startswith("1999")
    ledger.verify()
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=1.0)


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

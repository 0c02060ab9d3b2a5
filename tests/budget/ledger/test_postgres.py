"""What only a ledger on a server has: passwords, settings, connections that are lost."""

import contextlib
import threading
import traceback

import pytest

from opendp_optimal.budget.ledger import open_ledger
from opendp_optimal.budget.ledger.postgres import without_password
from opendp_optimal.errors import BudgetError, LedgerError

pytestmark = pytest.mark.process  # servers


SECRETS = [
    "postgresql://ann:pa55@127.0.0.1:1/db",
    "postgres://ann:pa55@127.0.0.1:1/db",
    "postgresql://ann:p%4055@127.0.0.1:1/db?connect_timeout=1",
    "postgresql://ann:12/pa55@127.0.0.1/db",
    "postgresql://ann:pa55@ss@127.0.0.1:1/db",
    "postgresql://ann:x#pa55@127.0.0.1:1/db",
    "postgresql://ann:pa55#x@127.0.0.1:1/db",
    "postgresql://ann:pa55?x@127.0.0.1:1/db",
    "postgresql://ann:pa55",
    "postgresql:ann:pa55@127.0.0.1/db",
    "ann:pa55@127.0.0.1",
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


def test_functions_of_others_are_not_used(postgres):
    """Somebody's own sha256 and "<=" come first in the search path of the database."""
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute("CREATE SCHEMA evil")
        body = "LANGUAGE sql AS $$ SELECT {} $$"
        hashed, fits = body.format("'x'::bytea"), body.format("true")
        db.execute(f"CREATE FUNCTION evil.sha256(bytea) RETURNS bytea {hashed}")
        db.execute(f"CREATE FUNCTION evil.fits(bigint, bigint) RETURNS boolean {fits}")
        db.execute(
            "CREATE OPERATOR evil.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.fits)"
        )
        db.execute("ALTER DATABASE postgres SET search_path = evil, pg_catalog")
        try:
            with open_ledger(postgres) as ledger:
                ledger.create("a", epsilon=1.0)
                ledger.charge("a", epsilon=0.75)
                with pytest.raises(BudgetError):
                    ledger.charge("a", epsilon=0.5)
                ledger.charge("a", epsilon=0.25)
                ledger.verify()
        finally:
            db.execute("ALTER DATABASE postgres RESET search_path")
            db.execute("DROP SCHEMA evil CASCADE")


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
        holder.execute("SELECT * FROM opendp_optimal.ledger_head FOR UPDATE")
        pid = holder.info.backend_pid
        with pytest.raises(LedgerError, match=rf"in use by postgres \(process {pid}\)"):
            ledger.charge("a", epsilon=0.5)
        assert ledger.remaining("a") == 1.0  # looking needs no lock
        holder.rollback()
        ledger.charge("a", epsilon=1.0)


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE opendp_optimal.ledger_head SET {how}" for how in ("generation = 7", "link='x'")),
        "UPDATE opendp_optimal.ledger_head SET generation = 1",
        "DELETE FROM opendp_optimal.ledger_head",
        "INSERT INTO opendp_optimal.ledger_head VALUES (2, 'x')",
        "DELETE FROM opendp_optimal.ledger_log WHERE number = 2",
    ],
)
def test_the_head_of_the_log_is_vouched_for(postgres, change):
    import psycopg

    with open_ledger(postgres) as ledger:
        ledger.create("a", epsilon=1.0)
        ledger.charge("a", epsilon=0.5)
    with psycopg.connect(postgres, autocommit=True) as db:
        db.execute(change)
    with pytest.raises(LedgerError):
        open_ledger(postgres).verify()
    with pytest.raises(LedgerError):
        open_ledger(postgres, at_least=8).charge("a", epsilon=0.25)

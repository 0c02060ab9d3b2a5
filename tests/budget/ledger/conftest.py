"""A ledger of each sort: a file, and a real PostgreSQL server that is started once."""

import shutil
import tempfile

import pytest

from opendp_optimal.budget.ledger import open_ledger


def stop_at_once(running):
    """Stop a server as a power cut would."""
    import pgserver

    arguments = ["-w", "-m", "immediate", "stop"]
    pgserver.pg_ctl(arguments, pgdata=running.pgdata, user=running.system_user)


def start_again(running):
    """Start a server that was stopped, as pgserver does, but wait longer than its ten seconds."""
    import pgserver

    arguments = ["-w", "-t", "120", "-o", '-h ""', "-o", f"-k {running.pgdata}"]
    arguments += ["-l", f"{running.pgdata}/log", "start"]
    pgserver.pg_ctl(arguments, pgdata=running.pgdata, user=running.system_user, timeout=130)


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server from a wheel; its own user and folder."""
    pgserver = pytest.importorskip("pgserver")
    pytest.importorskip("psycopg")
    folder = tempfile.mkdtemp(prefix="ledger-pg-")
    running = pgserver.get_server(folder, cleanup_mode=None)
    yield running
    stop_at_once(running)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(server):
    """The address of a database without a ledger."""
    import psycopg

    address = server.get_uri()
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS opendp_optimal CASCADE")
    return address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.process)])
def address(request, tmp_path):
    """The address of an empty ledger."""
    if request.param == "sqlite":
        return str(tmp_path / "budgets.db")
    return request.getfixturevalue("postgres")


@pytest.fixture
def ledger(address):
    opened = open_ledger(address)
    yield opened
    opened.close()

"""What a stranger would try: collations, names, constants, changes, Ctrl-C, several processes."""

import os
import signal
import subprocess
import sys
import time

import duckdb
import numpy as np
import pytest
from warehouse_rows import hostile_rows, into_postgres

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import WarehouseError, col, connect
from opendp_optimal_warehouse.release import rows_of
from opendp_optimal_warehouse.steps import make_tally

NASTY = [
    '"; DROP TABLE people; --',
    "'; DROP TABLE people; --",
    "a' OR '1'='1",
    "\\'; --",
    "%s {x}",
]


def integers(table, **asked):
    """What the engine counts, before noise."""
    layout = table.layout(**asked)
    chain = rows_of(table, layout)
    return make_tally(chain.output_domain, chain.output_metric)(chain(table.source))


def house_with(tmp_path, *statements):
    with duckdb.connect(str(tmp_path / "people.db")) as db:
        for statement in statements:
            db.execute(statement)
    return connect(tmp_path / "people.db")


def test_a_row_is_in_one_group_whatever_its_collation(tmp_path, ledger):
    with house_with(
        tmp_path,
        "CREATE TABLE people (pid VARCHAR COLLATE NOCASE, town VARCHAR COLLATE NOCASE)",
        "INSERT INTO people VALUES ('A', 'BERN'), ('a', 'bern'), ('a', 'Bern')",
    ) as house:
        keys = ["Bern", "bern", "BERN", "bErn"]
        alone = house.table("people", person=None, ledger=ledger, name="census")
        assert integers(alone.by("town", keys=keys), count=True).totals.sum() == 3
        assert len(integers(alone.by("town"), count=True).keys) == 3
        # A and a are two people: each moves the count of people by one.
        people = house.table("people", person="pid", ledger=ledger, name="pure")
        assert integers(people.rows_per_person(5), people=True).totals.tolist() == [[2]]
        found = integers(people.rows_per_person(1).by("town", keys=keys), count=True)
        assert found.totals.sum() == 2


def test_names_and_constants_are_no_sql(tmp_path, ledger):
    columns = ", ".join(f'1 AS "{name.replace(chr(34), chr(34) * 2)}"' for name in NASTY)
    texts = ", ".join("'" + text.replace("'", "''") + "'" for text in NASTY)
    with house_with(
        tmp_path,
        f"CREATE TABLE people AS SELECT i % 5 AS pid, [{texts}][1 + i % 5] AS town, {columns} "
        "FROM range(100) t(i)",
    ) as house:
        people = house.table("people", person="pid", ledger=ledger, name="census")
        asked = people.rows_per_person(100)
        assert integers(asked.by("town", keys=NASTY), count=True).totals.tolist() == [[20]] * 5
        for name in NASTY:
            kept = asked.where((col(name) == 1) & col("town").isin([name, "Bern"]))
            assert integers(kept, count=True, means={name: (0, 2)}).totals[0, 0] == 20
            derived = asked.derive(**{f"{name} too": col(name) + 1}).by(f"{name} too", keys=[2])
            assert integers(derived, count=True).totals.tolist() == [[100]]
        assert {k[0].decode() for k in integers(asked.by("town"), count=True).keys} == set(NASTY)
    with duckdb.connect(str(tmp_path / "people.db")) as db:
        assert db.execute("SELECT COUNT(*) FROM people").fetchone() == (100,)


def test_long_names_are_refused(tmp_path, ledger):
    with house_with(tmp_path, "CREATE TABLE people AS SELECT 1 AS pid, 2 AS x") as house:
        people = house.table("people", person="pid", ledger=ledger, name="census")
        with pytest.raises(ValueError, match="63 bytes"):
            people.derive(**{"x" * 64: col("x") + 1})


def test_identical_rows_and_nobody(tmp_path, ledger):
    with house_with(
        tmp_path,
        "CREATE TABLE people AS SELECT CASE WHEN i < 50 THEN NULL ELSE 1 END AS pid, "
        "9223372036854775807 AS x, '-inf'::DOUBLE AS y FROM range(1000) t(i)",
    ) as house:
        people = house.table("people", person="pid", ledger=ledger, name="census")
        found = integers(
            people.rows_per_person(3), people=True, count=True, sums={"x": (0, 10), "y": (0, 10)}
        )
        assert found.totals[0, :2].tolist() == [1, 3]
        clipped = people.clip_per_person(sum={"x": (-(2**40), 2**40)}, rows=7)
        found = integers(clipped, count=True, sums={"x": (-(2**62), 2**62)})
        assert found.totals[0, -2:].tolist() == [1, found.totals[0, -1]]


def test_the_ends_of_whole_numbers(tmp_path, ledger):
    ends = [-(2**63), 2**63 - 1, 0]
    with house_with(
        tmp_path,
        "CREATE TABLE people (pid BIGINT, x BIGINT)",
        f"INSERT INTO people VALUES ({ends[0]}, {ends[0]}), ({ends[1]}, {ends[1]}), (0, 0)",
    ) as house:
        people = house.table("people", person="pid", ledger=ledger, name="census")
        asked = people.rows_per_person(1).where((col("x") == ends[0]) | (col("x") >= 0))
        assert integers(asked.by("x", keys=ends), count=True).totals.tolist() == [[1]] * 3
        assert sorted(integers(asked.by("x"), count=True).keys) == [(end,) for end in sorted(ends)]


@pytest.mark.process
def test_postgresql_refuses_what_changed_and_reads_texts_as_texts(server, tmp_path, ledger):
    import psycopg

    url = into_postgres(server.get_uri(), hostile_rows(50, seed=5))
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ALTER DATABASE postgres SET standard_conforming_strings = off")
        db.execute("DROP TABLE IF EXISTS cases")
        db.execute("CREATE TABLE cases (town CHAR(16))")
        db.execute("INSERT INTO cases VALUES ('Bern'), ('bern')")
    try:
        with connect(url) as house:
            people = house.table("people", person="pid", ledger=ledger, name="census")
            hit = people.rows_per_person(100).where(col("town") == "\\' OR 1=1 --")
            assert integers(hit, count=True).totals.tolist() == [[0]]
            cases = house.table("cases", person=None, ledger=ledger, name="pure")
            keys = ["Bern", "Bern ", "bern"]  # equal, to PostgreSQL, are the first two
            found = integers(cases.by("town", keys=keys), count=True).totals
            assert found.tolist() == [[1], [0], [1]]
            assert len(integers(cases.by("town"), count=True).keys) == 2
            prepared = people.rows_per_person(1).prepare(means={"age": (0, 100)}, epsilon=1.0)
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("ALTER TABLE people ALTER COLUMN age TYPE TEXT USING 'secret'")
            with pytest.raises(WarehouseError, match="open it again") as caught:
                prepared.run()
            assert "secret" not in str(caught.value)
            assert ledger.remaining("census")[0] == 100.0
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ALTER DATABASE postgres RESET standard_conforming_strings")


def test_backends_that_do_not_serve():
    import ibis

    with pytest.raises(ValueError, match="polars must have window functions"):
        connect(ibis.polars.connect())
    with pytest.raises(ValueError, match="tests of conformance"):
        connect(ibis.sqlite.connect())
    with pytest.raises(ValueError, match="must be an address"):
        connect(5)


def test_a_connection_of_ones_own(ledger):
    import ibis

    own = ibis.duckdb.connect()
    own.raw_sql("CREATE TABLE people AS SELECT i AS pid FROM range(100) t(i)")
    with connect(own) as house:
        people = house.table("people", person="pid", ledger=ledger, name="census")
        assert integers(people.rows_per_person(1), count=True).totals.tolist() == [[100]]
    assert own.raw_sql("SELECT 1").fetchall() == [(1,)]  # it stays open


COMMAND = [sys.executable, "-m", "opendp_optimal", "warehouse", "release", "--rows-are-people"]


@pytest.mark.process
def test_ctrl_c_in_the_middle_of_a_query(tmp_path):
    house_with(
        tmp_path, "CREATE VIEW endless AS SELECT range AS x FROM range(1000000000000)"
    ).close()
    with open_ledger(tmp_path / "budgets.db") as ledger:
        ledger.create("endless", epsilon=2.0)
    asked = ["--url", f"duckdb:///{tmp_path}/people.db", "--table", "endless", "--sum", "x:0:1000"]
    asked += ["--epsilon", "1", "--ledger", f"{tmp_path}/budgets.db"]
    running = subprocess.Popen([*COMMAND, *asked], stderr=subprocess.PIPE, text=True)
    with open_ledger(tmp_path / "budgets.db") as ledger:
        deadline = time.monotonic() + 120
        while ledger.remaining("endless") == 2.0 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
        assert running.returncode == 130, told
        assert "Traceback" not in told
        assert ledger.remaining("endless") == 1.0  # what was charged stays charged
        ledger.verify()
    with connect(tmp_path / "people.db") as house:
        assert house._backend.list_tables() == ["endless"]


@pytest.mark.process
def test_two_processes_share_one_budget(tmp_path):
    house_with(tmp_path, "CREATE TABLE people AS SELECT i AS x FROM range(100) t(i)").close()
    with open_ledger(tmp_path / "budgets.db") as ledger:
        ledger.create("people", epsilon=1.0)
    asked = ["--url", f"{tmp_path}/people.db", "--table", "people", "--count"]
    asked += ["--epsilon", "0.3", "--ledger", f"{tmp_path}/budgets.db"]
    running = [
        subprocess.Popen(
            [*COMMAND, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
        )
        for _ in range(5)
    ]
    codes = sorted([process.communicate(timeout=300) and process.returncode for process in running])
    assert codes == [0, 0, 0, 2, 2]
    with open_ledger(tmp_path / "budgets.db") as ledger:
        assert np.isclose(ledger.remaining("people"), 0.1)


def test_no_column_reads_like_an_expression():
    # Requests are told apart by how their expressions are written.
    assert repr(col("age") + 1) == repr(col("age") + 1)
    for name, other in [("(x + y)", col("x") + col("y")), ("True", col("x") == col("x"))]:
        assert repr(col(name)) == f"col({name!r})"
        assert repr(col(name)) != repr(other)
    names = ["nan", "inf", "None", "1", "x) | (y", "x'", 'x"', "age"]
    assert len({repr(col(name) > 1) for name in names}) == len(names)

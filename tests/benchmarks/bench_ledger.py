"""What a charge costs beside a bare transaction of the same size, in the same run.

    python tests/benchmarks/bench_ledger.py

A bare transaction is what somebody would write who believes every price and trusts every copy: on
tables like a ledger's, with one connection for a process and prepared statements, it begins, finds
the last line of the log, updates the budget under the same condition, writes a line of the same
length (made before) and commits. It brings the same rows to disk as safely as a charge does
(SQLite: WAL, synchronous FULL, BEGIN IMMEDIATE, all else by default) and does none of our work:
checks, units, time, text, hash, a second lock, note of the generation. What a ledger does for its
speed is ours, and not in it: small pages, the last line remembered, one statement on PostgreSQL.
Since that statement is most of a charge there, a second bare side sends just this statement, with
values made before.

Charges a second from 1 and 4 processes on SQLite (disk and memory) and PostgreSQL. A disk's speed
can change tenfold within seconds, and others use the machine: both sides take short turns, the
ratio is the median over pairs of turns that follow one another, and its quartiles stand beside, as
does the rate at which the disk can be waited for. Then the cost of the 10,000th release through a
context beside that of the 10th, with OpenDP's own filter for comparison. Exits with 1 if a target
is missed: 0.9 of bare on disk, half in memory, a 10,000th release within 1.2 of the 10th.
"""

import multiprocessing
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

import opendp.prelude as dp

from opendp_optimal.budget import open_ledger
from opendp_optimal.budget.ledger.chain import as_text
from opendp_optimal.budget.ledger.postgres import _CHARGE, _translated

dp.enable_features("contrib")

SECONDS, TURNS = 0.05, 120
ON_DISK, IN_MEMORY, LATE = 0.9, 0.5, 1.2
NOTE = "a count of everybody"
PRICE = 1 << 10
FORK = multiprocessing.get_context("fork")


def spend(address):
    """Return a function that charges a ledger once."""
    ledger = open_ledger(address)
    return lambda: ledger.charge("a", epsilon=2.0**-30, note=NOTE)


def line(address):
    """Return the line that a charge writes, as texts and numbers."""
    with open_ledger(address) as ledger:
        ledger.charge("a", epsilon=2.0**-30, note=NOTE)
        last = ledger.log()[-1]
    return [last.time, "a", "charge", PRICE, 0, as_text(last.detail), last.link]


def bare_sqlite(path):
    """Return a function that does as much in a bare transaction."""
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.execute("PRAGMA synchronous = FULL")
    (written,) = db.execute(
        "SELECT time, name, action, main, delta, detail, link FROM ledger_log "
        "ORDER BY number DESC LIMIT 1"
    ).fetchall()
    run = db.cursor().execute

    def once():
        run("BEGIN IMMEDIATE")
        ((number, _),) = run(
            "SELECT number, link FROM ledger_log ORDER BY number DESC LIMIT 1"
        ).fetchall()
        run(
            "UPDATE ledger_budgets SET spent_main = spent_main + ?, spent_delta = spent_delta + ? "
            "WHERE name = ? AND kind = ? AND ? <= limit_main - spent_main "
            "AND ? <= limit_delta - spent_delta",
            (PRICE, 0, "a", "epsilon", PRICE, 0),
        )
        run("INSERT INTO ledger_log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (number + 1, *written))
        run("COMMIT")

    return once


def bare_postgres(address):
    """Return a function that does the same on PostgreSQL, where the last line has its own row."""
    import psycopg

    written = line(address)
    db = psycopg.connect(address, autocommit=True)
    db.execute("SET search_path = opendp_optimal")

    def once():
        db.execute("BEGIN")
        ((number, _),) = db.execute(
            "SELECT generation, link FROM ledger_head FOR UPDATE"
        ).fetchall()
        db.execute(
            "UPDATE ledger_budgets SET spent_main = spent_main + %s, "
            "spent_delta = spent_delta + %s WHERE name = %s AND kind = %s "
            "AND %s <= limit_main - spent_main AND %s <= limit_delta - spent_delta",
            (PRICE, 0, "a", "epsilon", PRICE, 0),
        )
        db.execute(
            "INSERT INTO ledger_log VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (number + 1, *written),
        )
        db.execute("UPDATE ledger_head SET generation = %s, link = %s", (number + 1, written[-1]))
        db.execute("COMMIT")

    return once


def bare_statement(address):
    """Return a function that sends the statement of a charge, with values made before."""
    import psycopg

    time_, name, _, main, delta, detail, _ = line(address)
    values = 0, name, "epsilon", main, delta, time_, detail
    statement = _translated(_CHARGE)
    db = psycopg.connect(address, autocommit=True)
    return lambda: db.execute(statement, values).fetchall()


def take_turns(sides, barrier, rates):
    """Do one side and then the other, for a moment each, until every turn was had."""
    doing = [make(where) for make, where in sides]
    for once in doing:
        once()
    found = []
    for turn in range(2 * TURNS):
        once = doing[side_of(turn)]
        barrier.wait()
        done, now = 0, time.perf_counter()
        end = (begun := now) + SECONDS
        while now < end:
            once()
            done, now = done + 1, time.perf_counter()
        found.append(done / (now - begun))
    rates.put(found)


def side_of(turn):
    """Whose turn it is: 0 1 1 0, so that a disk that slows down slows both alike."""
    return (turn + turn // 2) % 2


def compared(bare, bare_at, ledger_at, processes):
    """Return charges a second, and the quartiles of their ratio to bare transactions."""
    sides = (bare, bare_at), (spend, ledger_at)
    barrier, rates = FORK.Barrier(processes), FORK.SimpleQueue()
    running = [
        FORK.Process(target=take_turns, args=(sides, barrier, rates)) for _ in range(processes)
    ]
    for process in running:
        process.start()
    turns = [sum(each) for each in zip(*(rates.get() for _ in running), strict=True)]
    for process in running:
        process.join()
    pairs = [
        (pair if side_of(turn) == 0 else pair[::-1])
        for turn, pair in zip(
            range(0, 2 * TURNS, 2), zip(turns[::2], turns[1::2], strict=True), strict=True
        )
    ]
    ratios = statistics.quantiles((charged / plain for plain, charged in pairs), n=4)
    return statistics.median(charged for _, charged in pairs), ratios


def syncs(folder):
    """Return how often a second the disk can be waited for."""
    with open(Path(folder) / "sync", "wb", buffering=0) as file:
        done, end = 0, time.perf_counter() + 1.0
        while time.perf_counter() < end:
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            done += 1
    return done


def on_sqlite(folder):
    """Return the addresses of a bare database and of a ledger in a folder."""
    bare, kept = f"{folder}/bare.db", f"{folder}/ledger.db"
    with open_ledger(kept) as opened:
        opened.create("a", epsilon=1e6)
        opened.charge("a", epsilon=2.0**-30, note=NOTE)
    db = sqlite3.connect(bare)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("ATTACH ? AS kept", (kept,))
    for name, made in db.execute(
        "SELECT name, sql FROM kept.sqlite_master WHERE sql IS NOT NULL"
    ).fetchall():
        db.execute(made)
        db.execute(f"INSERT INTO main.{name} SELECT * FROM kept.{name}")
    db.commit()
    db.close()
    return bare, kept


def on_postgres(server):
    """Return the addresses of a bare database and of a ledger in a server."""
    import psycopg

    address = server.get_uri()
    with psycopg.connect(address, autocommit=True) as db:
        for name in ("bare", "ledger"):
            db.execute(f"CREATE DATABASE {name}")
    places = [server.get_uri(database=name) for name in ("bare", "ledger")]
    for place in places:
        with open_ledger(place) as opened:
            opened.create("a", epsilon=1e6)
    return places


def releases(folder):
    """Return what the 10th and a late release cost through a ledger and through OpenDP's filter.

    New contexts and one with many releases behind it take turns: whatever else the machine does
    slows both.
    """
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = dp.t.make_count(*space) >> dp.m.then_laplace(2.0**20)
    given = {
        "data": [1, 2, 3],
        "privacy_unit": dp.unit_of(contributions=1),
        "domain": space[0],
    }

    def kept():
        ledger = open_ledger(f"{tempfile.mkdtemp(dir=folder)}/releases.db")
        ledger.create("a", epsilon=1.0)
        return ledger.context("a", **given)

    def filtered():
        return dp.Context.compositor(**given, privacy_loss=dp.loss_of(epsilon=1.0))

    def cost(context):
        started = time.process_time()  # in memory there is nothing to wait for
        context(count)
        return time.process_time() - started

    out = {}
    for name, make, most in (("ledger", kept, 10_000), ("filter", filtered, 2_000)):
        old, young, early, late = make(), None, [], []
        for _ in range(most - 200):
            old(count)
        for turn in range(400):
            young = make() if turn % 20 == 0 else young
            early.append(cost(young))
            late.append(cost(old))
        out[name] = {10: statistics.median(early), most: statistics.median(late)}
    return out


def main() -> int:
    """Print the table, and say whether the targets were met."""
    missed = []
    disk = tempfile.mkdtemp(dir=os.environ.get("BENCH_DISK", "."), prefix=".bench-")
    memory = tempfile.mkdtemp(dir="/dev/shm") if Path("/dev/shm").is_dir() else None
    print(f"the disk can be waited for {syncs(disk)} times a second")
    try:
        places = [("SQLite, disk", bare_sqlite, *on_sqlite(disk), ON_DISK)]
        if memory:
            places.append(("SQLite, memory", bare_sqlite, *on_sqlite(memory), IN_MEMORY))
        server = None
        try:
            import pgserver
        except ImportError:
            print("PostgreSQL is left out: pgserver is not installed")
        else:
            server = pgserver.get_server(
                tempfile.mkdtemp(prefix="bench-pg-"), cleanup_mode="delete"
            )
            databases = on_postgres(server)
            places.append(("PostgreSQL, disk", bare_postgres, *databases, ON_DISK))
            places.append(("  one statement", bare_statement, *databases, ON_DISK))
        print(f"{'':18} {'processes':>9} {'charges/s':>10} {'of bare':>8}  quartiles")
        for name, bare, bare_at, ledger_at, target in places:
            for processes in (1, 4):
                charged, (low, ratio, high) = compared(bare, bare_at, ledger_at, processes)
                told = f"{charged:10.0f} {ratio:8.2f}  {low:.2f} to {high:.2f}"
                print(f"{name:18} {processes:9} {told}", flush=True)
                if ratio < target:
                    missed.append(f"{name}, {processes} processes: {ratio:.2f} < {target}")
        if server is not None:
            server.cleanup()
        for name, costs in releases(memory or disk).items():
            first = costs[10]
            told = ", ".join(f"{n}th {1e6 * t:.0f} us ({t / first:.2f})" for n, t in costs.items())
            print(f"a release through the {name}: {told}")
            if name == "ledger" and costs[10_000] > LATE * first:
                missed.append(f"the 10,000th release: {costs[10_000] / first:.2f} > {LATE}")
    finally:
        shutil.rmtree(disk, ignore_errors=True)
        if memory:
            shutil.rmtree(memory, ignore_errors=True)
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())

"""Kills: eight processes spend from one ledger at once, and are stopped without a word."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opendp_optimal.budget.ledger import open_ledger
from tests.budget.ledger.writers import Writers

PROCESSES = 8
BETWEEN = 4
"""Releases between two kills."""


@dataclass(frozen=True)
class Outcome:
    """What was released, and by how much that is more than was charged, in units of 2^-40."""

    released: int
    overspent: int


@contextmanager
def address_of(backend: str) -> Iterator[str]:
    """The address of an empty ledger, on a file or on a server that is started for it.

    :param backend: "SQLite" or "PostgreSQL"
    """
    folder = tempfile.mkdtemp(prefix="spenders-")
    try:
        if backend == "SQLite":
            yield f"{folder}/budgets.db"
        else:
            import pgserver

            server = pgserver.get_server(folder, cleanup_mode="stop")
            yield server.get_uri()
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kill_spenders(address: str, kills: int) -> Outcome:
    """Kill one of eight processes after every few releases, and start another.

    Checks that the log is whole, and that what was charged is within the limit. A request that two
    of them answer differently is an AssertionError.

    :param address: of an empty ledger
    :param kills: how many
    """
    ledger = open_ledger(address)
    ledger.create("a", epsilon=1000.0)
    writers = Writers(address)
    writers.start(PROCESSES)
    for _ in range(kills):
        enough = writers.released + BETWEEN
        while writers.released < enough:
            writers.read()
        writers.kill()
        writers.start()
    writers.end()
    ledger.verify()
    budget = ledger.budget("a")
    ledger.close()
    over = max(0, writers.told - budget.spent.main, budget.spent.main - budget.limit.main)
    return Outcome(writers.released + len(writers.answers), over)

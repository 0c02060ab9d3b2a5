"""Budgets of people in a ledger on PostgreSQL: a real server, shared by threads and processes."""

import os
import threading
from collections import Counter

import numpy as np
import pytest

from opendp_optimal.budget import LedgerError, open_ledger
from opendp_optimal_geo import Points, Population, RangeCount, Schedule, rectangle
from opendp_optimal_geo.allowances import WHOLE
from tests.budget.ledger.conftest import postgres, server, start_again, stop_at_once

__all__ = ["postgres", "server"]  # fixtures

pytestmark = pytest.mark.process  # a server, forks

POINTS = np.random.default_rng(3).normal(0.0, 800.0, (40, 2))
NAMES = np.array([f"person {i}" for i in range(40)])
SHARES = 8


def population(ledger, folder, rows=None):
    rows = np.arange(40) if rows is None else np.asarray(rows)
    kept = {"ledger": ledger, "ids": NAMES[rows], "name": "people", "key": folder / "key"}
    return Population(POINTS[rows], budget=1.0, **kept)


def ask(address, folder, seed, told):
    """Ask for shares of the budget with the rows in an order of its own; count who answers."""
    rows = np.random.default_rng(seed).permutation(40)
    with open_ledger(address) as ledger:
        people = population(ledger, folder, rows)
        for _ in range(SHARES // 2):
            value = people.ask(Points(), budget=1 / SHARES).value
            told.update(rows[np.isfinite(value[:, 0])].tolist())


def test_people_are_asked_no_more_than_they_can_pay(postgres, tmp_path):
    """Two threads and two processes want twice what there is."""
    with open_ledger(postgres) as ledger:
        population(ledger, tmp_path)
    told, children = Counter(), []
    for seed in (1, 2):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                own = Counter()
                ask(postgres, tmp_path, seed, own)
                os.write(write, bytes(own[person] for person in range(40)))
                os._exit(0)
            finally:
                os._exit(1)
        children.append((child, read))
        os.close(write)
    threads = [
        threading.Thread(target=ask, args=(postgres, tmp_path, seed, told)) for seed in (3, 4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child, read in children:
        assert os.waitpid(child, 0)[1] == 0
        told.update(dict(enumerate(os.read(read, 40))))
        os.close(read)
    with open_ledger(postgres) as ledger:
        people = population(ledger, tmp_path, range(39, -1, -1))
        assert people.allowances.paid.tolist() == [WHOLE] * 40
        assert set(told.values()) == {SHARES}
        assert not np.isfinite(people.ask(Points(), budget=1e-3).value).any()
        ledger.verify()


def test_a_server_that_stops_while_people_are_asked(postgres, server, tmp_path):
    """What was paid before stays paid, schedules go on, and newcomers have whole budgets."""
    with open_ledger(postgres) as ledger:
        people = population(ledger, tmp_path, range(20))
        Schedule(people, 2).ask("range_count", rectangle((0, 0), 1000, 1000))
        before = people.spent
        stop_at_once(server)
        try:
            with pytest.raises(LedgerError, match="nothing"):
                people.ask(RangeCount(rectangle((0, 0), 1000, 1000)), budget=0.25)
        finally:
            start_again(server)
        again = population(ledger, tmp_path, range(21))
        assert again.spent[:20].tolist() == before.tolist()
        assert (before > 0).all()
        assert again.allowances.paid[20] == 0
        assert Schedule(population(ledger, tmp_path, range(20)), 2).done == 1
        ledger.verify()

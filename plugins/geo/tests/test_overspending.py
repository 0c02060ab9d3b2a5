"""Every way in which budgets of people were once spent twice, tried with real processes."""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import people_processes as processes
import pytest
from people_processes import BUDGET, PEOPLE, POINTS, PRICE, start

from opendp_optimal.budget import BudgetError, LedgerError, open_ledger
from opendp_optimal_geo import Points, Population, RangeCount, Schedule, rectangle
from opendp_optimal_geo.allowances import WHOLE

ROWS = np.arange(PEOPLE)
MOST = WHOLE // PRICE


def wait(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def told(folder):
    """How many answers each person gave, as those who got them say."""
    lines = [p.read_text().splitlines() for p in folder.glob("*.told")]
    return Counter(person for part in lines for line in part for person in line.split())


def check(folder, *, exact):
    """What was told was paid for, and nobody paid more than everything."""
    ledger = open_ledger(folder / "budgets.db")
    assert ledger.verify()
    paid = processes.opened(folder, ROWS).allowances.paid
    assert (paid <= WHOLE).all()
    answers = told(folder)
    for person in ROWS.tolist():
        assert answers[str(person)] * PRICE <= paid[person]
        if exact:
            assert answers[str(person)] * PRICE == paid[person] == MOST * PRICE
    ledger.close()


def test_threads(tmp_path):
    """Four threads and two populations, in memory and in a ledger."""
    for people in (
        Population(POINTS, budget=BUDGET),
        processes.opened(tmp_path, ROWS),
    ):
        answers, same = Counter(), [people, people, people, people]
        if people.allowances.generation is not None:
            same[2] = same[3] = processes.opened(tmp_path, ROWS)

        def work(own, answers=answers):
            for _ in range(MOST // 2):
                value = own.ask(Points(), budget=PRICE / WHOLE).value
                answers.update(np.flatnonzero(np.isfinite(value[:, 0])).tolist())

        threads = [threading.Thread(target=work, args=(own,)) for own in same]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert people.allowances.paid.tolist() == [WHOLE] * PEOPLE
        assert sum(answers.values()) == MOST * PEOPLE
        assert people.halted.all()


@pytest.mark.process
def test_eight_processes(tmp_path):
    """Each with the rows in an order of its own; together they want three times what there is."""
    running = [start(processes.ask_for_points, tmp_path, seed) for seed in range(8)]
    assert [wait(process) for process in running] == [0] * 8
    check(tmp_path, exact=True)


@pytest.mark.process
def test_forks_in_the_middle(tmp_path):
    """A process becomes eight after its first question, all with the same population."""
    assert wait(start(processes.fork_in_the_middle, tmp_path, 1)) == 0
    check(tmp_path, exact=True)


@pytest.mark.process
def test_killed_in_the_middle_of_a_look(tmp_path):
    """Whenever a process dies, each noisy value that anybody saw was charged before."""
    rng = np.random.default_rng(7)
    for seed in range(8):
        process = start(processes.look_and_tell, tmp_path, seed)
        file, begun = tmp_path / f"{seed}.told", time.monotonic()
        while not (file.exists() and file.stat().st_size) and time.monotonic() < begun + 60:
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0.0, 0.01)))
        os.kill(process, signal.SIGKILL)
        assert wait(process) == -signal.SIGKILL
        check(tmp_path, exact=False)
    assert sum(told(tmp_path).values()) >= 8 * PEOPLE


def test_an_old_ledger_put_back(tmp_path):
    """Noticed by the number beside it, by whoever saw a newer one, and while it is in use."""
    people = processes.opened(tmp_path, ROWS)
    people.ask(Points(), budget=0.25)
    shutil.copytree(tmp_path, tmp_path / "backup")
    generation = people.ask(Points(), budget=0.75).generation
    people.allowances._columns._ledger.close()
    old = tmp_path / "backup" / "budgets.db"
    with pytest.raises(LedgerError, match="old"):
        open_ledger(old, at_least=generation)
    for ending in ("", "-wal", "-shm"):
        kept = Path(f"{old}{ending}")
        if kept.exists():
            shutil.copy(kept, tmp_path / f"budgets.db{ending}")
        else:
            (tmp_path / f"budgets.db{ending}").unlink(missing_ok=True)
    with pytest.raises(LedgerError, match="old"):
        processes.opened(tmp_path, ROWS)
    with pytest.raises(LedgerError):
        people.ask(Points(), budget=0.25)


def test_exhausted_budgets_opened_anew(tmp_path):
    processes.opened(tmp_path, ROWS).ask(Points(), budget=1.0)
    for rows in (ROWS, ROWS[::-1], ROWS[5:], np.roll(ROWS, 7)):
        again = processes.opened(tmp_path, rows)
        assert not np.isfinite(again.ask(Points(), budget=1e-3).value).any()
        assert again.halted.all()
    with pytest.raises(ValueError, match="budget"):
        Population(POINTS, budget=2.0, ledger=open_ledger(tmp_path / "budgets.db"), ids=ROWS)


def test_schedules_asked_at_once(tmp_path):
    """Two of the same name share what is left; a step that both take at once is paid for twice."""
    square = RangeCount(rectangle((0, 0), 50, 50))
    schedules = [Schedule(processes.opened(tmp_path, ROWS), 8) for _ in range(2)]

    def four(own):
        for _ in range(4):
            with contextlib.suppress(ValueError):  # nothing is left for this step
                own.ask(square, baseline=True)

    threads = [threading.Thread(target=four, args=(own,)) for own in schedules]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert schedules[0].done == schedules[1].done <= 8
    assert (schedules[0].population.allowances.paid <= WHOLE).all()


@pytest.mark.process
def test_a_fork_of_budgets_in_memory(tmp_path):
    """A child has no part in budgets without a ledger, and the parent goes on."""
    people = Population(POINTS, budget=BUDGET)
    people.ask(Points(), budget=0.5)
    child = os.fork()
    if not child:
        try:
            people.ask(Points(), budget=0.5)
        except BudgetError:
            os._exit(42)
        os._exit(0)
    assert wait(child) == 42
    assert np.isfinite(people.ask(Points(), budget=0.5).value).all()

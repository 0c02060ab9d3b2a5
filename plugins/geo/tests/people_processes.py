"""What the tests of overspending do in processes of their own.

Everybody opens the same population, asks for noisy points of a fixed price, and writes a line with
who answered before the next question. The sum of these lines is what was told.
"""

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

from opendp_optimal.budget import open_ledger
from opendp_optimal_geo import Points, Population, RangeCount, rectangle
from opendp_optimal_geo.allowances import WHOLE

PEOPLE = 60
PRICE = WHOLE // 16
"""Ticks: sixteen answers are all that anybody can give."""
POINTS = np.random.default_rng(0).normal(0.0, 100.0, (PEOPLE, 2))
BUDGET = 1.0


def opened(folder: Path, rows: np.ndarray) -> Population:
    ledger = open_ledger(folder / "budgets.db")
    return Population(POINTS[rows], budget=BUDGET, ledger=ledger, ids=rows)


def note(file: int, people: np.ndarray) -> None:
    """Write down who answered, on disk at once."""
    os.write(file, (" ".join(map(str, people.tolist())) + "\n").encode())


def start(role: Callable[..., None], folder: Path, seed: int) -> int:
    """Run a role in a process of its own; return its number."""
    process = os.fork()
    if process:
        return process
    try:
        file = os.open(folder / f"{seed}.told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        role(folder, np.random.default_rng(seed), file)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def ask_for_points(folder: Path, rng: np.random.Generator, file: int) -> None:
    """Ask six times, with the rows in an order of its own."""
    rows = rng.permutation(PEOPLE)
    people = opened(folder, rows)
    for _ in range(6):
        value = people.ask(Points(), budget=PRICE / WHOLE).value
        note(file, rows[np.isfinite(value[:, 0])])


def fork_in_the_middle(folder: Path, rng: np.random.Generator, file: int) -> None:
    """Ask once, become eight processes, and go on with the same population."""
    rows = rng.permutation(PEOPLE)
    people = opened(folder, rows)
    people.ask(Points(), budget=PRICE / WHOLE)
    note(file, rows)
    children: list[int] = []
    for _ in range(3):
        child = os.fork()
        children = [*children, child] if child else []
    for _ in range(4):
        value = people.ask(Points(), budget=PRICE / WHOLE).value
        note(file, rows[np.isfinite(value[:, 0])])
    for child in children:
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            os._exit(1)
    os._exit(0)


def look_and_tell(folder: Path, rng: np.random.Generator, file: int) -> None:
    """Tell of every noisy value when it is drawn, look by look, and for ever."""
    rows = np.arange(PEOPLE)
    people = opened(folder, rows)

    def engine(look, blocks):
        for users in blocks:
            values = look(users)
            note(file, rows[users])  # seen by somebody, from here on
            yield values

    people.engine = engine
    border = RangeCount(rectangle((0, 0), 1.0, 1.0))
    while True:
        people.ask(border, budget=PRICE / WHOLE, looks=("even", 1), method="distance")

"""What must be true of every answer to a request, worked out without the certifier."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import pickle
import re
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal import BoundedTable, GapWarning, NoiseTable, solve, solve_bounded
from opendp_optimal.testing import independent
from tests.attacks.request_losses import Recipe
from tests.attacks.request_means import (
    bounded_mean,
    clamped_mean,
    known_bounded,
    known_noise,
    noise_mean,
)

Table = NoiseTable | BoundedTable
NEARLY = 1.1
"""Means of a loss are estimated up to this factor: its shape within a cell is sampled."""
ROUNDED = 1 + 1e-6
"""Closed forms in floats are this accurate."""
CLOSE = 0.02
"""How far noise for a range may lose to noise that does not know the range."""


class RequestError(AssertionError):
    """An answer is not what was promised."""


def ensure(good: bool, what: str) -> None:
    """Raise unless a promise is kept."""
    if not good:
        raise RequestError(what)


@contextmanager
def own_cache() -> Iterator[None]:
    """An empty cache of tables."""
    before = os.environ.get("OPENDP_OPTIMAL_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPENDP_OPTIMAL_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["OPENDP_OPTIMAL_CACHE"]
            else:
                os.environ["OPENDP_OPTIMAL_CACHE"] = before


def answer(kind: str, arguments: dict[str, Any]) -> tuple[Table, bool]:
    """The table, and whether there was a warning about its gap; other warnings are errors."""
    asked = dict(arguments)
    if isinstance(asked["loss"], Recipe):
        asked["loss"] = asked["loss"].made()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", GapWarning)
        table = (solve if kind == "solve" else solve_bounded)(**asked)
    return table, bool(caught)


def check(
    kind: str,
    arguments: dict[str, Any],
    refusable: Collection[str] = (),
    say: Callable[[str], object] = lambda _: None,
) -> str:
    """Make a request and check what comes back; returns "answered" or "refused".

    :param kind: "solve" or "bounded"
    :param arguments: of the call
    :param refusable: patterns that a refusal may begin with
    :param say: called with a line about the answer
    """
    with own_cache():
        try:
            table, warned = answer(kind, arguments)
        except ValueError as error:
            if any(re.match(rf"{begin}(\s|$)", str(error)) for begin in refusable):
                say(f"refused: {error}")
                return "refused"
            raise
        say(repr(table))
        given = "bins" in arguments
        late = table.gap > arguments["gap"]
        ensure(warned == late or (given and not warned), f"warned {warned} of gap {table.gap}")
        if arguments.get("cache"):
            again, _ = answer(kind, arguments)
            ensure(again == table, "the stored table is another one")
    everywhere(table)
    if isinstance(table, NoiseTable):
        noise(table, promised=not late)
    else:
        bounded(table, automatic=not given, promised=not late)
    say("every check passes")
    return "answered"


def everywhere(table: Table) -> None:
    """Proofs, bounds, copies: what is true of every table."""
    table.verify()
    ensure(0 <= table.lower <= table.upper < math.inf, f"bounds [{table.lower}, {table.upper}]")
    ensure(table.upper > 0 or table.loss(0.0) == 0, "noise costs nothing")
    pickled = pickle.loads(pickle.dumps(table))
    pickled.verify()
    for name, other in (
        ("itself", table),
        ("a pickle", pickled),
        ("a deep copy", copy.deepcopy(table)),
        ("a copy", dataclasses.replace(table)),
    ):
        ensure(other == table, f"{name} is another table")
        for place, array in arrays(other):
            refuses(lambda array=array: array.setflags(write=True), f"{place} of {name} is thawed")
            refuses(lambda array=array: array.fill(0), f"{place} of {name} is overwritten")


def refuses(change: Callable[[], object], what: str) -> None:
    """Raise unless a change of a frozen array fails."""
    try:
        change()
    except ValueError:
        return
    raise RequestError(what)


def arrays(value: Any, place: str = "table") -> Iterator[tuple[str, Any]]:
    """All arrays in a table, with their places."""
    if isinstance(value, np.ndarray):
        yield place, value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from arrays(getattr(value, field.name), f"{place}.{field.name}")
    elif isinstance(value, tuple | list) and set(map(type, value)) != {int}:
        for i, item in enumerate(value):
            yield from arrays(item, f"{place}[{i}]")


def noise(table: NoiseTable, promised: bool) -> None:
    """Privacy, shape, loss and draws of additive noise."""
    ensure(independent.holds(table), "not private")
    shape(table)
    least = noise_mean(table)
    ensure(least <= table.upper * NEARLY, f"upper {table.upper} is below the loss, {least}")
    for name, value in known_noise(table):
        ensure(table.lower <= value * ROUNDED, f"lower {table.lower} is above {name}, {value}")
        if promised:
            most = value * ROUNDED * (1 + table.gap)
            ensure(table.upper <= most, f"upper {table.upper} is far above {name}, {value}")
    drawn = np.append(table.draw(50), table.draw())
    reach = table.radius if table.tail is None else math.inf
    ensure(bool(np.all(np.abs(drawn) <= reach)), "a draw beyond the radius")
    ensure(bool(np.all(np.isfinite(table.sample(3)))), "noise that is not finite")


def shape(table: NoiseTable) -> None:
    """What was asked of the shape, from the weights alone."""
    asked, weights = table.problem, [int(w) for w in table.weights]
    if asked.symmetric:
        ensure(weights == weights[::-1], "not symmetric")
    if asked.monotone:
        ensure(independent.falls(weights), "not monotone")
    if asked.support is not None:
        used = max(abs(i - table.radius) for i, w in enumerate(weights) if w)
        cells = 1 if table.kind == "integer" else table.cells
        half = Fraction(0 if table.kind == "integer" else 1, 2)
        ensure((used + half) / cells <= Fraction(asked.support), "beyond its support")
    if asked.impossible is not None:
        allowed = Fraction(asked.impossible) * independent.TOTAL
        for m in (1, table.cells):
            for law in (weights, weights[::-1]):
                # Infinite growth leaves what no neighbour gives.
                seen = [0] * m + law[: len(law) - m]
                told = sum(w for w, other in zip(law, seen[: len(law)], strict=True) if not other)
                ensure(told + int(table.atom) <= allowed, "too many impossible outputs")


def bounded(table: BoundedTable, automatic: bool, promised: bool) -> None:
    """Privacy, loss and releases of noise for a range."""
    ensure(independent.channel_holds(table), "not private")
    problem = table.problem
    if table.noise is not None:
        clamped_holds(table)
    elif problem.edges is None and not problem.integer:
        grid_holds(table)
    least = 0.0 if table.noise is not None else bounded_mean(table)
    ensure(least <= table.upper * NEARLY, f"upper {table.upper} is below the loss, {least}")
    for name, value in known_bounded(table):
        ensure(table.lower <= value * ROUNDED, f"lower {table.lower} is above {name}, {value}")
        if automatic:
            most = value * ROUNDED * (1 + (table.gap if promised else CLOSE)) + cell_loss(table)
            ensure(table.upper <= most, f"upper {table.upper} loses to {name}, {value}")
    release = table.releaser()
    low, high = problem.low, problem.high
    answers = [low, high, (low + high) / 2, low - 1, high + 1]
    for x in map(int, answers) if problem.integer else [*answers, math.nan, math.inf, -math.inf]:
        ensure(low <= release(x) <= high, f"a release of {x} outside of the range")


def cell_loss(table: BoundedTable) -> float:
    """The loss of the finest cell: where epsilon is large no step of a lattice is so narrow."""
    problem, power = table.problem, table.loss.power or 1
    return 0.0 if problem.integer else table.loss(float(problem.reach) / 2**14) / (2 + 2 * power)


def clamped_holds(table: BoundedTable) -> None:
    """Noise that is the same for all answers hides the sensitivity, on the grid of releases."""
    problem, noise, how = table.problem, table.noise, table.clamped
    assert noise is not None
    assert how is not None
    reach = min(Fraction(problem.sensitivity), problem.width)
    moved = math.floor(reach * Fraction(2) ** how.bits) + (0 if problem.integer else 1)
    ensure(moved <= noise.cells * how.steps, "neighbours are too far apart")
    if noise.loss == problem.loss and noise.loss.power:
        least = clamped_mean(table)
        ensure(least <= table.upper * NEARLY, f"upper {table.upper} is below the loss, {least}")


def grid_holds(table: BoundedTable) -> None:
    """Answers that are neighbours lie in cells that are proved to be, on the grid of releases."""
    problem, steps = table.problem, table.mechanism.step  # type: ignore[union-attr]
    unit = Fraction(2) ** table.bits
    # Both answers are rounded to the grid: they move by a step relative to each other, at most.
    apart = math.floor(min(Fraction(problem.sensitivity), problem.width) * unit) + 1
    ensure(
        apart <= table.cells * steps or table.cells >= table.bins, "neighbours are too far apart"
    )
    ends = [round(Fraction(end) * unit) for end in (problem.low, problem.high)]
    start = table.mechanism.start  # type: ignore[union-attr]
    ensure(start <= ends[0] and ends[1] <= start + table.bins * steps, "cells leave out answers")

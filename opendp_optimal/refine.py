"""Solve a problem on finer and finer lattices until its certified gap is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from opendp_optimal.certify.rounding import private_weights, round_prices
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.model import shapes
from opendp_optimal.model.build import build, floats
from opendp_optimal.model.guess import first_cells, most_cells
from opendp_optimal.solvers import run
from opendp_optimal.spec.problem import NoiseProblem
from opendp_optimal.staircase import pure_table
from opendp_optimal.table import NoiseTable

Progress = Callable[[str], None]


def refine(
    problem: NoiseProblem, gap: float, method: str, cells: int | None, progress: Progress
) -> NoiseTable:
    """Solve on finer and finer lattices until the gap is met or the lattice is as fine as it may be."""
    if problem.delta == 0:
        price = partial(run, method=method, outward_only=True, gap=gap)
        return pure_table(problem, gap, price, progress)
    fixed = problem.integer_sensitivity or cells
    limit = fixed or most_cells(problem)
    count = fixed or min(limit, first_cells(problem, gap))
    best: NoiseTable | None = None
    failure: Exception | None = None
    while True:
        progress(f"{count} cells per sensitivity")
        try:
            best = _better(best, _attempt(problem, count, method, gap))
        except (SolverError, CertificateError) as error:
            failure = error
        if best is not None and best.gap <= gap:
            return best
        if count >= limit:
            break
        if best is None:
            count = min(limit, 2 * count)
        else:
            reached = min(best.gap, 4.0)
            count = min(limit, max(count + 1, math.ceil(1.1 * count * math.sqrt(reached / gap))))
    fallback = _closed_form(problem, best)
    if fallback is None:
        raise SolverError(f"no certified table for {problem.describe()}") from failure
    return fallback


def _attempt(problem: NoiseProblem, cells: int, method: str, gap: float) -> NoiseTable:
    """One lattice: solve both programmes, round, prove."""
    pair = build(problem, cells)
    outward = problem.folded and not problem.monotone
    below = run(pair.below, method=method, outward_only=outward, gap=gap)
    above = run(pair.above, method=method, outward_only=outward, gap=gap)
    reference = shapes.decaying(problem.epsilon, cells, pair.above.radius)
    rounding: dict[str, Any] = {
        "cells": cells,
        "epsilon": problem.epsilon,
        "delta": problem.delta,
    }
    try:
        weights, atom = private_weights(above.weights, above.atom, reference, **rounding)
    except CertificateError:
        if not outward:
            raise
        above = run(pair.above, method=method, outward_only=False, gap=gap)
        weights, atom = private_weights(above.weights, above.atom, reference, **rounding)
    dual = round_prices(below, cells=cells, epsilon=problem.epsilon, mirrored=problem.folded)
    costs = None
    if problem.loss.custom:
        costs = (problem.cost(cells, len(weights) // 2), problem.cost(cells, dual.reach))
    return NoiseTable.rounded(problem, cells, weights, atom, dual, costs=costs)


def _better(best: NoiseTable | None, new: NoiseTable) -> NoiseTable:
    """The better weights with the better prices, from two lattices."""
    if best is None:
        return new
    above = best if best.upper <= new.upper else new
    below = best if best.lower >= new.lower else new
    if above is below:
        return above
    costs = None
    if above.costs is not None and below.costs is not None:
        costs = (above.costs[0], below.costs[1])
    return NoiseTable.rounded(
        above.problem, above.cells, above.weights, above.atom, below.dual, costs=costs
    )


def _closed_form(problem: NoiseProblem, best: NoiseTable | None) -> NoiseTable | None:
    """A truncated staircase on a very fine lattice, if it is better than what was found."""
    plain = problem.kind == "real" and problem.support is None and problem.impossible is None
    if not plain or best is None or not problem.folded:
        return best
    finest = 4096
    wanted = math.ceil(12 * (1 + math.exp(problem.epsilon / 2)))
    cells = min(finest, max(best.cells, wanted))
    cost = problem.cost(cells, cells * 3)
    values = floats(cost.upper, cost.denominator)
    top = shapes.best_top(problem.epsilon, cells, values, cells * 3)
    radius = shapes.truncation_radius(problem.epsilon, problem.delta * 0.999, cells, top)
    law = shapes.staircase(problem.epsilon * (1 - 2.0**-40), cells, radius, top)
    reference = shapes.staircase(problem.epsilon * (1 - 2.0**-40), cells, radius, top)
    try:
        weights, atom = private_weights(
            law, 0.0, reference, cells=cells, epsilon=problem.epsilon, delta=problem.delta
        )
        costs = None
        if best.costs is not None:
            costs = (problem.cost(cells, radius), best.costs[1])
        candidate = NoiseTable.rounded(problem, cells, weights, atom, best.dual, costs=costs)
    except CertificateError:
        return best
    return candidate if candidate.upper < best.upper else best

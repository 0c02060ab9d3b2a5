"""Solve a problem on finer and finer lattices until its certified gap is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.certify.bound import no_prices
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.model.build import build, floats, lattice_radii, support_radius
from opendp_optimal.model.noise import LatticeProgram
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.round.noise import falling, private_weights
from opendp_optimal.search import shapes
from opendp_optimal.search.closed import one_shift, priced, pure_table
from opendp_optimal.search.sizing import aligned, fine_cells, first_cells, most_cells
from opendp_optimal.solvers import run
from opendp_optimal.table import NoiseTable

Progress = Callable[[str], None]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_HAIRS = tuple(2.0**-power for power in (40, 30, 20, 14, 10, 7, 4))
"""Parts of epsilon that a closed form may leave unused, for what rounding to integers adds."""

_ATTEMPTS = 6
_FINEST = 4096
_MOST_TERMS = 4_000_000


def refine(
    problem: NoiseProblem, gap: float, method: str, cells: int | None, progress: Progress
) -> NoiseTable:
    """The first table that meets the gap, or the best on the finest lattice that is allowed."""
    if problem.delta == 0:
        price = partial(run, method=method, outward_only=True, gap=gap)
        tiny = 1e-6 if method == "highs" else 1e-12
        return pure_table(problem, gap, price, progress, tiny)
    fixed = problem.integer_sensitivity or cells
    limit = fixed or most_cells(problem)
    count = fixed or min(limit, first_cells(problem, gap))
    best: NoiseTable | None = None
    failure: Exception | None = None
    attempts = 0 if fixed and _too_large(problem, fixed) else _ATTEMPTS
    for attempt in range(attempts):
        progress(f"{count} cells per sensitivity")
        found: NoiseTable | None = None
        try:
            above, below = (fixed, fixed) if fixed else aligned(problem, count)
            found = _attempt(problem, above, below, method, gap)
            best = _better(best, found)
        except (SolverError, CertificateError) as error:
            failure = error
        if best is not None and best.gap <= gap:
            # With a small delta the staircase is so close that it may win by a hair.
            close = not fixed and problem.delta <= 1e-3 and 0.2 <= problem.epsilon <= 6
            return (_with_closed_form(problem, best) if close else None) or best
        if count >= limit:
            break
        # The gap falls with the square of the cells, more or less: be bolder each time.
        margin = 1.03 + 0.05 * attempt
        wanted = margin * count * math.sqrt(min(found.gap, 4.0) / gap) if found else 2.0 * count
        wanted = max(wanted, 1.05 * count)
        count = min(limit, max(count + 1, math.ceil(wanted)))
    if best is None or not fixed:
        best = _with_closed_form(problem, best)
    if best is None:
        raise _no_table(problem, failure)
    return best


def _too_large(problem: NoiseProblem, cells: int) -> bool:
    """Whether a programme would not fit into a few gigabytes."""
    _, radius = lattice_radii(problem, cells)
    if problem.support is not None:
        unit = 1 if problem.kind == "integer" else cells
        radius = min(radius, math.ceil(problem.support * unit))
    return (1 if problem.folded else 4) * cells * (radius + cells) > _MOST_TERMS


def _no_table(problem: NoiseProblem, failure: Exception | None) -> Exception:
    if problem.support is not None:
        unit = problem.integer_sensitivity or 1
        enough = unit * support_radius(problem.epsilon, 2 * problem.delta)
        return ValueError(
            f"support ({problem.support}) must be larger: no private noise was found within it; "
            f"truncated Laplace noise needs {enough:.4g}"
        )
    error = SolverError(f"no certified table at {problem.describe()}: {failure}")
    error.__cause__ = failure
    return error


def _attempt(problem: NoiseProblem, above: int, below: int, method: str, gap: float) -> NoiseTable:
    """Solve both programmes, each on a lattice that suits it, round, prove.

    Most optima fall outwards, so that half of the terms can be left out; where rounding shows
    that this one does not, all terms are used for both programmes.
    """
    outward = problem.folded
    program = build(problem, above).above
    try:
        weights, atom = _weights(problem, program, method, gap, outward)
    except CertificateError:
        if not outward:
            raise
        outward = False
        weights, atom = _weights(problem, program, method, gap, outward)
    relaxed = run(build(problem, below).below, method=method, outward_only=outward, gap=gap)
    return NoiseTable.rounded(problem, above, weights, atom, priced(problem, relaxed, below))


def _weights(
    problem: NoiseProblem, program: LatticeProgram, method: str, gap: float, outward: bool
) -> tuple[Integers, int]:
    """Private integer weights from the programme of a mechanism."""
    above = run(program, method=method, outward_only=outward, gap=gap)
    reference = shapes.decaying(problem.epsilon, program.cells, program.radius)
    return private_weights(
        falling(above.weights) if problem.monotone else above.weights,
        above.atom,
        reference,
        cells=program.cells,
        epsilon=problem.epsilon,
        delta=problem.delta,
        largest_mix=gap / 10,
    )


def _better(best: NoiseTable | None, new: NoiseTable) -> NoiseTable:
    """The better weights with the better prices, from two lattices."""
    if best is None:
        return new
    above = best if best.upper <= new.upper else new
    below = best if best.lower >= new.lower else new
    if above is below:
        return above
    return NoiseTable.rounded(above.problem, above.cells, above.weights, above.atom, below.dual)


def _with_closed_form(problem: NoiseProblem, best: NoiseTable | None) -> NoiseTable | None:
    """A truncated staircase on a very fine lattice, if it is better than what was found.

    Where no prices were found either, it is certified by none: its lower bound is that of the loss.
    """
    if problem.support is not None or problem.impossible is not None:
        return best
    cells = problem.integer_sensitivity or min(_FINEST, fine_cells(problem))
    cost = problem.cost(cells, cells * 3)
    values = floats(cost.upper, cost.denominator)
    top = shapes.best_top(problem.epsilon, cells, values, cells * 3)
    radius = shapes.truncation_radius(problem.epsilon, problem.delta * 0.999, cells, top)
    for hair in _HAIRS:
        law = shapes.staircase(problem.epsilon * (1 - hair), cells, radius, top)
        if not (problem.folded or problem.monotone):
            law = _cheapest_place(problem, cells, law)
        try:
            weights, atom = private_weights(
                law, 0.0, law, cells=cells, epsilon=problem.epsilon, delta=problem.delta
            )
            if best is None:
                return _with_any_prices(problem, cells, weights, atom)
            candidate = NoiseTable.rounded(problem, cells, weights, atom, best.dual)
            return candidate if candidate.upper < best.upper else best
        except CertificateError:
            continue
    return best


def _with_any_prices(problem: NoiseProblem, cells: int, weights: Integers, atom: int) -> NoiseTable:
    """A table with the prices of the largest shift alone, or without prices if that is better."""
    plain = NoiseTable.rounded(problem, cells, weights, atom, no_prices(cells))
    dual = one_shift(problem, problem.integer_sensitivity or 1)
    priced = NoiseTable.rounded(problem, cells, weights, atom, dual)
    return priced if priced.lower > plain.lower else plain


def _cheapest_place(problem: NoiseProblem, cells: int, law: Floats) -> Floats:
    """The law moved to where an uneven loss has it, if anywhere."""
    radius = len(law) // 2
    cost = problem.cost(cells, 2 * radius)
    values = floats(cost.upper, cost.denominator)
    places = sorted({round(radius * part / 32) for part in range(-32, 33)}, key=abs)
    paid = [float(values[radius + s : radius + s + len(law)] @ law) for s in places]
    best = places[int(np.argmin(paid))]
    wide = np.zeros(len(law) + 2 * abs(best))
    wide[abs(best) + best : abs(best) + best + len(law)] = law
    return wide

"""How fine a lattice a problem needs, and when real tables serve integers: heuristics.

Guesses from closed forms, to be corrected by the result: a wrong one costs time, nothing else.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

from opendp_optimal.losses import sampled
from opendp_optimal.model.work import step_seconds
from opendp_optimal.problem.noise import NoiseProblem

_SMALL_SENSITIVITY = 64
_LONG_NOISE = 200
"""Integer tables up to this sensitivity, and this sensitivity over epsilon; beyond, real tables.

There the noise is so long that whole numbers make no difference (the sum is rounded at the end).
"""
_MOST_TERMS = 300_000
_STEPS = 50
"""Of the interior-point method, more or less."""
_SAMPLE, _POINT = 4e-6, 4e-6
"""Work of a call of a user's function, and of an exact proof at a point."""
MOST_SECONDS = 9.0
"""The counted work of a request, about seconds; where what was asked for takes more, the best that
was found answers, or a closed form."""
_FINE_GAP = 1e-4
LARGE_EPSILON = 12.0
"""From this epsilon on the highest step is narrower than any cell, a fine lattice is in vain."""


def integer_sensitivity(epsilon: float, sensitivity: Fraction | float) -> int | None:
    """The sensitivity of an integer table for integer data; None where a real one serves.

    >>> integer_sensitivity(1.0, 3), integer_sensitivity(1.0, 100)
    (3, None)
    """
    whole = int(sensitivity)
    short = epsilon * _LONG_NOISE >= whole and whole <= _SMALL_SENSITIVITY
    return whole if whole == 1 or short else None


def most_cells(problem: NoiseProblem, most_seconds: float = MOST_SECONDS) -> int:
    """The finest lattice whose two programmes stay within bounds of time and memory."""
    most = _MOST_TERMS if problem.epsilon < LARGE_EPSILON else _MOST_TERMS // 10
    _, prices = problem.reaches
    sides, counts = 1 if problem.folded else 4, [1]
    while counts[-1] < 4096:
        counts.append(counts[-1] + max(1, counts[-1] // 8))

    def too_fine(count: int) -> bool:
        terms = sides * count * (math.ceil(count * prices) + 1 + count)
        return terms > most or seconds(problem, count) > most_seconds

    return counts[bisect_left(counts, True, lo=1, key=too_fine) - 1]


def seconds(problem: NoiseProblem, cells: int) -> float:
    """About how long the interior-point method takes for both programmes, and their proofs."""
    inner, outer = (math.ceil(cells * reach) + 1 for reach in problem.reaches)
    if problem.support is not None:
        end = math.ceil(problem.support * (1 if problem.kind == "integer" else cells))
        inner, outer = min(inner, end), min(outer, end)
    sides = 1 if problem.folded else 2
    rows, width = sides * cells, sides * cells
    total = 0.0
    for radius in (inner, outer + cells):
        points = sides * radius + 1
        algebra = points * (width**2 + 4 * width * rows + rows**2)
        total += _STEPS * step_seconds(rows * points, algebra)
    return total + proof_seconds(problem, cells)


def proof_seconds(problem: NoiseProblem, cells: int) -> float:
    """The part of that which no solver does: costs and proofs."""
    total = 0.0
    for radius in problem.radii(cells):
        total += _POINT * 2 * radius
        if problem.loss.by_samples:
            splits = 1 if problem.kind == "integer" else sampled.splits(problem.loss.shape, radius)
            total += _SAMPLE * 2 * radius * splits
    return total


def aligned(problem: NoiseProblem, cells: int) -> tuple[int, int]:
    """Numbers of cells, from about so many on, that suit a mechanism and a bound.

    Optimal noise is nearly a staircase, whose highest step has the radius gamma. The cells of a
    mechanism reach i + 1/2 cells far, so gamma should be half a cell off the lattice; for the
    bound it should be on the lattice. That is worth a factor of two to five in cells.
    """
    gamma = _gamma(problem)
    period = min(cells, math.ceil(1 / gamma))
    options = range(cells if cells >= 8 else max(1, cells - 1), cells + period + 1)

    def off(count: int, phase: float) -> float:
        return _off(count * gamma, phase) + 0.02 * (count - cells) / period

    return min(options, key=lambda c: off(c, 0.5)), min(options, key=lambda c: off(c, 0.01))


def fine_cells(problem: NoiseProblem) -> int:
    """A number of cells at which a staircase has almost exactly its best step."""
    gamma = _gamma(problem)
    few = math.ceil(6 / gamma)
    return min(range(few, 2 * few), key=lambda count: _off(count * gamma, 0.5))


def _gamma(problem: NoiseProblem) -> float:
    """The radius of the highest step of the best staircase, in sensitivities."""
    return max(1e-3, problem.loss.staircase_step(problem.epsilon))


def _off(value: float, phase: float) -> float:
    """How far a value is from a whole number plus the phase."""
    return abs((value - phase + 0.5) % 1 - 0.5)


def first_cells(problem: NoiseProblem, gap: float) -> int:
    """Cells per sensitivity at which the gap is probably met, on aligned lattices.

    The certified gap falls with the square of the cells; its constant was fitted to a grid of
    problems with 0.1 <= epsilon <= 5. A wrong guess costs time, nothing else.
    """
    e, d = problem.epsilon, problem.delta
    if problem.loss.power == 2:
        q = math.expm1(min(e, 50.0)) / (2 * d)
        laplace = 2 / e**2 * (1 - (math.log1p(q) + math.log1p(q) ** 2 / 2) / q)
        least = max(1e-9, min(laplace, 0.35 if e > 1 else math.inf))
        constant = 0.82 / (3 * least) / (1 - d) ** (e / 4)
    else:
        constant = 1.3 * (min(2.5, 0.02 * e**3) + 2.6 * d * (0.3 + 0.8 * e))
    cells = math.sqrt(constant / gap)
    # On fine lattices the constant is smaller, and to begin too fine costs more than to go on.
    return max(1, math.ceil(cells if gap >= _FINE_GAP else 0.72 * cells))

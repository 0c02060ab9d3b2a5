"""How fine a lattice a problem needs, and when real tables serve integers: heuristics.

Guesses from closed forms, to be corrected by the result: a wrong one costs time, nothing else.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats, Indices
from opendp_optimal.losses import sampled
from opendp_optimal.model.work import step_seconds
from opendp_optimal.problem.noise import NoiseProblem

_SMALL_SENSITIVITY = 64
_LONG_NOISE = 200
"""Integer tables up to this sensitivity, and this sensitivity over epsilon; beyond, real tables.

There the noise is so long that whole numbers make no difference (the sum is rounded at the end).
"""
_NO_DIFFERENCE = 1e-3
_MOST_TERMS = 300_000
_STEPS = 50
"""Of the interior-point method, more or less."""
_SAMPLE, _POINT = 4e-6, 4e-6
"""Work of a call of a user's function, and of an exact proof at a point."""
MOST_SECONDS = 9.0
"""The counted work of a request, about seconds; where what was asked for takes more, the best that
was found answers, or a closed form."""
_FINE_GAP = 1e-4
_FEW, _FINE = 64, 2048
"""Cells of a staircase in closed form: at least, and where more of them are too many to choose."""
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


def whole_numbers_matter(problem: NoiseProblem, lower: float, whole: int) -> bool:
    """Whether noise of whole numbers may have less loss than real noise, by more than one in 1,000.

    Integer noise plus a number even on a unit is real noise, as private. Its squared error is
    larger by 1/12, its absolute error by a quarter of the chance of 0: which is at most
    e^epsilon times that of each of the 2 n integers within a move, and delta.

    :param problem: of real noise
    :param lower: a bound below its loss, at sensitivity 1
    :param whole: the sensitivity n of the integers
    """
    growth = math.exp(problem.epsilon)
    gained = 1 / 12
    if problem.loss.power == 1:
        gained = (growth + 2 * whole * problem.delta) / (2 * whole + growth) / 4
    least = lower * float(whole) ** problem.loss.power
    return gained > _NO_DIFFERENCE * least


def cell_range(problem: NoiseProblem, gap: float, most_seconds: float) -> tuple[int, int]:
    """Numbers of cells per sensitivity: to begin with, and at most."""
    most = most_cells(problem, most_seconds)
    return min(most, first_cells(problem, gap)), most


def most_cells(problem: NoiseProblem, most_seconds: float = MOST_SECONDS) -> int:
    """The finest lattice whose two programmes stay within bounds of time and memory."""
    most = _MOST_TERMS if problem.epsilon < LARGE_EPSILON else _MOST_TERMS // 10
    _, prices = problem.reaches
    sides, counts = 1 if problem.folded else 4, [1]
    while counts[-1] < 4096:
        counts.append(counts[-1] + max(1, counts[-1] // 8))
    cells = np.array(counts)
    terms = sides * cells * (np.ceil(cells * prices) + 1 + cells)
    too_fine = (terms > most) | (seconds(problem, cells)[0] > most_seconds)
    too_fine[0] = False
    return counts[int(np.argmax(too_fine)) - 1] if too_fine.any() else counts[-1]


def seconds(problem: NoiseProblem, cells: int | Indices) -> tuple[Floats, Floats]:
    """About how long the interior-point method takes for both programmes, and their proofs.

    :return: all of it, and the part that no solver does: costs and proofs
    """
    inner, outer = (np.ceil(np.multiply(cells, reach)) + 1 for reach in problem.reaches)
    proofs = 2 * _POINT * (inner + outer)
    if problem.loss.by_samples:
        for radius in (inner, outer):
            parts = 1.0 if problem.kind == "integer" else _parts(problem.loss.shape, radius)
            proofs = proofs + 2 * _SAMPLE * radius * parts
    if problem.support is not None:
        end = np.ceil(np.multiply(problem.support, 1 if problem.kind == "integer" else cells))
        inner, outer = np.minimum(inner, end), np.minimum(outer, end)
    sides = 1 if problem.folded else 2
    width = sides * np.asarray(cells)
    points = sides * (inner + outer + cells) + 2
    work = 2 * _STEPS * step_seconds(width * points / 2, 3 * points * width**2)
    return work + proofs, np.asarray(proofs)


def _parts(shape: str, radius: Floats) -> Floats:
    """Into how many parts cells are divided for samples of a loss."""
    each = [sampled.splits(shape, int(r)) for r in np.ravel(radius)]
    return np.array(each, float).reshape(np.shape(radius))


def aligned(problem: NoiseProblem, cells: int) -> tuple[int, int]:
    """Numbers of cells, from about so many on, that suit a mechanism and a bound.

    Optimal noise is nearly a staircase, whose highest step has the radius gamma. The cells of a
    mechanism reach i + 1/2 cells far, so gamma should be half a cell off the lattice; for the
    bound it should be on the lattice. That is worth a factor of two to five in cells.
    """
    gamma = max(1e-3, problem.loss.staircase_step(problem.epsilon))
    period = min(cells, math.ceil(1 / gamma))
    options = range(cells if cells >= 8 else max(1, cells - 1), cells + period + 1)

    def off(count: int, phase: float) -> float:
        return _off(count * gamma, phase) + 0.02 * (count - cells) / period

    return min(options, key=lambda c: off(c, 0.5)), min(options, key=lambda c: off(c, 0.01))


def fine_cells(problem: NoiseProblem, least: int = 1) -> int:
    """A number of cells at which a staircase has almost exactly its best step.

    :param least: about so many, or more
    """
    step = problem.loss.staircase_step(problem.epsilon)
    few = max(least, _FEW, math.ceil(6 / step))
    if few <= _FINE:
        return min(range(few, 2 * few), key=lambda count: _off(count * step, 0.5))
    # So narrow a step has few cells; it is best to have exactly that many.
    return round((max(0, math.floor(2 * _FINE * step - 0.5)) + 0.5) / step)


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

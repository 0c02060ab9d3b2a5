"""Pure noise: the staircase on a lattice, without end, with the bound that nothing is better.

The weights are built from the inside out, each step rounded up from the one before, so that every
ratio is at most e^epsilon by construction; the proof in :mod:`opendp_optimal.certify.endless` then
checks it. Prices that prove the bound come from the programme of a tiny delta: prices know nothing
of delta, so they prove a bound for pure noise too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opendp_optimal.certify.bound import DualCertificate
from opendp_optimal.certify.endless import PureTail, prove_pure
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.model.build import build, floats, lattice_radii, support_radius
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.prices import largest_shift_prices
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.round.noise import round_prices
from opendp_optimal.search import shapes
from opendp_optimal.search.sizing import aligned, first_cells, most_cells
from opendp_optimal.table.noise import NoiseTable

_BLOCK_FALL = 2.0**-8
_LONGEST_BLOCK = 16_384
_MOST_PRICES = 500_000
_MOST_TERMS = 300_000
_SMALL_EPSILON = 0.02
"""Programmes with more terms (ten times more from this epsilon on, where smaller shifts matter
too) are not solved: the largest shift alone has prices then."""


def pure_table(
    problem: NoiseProblem,
    gap: float,
    run: Callable[[LatticeProgram], LatticeSolution],
    progress: Callable[[str], None],
    tiny: float,
) -> NoiseTable:
    """The staircase of least loss, certified.

    :param run: solves a lattice programme, for the prices
    :param tiny: the delta of that programme, within the accuracy of the solver
    """
    if problem.loss.name not in ("l1", "l2"):
        raise ValueError(
            f"loss ({problem.loss.name}) must be l1 or l2 for delta = 0; for other losses, give a "
            "small delta"
        )
    close = replace(problem, delta=tiny)
    fixed = problem.integer_sensitivity
    limit = fixed or most_cells(close)
    count = fixed or min(limit, first_cells(close, gap))
    while True:
        progress(f"{count} cells per sensitivity")
        on = fixed or aligned(close, count)[1]
        dual = _prices(close, on, run)
        table = _staircase_table(problem, fixed or _fine(problem, count), dual)
        if table.gap <= gap or count >= limit:
            return table
        count = min(
            limit, max(count + 1, math.ceil(1.1 * count * math.sqrt(min(table.gap / gap, 16.0))))
        )


def _prices(
    close: NoiseProblem, cells: int, run: Callable[[LatticeProgram], LatticeSolution]
) -> DualCertificate:
    """Prices that a solver finds or, where that would take too long, those of one shift."""
    _, radius = lattice_radii(close, cells)
    if cells * (radius + cells) > _MOST_TERMS * (1 if close.epsilon < _SMALL_EPSILON else 10):
        return one_shift(close, close.integer_sensitivity or 1)
    try:
        return priced(close, run(build(close, cells).below), cells)
    except SolverError:
        return one_shift(close, close.integer_sensitivity or 1)


def one_shift(problem: NoiseProblem, cells: int) -> DualCertificate:
    """Prices of the largest shift alone, up to where they would cost more than they prove."""
    blocks = math.ceil(support_radius(problem.epsilon, problem.delta)) + 1
    blocks = min(blocks, max(1, _MOST_PRICES // cells))
    cost = problem.cost(cells, (blocks + 1) * cells)
    lower = floats(cost.lower, cost.denominator)
    solution = largest_shift_prices(lower, cells, problem.epsilon, problem.delta, blocks)
    return priced(problem, solution, cells, mirrored=True)


def priced(
    problem: NoiseProblem, solution: LatticeSolution, cells: int, mirrored: bool | None = None
) -> DualCertificate:
    """The prices of a solution as a certificate."""
    reach = solution.slack_price.shape[1] // 2 + cells + 1
    return round_prices(
        solution,
        problem.cost(cells, reach),
        cells=cells,
        epsilon=problem.epsilon,
        delta=problem.delta,
        mirrored=problem.folded if mirrored is None else mirrored,
        temper=problem.support is None and not problem.monotone,
    )


def _fine(problem: NoiseProblem, cells: int) -> int:
    """Enough cells for the highest step to have its best width."""
    step = 8 * (1 + math.exp(min(problem.epsilon, 30.0) / 2))
    return max(cells, min(2048, math.ceil(step)))


def _staircase_table(problem: NoiseProblem, cells: int, dual: DualCertificate) -> NoiseTable:
    reach = cells * min(4000, math.ceil(12 / problem.epsilon) + 2)
    cost = problem.cost(cells, reach)
    top = shapes.best_top(problem.epsilon, cells, floats(cost.upper, cost.denominator), reach)
    for attempt in range(40):
        shrink = 1 - 2.0 ** (attempt - 52)
        try:
            tail_weights, again = _block(problem.epsilon, cells, shrink)
            weights, weight = _head(problem.epsilon, cells, top, shrink)
            tail = PureTail(weight, tail_weights, again)
            prove_pure(weights, tail, cells, problem.epsilon)
            return NoiseTable.rounded(problem, cells, weights, 0, dual, tail=tail)
        except CertificateError:
            continue
    raise CertificateError("no staircase of integers is private")


def _outward(value: int, epsilon: float) -> int:
    """The least integer that is at least value / e^epsilon."""
    lower, _ = exp_bounds(epsilon)
    return -(-(value << BITS) // lower)


def _head(epsilon: float, cells: int, top: int, shrink: float) -> tuple[np.ndarray, int]:
    """Weights of the highest step and the next, and the weight of each tail."""
    mass = 2 * top + 1 + 2 * cells / math.expm1(epsilon)
    high = math.floor(TOTAL / mass * shrink)
    low = _outward(high + 1, epsilon)
    half = [high] * top + [low] * cells
    centre = high
    if (TOTAL - centre) % 2:
        centre += 1
    weight = (TOTAL - centre) // 2 - sum(half)
    return np.array([*half[::-1], centre, *half], np.int64), weight


def _block(epsilon: float, cells: int, shrink: float) -> tuple[np.ndarray, int]:
    """Weights of a block of the tail, and of going on to the next block."""
    steps = max(1, min(_LONGEST_BLOCK // cells, math.floor(-math.log(_BLOCK_FALL) / epsilon)))
    value = math.floor(TOTAL * -math.expm1(-epsilon) / cells * shrink)
    block: list[int] = []
    for _ in range(steps):
        block += [value] * cells
        value = _outward(value, epsilon)
    return np.array(block, np.int64), TOTAL - sum(block)

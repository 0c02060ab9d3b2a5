"""Closed forms as certified tables: laws known to be private, and prices known without a solver.

*Pure noise* is the staircase on a lattice, without end. Its weights are built from the inside out,
each step rounded up from the one before, so that every ratio is at most e^epsilon by construction;
:mod:`opendp_optimal.certify.endless` then checks it. Prices that prove the bound come from the
programme of a tiny delta: prices know nothing of delta, so they prove a bound for pure noise too.

*The largest shift alone* has prices in closed form, for problems too large to solve. The terms
[p_i - e^epsilon p_(i-k)]+ of the one shift k = cells, at points i <= 0 and 0 < i < k, suffice to
bound the loss. Dual feasibility with equality is a recurrence, which is run from a radius inwards:
there it forgets its errors. Where epsilon is small the largest shift is nearly all that matters,
and the bound is close.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.endless import PureTail
from opendp_optimal.certify.noise import TOTAL, DualCertificate, no_prices, prove_bound
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.model.noise import LatticeSolution, floats, program_below, radii
from opendp_optimal.model.work import Work
from opendp_optimal.problem.noise import NoiseProblem, support_radius
from opendp_optimal.round.noise import private_weights, round_prices
from opendp_optimal.search import spiked
from opendp_optimal.search.options import SLOWER, SearchOptions
from opendp_optimal.search.sizing import LARGE_EPSILON, aligned, cell_range, fine_cells, seconds
from opendp_optimal.search.stairs import (
    best_top,
    least_delta,
    outward,
    spare_units,
    truncated,
    whole_staircase,
)
from opendp_optimal.table.noise import MOST_CELLS, NoiseTable

N = TypeVar("N", np.float64, np.int64)

_FINEST_SAMPLED = 512
"""Cells of closed forms for a user's own loss, at most."""
_LEAST_DELTA = 1e-4
"""From this delta on, what a truncated staircase leaves of it is worth a point mass at 0."""
_ATOMS, _SPARE_BITS = 3, 20
"""How often the point mass is corrected for what it takes from the last step; and a power of two:
of delta, a staircase that is longer than it must be uses one in so many."""
_MOST_SAMPLED = 300_000
"""Cells of noise with a point mass at 0 where the loss is a function, which takes long to ask."""
_ROUNDING_UNITS = 4
"""Units by which a point of a law may fall short once it is rounded."""
_MOST_REPAIRED = 10_000_000
"""Points times shifts of laws that are rounded and repaired: the exact check takes its time."""
_BLOCK_FALL = 2.0**-8
_LONGEST_BLOCK = 16_384
_MOST_PRICES = 500_000
_MOST_WEIGHTS = 100_000
"""Of a truncated staircase whose lattice is not given."""
_LONGEST_COST = 1 << 16
"""Points that the highest step is chosen with: where epsilon is small it hardly matters."""
_MOST_TERMS = 300_000
_SMALL_EPSILON = 0.02
"""Programmes with more terms (ten times more from this epsilon on, where smaller shifts matter
too) are not solved: the largest shift alone has prices then."""


def pure_table(problem: NoiseProblem, options: SearchOptions, work: Work) -> NoiseTable:
    """The staircase of least loss, certified.

    :param problem: what is asked, with delta 0
    :param options: how to search
    :param work: what may be done
    """
    if not problem.loss.endless:
        raise ValueError(
            f"loss ({problem.loss.name}) must be l1 or l2 for delta = 0; for other losses, give a "
            "small delta"
        )
    # Prices are those for a tiny delta, within the accuracy of the solver.
    close = replace(problem, delta=1e-6 if options.method in SLOWER else 1e-12)
    fixed, gap = problem.integer_sensitivity, options.gap
    # Twice the work: it is one of two programmes.
    count, limit = (fixed, fixed) if fixed else cell_range(close, gap, 2 * work.left)
    best: NoiseTable | None = None
    while True:
        options.progress(f"{count} cells per sensitivity")
        dual = _prices(close, fixed or aligned(close, count)[1], options, work)
        if dual is None and best is not None:
            return best
        prices = dual or one_shift(close, fixed or 1)
        table = _staircase_table(problem, fixed or fine_cells(problem, count), prices)
        if table.gap <= gap or count >= limit or dual is None:
            return table
        best = table
        count = min(
            limit, max(count + 1, math.ceil(1.1 * count * math.sqrt(min(table.gap / gap, 16.0))))
        )


def _prices(
    close: NoiseProblem, cells: int, options: SearchOptions, work: Work
) -> DualCertificate | None:
    """Prices that a solver finds; None where it finds none, or would take too long."""
    _, radius = radii(close, cells)
    most = 2 * work.left / SLOWER.get(options.method, 1)
    terms = _MOST_TERMS * (1 if close.epsilon < _SMALL_EPSILON else 10)
    if cells * (radius + cells) > terms or seconds(close, cells)[0] > most:
        return None
    from opendp_optimal.solvers import run_noise  # loaded only when needed

    try:
        solution = run_noise(
            program_below(close, cells),
            method=options.method,
            outward_only=True,
            gap=options.gap,
            work=work,
        )
        return priced(close, solution, cells)
    except SolverError:
        return None


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


def _staircase_table(problem: NoiseProblem, cells: int, dual: DualCertificate) -> NoiseTable:
    found = _spiked_table(problem, spiked.layout(problem), dual)
    if found is not None:
        return found
    reach = cells * min(4000, math.ceil(12 / problem.epsilon) + 2, max(3, _LONGEST_COST // cells))
    cost = problem.cost(cells, reach)
    top = best_top(problem.epsilon, cells, floats(cost.upper, cost.denominator), reach)
    for attempt in range(40):
        shrink = 1 - 2.0 ** (attempt - 52)
        with suppress(CertificateError):
            tail_weights, again = _block(problem.epsilon, cells, shrink)
            weights, weight = _head(problem.epsilon, cells, top, shrink)
            tail = PureTail(weight, tail_weights, again)
            return NoiseTable.rounded(problem, cells, weights, 0, dual, tail=tail)
    raise CertificateError("no staircase of integers is private")


def whole_spike(table: NoiseTable, whole: int) -> NoiseTable | None:
    """A real table that is better after rounding, for integers that move so far; None if none is.

    :param table: the best real table
    :param whole: the sensitivity of the integers
    """
    problem = table.problem
    try:
        return _spiked_table(problem, spiked.whole_layout(problem, whole), table.dual)
    except CertificateError:
        return None


def _spiked_table(
    problem: NoiseProblem, where: tuple[int, int] | None, dual: DualCertificate | None
) -> NoiseTable | None:
    """A staircase with a spike on a layout, if there is one.

    :param dual: its prices, any that prove something if None
    """
    if where is None:
        return None
    cells, _ = where
    if problem.delta > 0:
        found = spiked.truncated(problem, where)
    else:
        found = spiked.endless(problem, where, *_block(problem.epsilon, cells, 1 - 2.0**-50))
    if found is None:
        return None
    drawn = cells, found.weights, found.atom, dual or _any_prices(problem, cells)
    return NoiseTable.rounded(problem, *drawn, tail=found.tail, spike=found.spike)


def _head(epsilon: float, cells: int, top: int, shrink: float) -> tuple[np.ndarray, int]:
    """Weights of the highest step and the next, and the weight of each tail."""
    mass = 2 * top + 1 + 2 * cells / math.expm1(epsilon)
    high = math.floor(TOTAL / mass * shrink)
    low = outward(high + 1, epsilon)
    half = [high] * top + [low] * cells
    centre = high + (TOTAL - high) % 2
    weight = (TOTAL - centre) // 2 - sum(half)
    return np.array([*half[::-1], centre, *half], np.int64), weight


def _block(epsilon: float, cells: int, shrink: float) -> tuple[np.ndarray, int]:
    """Weights of a block of the tail, and of going on to the next block."""
    steps = max(1, min(_LONGEST_BLOCK // cells, math.floor(-math.log(_BLOCK_FALL) / epsilon)))
    value = math.floor(TOTAL * -math.expm1(-epsilon) / cells * shrink)
    block: list[int] = []
    for _ in range(steps):
        block += [value] * cells
        value = outward(value, epsilon)
    return np.array(block, np.int64), TOTAL - sum(block)


def with_closed_form(problem: NoiseProblem, best: NoiseTable | None) -> NoiseTable | None:
    """A truncated staircase on a very fine lattice, if it is better than what was found.

    Where nothing was found, it comes with the prices of the largest shift alone.
    """
    if best is not None and (problem.support is not None or problem.impossible is not None):
        return best
    large = problem.epsilon >= LARGE_EPSILON
    where = spiked.layout(problem) if large else None
    found = _spiked_table(problem, where, None if best is None else best.dual)
    if found is not None:
        return _better(best, found)
    tail = min(problem.delta, problem.impossible or 1.0)
    most = max(1, int(_MOST_WEIGHTS / (2 * problem.reaches[0])))
    finest = _FINEST_SAMPLED if problem.loss.by_samples else MOST_CELLS
    wanted = fine_cells(problem)
    # The last weights of a step must be integers that delta allows for.
    few = max(1, int(tail / least_delta(problem.epsilon, 1)))
    cells = problem.integer_sensitivity or min(finest, wanted, most, few)
    cost = problem.cost(cells, cells * 3)
    values = floats(cost.upper, cost.denominator)
    top = best_top(problem.epsilon, cells, values, cells * 3)
    edge: float = math.inf
    if problem.support is not None:
        edge = problem.support * cells - 0.5 if problem.kind == "real" else problem.support
    for longer, law in truncated(problem.epsilon, tail * 0.999, cells, top, edge):
        if len(law) * _ROUNDING_UNITS > tail * TOTAL or len(law) * cells > _MOST_REPAIRED:
            break
        law = _cheapest_place(problem, cells, law)
        try:
            weights, atom = private_weights(
                law, 0.0, law, cells=cells, epsilon=problem.epsilon, delta=problem.delta
            )
            best = _better(best, _with(problem, best, cells, weights, atom))
        except CertificateError:
            continue
        if longer:
            break
        return _with_atom(problem, best, cells, top, edge)
    return _of_integers(problem, best, cells, top, edge)


def _better(best: NoiseTable | None, found: NoiseTable) -> NoiseTable:
    """The table of less loss, the best so far if they are as good."""
    return found if best is None or found.upper < best.upper else best


def _of_integers(
    problem: NoiseProblem, best: NoiseTable | None, cells: int, top: int, edge: float
) -> NoiseTable | None:
    """The same with a staircase of integers, where rounding one would cost all of delta."""
    tail = min(problem.delta, problem.impossible or 1.0)
    spare = spare_units(tail, cells)
    weights = whole_staircase(problem.epsilon, spare, cells, top, edge)
    if weights is None:
        return best
    weights = _cheapest_place(problem, cells, weights)
    try:
        best = _better(best, _with(problem, best, cells, weights, 0))
    except CertificateError:
        return best
    return _with_atom(problem, best, cells, top, edge)


def _with_atom(
    problem: NoiseProblem, best: NoiseTable, cells: int, top: int, edge: float
) -> NoiseTable:
    """The same with a point mass at 0 of what the shortest staircase leaves of a large delta."""
    plain = problem.kind == "real" and problem.support is None and problem.impossible is None
    if not (plain and problem.folded and problem.delta >= _LEAST_DELTA):
        return best
    spare = spare_units(problem.delta, cells)
    for last in (spare, spare >> _SPARE_BITS):
        left = 0
        for _ in range(_ATOMS):
            atom = left
            weights = whole_staircase(problem.epsilon, last, cells, top, edge, TOTAL - atom)
            if weights is None or (problem.loss.by_samples and len(weights) > _MOST_SAMPLED):
                break
            last = cells * int(weights[0])
            left = spare - last
        else:
            assert weights is not None
            with suppress(CertificateError):
                best = _better(best, best.with_weights(cells, weights, atom))
    return best


def _with(
    problem: NoiseProblem, best: NoiseTable | None, cells: int, weights: Integers, atom: int
) -> NoiseTable:
    """Weights with the prices of the best table, or with any."""
    if best is not None:
        return best.with_weights(cells, weights, atom)
    return NoiseTable.rounded(problem, cells, weights, atom, _any_prices(problem, cells))


def _any_prices(problem: NoiseProblem, cells: int) -> DualCertificate:
    """The prices of the largest shift alone, or none if that is better."""
    none = no_prices(cells)
    cost = problem.cost(cells, none.reach)
    try:
        dual = one_shift(problem, problem.integer_sensitivity or 1)
        reached = problem.cost(dual.cells, dual.reach)
        proved = prove_bound(dual, reached, epsilon=problem.epsilon, delta=problem.delta)
    except CertificateError:
        return none  # prices of huge or uneven losses may not be integers of 64 bits
    return dual if proved > Fraction(min(cost.lower), cost.denominator) else none


def _cheapest_place(problem: NoiseProblem, cells: int, law: NDArray[N]) -> NDArray[N]:
    """The law moved to where an uneven loss has it, if anywhere and that is allowed."""
    if problem.folded or problem.monotone or problem.support is not None:
        return law
    radius = len(law) // 2
    cost = problem.cost(cells, 2 * radius)
    values = floats(cost.upper, cost.denominator)
    places = sorted({round(radius * part / 32) for part in range(-32, 33)}, key=abs)
    paid = [float(values[radius + s : radius + s + len(law)] @ law) for s in places]
    best = places[int(np.argmin(paid))]
    wide = np.zeros(len(law) + 2 * abs(best), law.dtype)
    wide[abs(best) + best : abs(best) + best + len(law)] = law
    return wide


def largest_shift_prices(
    cost: Floats, cells: int, epsilon: float, delta: float, blocks: int
) -> LatticeSolution:
    """Prices for a symmetric cost, 0 beyond so many sensitivities.

    :param cost: costs of the points -radius..radius for a radius of (blocks + 1) * cells
    :return: a solution without weights; each price stands for itself and its mirror image
    """
    growth = math.exp(epsilon)
    middle = len(cost) // 2
    right = (cost[middle:] + cost[middle::-1])[: (blocks + 1) * cells] / 2
    steps = right.reshape(-1, cells)  # row q has the points q * cells and on
    fall = np.exp(-epsilon * np.arange(blocks + 1))
    share = 2 * fall
    share[0] = 1.0
    least = float(share @ steps[:, 0] / share.sum())
    prices = np.zeros((blocks + 1, cells))
    for q in range(blocks - 1, -1, -1):
        ahead = prices[q + 1] + 2 * (steps[q + 1] - least)
        prices[q] = np.maximum(ahead, 0.0) / growth
    outer = prices.ravel()[: blocks * cells + 1]
    # Between 0 and k points share their prices with those on the other side of 0.
    need = 2 * (least - steps[0, 1:]) - prices[0, 1:]
    inner = np.maximum(0.0, -(need + growth * need[::-1]) / (growth**2 - 1))
    slack = np.zeros(2 * len(outer) - 1)
    slack[: len(outer)] = outer[::-1]
    slack[len(outer) : len(outer) + cells - 1] = inner
    budget = float(slack.max(initial=0.0))
    return LatticeSolution(
        weights=np.zeros(0),
        atom=0.0,
        shifts=np.array([cells]),
        budget_price=np.array([budget]),
        slack_price=slack[None, :],
        primal=least,
        dual=least - delta * budget,
        status="closed form",
    )

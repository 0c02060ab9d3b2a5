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
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opendp_optimal.certify.endless import PureTail, prove_pure
from opendp_optimal.certify.noise import (
    TOTAL,
    DualCertificate,
    delta_units,
    no_prices,
    prove_bound,
)
from opendp_optimal.checks import whole
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.known.real import truncated_laplace_radius
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.model.noise import (
    Floats,
    LatticeProgram,
    LatticeSolution,
    floats,
    program_below,
)
from opendp_optimal.model.work import Work
from opendp_optimal.problem.noise import NoiseProblem, support_radius
from opendp_optimal.round.noise import private_weights, round_prices, round_weights
from opendp_optimal.search.sizing import (
    LARGE_EPSILON,
    aligned,
    fine_cells,
    first_cells,
    most_cells,
    seconds,
)
from opendp_optimal.search.stairs import (
    best_top,
    decaying,
    least_delta,
    outward,
    staircase,
    truncation_radius,
    whole_staircase,
)
from opendp_optimal.table.noise import MOST_CELLS, NoiseTable

Progress = Callable[[str], None]
Integers = NDArray[np.int64]
N = TypeVar("N", np.float64, np.int64)

_MARGINS = tuple(2.0**-power for power in (40, 30, 20, 14, 10, 7, 4))
"""Parts of epsilon that a closed form may leave unused, for what rounding to integers adds."""
_FINEST, _FINEST_SAMPLED, _NARROW = 4096, 512, 16.0
"""Cells of closed forms, at most; beyond this epsilon the highest step is narrower than they are,
and the finest lattice of all is used."""
_SHORT = 4
"""Units by which a point of a law may fall short once it is rounded."""
_MOST_REPAIRED = 10_000_000
"""Points times shifts of laws that are rounded and repaired: the exact check takes its time."""
_LONGER = 1e-5
"""From this part of epsilon on, leaving it unused makes the noise longer."""
_BLOCK_FALL = 2.0**-8
_LONGEST_BLOCK = 16_384
_MOST_PRICES = 500_000
_MOST_POINTS = 20_000
"""Of truncated Laplace noise."""
_MOST_WEIGHTS = 400_000
"""Of a truncated staircase whose lattice is not given."""
_LONGEST_COST = 1 << 16
"""Points that the highest step is chosen with: where epsilon is small it hardly matters."""
_MOST_TERMS = 300_000
_SMALL_EPSILON = 0.02
"""Programmes with more terms (ten times more from this epsilon on, where smaller shifts matter
too) are not solved: the largest shift alone has prices then."""


def pure_table(
    problem: NoiseProblem,
    gap: float,
    run: Callable[[LatticeProgram], LatticeSolution],
    progress: Progress,
    tiny: float,
    work: Work,
) -> NoiseTable:
    """The staircase of least loss, certified.

    :param run: solves a lattice programme, for the prices
    :param tiny: the delta of that programme, within the accuracy of the solver
    :param work: what may be done
    """
    if not problem.loss.endless:
        raise ValueError(
            f"loss ({problem.loss.name}) must be l1 or l2 for delta = 0; for other losses, give a "
            "small delta"
        )
    close = replace(problem, delta=tiny)
    fixed = problem.integer_sensitivity
    limit = fixed or most_cells(close, 2 * work.left)  # one of two programmes
    count = fixed or min(limit, first_cells(close, gap))
    best: NoiseTable | None = None
    while True:
        progress(f"{count} cells per sensitivity")
        on = fixed or aligned(close, count)[1]
        dual = _prices(close, on, run, work)
        if dual is None and best is not None:
            return best
        prices = dual or one_shift(close, fixed or 1)
        table = _staircase_table(problem, fixed or _fine(problem, count), prices)
        if table.gap <= gap or count >= limit or dual is None:
            return table
        best = table
        count = min(
            limit, max(count + 1, math.ceil(1.1 * count * math.sqrt(min(table.gap / gap, 16.0))))
        )


def _prices(
    close: NoiseProblem, cells: int, run: Callable[[LatticeProgram], LatticeSolution], work: Work
) -> DualCertificate | None:
    """Prices that a solver finds; None where it finds none, or would take too long."""
    _, radius = close.radii(cells)
    most = _MOST_TERMS * (1 if close.epsilon < _SMALL_EPSILON else 10)
    if cells * (radius + cells) > most or seconds(close, cells) > 2 * work.left:
        return None
    try:
        return priced(close, run(program_below(close, cells)), cells)
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


def _fine(problem: NoiseProblem, cells: int) -> int:
    """Enough cells for the highest step to have its best width."""
    step = 8 * (1 + math.exp(min(problem.epsilon, 30.0) / 2))
    finest = MOST_CELLS if problem.epsilon > LARGE_EPSILON else 2048
    return max(cells, min(finest, math.ceil(step)))


def _staircase_table(problem: NoiseProblem, cells: int, dual: DualCertificate) -> NoiseTable:
    reach = cells * min(4000, math.ceil(12 / problem.epsilon) + 2, max(3, _LONGEST_COST // cells))
    cost = problem.cost(cells, reach)
    top = best_top(problem.epsilon, cells, floats(cost.upper, cost.denominator), reach)
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


def _head(epsilon: float, cells: int, top: int, shrink: float) -> tuple[np.ndarray, int]:
    """Weights of the highest step and the next, and the weight of each tail."""
    mass = 2 * top + 1 + 2 * cells / math.expm1(epsilon)
    high = math.floor(TOTAL / mass * shrink)
    low = outward(high + 1, epsilon)
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
        value = outward(value, epsilon)
    return np.array(block, np.int64), TOTAL - sum(block)


def certified_noise(
    epsilon: float,
    delta: float,
    masses: ArrayLike,
    *,
    cells: int,
    loss: str | Loss | Callable[[float], float] = "l1",
) -> NoiseTable:
    """Noise with given masses as a certified table: rounded to integers, repaired, proved private.

    Rounding may cost a little of delta. It is repaired by mixing in up to a thousandth of truncated
    Laplace noise, which may reach one sensitivity farther than the masses. The table's lower bound
    is that of the loss: nothing is claimed about how good the noise is.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter, above 0: noise that ends is not private without
    :param masses: of the lattice points -radius..radius, in any unit
    :param cells: lattice points per unit of sensitivity
    :param loss: what the table's expected loss is of
    :raises CertificateError: if the masses are farther from private than rounding explains

    >>> fall = [0.5 ** abs(i) for i in range(-8, 9)]
    >>> table = certified_noise(1.0, 0.01, fall, cells=1)
    >>> table.verify()
    >>> round(table.upper, 3)
    1.394
    """
    problem = NoiseProblem(epsilon=epsilon, delta=delta, loss=loss_of(loss))
    if problem.delta == 0:
        raise ValueError(
            f"delta ({delta!r}) must be above 0: noise that ends is not private without"
        )
    cells = whole("cells", cells, most=MOST_CELLS)
    law = _law(masses)
    for more in (0, cells):
        radius = len(law) // 2 + more
        try:
            weights, atom = private_weights(
                np.pad(law, more),
                0.0,
                decaying(problem.epsilon, cells, radius),
                cells=cells,
                epsilon=problem.epsilon,
                delta=problem.delta,
            )
        except CertificateError:
            continue
        return NoiseTable.rounded(problem, cells, weights, atom, no_prices(cells))
    rounded, _ = round_weights(law, 0.0)
    needed = delta_units(rounded, 0, cells, problem.epsilon, Fraction(cells)) / TOTAL
    raise CertificateError(
        f"masses need a delta of {float(needed):.6g} at epsilon ({epsilon}) with {cells} cells per "
        f"sensitivity, more than delta ({delta}) and than rounding explains"
    )


def _law(masses: ArrayLike) -> Floats:
    """Masses, checked, in units of their sum."""
    try:
        law = np.array(masses, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("masses must be numbers") from None
    if law.ndim != 1 or len(law) % 2 != 1:
        raise ValueError(f"masses (of shape {law.shape}) must be an odd number: of -radius..radius")
    if not np.all(np.isfinite(law)) or law.min() < 0 or law.max() == 0:
        raise ValueError("masses must be finite, not negative and not all 0")
    law = law / law.max()
    return np.asarray(law / law.sum())


@lru_cache(maxsize=64)
def truncated_laplace(epsilon: float, delta: float) -> NoiseTable:
    """Truncated Laplace noise (Geng, Ding, Guo and Kumar 2020) at sensitivity 1, certified.

    Its lower bound is 0: nothing is claimed about how good it is.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter, above 0
    :raises ValueError: if delta is 0: then there is nothing to truncate

    >>> round(truncated_laplace(1.0, 0.1).upper, 3)  # the paper's closed form: 0.7368
    0.737
    """
    if not NoiseProblem(epsilon=epsilon, delta=delta, loss=loss_of("l1")).delta > 0:
        raise ValueError(f"delta ({delta!r}) must be above 0 for truncated Laplace noise")
    length = truncated_laplace_radius(epsilon, delta)
    cells = int(max(4, min(64 * max(1.0, epsilon), _MOST_POINTS / (2 * length + 2))))
    for margin in _MARGINS:
        law = _laplace_masses(epsilon * (1 - margin), delta * (1 - margin), cells)
        try:
            return certified_noise(epsilon, delta, law, cells=cells)
        except CertificateError:
            continue
    raise CertificateError("no truncated Laplace noise of integers is private")


def _laplace_masses(epsilon: float, delta: float, cells: int) -> Floats:
    """What the density of truncated Laplace noise has in each cell, each to the last digit."""
    cut = truncated_laplace_radius(epsilon, delta)
    radius = math.ceil(cut * cells) + 1
    starts = np.minimum((np.arange(radius + 1) - 0.5) / cells, cut)
    starts[0] = 0.0
    ends = np.minimum((np.arange(radius + 1) + 0.5) / cells, cut)
    right = np.exp(-epsilon * starts) * -np.expm1(-epsilon * (ends - starts))
    return np.concatenate([right[:0:-1], [2 * right[0]], right[1:]])


def with_closed_form(problem: NoiseProblem, best: NoiseTable | None) -> NoiseTable | None:
    """A truncated staircase on a very fine lattice, if it is better than what was found.

    Where nothing was found, it comes with the prices of the largest shift alone.
    """
    if best is not None and (problem.support is not None or problem.impossible is not None):
        return best
    tail = min(problem.delta, problem.impossible or 1.0)
    length = support_radius(problem.epsilon, tail) + 1
    most = max(1, int(_MOST_WEIGHTS / (2 * length)))
    finest = _FINEST_SAMPLED if problem.loss.by_samples else _FINEST
    wanted = fine_cells(problem)
    if problem.epsilon > _NARROW and not problem.loss.by_samples:
        finest = wanted = MOST_CELLS
    # The last weights of a step must be integers that delta allows for.
    few = max(1, int(tail / least_delta(problem.epsilon, 2)))
    cells = problem.integer_sensitivity or min(finest, wanted, most, few)
    cost = problem.cost(cells, cells * 3)
    values = floats(cost.upper, cost.denominator)
    top = best_top(problem.epsilon, cells, values, cells * 3)
    edge: float = math.inf
    if problem.support is not None:
        edge = problem.support * cells - 0.5 if problem.kind == "real" else problem.support
    radius = truncation_radius(problem.epsilon, tail * 0.999, cells, top)
    long = 2 * min(radius, edge)
    if long * _SHORT > tail * TOTAL or long * cells > _MOST_REPAIRED:
        return _of_integers(problem, best, cells, top, edge)
    radius = 0
    for margin in _MARGINS:
        if radius == 0 or margin > _LONGER:
            used = problem.epsilon * (1 - margin) if radius else problem.epsilon
            radius = truncation_radius(used, tail * 0.999, cells, top)
            radius = max(1, int(min(radius, edge)))
        law = staircase(problem.epsilon * (1 - margin), cells, radius, top)
        if not (problem.folded or problem.monotone or problem.support is not None):
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
    return _of_integers(problem, best, cells, top, edge)


def _of_integers(
    problem: NoiseProblem, best: NoiseTable | None, cells: int, top: int, edge: float
) -> NoiseTable | None:
    """The same with a staircase of integers, where rounding one would cost all of delta."""
    tail = min(problem.delta, problem.impossible or 1.0)
    weights = whole_staircase(problem.epsilon, tail, cells, top, edge)
    if weights is None:
        return best
    if not (problem.folded or problem.monotone or problem.support is not None):
        weights = _cheapest_place(problem, cells, weights)
    try:
        if best is None:
            return _with_any_prices(problem, cells, weights, 0)
        candidate = NoiseTable.rounded(problem, cells, weights, 0, best.dual)
    except CertificateError:
        return best
    return candidate if candidate.upper < best.upper else best


def _with_any_prices(problem: NoiseProblem, cells: int, weights: Integers, atom: int) -> NoiseTable:
    """A table with the prices of the largest shift alone, or without prices if that is better."""
    none = no_prices(cells)
    cost = problem.cost(cells, none.reach)
    least = Fraction(min(cost.lower), cost.denominator)
    try:
        dual = one_shift(problem, problem.integer_sensitivity or 1)
        reached = problem.cost(dual.cells, dual.reach)
        proved = prove_bound(dual, reached, epsilon=problem.epsilon, delta=problem.delta)
    except CertificateError:
        proved = least  # prices of huge or uneven losses may not be integers of 64 bits
    return NoiseTable.rounded(problem, cells, weights, atom, dual if proved > least else none)


def _cheapest_place(problem: NoiseProblem, cells: int, law: NDArray[N]) -> NDArray[N]:
    """The law moved to where an uneven loss has it, if anywhere."""
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
    none = np.zeros(0)
    budget = float(slack.max(initial=0.0))
    return LatticeSolution(
        weights=none,
        atom=0.0,
        shifts=np.array([cells]),
        budget_price=np.array([budget]),
        slack_price=slack[None, :],
        order_price=none,
        tail_price=none,
        primal=least,
        dual=least - delta * budget,
        status="closed form",
        iterations=0,
    )

"""From a privacy target to a certified noise table: the way data flows through the package."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from opendp_optimal.arrays import Progress
from opendp_optimal.certify.noise import no_prices
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.model.noise import program_above, program_below
from opendp_optimal.model.work import Work
from opendp_optimal.problem.noise import NoiseProblem, support_radius
from opendp_optimal.round.noise import falling, private_weights
from opendp_optimal.search import spiked
from opendp_optimal.search.closed import priced, pure_table, with_closed_form
from opendp_optimal.search.jump import divided, fine_parts, moved_costs
from opendp_optimal.search.options import SLOWER, SearchOptions, silent
from opendp_optimal.search.sizing import LARGE_EPSILON, MOST_SECONDS, aligned, cell_range, seconds
from opendp_optimal.search.stairs import least_delta
from opendp_optimal.table import NoiseTable
from opendp_optimal.table import store as tables

_ATTEMPTS = 6
_COARSE = 0.1
"""A gap that is good where no lattice as fine as was wanted could be solved."""
_LONGEST, _LONGEST_SAMPLED = 750_000, 150_000
"""Values of integer noise on each side of 0, at most; with a loss that is a user's function."""


def solve(
    epsilon: float,
    delta: float,
    *,
    loss: str | Loss | Callable[[float], float] = "l1",
    integer_sensitivity: int | None = None,
    gap: float = 1e-3,
    cache: bool = True,
    symmetric: bool = False,
    monotone: bool = False,
    support: float | None = None,
    impossible: float | None = None,
    method: str = "auto",
    cells: int | None = None,
    compute: bool = True,
    progress: Progress | None = None,
) -> NoiseTable:
    """The additive noise of least expected loss that is (epsilon, delta)-private, with proofs.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter; 0 gives pure noise (losses l1 and l2)
    :param loss: "l1", "l2", "pinball:LEVEL", a registered name, a function or a ``Loss``
    :param integer_sensitivity: n for integer queries of that sensitivity; None for real queries
        of sensitivity 1 (scale the noise for others). Noise of more than 750,000 integers on
        each side is refused (150,000 where the loss is a function)
    :param gap: largest acceptable certified relative gap (upper - lower) / lower; if it cannot be
        reached, the best table is returned with a ``GapWarning``
    :param cache: look for the table on disk first, and keep it there
    :param symmetric: only symmetric noise
    :param monotone: only noise whose density falls on each side of 0
    :param support: only noise within [-support, support]
    :param impossible: bound on the probability of outputs impossible under a neighbour
    :param method: "auto", "interior", "highs", "cutting-planes", or "partition-cuts" for the
        cutting planes of Selvi, Liu and Wiesemann (2024): one row for the worst event at a time
    :param cells: force the lattice cells per unit of sensitivity (real queries, delta above 0)
    :param compute: False to take only what is stored; then a stored table for a smaller epsilon
        and delta may answer, and a ``LookupError`` says that there is none
    :param progress: called with a line of text at each step

    >>> table = solve(1.0, 1e-6)
    >>> table.gap < 1e-3
    True
    >>> table.verify()
    """
    options = SearchOptions(
        kind="noise", gap=gap, method=method, cache=cache, cells=cells, progress=progress or silent
    )
    problem = NoiseProblem(
        epsilon=epsilon,
        delta=delta,
        loss=loss_of(loss),
        integer_sensitivity=integer_sensitivity,
        symmetric=symmetric,
        monotone=monotone,
        support=support,
        impossible=impossible,
    )
    stored: NoiseTable | None = tables.load(problem, options.gap) if cache or not compute else None
    if stored is not None and (stored.gap <= options.gap or not compute):
        return stored
    if not compute:
        other: NoiseTable | None = tables.dominating(problem)
        if other is None:
            raise LookupError(
                f"no stored table answers epsilon ({epsilon}) and delta ({delta}) with this loss"
            )
        return other
    table = refine(problem, options)
    if stored is not None and stored.gap <= table.gap:
        table = stored
    elif cache:
        tables.keep(table)
    options.warn(table.gap, epsilon, delta)
    return table


def refine(problem: NoiseProblem, options: SearchOptions) -> NoiseTable:
    """The first table that meets the gap, or the best on the finest lattice that is allowed."""
    gap, work, slower = options.gap, Work(MOST_SECONDS), SLOWER.get(options.method, 1)
    if problem.delta == 0:
        return pure_table(problem, options, work)
    _check_size(problem)
    large = problem.epsilon >= LARGE_EPSILON
    if large and options.cells is None and spiked.layout(problem) is not None:
        # No lattice is fine enough for a programme to say more.
        closed = with_closed_form(problem, None)
        if closed is not None:
            return closed
    fixed = problem.integer_sensitivity or options.cells
    count, limit = (fixed, fixed) if fixed else cell_range(problem, gap, MOST_SECONDS)
    first = count
    best: NoiseTable | None = None
    failure: Exception | None = None
    last, before, found = (0, 0), best, best
    for attempt in range(_ATTEMPTS):
        needed, proofs = map(float, seconds(problem, count))
        if needed * slower > work.left:
            break
        options.progress(f"{count} cells per sensitivity")
        lattices = (fixed, fixed) if fixed else aligned(problem, count)
        if lattices != last:
            last, before, found = lattices, found, None
            work.spend(proofs)
            try:
                found = _attempt(problem, *lattices, options, work)
                best = _better(best, found)
            except (SolverError, CertificateError) as error:
                failure = error
        if best is not None and best.gap <= gap:
            # With a small delta the staircase is so close that it may be a little better.
            close = not fixed and problem.delta <= 1e-3 and 0.2 <= problem.epsilon <= 6
            return (with_closed_form(problem, best) if close else None) or best
        if count >= limit or _in_vain(problem, before, found):
            break
        # The gap falls with the square of the cells, more or less: be bolder each time.
        margin = 1.03 + 0.05 * attempt
        wanted = margin * count * math.sqrt(min(found.gap, 4.0) / gap) if found else 2.0 * count
        wanted = max(wanted, 1.05 * count)
        count = min(limit, max(count + 1, math.ceil(wanted)))
    if not fixed and (best is None or best.lower <= 0):
        best = _coarser(problem, best, first, options, work)
    if best is None or options.cells is None:
        options.progress("closed form")
        best = with_closed_form(problem, best)
    if best is None:
        _fail(problem, failure)
    return best


def _coarser(
    problem: NoiseProblem, best: NoiseTable | None, count: int, options: SearchOptions, work: Work
) -> NoiseTable | None:
    """A table of coarser lattices, which prove less, but more than nothing."""
    while count >= 2 and (best is None or best.gap > _COARSE):
        count //= 2
        needed, proofs = map(float, seconds(problem, count))
        if needed > work.left:
            continue
        options.progress(f"{count} cells per sensitivity")
        work.spend(proofs)
        for lattices in dict.fromkeys((aligned(problem, count), (count, count))):
            with contextlib.suppress(SolverError, CertificateError):
                found = _attempt(problem, *lattices, options, work)
                best = _better(best, found)
    return best


def _in_vain(problem: NoiseProblem, before: NoiseTable | None, now: NoiseTable | None) -> bool:
    """Whether a finer lattice was of no use, where the highest step is narrower than any cell."""
    if problem.epsilon < LARGE_EPSILON or before is None:
        return False
    return now is None or (now.gap > 0.8 * before.gap and before.gap < math.inf)


def fits(problem: NoiseProblem) -> bool:
    """Whether integer noise is short enough for a table, and its weights for integers."""
    n, tail = problem.integer_sensitivity, min(problem.delta, problem.impossible or 1.0)
    if problem.delta == 0 or (n is None and problem.impossible is None):
        return True
    longest = _LONGEST_SAMPLED if problem.loss.by_samples else _LONGEST
    return _length(problem) <= longest and least_delta(problem.epsilon, n or 1) <= tail


def _length(problem: NoiseProblem) -> float:
    """Values of integer noise on each side of 0."""
    tail = min(problem.delta, problem.impossible or 1.0)
    return (problem.integer_sensitivity or 0) * support_radius(problem.epsilon, tail)


def _check_size(problem: NoiseProblem) -> None:
    """Refuse noise of more integers than a table should hold, or finer than its weights can be."""
    if fits(problem):
        return
    n, where = problem.integer_sensitivity, f"({problem.epsilon}) and delta ({problem.delta})"
    if problem.impossible is not None:
        raise ValueError(
            f"impossible ({problem.impossible}) must be larger at epsilon {where}: noise that "
            "keeps to it is longer, or its weights finer, than a table can hold"
        )
    raise ValueError(
        f"integer_sensitivity ({n}) must be smaller at epsilon {where}: the noise has "
        f"{2 * _length(problem):.2g} values; use noise for real queries, scaled, and round the sum"
    )


def _fail(problem: NoiseProblem, failure: Exception | None) -> NoReturn:
    """Raise, as there is no table."""
    if problem.support is not None:
        unit = problem.integer_sensitivity or 1
        enough = unit * support_radius(problem.epsilon, 2 * problem.delta)
        raise ValueError(
            f"support ({problem.support}) must be larger: no private noise was found within it; "
            f"truncated Laplace noise needs {enough:.4g}"
        )
    raise SolverError(f"no certified table at {problem.describe()}: {failure}") from failure


def _attempt(
    problem: NoiseProblem, above: int, below: int, options: SearchOptions, work: Work
) -> NoiseTable:
    """Solve both programmes, each on a lattice that suits it, round, prove.

    Most optima fall outwards, so that half of the terms can be left out; where rounding shows
    that this one does not, all terms are used for both programmes.
    """
    from opendp_optimal.solvers import run_noise  # loaded only when needed

    run = partial(run_noise, method=options.method, gap=options.gap)
    program = program_above(problem, above)
    parts = fine_parts(problem, program, options.gap) if problem.monotone else 1
    if parts > 1:
        program = moved_costs(problem, program, parts)
    for outward in (True, False) if problem.folded else (False,):
        solution = run(program, outward_only=outward, work=work.part(0.5))
        law = falling(solution.weights) if problem.monotone else solution.weights
        if parts > 1:
            law = divided(law, problem, parts)
        try:
            weights, atom = private_weights(
                law,
                solution.atom,
                cells=above * parts,
                epsilon=problem.epsilon,
                delta=problem.delta,
                largest_mix=options.gap / 10,
            )
            break
        except CertificateError:
            if not outward:
                raise
    relaxed = run(program_below(problem, below), outward_only=outward, work=work)
    prices = priced(problem, relaxed, below)
    table = NoiseTable.rounded(problem, above * parts, weights, atom, prices)
    if table.lower > 0:
        return table
    # At worst no prices at all, which prove the least loss there is.
    none = no_prices(problem.integer_sensitivity or below)
    return NoiseTable.rounded(problem, above * parts, weights, atom, none)


def _better(best: NoiseTable | None, new: NoiseTable) -> NoiseTable:
    """The better weights with the better prices, from two lattices."""
    if best is None:
        return new
    above = best if best.upper <= new.upper else new
    below = best if best.lower >= new.lower else new
    if above is below:
        return above
    return NoiseTable.rounded(above.problem, above.cells, above.weights, above.atom, below.dual)

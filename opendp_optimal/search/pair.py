"""Certified noise for a mean and its count."""

from __future__ import annotations

import math
from functools import partial

from opendp_optimal.arrays import Progress
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.model.pair import pair_above, pair_below
from opendp_optimal.problem.pair import PairProblem
from opendp_optimal.round.pair import pair_prices, private_pairs
from opendp_optimal.search.options import SearchOptions, silent
from opendp_optimal.table import store as tables
from opendp_optimal.table.pair import PairTable

_MOST_TERMS = 400_000
"""Terms of a programme, at most: some seconds."""
_ATTEMPTS = 4
_STUCK = 0.9
"""A finer lattice that leaves so much of the gap is the last: the bound itself is not tight."""


def solve_pair(
    epsilon: float,
    delta: float,
    *,
    loss: str | Loss = "l2",
    gap: float = 5e-3,
    cache: bool = True,
    progress: Progress | None = None,
) -> PairTable:
    """The noise on a mean and its count with the least expected loss, with proofs.

    A record moves the count by 1 and the centred sum, in units of the range, by at most 1/2. The
    loss is that of the mean's error times the count, on average over all means.

    :param epsilon: privacy parameter; the guarantee holds for exactly this float
    :param delta: privacy parameter, positive
    :param loss: "l1" or "l2"
    :param gap: largest acceptable certified relative gap (upper - lower) / lower; if it cannot be
        reached, the best table is returned with a ``GapWarning``
    :param cache: look for the table on disk first, and keep it there
    :param progress: called with a line of text at each step

    >>> table = solve_pair(2.0, 1e-3)
    >>> table.gap < 5e-3
    True
    >>> table.verify()
    """
    options = SearchOptions(kind="noise", gap=gap, cache=cache, progress=progress or silent)
    problem = PairProblem(epsilon=epsilon, delta=delta, loss=loss_of(loss))
    stored: PairTable | None = tables.load(problem, options.gap) if cache else None
    if stored is not None and stored.gap <= options.gap:
        return stored
    table = _refine(problem, options)
    if stored is not None and stored.gap <= table.gap:
        table = stored
    elif cache:
        tables.keep(table)
    options.warn(table.gap, epsilon, delta)
    return table


def _refine(problem: PairProblem, options: SearchOptions) -> PairTable:
    """The first table that meets the gap, or the best on the finest lattice that is allowed."""
    limit = _finest(problem)
    cells = min(limit, _first(problem, options.gap))
    best: PairTable | None = None
    for _ in range(_ATTEMPTS):
        options.progress(f"{cells} cells per record")
        found = _attempt(problem, cells, options.gap)
        stuck = best is not None and found.gap > _STUCK * best.gap
        best = found if best is None or found.gap < best.gap else best
        if best.gap <= options.gap or cells >= limit or stuck:
            break
        wanted = 1.05 * cells * math.sqrt(min(found.gap, 4.0) / max(options.gap, 1e-12))
        cells = min(limit, max(cells + 2, 2 * math.ceil(wanted / 2)))
    assert best is not None
    return best


def _finest(problem: PairProblem) -> int:
    """Cells whose programme has as many terms as a programme may have."""
    # 2 reach counts, about cells * reach cells, and cells moves
    cells = math.sqrt(_MOST_TERMS / 2) / problem.reach
    return max(2, 2 * math.floor(cells / 2))


def _first(problem: PairProblem, gap: float) -> int:
    """Cells that should do: bounds differ by a part of the squared width of a cell."""
    # About the least squared loss; Laplace noise on two sums has 4 / (3 epsilon^2).
    half = problem.epsilon / 2
    loss = half / math.sinh(half) / (3 * half * half)
    return max(2, 2 * math.ceil(math.sqrt(1 / (3 * 0.8 * max(gap, 1e-12) * loss)) / 2))


def _attempt(problem: PairProblem, cells: int, gap: float) -> PairTable:
    """Solve both programmes, round, prove; with all terms where those outwards do not suffice."""
    from opendp_optimal.solvers import run_pair  # loaded only when needed

    above, below = pair_above(problem, cells), pair_below(problem, cells)
    run = partial(run_pair, gap=gap)
    try:
        weights = private_pairs(above, run(above, outward_only=True).weights, gap / 5)
    except CertificateError:
        weights = private_pairs(above, run(above, outward_only=False).weights, gap / 5)
    dual = pair_prices(below, run(below, outward_only=True))
    return PairTable.proved(problem, cells, weights, dual)

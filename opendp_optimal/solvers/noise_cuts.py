"""Cutting planes on the lattice programme: rows for events, added as they are violated.

The same relaxation as in :mod:`opendp_optimal.solvers.partition_cuts`, one row

    atom + sum over i in A of (p_i - e^epsilon p_(i-m)) <= delta

for each pair of a shift m and an event A that was the worst for some earlier answer, but on the
lattice of the other solvers, so that its answer is rounded and certified like theirs. The price of
a row is a price of its shift's budget and of every term of its event.
"""

from __future__ import annotations

import numpy as np

from opendp_optimal.arrays import Indices
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.highs import LatticeModel, add_row

_ROUNDS = 400
_TOLERANCE = 1e-6
_TERM = 5e-8
"""Work for each term, in looking for the worst events."""


def solve_events(program: LatticeProgram, *, work: Work | None = None) -> LatticeSolution:
    """Solve by adding, after each solve, the worst event of every violated shift.

    :param program: what to solve; order and tail rows are not part of this method
    :param work: what may be done, no limit if None
    """
    n, delta = program.points, program.delta
    model = LatticeModel(program, 0.1 * delta, work)
    pairs = model.pairs
    cuts: list[tuple[int, Indices]] = []
    for _ in range(_ROUNDS):
        p, atom, prices, value = model.solve()
        if work is not None:
            work.spend(_TERM * len(pairs.row))
        terms = model.terms(p)
        violated = np.flatnonzero(model.used(terms) + atom > delta * (1 + _TOLERANCE))
        if len(violated) == 0:
            break
        for r in violated.tolist():
            event = (pairs.row == r) & (terms > 0)
            row = np.bincount(pairs.first[event], minlength=n + 1).astype(float)
            row -= model.growth * np.bincount(pairs.second[event], minlength=n + 1)
            add_row(model.highs, model.weighed(row[:n]) / delta, 1.0)
            cuts.append((r, pairs.place[event] - program.pad))
    else:
        raise SolverError(f"events were still violated after {_ROUNDS} rounds")
    budget, slack = model.no_prices()
    for (r, places), price in zip(cuts, np.maximum(0.0, -prices[1:]) / delta, strict=True):
        budget[r] += price
        slack[r, places] += price
    return LatticeSolution(
        weights=program.unfold(p),
        atom=atom,
        shifts=program.shifts,
        budget_price=budget,
        slack_price=slack,
        primal=value,
        dual=value,
    )

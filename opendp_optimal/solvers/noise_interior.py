"""The lattice programme by the interior-point method."""

from __future__ import annotations

import numpy as np

from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.interior import solve_budgeted


def solve_interior(
    program: LatticeProgram,
    *,
    tolerance: float = 5e-5,
    outward_only: bool = True,
    work: Work | None = None,
) -> LatticeSolution:
    """Solve to a relative duality gap; whatever the status, the iterate is strictly feasible.

    :param program: what to solve
    :param tolerance: relative duality gap at which to stop
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    :param work: what may be done, no limit if None
    """
    seen = program.budgeted(outward_only)
    x, primal, dual, status = solve_budgeted(seen, tolerance, work)
    weights, atom, *_ = x.primal
    *_, terms, price, order = x.dual
    rows = len(program.shifts)
    slack_price = np.zeros((rows, 2 * (program.radius - program.pad) + 1))
    slack_price[seen.pairs.row, seen.pairs.place - program.pad] = terms
    return LatticeSolution(
        weights=program.unfold(weights),
        atom=float(atom.sum()),
        shifts=program.shifts,
        budget_price=price[:rows],
        slack_price=slack_price,
        order_price=order,
        tail_price=price[rows:],
        primal=primal,
        dual=dual,
        status=status,
    )

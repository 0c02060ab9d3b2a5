"""The programme of pairs by the interior-point method for weights under budgets.

Points are ordered count by count, so that moves join near ones and the Newton matrix is banded.
"""

from __future__ import annotations

import numpy as np

from opendp_optimal.model.pair import PairProgram, PairSolution
from opendp_optimal.solvers.interior import solve_budgeted


def solve_pairs(
    program: PairProgram, *, tolerance: float = 1e-5, outward_only: bool = True
) -> PairSolution:
    """Solve to a relative duality gap; whatever the status, the iterate is strictly feasible.

    :param program: what to solve
    :param tolerance: relative duality gap at which to stop
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    """
    seen = program.budgeted(outward_only)
    x, _, dual, _ = solve_budgeted(seen, tolerance)
    *_, terms, price, _ = x.dual
    slack = np.zeros((len(program.moves), program.places))
    slack[seen.pairs.row, seen.pairs.place] = terms
    return PairSolution(
        weights=x.primal[0].reshape(program.cost.shape),
        budget_price=price,
        slack_price=slack,
        dual=dual,
    )

"""HiGHS on the lattice programme: slack variables for the terms, shifts added as they are violated.

Weights are scaled by their expected decay and slacks by delta, so that everything HiGHS sees is of
order one: its feasibility tolerance, 1e-7, is larger than many a delta.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from opendp_optimal.arrays import Floats, Indices
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.highs import SMALLEST, LatticeModel, add_columns, add_row, add_rows

_ROUNDS = 60
_AT_ONCE = 8
_SMALL = 32


class _Model(LatticeModel):
    """The programme in HiGHS, growing by shifts, whose slacks are its last columns."""

    def __init__(self, program: LatticeProgram, work: Work | None) -> None:
        super().__init__(program, 1e-3 * program.delta, work)
        # Of each shift: its terms, their scales, and their first row; its budget's is the last.
        self.added: dict[int, tuple[Indices, Floats, int]] = {}
        self.order_scale = np.zeros(0)
        if program.monotone:
            scaled = (program.order_rows * self.unit).tocsr()
            self.order_scale = np.maximum(np.abs(scaled).max(axis=1).toarray().ravel(), 1e-300)
            self._rows(sparse.csr_array(sparse.diags_array(1 / self.order_scale) @ scaled))
        for row in program.tail_rows:
            add_row(self.highs, self.weighed(row) / (program.tail_budget or 1.0), 1.0)

    def _rows(self, matrix: sparse.csr_array) -> None:
        """Rows that are at least 0."""
        matrix.data[np.abs(matrix.data) < SMALLEST] = 0.0
        matrix.eliminate_zeros()
        add_rows(self.highs, matrix, 0.0, np.inf)

    def add_shift(self, r: int) -> None:
        """Add slacks, their rows s - p_i + e^epsilon p_j >= 0, and the budget of one shift."""
        program, delta = self.program, self.program.delta
        mine = np.flatnonzero(self.pairs.row == r)
        count, n = len(mine), program.points
        first, second = self.pairs.first[mine], self.pairs.second[mine]
        slack = self.highs.getNumCol() + np.arange(count)
        add_columns(self.highs, np.zeros(count))
        at = np.arange(count)
        inside = second < n
        scale = np.maximum(delta, self.unit[first])
        grown = self.growth * self.unit[second[inside]] / scale[inside]
        data = np.concatenate([delta / scale, -self.unit[first] / scale, grown])
        row = np.concatenate([at, at, at[inside]])
        column = np.concatenate([slack, first, second[inside]])
        shape = count, self.highs.getNumCol()
        self.added[r] = mine, scale, self.highs.getNumRow()
        self._rows(sparse.csr_array((data, (row, column)), shape=shape))
        budget = np.zeros(shape[1])
        budget[slack] = 1.0
        budget[n : n + len(self.atom)] = 1 / delta
        add_row(self.highs, budget, 1.0)


def solve_highs(program: LatticeProgram, *, work: Work | None = None) -> LatticeSolution:
    """Solve with HiGHS: all shifts at once if they are few, else as they are violated.

    :param program: what to solve
    :param work: what may be done, no limit if None
    """
    model = _Model(program, work)
    everything = program.cells <= _SMALL
    wanted = np.flatnonzero(everything | (np.abs(program.shifts) == program.cells))
    for _ in range(_ROUNDS):
        for r in wanted.tolist():
            model.add_shift(r)
        p, atom, prices, value = model.solve()
        use = model.used(model.terms(p)) + atom
        use[list(model.added)] = 0.0
        worst = np.argsort(-use)[:_AT_ONCE]
        wanted = worst[use[worst] > program.delta * (1 + 1e-6)]
        if not len(wanted):
            break
    else:
        raise SolverError(f"shifts were still violated after {_ROUNDS} rounds")
    budget, slack = model.no_prices()
    for r, (mine, scale, start) in model.added.items():
        budget[r] = max(0.0, -prices[start + len(mine)] / program.delta)
        terms = np.maximum(0.0, prices[start : start + len(mine)] / scale)
        slack[r, model.pairs.place[mine] - program.pad] = np.minimum(terms, budget[r])
    tails = 1 + len(model.order_scale)
    tail_price = -prices[tails : tails + len(program.tail_rows)]
    return LatticeSolution(
        weights=program.unfold(p),
        atom=atom,
        shifts=program.shifts,
        budget_price=budget,
        slack_price=slack,
        order_price=np.maximum(prices[1:tails] / model.order_scale, 0.0),
        tail_price=np.maximum(tail_price, 0.0) / (program.tail_budget or 1.0),
        primal=value,
        dual=value,
    )

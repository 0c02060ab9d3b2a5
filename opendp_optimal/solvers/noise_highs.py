"""HiGHS on the lattice programme: slack variables for the terms, shifts added as they are violated.

Weights are scaled by their expected decay and slacks by delta, so that everything HiGHS sees is of
order one: its feasibility tolerance, 1e-7, is larger than many a delta.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from opendp_optimal.arrays import Floats
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution, Pairs
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.highs import (
    SMALLEST,
    add_columns,
    add_rows,
    optimum,
    quiet_highs,
    weight_scale,
)

_ROUNDS = 60
_AT_ONCE = 8
_SMALL = 32


class _Model:
    """The programme in HiGHS, growing by shifts; columns are weights, atom, then slacks."""

    def __init__(self, program: LatticeProgram, work: Work | None) -> None:
        self.program = program
        self.work = work
        self.pairs: Pairs = program.pairs(outward_only=False)
        n = program.points
        self.unit = weight_scale(program, 1e-3 * program.delta)
        self.atoms = 0 if program.atom_cost is None else 1
        self.growth = float(np.exp(program.epsilon))
        self.highs = quiet_highs()
        add_columns(self.highs, program.variable_cost * self.unit)
        if self.atoms:
            add_columns(self.highs, program.columns.cost)
        mass = np.concatenate([program.multiplicity * self.unit, np.ones(self.atoms)])
        self._rows(sparse.csr_array(mass[None, :]), 1.0, 1.0)
        self.budget_row: dict[int, int] = {}
        self.first_term_row: dict[int, int] = {}
        self.rows = 1
        self.columns = n + self.atoms
        self.order_row = self.rows
        if program.order_rows.shape[0]:
            scaled = (program.order_rows * self.unit).tocsr()
            norm = np.maximum(np.abs(scaled).max(axis=1).toarray().ravel(), 1e-300)
            self.order_scale = norm
            self._rows(sparse.csr_array(sparse.diags_array(1 / norm) @ scaled), 0.0, np.inf)
            self.rows += program.order_rows.shape[0]
        self.tail_row = self.rows
        for row in program.tail_rows:
            budget = program.tail_budget or 1.0
            dense = np.concatenate([row * self.unit, np.ones(self.atoms)]) / budget
            self._rows(sparse.csr_array(dense[None, :]), -np.inf, 1.0)
            self.rows += 1

    def _rows(self, matrix: sparse.csr_array, low: float, high: float) -> None:
        count = matrix.shape[0]
        matrix.data[np.abs(matrix.data) < SMALLEST] = 0.0
        matrix.eliminate_zeros()
        add_rows(self.highs, matrix, np.full(count, low), np.full(count, high))

    def add_shift(self, r: int) -> None:
        """Add slacks, their rows s - p_i + e^epsilon p_j >= 0, and the budget of one shift."""
        program, delta = self.program, self.program.delta
        mine = np.flatnonzero(self.pairs.row == r)
        count, n = len(mine), program.points
        first, second = self.pairs.first[mine], self.pairs.second[mine]
        add_columns(self.highs, np.zeros(count))
        slack = self.columns + np.arange(count)
        at = np.arange(count)
        inside = second < n
        scale = np.maximum(delta, self.unit[first])
        data = np.concatenate(
            [
                delta / scale,
                -self.unit[first] / scale,
                self.growth * self.unit[second[inside]] / scale[inside],
            ]
        )
        matrix = sparse.csr_array(
            (
                data,
                (
                    np.concatenate([at, at, at[inside]]),
                    np.concatenate([slack, first, second[inside]]),
                ),
            ),
            shape=(count, self.columns + count),
        )
        self._rows(matrix, 0.0, np.inf)
        budget = np.zeros(self.columns + count)
        budget[slack] = 1.0
        if self.atoms:
            budget[n] = 1 / delta
        self._rows(sparse.csr_array(budget[None, :]), -np.inf, 1.0)
        self.first_term_row[r] = self.rows
        self.budget_row[r] = self.rows + count
        self.columns += count
        self.rows += count + 1

    def solve(self) -> tuple[Floats, float, Floats, float]:
        """Weights, atom, row prices and value; raises unless HiGHS calls it optimal."""
        values, prices, value = optimum(self.highs, self.work)
        n = self.program.points
        atom = float(values[n]) if self.atoms else 0.0
        return values[:n] * self.unit, atom, prices, value

    def shortfalls(self, p: Floats) -> Floats:
        """What the weights use of each shift's budget."""
        padded = np.append(p, 0.0)
        term = padded[self.pairs.first] - self.growth * padded[self.pairs.second]
        rows = np.bincount(self.pairs.row, np.maximum(term, 0.0), len(self.program.shifts))
        return np.asarray(rows, dtype=float)


def solve_highs(program: LatticeProgram, *, work: Work | None = None) -> LatticeSolution:
    """Solve with HiGHS: all shifts at once if they are few, else as they are violated.

    :param program: what to solve
    :param work: what may be done, no limit if None
    """
    model = _Model(program, work)
    shifts = len(program.shifts)
    everything = program.cells <= _SMALL
    start = (
        range(shifts)
        if everything
        else np.flatnonzero(np.abs(program.shifts) == program.cells).tolist()
    )
    for r in start:
        model.add_shift(int(r))
    for rounds in range(_ROUNDS):
        p, atom, prices, value = model.solve()
        use = model.shortfalls(p) + atom
        use[list(model.budget_row)] = 0.0
        worst = np.argsort(-use)[:_AT_ONCE]
        violated = [int(r) for r in worst if use[r] > program.delta * (1 + 1e-6)]
        if not violated:
            return _solution(model, p, atom, prices, value, rounds + 1)
        for r in violated:
            model.add_shift(r)
    raise SolverError(f"shifts were still violated after {_ROUNDS} rounds")


def _solution(
    model: _Model, p: Floats, atom: float, prices: Floats, value: float, rounds: int
) -> LatticeSolution:
    program, delta = model.program, model.program.delta
    inner = program.radius - program.pad
    shifts = len(program.shifts)
    budget = np.zeros(shifts)
    slack = np.zeros((shifts, 2 * inner + 1))
    for r, row in model.budget_row.items():
        mine = np.flatnonzero(model.pairs.row == r)
        start = model.first_term_row[r]
        scale = np.maximum(delta, model.unit[model.pairs.first[mine]])
        budget[r] = max(0.0, -prices[row] / delta)
        terms = np.maximum(0.0, prices[start : start + len(mine)] / scale)
        slack[r, model.pairs.place[mine] - program.pad] = np.minimum(terms, budget[r])
    order = np.zeros(0)
    if program.order_rows.shape[0]:
        count = program.order_rows.shape[0]
        order = prices[model.order_row : model.order_row + count] / model.order_scale
    tails = -prices[model.tail_row : model.tail_row + len(program.tail_rows)]
    return LatticeSolution(
        weights=program.unfold(p),
        atom=atom,
        shifts=program.shifts,
        budget_price=budget,
        slack_price=slack,
        order_price=np.maximum(order, 0.0),
        tail_price=np.maximum(tails, 0.0) / (program.tail_budget or 1.0),
        primal=value,
        dual=value,
        iterations=rounds,
    )

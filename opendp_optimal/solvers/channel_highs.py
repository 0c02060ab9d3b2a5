"""HiGHS on the channel programme, with constraints added where they are violated.

One vectorised pass finds the worst event of every pair. With a positive delta, each violated pair
gets its slack variables and its budget row, in units of delta; with delta 0 the violated rows
P(y|x) <= growth P(y|x') themselves are added, and HiGHS goes on from its last basis.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from opendp_optimal.arrays import Floats, Indices, Progress
from opendp_optimal.errors import SolverError
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.highs import TOLERANCE, add_columns, add_rows, optimum, quiet_highs

_ROUNDS = 200
_FEW = 400
"""Pairs up to which all get their slacks at once."""
_MOST_ROWS = 4000
"""Rows added in one round, at most."""
_STEEP = np.exp(30.0)
"""Pairs with a larger growth are left out: what they ask is beyond the tolerances of HiGHS, and
is made good when weights are rounded."""
_LEAST_UNIT = 1e-7
"""Slacks are in units of delta, but not in smaller ones: HiGHS ignores coefficients below 1e-9."""


class _Model:
    """The programme in HiGHS: columns are weights, the raise of the caps, then slacks."""

    def __init__(self, program: ChannelProgram, penalty: float, work: Work | None) -> None:
        self.program, self.work = program, work
        self.inputs, self.outputs = program.cost.shape
        self.n = self.inputs * self.outputs
        self.unit = float(program.cost.max()) or 1.0
        self.elastic = 1 if len(program.caps) else 0
        self.highs = quiet_highs()
        self.growth = program.growth
        self.scale = np.sqrt(program.growth)
        if program.delta > 0:
            self.scale = np.maximum(1.0, self.scale * np.sqrt(max(program.delta, _LEAST_UNIT)))
        self.gentle = program.growth <= _STEEP
        self.slack_unit = max(program.delta, _LEAST_UNIT)
        self.columns = self.rows = 0
        self._add_columns(np.append(program.cost.ravel() / self.unit, [penalty] * self.elastic))
        mass = sparse.kron(sparse.eye_array(self.inputs), np.ones((1, self.outputs)), format="csr")
        self._add_rows(mass, np.ones(self.inputs), np.ones(self.inputs))
        self.cap_row = self.rows
        if self.elastic:
            flat = program.caps.reshape(len(program.caps), self.n) / self.unit
            matrix = sparse.csr_array(np.column_stack([flat, -np.ones(len(flat))]))
            self._add_rows(
                matrix, np.full(len(flat), -np.inf), np.full(len(flat), program.cap / self.unit)
            )
        y = np.arange(self.outputs)
        self.at_first = program.first[:, None] * self.outputs + y
        across = np.where(program.flips[:, None], y[::-1], y)
        self.at_second = program.second[:, None] * self.outputs + across
        self.term_row = np.full(self.at_first.shape, -1)
        self.budget_row = np.full(len(program.first), -1)

    def _add_columns(self, cost: Floats) -> None:
        add_columns(self.highs, cost)
        self.columns += len(cost)

    def _add_rows(self, matrix: sparse.csr_array, low: Floats, high: Floats) -> None:
        add_rows(self.highs, matrix, low, high)
        self.rows += matrix.shape[0]

    def add_pairs(self, which: Indices) -> None:
        """Slacks s >= P(y|x) - growth P(y|x') and the row that bounds their sum by delta."""
        if not len(which):
            return
        unit = self.slack_unit
        count = len(which) * self.outputs
        slack = self.columns + np.arange(count)
        self._add_columns(np.zeros(count))
        first, second = self.at_first[which].ravel(), self.at_second[which].ravel()
        growth = self.program.grown[which].ravel()
        at = np.arange(count)
        scale = np.repeat(self.scale[which], self.outputs)
        data = np.concatenate([np.full(count, unit) / scale, -1 / scale, growth / scale])
        entries = (data, (np.tile(at, 3), np.concatenate([slack, first, second])))
        matrix = sparse.csr_array(entries, shape=(count, self.columns))
        self.term_row[which] = (self.rows + at).reshape(len(which), -1)
        self._add_rows(matrix, np.zeros(count), np.full(count, np.inf))
        pair = np.repeat(np.arange(len(which)), self.outputs)
        sums = sparse.csr_array((np.ones(count), (pair, slack)), shape=(len(which), self.columns))
        self.budget_row[which] = self.rows + np.arange(len(which))
        most = np.full(len(which), self.program.delta / unit)
        self._add_rows(sums, np.full(len(which), -np.inf), most)

    def add_terms(self, pair: Indices, y: Indices) -> None:
        """Rows growth P(y|x') - P(y|x) >= 0."""
        count, at = len(pair), np.arange(len(pair))
        growth = self.growth[pair]
        scale = self.scale[pair]
        data = np.concatenate([-1 / scale, growth / scale])
        places = np.concatenate([self.at_first[pair, y], self.at_second[pair, y]])
        matrix = sparse.csr_array((data, (np.tile(at, 2), places)), shape=(count, self.columns))
        self.term_row[pair, y] = self.rows + at
        self._add_rows(matrix, np.zeros(count), np.full(count, np.inf))

    def solve(self) -> tuple[Floats, float, Floats, float]:
        """Weights, raise of the caps, row prices, value; raises unless it is optimal."""
        values, prices, value = optimum(self.highs, self.work)
        raised = float(values[self.n]) if self.elastic else 0.0
        weights = values[: self.n].reshape(self.inputs, self.outputs)
        return weights, raised, prices, value


def solve_highs(
    program: ChannelProgram,
    *,
    penalty: float = 0.0,
    progress: Progress | None = None,
    work: Work | None = None,
) -> ChannelSolution:
    """Solve with HiGHS, adding what is violated until nothing is.

    :param program: what to solve
    :param penalty: what raising all caps by one unit costs
    :param progress: called with a line of text at every round
    :param work: what may be done, no limit if None
    """
    model = _Model(program, penalty, work)
    pure = program.delta == 0
    if not pure and len(program.first) <= _FEW:
        model.add_pairs(np.flatnonzero(model.gentle))
    for rounds in range(1, _ROUNDS + 1):
        weights, raised, prices, value = model.solve()
        violated = _add_pure(model, weights) if pure else _add_worst(model, weights)
        if not violated:
            return _solution(model, weights, raised, prices, value, rounds)
        if progress is not None:
            progress(f"round {rounds}: {violated} constraints added")
    raise SolverError(f"constraints were still violated after {_ROUNDS} rounds")


def _add_worst(model: _Model, weights: Floats) -> int:
    use = model.program.shortfalls(weights)
    use[(model.budget_row >= 0) | ~model.gentle] = 0.0
    which = np.flatnonzero(use > model.program.delta * (1 + 1e-6))
    most = max(8, _MOST_ROWS // model.outputs)
    which = which[np.argsort(-use[which], kind="stable")][:most]
    model.add_pairs(which)
    return len(which)


def _add_pure(model: _Model, weights: Floats) -> int:
    over = model.program.terms(weights)
    over[(model.term_row >= 0) | ~model.gentle[:, None]] = 0.0
    pair, y = np.nonzero(over > 10 * TOLERANCE)
    order = np.argsort(-over[pair, y], kind="stable")[:_MOST_ROWS]
    if len(order):
        model.add_terms(pair[order], y[order])
    return len(order)


def _solution(
    model: _Model, weights: Floats, raised: float, prices: Floats, value: float, rounds: int
) -> ChannelSolution:
    program, unit = model.program, model.unit
    has = model.term_row >= 0
    slack = np.where(has, np.maximum(prices[model.term_row], 0.0) / model.scale[:, None], 0.0)
    budget = np.zeros(len(program.first))
    if program.delta > 0:
        priced = model.budget_row >= 0
        budget[priced] = np.maximum(-prices[model.budget_row[priced]], 0.0) / model.slack_unit
        slack = np.minimum(slack, budget[:, None])
    caps = -prices[model.cap_row : model.cap_row + len(program.caps)]
    return ChannelSolution(
        weights=np.maximum(weights, 0.0),
        budget_price=budget * unit,
        slack_price=slack * unit,
        cap_price=np.maximum(caps, 0.0),
        primal=float((program.cost * weights).sum()),
        dual=value * unit,
        excess=raised * unit,
        status="optimal",
        iterations=rounds,
    )

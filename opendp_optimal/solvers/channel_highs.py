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

    def __init__(self, program: ChannelProgram, penalty: float) -> None:
        self.program = program
        self.inputs, self.outputs = program.cost.shape
        self.n = self.inputs * self.outputs
        self.highs = quiet_highs()
        self.scale = np.sqrt(program.growth)
        self.slack_unit = max(program.delta, _LEAST_UNIT)
        if program.delta > 0:
            self.scale = np.maximum(1.0, self.scale * np.sqrt(self.slack_unit))
        self.gentle = program.growth <= _STEEP
        add_columns(self.highs, program.cost.ravel())
        mass = sparse.kron(sparse.eye_array(self.inputs), np.ones((1, self.outputs)), format="csr")
        add_rows(self.highs, mass, 1.0, 1.0)
        if len(program.caps):
            add_columns(self.highs, np.array([penalty]))
            flat = program.caps.reshape(len(program.caps), self.n)
            matrix = sparse.csr_array(np.column_stack([flat, -np.ones(len(flat))]))
            add_rows(self.highs, matrix, -np.inf, program.cap)
        self.at_first, self.at_second = program.places
        self.term_row = np.full(self.at_first.shape, -1)
        self.budget_row = np.full(len(program.first), -1)

    def add_pairs(self, which: Indices) -> None:
        """Slacks s >= P(y|x) - growth P(y|x') and the row that bounds their sum by delta."""
        if not len(which):
            return
        count = len(which) * self.outputs
        slack = self.highs.getNumCol() + np.arange(count)
        add_columns(self.highs, np.zeros(count))
        pair = np.repeat(which, self.outputs)
        self.add_terms(pair, np.tile(np.arange(self.outputs), len(which)), slack)
        at = np.arange(len(which))
        self.budget_row[which] = self.highs.getNumRow() + at
        sums = (np.ones(count), (np.repeat(at, self.outputs), slack))
        matrix = sparse.csr_array(sums, shape=(len(which), self.highs.getNumCol()))
        add_rows(self.highs, matrix, -np.inf, self.program.delta / self.slack_unit)

    def add_terms(self, pair: Indices, y: Indices, slack: Indices | None = None) -> None:
        """Rows growth P(y|x') - P(y|x) >= 0, with the columns of their slacks if there are any."""
        scale = self.scale[pair]
        parts = [
            (self.at_first[pair, y], -1 / scale),
            (self.at_second[pair, y], self.program.grown[pair, y] / scale),
        ]
        if slack is not None:
            parts.append((slack, self.slack_unit / scale))
        columns, data = (np.concatenate(part) for part in zip(*parts, strict=True))
        at = np.arange(len(pair))
        self.term_row[pair, y] = self.highs.getNumRow() + at
        entries = (data, (np.tile(at, len(parts)), columns))
        matrix = sparse.csr_array(entries, shape=(len(pair), self.highs.getNumCol()))
        add_rows(self.highs, matrix, 0.0, np.inf)


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
    model = _Model(program, penalty)
    pure = program.delta == 0
    if not pure and len(program.first) <= _FEW:
        model.add_pairs(np.flatnonzero(model.gentle))
    for number in range(1, _ROUNDS + 1):
        values, prices, value = optimum(model.highs, work)
        weights = values[: model.n].reshape(program.cost.shape)
        violated = _add_pure(model, weights) if pure else _add_worst(model, weights)
        if not violated:
            break
        if progress is not None:
            progress(f"round {number}: {violated} constraints added")
    else:
        raise SolverError(f"constraints were still violated after {_ROUNDS} rounds")
    has = model.term_row >= 0
    slack = np.where(has, np.maximum(prices[model.term_row], 0.0) / model.scale[:, None], 0.0)
    budget = np.zeros(len(program.first))
    if program.delta > 0:
        priced = model.budget_row >= 0
        budget[priced] = np.maximum(-prices[model.budget_row[priced]], 0.0) / model.slack_unit
        slack = np.minimum(slack, budget[:, None])
    caps = -prices[model.inputs : model.inputs + len(program.caps)]
    return ChannelSolution(
        weights=np.maximum(weights, 0.0),
        budget_price=budget,
        slack_price=slack,
        cap_price=np.maximum(caps, 0.0),
        primal=float((program.cost * weights).sum()),
        dual=value,
        excess=float(values[model.n]) if len(program.caps) else 0.0,
        status="optimal",
    )


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

"""The linear programme of an optimal channel P(y|x).

    minimise    sum_x sum_y cost[x, y] P(y|x)
    subject to  P >= 0,   sum_y P(y|x) = 1,
                sum_y [P(y|x) - growth P(y|x')]+ <= delta      for every pair (x, x')
                sum_x sum_y caps[q, x, y] P(y|x) <= cap        for every cap q

Where an output reveals the answer, no other input can release the same, so that it counts in full
(its growth is 0). Where the problem is its own mirror image (x and y reversed), the programme keeps
one half of the rows: a row of the other half is a row of the first, reversed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Booleans, Floats, Indices
from opendp_optimal.problem.channel import ChannelProblem, Matrix

_LARGEST = 64.0


@dataclass(frozen=True, eq=False)
class ChannelProgram:
    """What a solver sees; see the module for its meaning.

    ``first`` and ``second`` are the rows of each pair; where ``flips``, the second row is taken
    in reverse. A folded programme has fewer rows than ``inputs``. ``shared`` is 0 for revealing
    outputs and 1 for others.
    """

    cost: Floats
    first: Indices
    second: Indices
    flips: Booleans
    growth: Floats
    delta: float
    caps: Floats
    cap: float
    inputs: int
    shared: Floats

    @staticmethod
    def of(problem: ChannelProblem, fold: bool = True) -> ChannelProgram:
        """The programme for a solver, folded where there is a mirror symmetry.

        :param fold: whether to fold at all
        """
        fold = fold and problem.mirrored
        cost = _floats(problem.cost, problem.denominator)
        inputs, outputs = cost.shape
        kept = (inputs + 1) // 2 if fold else inputs
        first, second = problem.pairs.T
        high, flips = problem.high, np.zeros(len(problem.pairs), bool)
        if fold:
            a, b = np.minimum(first, inputs - 1 - first), np.minimum(second, inputs - 1 - second)
            flips = (a != first) ^ (b != second)
            table = np.stack([a, b, flips], axis=1)
            _, where = np.unique(table, axis=0, return_index=True)
            first, second, high, flips = a[where], b[where], high[where], flips[where]
            cost = cost[:kept] * 2.0
            if inputs % 2:
                cost[-1] /= 2
        return ChannelProgram(
            cost=cost,
            first=np.asarray(first, np.intp),
            second=np.asarray(second, np.intp),
            flips=flips,
            growth=np.exp(np.minimum(high, _LARGEST)),
            delta=problem.delta,
            caps=_cap_floats(problem, kept, outputs),
            cap=0.0 if problem.cap is None else float(problem.cap),
            inputs=inputs,
            shared=problem.shared,
        )

    @cached_property
    def places(self) -> tuple[Indices, Indices]:
        """Where the weights of both rows of every pair are, among the weights row after row."""
        y = np.arange(self.cost.shape[1])
        across = np.where(self.flips[:, None], y[::-1], y)
        return self.first[:, None] * len(y) + y, self.second[:, None] * len(y) + across

    @cached_property
    def grown(self) -> Floats:
        """The growth of every pair and output."""
        return np.asarray(self.growth[:, None] * self.shared)

    @property
    def folded(self) -> bool:
        """Whether rows stand for their mirror images too."""
        return len(self.cost) < self.inputs

    def terms(self, p: Floats) -> Floats:
        """P(y|x) - growth P(y|x') for every pair and y, in one pass."""
        other = p[self.second]
        other[self.flips] = other[self.flips, ::-1]
        return np.asarray(p[self.first] - self.grown * other)

    def shortfalls(self, p: Floats) -> Floats:
        """What the worst event of every pair takes of delta."""
        return np.asarray(np.maximum(self.terms(p), 0.0).sum(axis=1))

    def unfold(self, p: Floats) -> Floats:
        """All rows of a channel."""
        if not self.folded:
            return p
        below = p[: self.inputs // 2]
        rows = [below, below[::-1, ::-1]]
        if self.inputs % 2:
            middle = p[-1:]
            rows.insert(1, (middle + middle[:, ::-1]) / 2)
        return np.concatenate(rows)


def _cap_floats(problem: ChannelProblem, kept: int, outputs: int) -> Floats:
    rows = []
    for cap in problem.caps:
        row = np.zeros((kept, outputs))
        for x, values in zip(cap.rows, _floats(cap.cost, problem.denominator), strict=True):
            if x < kept:
                row[x] += values
            else:
                row[problem.inputs - 1 - x] += values[::-1]
        rows.append(row)
    out = np.array(rows).reshape(len(rows), kept * outputs)
    return np.asarray(np.unique(out, axis=0).reshape(-1, kept, outputs))


def _floats(numerators: Matrix, denominator: int) -> Floats:
    return np.array([[v / denominator for v in row] for row in numerators])


def on_a_line(program: ChannelProgram) -> bool:
    """Whether a programme is pure and joins each input to the next ones in their order alone."""
    return (
        program.delta == 0
        and not program.folded
        and not len(program.caps)
        and bool(np.all(program.shared == 1))
        and len(program.first) > 0
        and bool(np.all(np.abs(program.first - program.second) == 1))
        and bool(np.any(program.cost > 0))
    )


@dataclass(frozen=True, eq=False)
class ChannelSolution:
    """What a solver brings back, in floats; nothing in it is trusted.

    ``slack_price[r, y]`` (between 0 and ``budget_price[r]`` where delta is positive) belongs to
    the term of pair r of the programme at y, ``cap_price`` to the caps. ``excess`` is by how much
    the caps had to be raised for the programme to have a solution.
    """

    weights: Floats
    budget_price: Floats
    slack_price: Floats
    cap_price: Floats
    primal: float
    dual: float
    excess: float
    status: str

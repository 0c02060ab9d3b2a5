"""The linear programmes of optimal noise on a mean and its count.

    minimise    sum_z cost_z p_z
    subject to  p >= 0,   sum_z p_z = 1,
                sum_z [p_z - e^epsilon p_(z + m)]+ <= delta      for every move m = (i, 1), (i, -1)

over weights of points z = (j, c): cell j of width 1/cells for the centred sum, and whole noise c
for the count; |i| <= cells / 2. Everything is symmetric in j, so that only j >= 0 are variables;
the programme of a mechanism is symmetric in c, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Floats, Indices, Integers
from opendp_optimal.losses.pairs import PairCost
from opendp_optimal.model.noise import Budgeted, Pairs
from opendp_optimal.problem.pair import PairProblem


@dataclass(frozen=True)
class PairProgram:
    """One instance; see the module for its meaning.

    :param counts: the noise on the count, one for each row of the costs: 0..C, or -C-1..C
    :param cost: floats, a row for each count noise and a column for each cell 0..most
    :param relaxed: terms whose moved point is beyond all rows and columns are left out. Its prices
        then prove a bound for noise of any support
    """

    epsilon: float
    delta: float
    cells: int
    counts: Integers
    cost: Floats
    relaxed: bool

    @property
    def folded(self) -> bool:
        """Whether c >= 0 stand for their mirror images, too."""
        return int(self.counts[0]) == 0

    @property
    def most(self) -> int:
        """The last cell."""
        return int(self.cost.shape[1]) - 1

    @property
    def points(self) -> int:
        """Number of weights that are variables."""
        return self.cost.size

    @cached_property
    def multiplicity(self) -> Floats:
        """How many points each variable stands for."""
        out = np.full(self.cost.shape, 4.0 if self.folded else 2.0)
        out[:, 0] /= 2
        if self.folded:
            out[0] /= 2
        return out.ravel()

    @cached_property
    def distance(self) -> Floats:
        """max(|c|, 2 |a|) of each variable: a move changes it by at most 1."""
        a = 2 * np.arange(self.most + 1) / self.cells
        return np.maximum(np.abs(self.counts)[:, None], a).ravel()

    @cached_property
    def moves(self) -> Integers:
        """The move (i, 1) or (i, -1) of each budget row, i >= 0."""
        ups = [(i, 1) for i in range(self.cells // 2 + 1)]
        return np.array(ups if self.folded else ups + [(i, -s) for i, s in ups], np.int64)

    @property
    def places(self) -> int:
        """How many points there are, with all mirror images."""
        counts = 2 * len(self.counts) - 1 if self.folded else len(self.counts)
        return counts * (2 * self.most + 1)

    def pairs(self, outward_only: bool) -> Pairs:
        """All terms, or only those whose moved point does not cost less than the point.

        ``place`` counts the points of all count noises (also of mirror images) and of the cells
        -most..most, row by row.
        """
        cells = np.arange(-self.most, self.most + 1)
        counts = np.arange(-int(self.counts[-1]) - (not self.folded), int(self.counts[-1]) + 1)
        c, j = (grid.ravel() for grid in np.meshgrid(counts, cells, indexing="ij"))
        cost = np.append(self.cost.ravel(), np.inf)
        first = self._variable(j, c)
        found = []
        for row, (i, step) in enumerate(self.moves.tolist()):
            second = self._variable(j + i, c + step)
            keep = first != second
            if self.relaxed:
                keep &= second < self.points
            if outward_only:
                keep &= cost[second] >= cost[first]
            place = np.flatnonzero(keep)
            found.append((first[place], second[place], np.full(len(place), row), place))
        return Pairs(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def budgeted(self, outward_only: bool) -> Budgeted:
        """The same for the interior-point method.

        :param outward_only: leave out terms that cannot bind for noise that falls outwards
        """
        from scipy import sparse

        return Budgeted(
            epsilon=self.epsilon,
            delta=self.delta,
            mass=self.multiplicity,
            cost=self.cost.ravel() * self.multiplicity,
            pairs=self.pairs(outward_only),
            rows=len(self.moves),
            starts=(-self.epsilon * self.distance,),
            order=sparse.csr_array((0, self.points)),
            tail=np.zeros((0, self.points)),
            tail_budget=0.0,
            atom_cost=np.zeros(0),
        )

    def _variable(self, j: Indices, c: Indices) -> Indices:
        """The variable of each point; one past the last for points outside."""
        row = np.abs(c) if self.folded else c - int(self.counts[0])
        outside = (np.abs(j) > self.most) | (row < 0) | (row >= len(self.counts))
        return np.where(outside, self.points, row * (self.most + 1) + np.abs(j))


@dataclass(frozen=True)
class PairSolution:
    """What a solver brings back, in floats; nothing in it is trusted.

    ``slack_price[r, z]`` (between 0 and ``budget_price[r]``) belongs to the term of the r-th move
    at the point z, counted like ``PairProgram.pairs`` counts places.
    """

    weights: Floats
    budget_price: Floats
    slack_price: Floats
    dual: float


def pair_above(problem: PairProblem, cells: int) -> PairProgram:
    """The programme of a mechanism with so many cells for a move of the centred sum by 1."""
    counts = np.arange(problem.reach + 1)
    cost = problem.costs.upper(cells, cells * (problem.reach + 1) // 2, counts)
    return _program(problem, cells, counts, cost, relaxed=False)


def pair_below(problem: PairProblem, cells: int) -> PairProgram:
    """A relaxation: no additive noise, whole or not, has a smaller loss than its optimum.

    The fractional part of the noise on the count is the same for neighbours, so that noise on it
    is a mixture over that part. For each part t in [-1/2, 1/2] the cost is at least its tangent at
    t = 0, which lies between those half a unit on and back: mirror images of each other.
    """
    counts = np.arange(-problem.reach - 1, problem.reach + 1)
    cost = problem.costs.lower(cells, cells * (problem.reach + 1) // 2, counts)
    return _program(problem, cells, counts, cost, relaxed=True)


def _program(
    problem: PairProblem, cells: int, counts: Integers, cost: PairCost, *, relaxed: bool
) -> PairProgram:
    return PairProgram(
        epsilon=problem.epsilon,
        delta=problem.delta,
        cells=cells,
        counts=counts,
        cost=cost.values / cost.denominator,
        relaxed=relaxed,
    )

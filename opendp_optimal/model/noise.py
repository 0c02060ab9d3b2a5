"""The linear programme of optimal noise on a lattice.

    minimise    sum_i cost_i p_i + atom_cost a
    subject to  p, a >= 0,   a + sum_i p_i = 1,
                a + sum_i [p_i - e^epsilon p_(i-m)]+ <= delta     for every shift m

over weights p on the points -radius..radius and, if there is one, a point mass a at 0. A folded
programme has p_i = p_-i: it keeps the points 0..radius and the shifts m > 0.

:func:`program_above` and :func:`program_below` make the two programmes of a problem, whose optima
lie above and below its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from opendp_optimal.arrays import Floats, Indices
from opendp_optimal.problem.noise import NoiseProblem

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True)
class Pairs:
    """The terms [p_first - e^epsilon p_second]+ of all budget rows, in flat arrays.

    ``second`` is ``points`` (one past the last) where the shifted point is outside the support;
    ``place`` is the unfolded index i + radius of the first point.
    """

    first: Indices
    second: Indices
    row: Indices
    place: Indices


@dataclass(frozen=True)
class Budgeted:
    """Weights under budgets: what the interior-point method sees of a programme.

    :param mass: how many points each weight stands for
    :param cost: of each weight
    :param pairs: the terms of all budgets
    :param rows: number of budgets
    :param starts: logarithms of laws to start from
    :param order: rows B with B p >= 0
    :param tail: rows T with T p + a <= tail_budget
    :param atom_cost: of the point mass a at 0, empty if there is none
    """

    epsilon: float
    delta: float
    mass: Floats
    cost: Floats
    pairs: Pairs
    rows: int
    starts: tuple[Floats, ...]
    order: sparse.csr_array
    tail: Floats
    tail_budget: float
    atom_cost: Floats


@dataclass(frozen=True)
class LatticeProgram:
    """One instance; see the module for its meaning.

    :param cost: costs of the points -radius..radius
    :param atom_cost: of the point mass at 0, empty for a programme without one
    :param monotone: weights fall on each side of 0 ("strict": also from the centre; "relaxed":
        the centre is only at least the mean of its neighbours, which suits lower bounds)
    :param tail_budget: bound on atom plus mass within ``cells`` points of either end
    :param pad: the outermost points have weights but no terms of their own. That relaxes the
        programme: its prices then prove a bound for noise of any support
    """

    epsilon: float
    delta: float
    cells: int
    radius: int
    cost: Floats
    atom_cost: Floats
    folded: bool
    monotone: str = ""
    tail_budget: float | None = None
    pad: int = 0

    @property
    def points(self) -> int:
        """Number of weights that are variables."""
        return self.radius + 1 if self.folded else 2 * self.radius + 1

    @cached_property
    def multiplicity(self) -> Floats:
        """How many lattice points each variable stands for."""
        return np.where(self.folded & (np.arange(self.points) > 0), 2.0, 1.0)

    @cached_property
    def variable_cost(self) -> Floats:
        """Cost of each variable."""
        if not self.folded:
            return self.cost
        mirrored = self.cost + self.cost[::-1]
        return np.asarray(mirrored[self.radius :] * self.multiplicity / 2)

    @cached_property
    def shifts(self) -> Indices:
        """The shift of each budget row."""
        up = np.arange(1, self.cells + 1)
        return up if self.folded else np.concatenate([up, -up])

    def pairs(self, outward_only: bool) -> Pairs:
        """All terms, or only those whose shifted point lies further out than the point.

        Noise that falls outwards has no shortfall in the other terms, so that leaving them out
        halves the programme; the exact check decides whether that was right.
        """
        inner = self.radius - self.pad
        i = np.arange(-inner, inner + 1)
        first = np.broadcast_to(i, (len(self.shifts), len(i)))
        second = i[None, :] - self.shifts[:, None]
        row = np.broadcast_to(np.arange(len(self.shifts))[:, None], first.shape)
        keep = np.abs(first) < np.abs(second) if outward_only else np.ones(first.shape, bool)
        f, s = first[keep], second[keep]
        outside = np.abs(s) > self.radius
        index = np.abs if self.folded else (lambda x: x + self.radius)
        return Pairs(
            first=index(f),
            second=np.where(outside, self.points, index(s)),
            row=row[keep],
            place=f + self.radius,
        )

    @cached_property
    def order_rows(self) -> sparse.csr_array:
        """Rows B with B p >= 0 that make the weights fall on each side of 0 (none: no rows)."""
        from scipy import sparse

        n, zero = self.points, 0 if self.folded else self.radius
        if not self.monotone:
            return sparse.csr_array((0, n))
        each = sparse.eye_array(n, format="csr")
        right = each[zero:-1] - each[zero + 1 :]
        left = each[zero:0:-1] - each[zero - 1 :: -1] if zero else each[:0]
        if self.monotone == "relaxed" and zero:
            # The centre is to be at least the mean of its neighbours.
            right, left = sparse.vstack([(right[:1] + left[:1]) / 2, right[1:]]), left[1:]
        return sparse.vstack([right, left], format="csr")

    @cached_property
    def tail_rows(self) -> Floats:
        """Rows T with T p + a <= tail_budget (none: no rows)."""
        if self.tail_budget is None:
            return np.zeros((0, self.points))
        at_end = np.zeros(self.points)
        at_end[self.points - min(self.cells, self.radius) :] = 1.0
        return at_end[None, :] if self.folded else np.stack([at_end, at_end[::-1]])

    def budgeted(self, outward_only: bool) -> Budgeted:
        """The same for the interior-point method.

        :param outward_only: leave out terms that cannot bind for noise that falls outwards
        """
        distance = np.abs(np.arange(self.points) - (0 if self.folded else self.radius))
        steps = -self.epsilon * distance / self.cells
        stairs = self.epsilon * ((self.radius - distance) // self.cells)
        return Budgeted(
            epsilon=self.epsilon,
            delta=self.delta,
            mass=self.multiplicity,
            cost=self.variable_cost,
            pairs=self.pairs(outward_only),
            rows=len(self.shifts),
            starts=(steps, stairs - stairs.max() + 1e-3 * steps),
            order=self.order_rows,
            tail=self.tail_rows,
            tail_budget=self.tail_budget or 0.0,
            atom_cost=self.atom_cost,
        )

    def unfold(self, p: Floats) -> Floats:
        """The weights of all points -radius..radius."""
        return np.concatenate([p[:0:-1], p]) if self.folded else p


@dataclass(frozen=True)
class LatticeSolution:
    """What a solver brings back, in floats; nothing in it is trusted.

    ``slack_price[r, i]`` (between 0 and ``budget_price[r]``) belongs to the term of shift
    ``shifts[r]`` at point i - radius; ``order_price`` and ``tail_price`` to the extra rows.
    """

    weights: Floats
    atom: float
    shifts: Indices
    budget_price: Floats
    slack_price: Floats
    primal: float
    dual: float
    status: str = "optimal"
    order_price: Floats = field(default_factory=lambda: np.zeros(0))
    tail_price: Floats = field(default_factory=lambda: np.zeros(0))


def floats(numerators: Sequence[int], denominator: int) -> Floats:
    """Costs as floats, for the solver."""
    try:
        return np.asarray(np.array(numerators, dtype=float) / float(denominator))
    except OverflowError:
        return np.array([number / denominator for number in numerators], dtype=float)


def radii(problem: NoiseProblem, cells: int) -> tuple[int, int]:
    """Where the optimum has hardly mass, and where its prices are 0, in lattice cells."""
    mass, prices = problem.reaches
    return math.ceil(cells * mass) + 1, math.ceil(cells * prices) + 1


def program_above(problem: NoiseProblem, cells: int) -> LatticeProgram:
    """The programme of a mechanism on the lattice with so many cells per sensitivity."""
    radius, _ = radii(problem, cells)
    if problem.support is not None:
        spread = Fraction(0 if problem.kind == "integer" else 1, 2)
        radius = max(1, min(radius, math.floor(_edge(problem, cells) - spread)))
    cost = problem.cost(cells, radius)
    return LatticeProgram(
        epsilon=problem.epsilon,
        delta=problem.delta,
        cells=cells,
        radius=radius,
        cost=floats(cost.upper, cost.denominator),
        atom_cost=np.array([cost.atom / cost.denominator] if problem.kind == "real" else []),
        folded=problem.folded,
        monotone="strict" if problem.monotone else "",
        tail_budget=problem.impossible,
    )


def program_below(problem: NoiseProblem, cells: int) -> LatticeProgram:
    """A relaxation: no mechanism has a smaller loss than its optimum."""
    radius = radii(problem, cells)[1] + cells
    bounded = False
    if problem.support is not None:
        edge = math.ceil(_edge(problem, cells))
        radius, bounded = min(radius, edge), edge < radius
    # One point more on each side, as prices need: costs are found once.
    cost = problem.cost(cells, radius + 1)
    return LatticeProgram(
        epsilon=problem.epsilon,
        delta=problem.delta,
        cells=cells,
        radius=radius,
        cost=floats(cost.lower, cost.denominator)[1:-1],
        atom_cost=np.zeros(0),
        folded=problem.folded,
        monotone="relaxed" if problem.monotone else "",
        tail_budget=problem.impossible if bounded else None,
        pad=0 if bounded else cells,
    )


def _edge(problem: NoiseProblem, cells: int) -> Fraction:
    """Where the support ends, in lattice cells."""
    assert problem.support is not None
    return Fraction(problem.support) * (1 if problem.kind == "integer" else cells)

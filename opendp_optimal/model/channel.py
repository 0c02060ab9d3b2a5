"""The linear programme of an optimal channel P(y|x).

    minimise    sum_x sum_y cost[x, y] P(y|x)
    subject to  P >= 0,   sum_y P(y|x) = 1,
                sum_y [P(y|x) - growth P(y|x')]+ <= delta      for every pair (x, x')
                sum_x sum_y caps[q, x, y] P(y|x) <= cap        for every cap q

Outputs can be marked as telling: what one input releases by them no other input can, so that they
count in full (their growth is 0).

:class:`ChannelProblem` states it exactly, in integers; :class:`ChannelProgram` is what solvers
see, in floats. Where the problem is its own mirror image (x and y reversed), the programme keeps
one half of the rows: a row of the other half is a row of the first, reversed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Frozen

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Matrix = Sequence[Sequence[int]]

_LARGEST = 64.0


@dataclass(frozen=True, eq=False)
class CapRow(Frozen):
    """One bound: the sum over ``rows`` x and all y of cost[x, y] P(y|x) is at most the cap."""

    rows: tuple[int, ...]
    cost: Matrix

    @property
    def largest(self) -> Fraction:
        """What no channel exceeds, times the denominator of the costs."""
        return Fraction(sum(map(max, self.cost)))


@dataclass(frozen=True, eq=False)
class ChannelProblem(Frozen):
    """One instance, exactly.

    :param cost: integers over ``denominator``, prior weights included, one row for each input
    :param denominator: of all costs
    :param pairs: ordered pairs (x, x') of inputs, one a row
    :param low: a float not above the epsilon of each pair, for proofs of privacy
    :param high: a float not below the epsilon of each pair, for proofs of optimality
    :param delta: the same for all pairs; 0 for pure privacy
    :param caps: further bounds, their costs over ``denominator`` too
    :param cap: what the caps are bounded by
    :param telling: outputs that count in full, as no other input can release the same
    """

    cost: Matrix
    denominator: int
    pairs: Integers
    low: Floats
    high: Floats
    delta: float
    caps: tuple[CapRow, ...] = ()
    cap: Fraction | None = None
    telling: tuple[int, ...] = ()

    @property
    def inputs(self) -> int:
        """Number of inputs x."""
        return len(self.cost)

    @property
    def outputs(self) -> int:
        """Number of outputs y."""
        return len(self.cost[0])

    @cached_property
    def mirrored(self) -> bool:
        """Whether the problem stays the same when inputs and outputs are reversed."""
        if any(list(a) != list(b)[::-1] for a, b in zip(self.cost, self.cost[::-1], strict=True)):
            return False
        last = self.inputs - 1
        if set(self.telling) != {self.outputs - 1 - y for y in self.telling}:
            return False
        own = {(x, z): e for (x, z), e in zip(self.pairs.tolist(), self.high, strict=True)}
        if any(own.get((last - x, last - z)) != e for (x, z), e in own.items()):
            return False
        shapes = {_cap_key(c.rows, c.cost) for c in self.caps}
        turned = {
            _cap_key([last - x for x in c.rows[::-1]], [list(r)[::-1] for r in c.cost[::-1]])
            for c in self.caps
        }
        return shapes == turned

    def in_units(self) -> tuple[ChannelProblem, int]:
        """The same problem with costs in units of 2^power, and the power.

        It is 0 where costs are of a size that solvers are used to; else no cost is above 1. A cap
        that nothing exceeds is left out.
        """
        costs = itertools.chain(self.cost, *(cap.cost for cap in self.caps))
        denominator = 1 << max(map(max, costs)).bit_length()
        shrunk = Fraction(denominator, self.denominator)
        power = denominator.bit_length() - self.denominator.bit_length()
        if abs(power) <= 32:
            denominator, shrunk, power = self.denominator, Fraction(1), 0
        whole = replace(self, denominator=denominator)
        if self.cap is None or self.cap >= max(cap.largest for cap in self.caps) / self.denominator:
            return replace(whole, caps=(), cap=None), power
        return replace(whole, cap=self.cap / shrunk), power

    def program(self, fold: bool = True) -> ChannelProgram:
        """The programme for a solver, folded where there is a mirror symmetry.

        :param fold: whether to fold at all
        """
        fold = fold and self.mirrored
        cost = _floats(self.cost, self.denominator)
        inputs, outputs = cost.shape
        kept = (inputs + 1) // 2 if fold else inputs
        first, second = self.pairs[:, 0], self.pairs[:, 1]
        flips = np.zeros(len(self.pairs), bool)
        if fold:
            a, b = np.minimum(first, inputs - 1 - first), np.minimum(second, inputs - 1 - second)
            flips = (a != first) ^ (b != second)
            table = np.stack([a, b, flips], axis=1).astype(np.int64)
            _, where = np.unique(table, axis=0, return_index=True)
            first, second, flips = a[where], b[where], flips[where]
            growth = np.exp(np.minimum(self.high[where], _LARGEST))
            cost = cost[:kept] * 2.0
            if inputs % 2:
                cost[-1] /= 2
        else:
            growth = np.exp(np.minimum(self.high, _LARGEST))
        return ChannelProgram(
            cost=cost,
            first=np.asarray(first, np.intp),
            second=np.asarray(second, np.intp),
            flips=flips,
            growth=growth,
            delta=self.delta,
            caps=self._cap_floats(kept, outputs),
            cap=0.0 if self.cap is None else float(self.cap),
            inputs=inputs,
            shared=self.shared,
        )

    @cached_property
    def shared(self) -> Floats:
        """1 for every output but the telling ones, which have 0."""
        out = np.ones(self.outputs)
        out[list(self.telling)] = 0.0
        return out

    def _cap_floats(self, kept: int, outputs: int) -> Floats:
        rows = []
        for cap in self.caps:
            row = np.zeros((kept, outputs))
            for x, values in zip(cap.rows, _floats(cap.cost, self.denominator), strict=True):
                if x < kept:
                    row[x] += values
                else:
                    row[self.inputs - 1 - x] += values[::-1]
            rows.append(row)
        out = np.array(rows).reshape(len(rows), kept * outputs)
        out = np.unique(out, axis=0) if len(rows) else out
        return np.asarray(out.reshape(-1, kept, outputs))


def _cap_key(rows: Sequence[int], cost: Sequence[Sequence[int]]) -> tuple[object, ...]:
    return tuple(sorted((x, tuple(values)) for x, values in zip(rows, cost, strict=True)))


def _floats(numerators: Matrix, denominator: int) -> Floats:
    return np.array([[v / denominator for v in row] for row in numerators])


@dataclass(frozen=True, eq=False)
class ChannelProgram:
    """What a solver sees; see the module for its meaning.

    ``first`` and ``second`` are the rows of each pair; where ``flips``, the second row is taken
    in reverse. A folded programme has fewer rows than ``inputs``. ``shared`` is 0 for telling
    outputs and 1 for others.
    """

    cost: Floats
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    flips: NDArray[np.bool_]
    growth: Floats
    delta: float
    caps: Floats
    cap: float
    inputs: int
    shared: Floats

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
    iterations: int

"""Algorithms 4 (PIE-NI) and 5 (PIE-k): look again only at those who may still matter.

A rule takes what a look returned about one block of users (``step``), and what became of all
blocks (``merge``): state in, state out. Nothing here asks anybody or knows what they have left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import Floats
from opendp_optimal_geo.allowances import Mask, Users
from opendp_optimal_geo.plan import Look, Plan
from opendp_optimal_geo.radius import error_radius


@dataclass(frozen=True, eq=False)
class Block:
    """Users who are not decided, and what they have sent.

    :param users: indices in rising order
    :param sums: of their values, each times the weight of its look
    :param weights: sums of these weights: one for all of them, or one for each
    """

    users: Users
    sums: Floats
    weights: float | Floats

    def __len__(self) -> int:
        """How many users there are."""
        return len(self.users)

    def add(self, values: Floats, weight: float | Floats, asked: Mask | None) -> Block:
        """Return the block after one more look.

        :param values: of those asked, NaN where there was no answer; overwritten
        :param weight: of the values
        :param asked: who was asked; None for everybody
        """
        if asked is not None:
            some = values
            values = np.full(self.sums.shape, np.nan)
            values[asked] = some
        weights = self.weights + weight
        if math.isnan(float(values.sum())):
            silent = np.isnan(values if values.ndim == 1 else values[:, 0])
            values[silent] = 0.0
            weights = np.where(silent, self.weights, weights)
        values *= _along(weight, values)
        values += self.sums
        return Block(self.users, values, weights)

    def take(self, which: Users) -> Block:
        """Return the block of some of its users.

        :param which: places in the block, in rising order
        """
        weights = self.weights if isinstance(self.weights, float) else self.weights.take(which)
        return Block(self.users.take(which), self.sums.take(which, axis=0), weights)

    def answered(self) -> Block:
        """Return the block of those who have answered at all."""
        if isinstance(self.weights, float):
            return self if self.weights > 0.0 else self.take(np.zeros(0, np.intp))
        known = self.weights > 0.0
        return self if known.all() else self.take(np.flatnonzero(known))

    def averages(self) -> Floats:
        """Return the weighted averages of what the users have sent."""
        result: Floats = self.sums / _along(self.weights, self.sums)
        return result

    def estimate(self, plan: Plan, look: int, beta: float) -> tuple[Floats, Floats]:
        """Return estimated scores, and what they may be off by but with probability beta each.

        :param plan: of the query
        :param look: number of the last look, from 0
        :param beta: failure probability
        """
        averages = self.averages()
        score = plan.score(averages) if plan.columns else averages
        return score, error_radius(plan, self.users, self.weights, look, beta)


@dataclass(frozen=True, eq=False)
class State:
    """What is known between two looks.

    :param blocks: users who are not decided
    :param decided_at: for each user the look at which it was decided, from 1; 0 if it was not
    :param inside: for each user whether it was found inside
    :param looks: how many there were
    :param found: how many users were found inside (S_1)
    :param eliminated: how many users were eliminated (S_0)
    """

    blocks: tuple[Block, ...]
    decided_at: NDArray[np.uint16]
    inside: Mask
    looks: int = 0
    found: int = 0
    eliminated: int = 0

    @cached_property
    def open(self) -> int:
        """How many users are not decided."""
        return sum(map(len, self.blocks))


def start(plan: Plan) -> State:
    """Return the state before the first look; users without an allotment are not asked.

    :param plan: of the query
    """
    users = (
        np.arange(plan.size if plan.allotment else 0)
        if isinstance(plan.allotment, int)
        else np.flatnonzero(plan.allotment > 0)
    )
    shape = (plan.columns,) if plan.columns else ()
    blocks = tuple(
        Block(some, np.zeros((len(some), *shape)), 0.0)
        for begin in range(0, len(users), plan.rows)
        if len(some := users[begin : begin + plan.rows])
    )
    return State(blocks, np.zeros(plan.size, np.uint16), np.zeros(plan.size, np.bool_))


@dataclass(frozen=True)
class Reading:
    """What a look returned about a block.

    :param look: which look
    :param values: of those asked, NaN where there was no answer
    :param asked: who was asked; None for everybody
    """

    look: Look
    values: Floats
    asked: Mask | None = None

    def added_to(self, block: Block) -> Block:
        """Return the block with these values."""
        users = block.users if self.asked is None else block.users[self.asked]
        weight = self.look.weight(self.look.price(users))
        if self.asked is not None and isinstance(weight, np.ndarray):
            spread = np.zeros(len(block))
            spread[self.asked] = weight
            weight = spread
        return block.add(self.values, weight, self.asked)


@dataclass(frozen=True, eq=False)
class Part:
    """What became of a block after a look.

    :param block: users who are still open
    :param decided: users who are not
    :param inside: which of these were found inside
    :param score: estimates of the open users, where the rule compares blocks
    :param width: what these may be off by
    """

    block: Block
    decided: Users = field(default_factory=lambda: np.zeros(0, np.intp))
    inside: Mask = field(default_factory=lambda: np.zeros(0, np.bool_))
    score: Floats = field(default_factory=lambda: np.zeros(0))
    width: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class KeepAll:
    """Everybody is asked in every look: the baselines."""

    def goes_on(self, state: State) -> bool:
        """Say whether there is anybody to look at."""
        return bool(state.blocks)

    def step(self, state: State, block: Block, reading: Reading) -> Part:
        """Return a block after a look."""
        return Part(reading.added_to(block))

    def merge(self, plan: Plan, state: State, parts: Sequence[Part]) -> State:
        """Return the state after a look at all blocks."""
        return replace(state, blocks=tuple(part.block for part in parts), looks=state.looks + 1)


@dataclass(frozen=True)
class Threshold(KeepAll):
    """PIE-NI: decide whoever is certainly inside or outside.

    :param low: a score below means inside (S_1)
    :param high: a score above means outside (S_0)
    :param beta: failure probability of all decisions together
    """

    low: float
    high: float
    beta: float

    def step(self, state: State, block: Block, reading: Reading) -> Part:
        """Decide about the users of a block."""
        plan, number = reading.look.plan, reading.look.number
        block = reading.added_to(block)
        with np.errstate(invalid="ignore", divide="ignore"):
            score, width = block.estimate(plan, number, _each(self.beta, plan, state))
            inside, outside = score < self.low - width, score > self.high + width
        done = inside | outside
        if not isinstance(block.weights, float):  # nobody is decided without an answer
            done &= block.weights > 0.0
        if not done.any():
            return Part(block)
        gone = np.flatnonzero(done)
        kept = block.take(np.flatnonzero(~done))
        return Part(kept, block.users.take(gone), inside.take(gone))

    def merge(self, plan: Plan, state: State, parts: Sequence[Part]) -> State:
        """Write down who was decided; put small blocks together."""
        looks, found, eliminated = state.looks + 1, state.found, state.eliminated
        for part in parts:
            state.decided_at[part.decided] = looks
            state.inside[part.decided] = part.inside
            among = int(np.count_nonzero(part.inside))
            found, eliminated = found + among, eliminated + len(part.decided) - among
        blocks = tuple(_joined((part.block for part in parts), plan.rows))
        return replace(state, blocks=blocks, looks=looks, found=found, eliminated=eliminated)


@dataclass(frozen=True)
class Smallest(KeepAll):
    """PIE-k: keep the k smallest right ends and what their intervals meet.

    :param k: how many are wanted
    :param beta: failure probability of all decisions together
    """

    k: int
    beta: float

    def goes_on(self, state: State) -> bool:
        """Say whether more than k are left, or nobody has been looked at."""
        return state.open > (self.k if state.looks else 0)

    def step(self, state: State, block: Block, reading: Reading) -> Part:
        """Estimate the scores of a block; users without any answer cannot be ranked."""
        block = reading.added_to(block).answered()
        plan, number = reading.look.plan, reading.look.number
        score, width = block.estimate(plan, number, _each(self.beta, plan, state))
        return Part(block, score=score, width=np.broadcast_to(width, score.shape))

    def merge(self, plan: Plan, state: State, parts: Sequence[Part]) -> State:
        """Eliminate whoever is certainly farther away than k others."""
        looks, eliminated, blocks = state.looks + 1, state.eliminated, []
        limit = _smallest([part.score + part.width for part in parts], self.k)
        for part in parts:
            # The others' right ends are no smaller: intervals meet iff left ends do not pass.
            kept = part.score - part.width <= limit
            gone = part.block.users[~kept]
            state.decided_at[gone] = looks
            eliminated += len(gone)
            blocks.append(part.block.take(np.flatnonzero(kept)) if len(gone) else part.block)
        joined = tuple(_joined(blocks, plan.rows))
        return replace(state, blocks=joined, looks=looks, eliminated=eliminated)


Rule = KeepAll | Threshold | Smallest


def _each(beta: float, plan: Plan, state: State) -> float:
    """Return the failure probability of one decision, about one user after one look."""
    return beta / (len(plan.split) * state.open)


def _smallest(ends: Sequence[Floats], k: int) -> float:
    """Return the k-th smallest of all; infinite if there are not so many."""
    every = np.concatenate(ends)
    return float(np.partition(every, k - 1)[k - 1]) if len(every) > k else math.inf


def _joined(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Put neighbouring blocks together while they have at most so many rows; drop empty ones."""
    waiting: list[Block] = []
    for block in blocks:
        if waiting and sum(map(len, waiting)) + len(block) > rows:
            yield _join(waiting)
            waiting = []
        if len(block):
            waiting.append(block)
    if waiting:
        yield _join(waiting)


def _join(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    users = np.concatenate([block.users for block in blocks])
    sums = np.concatenate([block.sums for block in blocks])
    first = blocks[0].weights
    if isinstance(first, float) and all(_same(block.weights, first) for block in blocks):
        return Block(users, sums, first)
    weights = [np.broadcast_to(block.weights, len(block)) for block in blocks]
    return Block(users, sums, np.concatenate(weights))


def _same(weights: float | Floats, first: float) -> bool:
    return isinstance(weights, float) and weights == first


def _along(weights: float | Floats, values: Floats) -> float | Floats:
    """Return weights so that they multiply rows."""
    return weights if isinstance(weights, float) or values.ndim == 1 else weights[:, None]

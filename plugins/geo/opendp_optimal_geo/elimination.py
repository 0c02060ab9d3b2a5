"""Algorithms 4 (PIE-NI) and 5 (PIE-k): look again only at those who may still matter.

A rule takes one block of users after a look (``step``), and what became of all blocks (``merge``):
state in, state out. Nothing here asks anybody or knows what they have left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

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

    def add(self, look: Look, values: Floats, asked: Mask | None) -> Block:
        """Return the block after one more look.

        :param look: which look
        :param values: of those asked, NaN where there was no answer; overwritten
        :param asked: who was asked; None for everybody
        """
        weight = look.weight(look.price(self.users))
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

    def take(self, kept: Mask) -> Block:
        """Return the block of some of its users.

        :param kept: which of them
        """
        if kept.all():
            return self
        which = np.flatnonzero(kept)
        weights = self.weights if isinstance(self.weights, float) else self.weights.take(which)
        return Block(self.users.take(which), self.sums.take(which, axis=0), weights)

    def answered(self) -> Block:
        """Return the block of those who have answered at all."""
        return self.take(np.broadcast_to(np.greater(self.weights, 0.0), len(self)))

    def averages(self) -> Floats:
        """Return the weighted averages of what the users have sent."""
        return self.sums / _along(self.weights, self.sums)

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
    users = np.flatnonzero(np.broadcast_to(np.greater(plan.allotment, 0), plan.size))
    shape = (plan.columns,) if plan.columns else ()
    parts = (users[begin : begin + plan.rows] for begin in range(0, len(users), plan.rows))
    blocks = tuple(Block(some, np.zeros((len(some), *shape)), 0.0) for some in parts)
    return State(blocks, np.zeros(plan.size, np.uint16), np.zeros(plan.size, np.bool_))


class Part(NamedTuple):
    """What became of a block after a look.

    :param block: users who are still open
    :param decided: users who are not
    :param inside: which of these were found inside
    """

    block: Block
    decided: Users = np.zeros(0, np.intp)
    inside: Mask | bool = False


@dataclass(frozen=True)
class KeepAll:
    """Everybody is asked in every look: the baselines."""

    def goes_on(self, state: State) -> bool:
        """Say whether there is anybody to look at."""
        return bool(state.blocks)

    def step(
        self, look: Look, state: State, block: Block, values: Floats, asked: Mask | None
    ) -> Part:
        """Return what becomes of a block after a look: see :meth:`Block.add`."""
        return self.decide(look, state, block.add(look, values, asked))

    def decide(self, look: Look, state: State, block: Block) -> Part:
        """Decide about the users of a block: nobody is decided."""
        return Part(block)

    def merge(self, look: Look, state: State, parts: Iterable[Part]) -> State:
        """Write down who was decided; put small blocks together."""
        looks, found, eliminated, blocks = look.number + 1, state.found, state.eliminated, []
        for part in parts:
            state.decided_at[part.decided] = looks
            state.inside[part.decided] = part.inside
            among = int(np.count_nonzero(part.inside))
            found, eliminated = found + among, eliminated + len(part.decided) - among
            blocks.append(part.block)
        joined = tuple(_joined(blocks, look.plan.rows))
        return replace(state, blocks=joined, looks=looks, found=found, eliminated=eliminated)


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

    def decide(self, look: Look, state: State, block: Block) -> Part:
        """Decide about the users of a block."""
        with np.errstate(invalid="ignore", divide="ignore"):
            score, width = block.estimate(look.plan, look.number, _each(self.beta, look, state))
            inside, outside = score < self.low - width, score > self.high + width
        # Nobody is decided without an answer.
        done = (inside | outside) & np.greater(block.weights, 0.0)
        gone = np.flatnonzero(done)
        return Part(block.take(~done), block.users.take(gone), inside.take(gone))


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

    def merge(self, look: Look, state: State, parts: Iterable[Part]) -> State:
        """Eliminate whoever is certainly farther away than k others."""
        # Users without any answer cannot be ranked.
        blocks, beta = [part.block.answered() for part in parts], _each(self.beta, look, state)
        estimates = [block.estimate(look.plan, look.number, beta) for block in blocks]
        ends = np.concatenate([score + width for score, width in estimates])
        limit = np.partition(ends, self.k - 1)[self.k - 1] if len(ends) > self.k else math.inf
        decided = []
        for block, (score, width) in zip(blocks, estimates, strict=True):
            # The others' right ends are no smaller: intervals meet iff left ends do not pass.
            kept = score - width <= limit
            decided.append(Part(block.take(kept), block.users[~kept]))
        return super().merge(look, state, decided)


Rule = KeepAll | Threshold | Smallest


def _each(beta: float, look: Look, state: State) -> float:
    """Return the failure probability of one decision, about one user after one look."""
    return beta / (len(look.plan.split) * state.open)


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
    if all(isinstance(block.weights, float) and block.weights == first for block in blocks):
        return Block(users, sums, first)
    weights = [np.broadcast_to(block.weights, len(block)) for block in blocks]
    return Block(users, sums, np.concatenate(weights))


def _along(weights: float | Floats, values: Floats) -> float | Floats:
    """Return weights so that they multiply rows."""
    return weights if isinstance(weights, float) or values.ndim == 1 else weights[:, None]

"""Algorithms 4 (PIE-NI) and 5 (PIE-k): look again only at those who may still matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_geo.answers import Round
from opendp_optimal_geo.looks import look_ticks
from opendp_optimal_geo.prices import Ticks, Users

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with users x looks done and at most to do."""

BLOCK = 1 << 17
"""Numbers handled at a time."""

OPEN, OUTSIDE, INSIDE = 0, 1, 2


class Looker(Protocol):
    """What an elimination needs: charge users, get their noisy values, estimate, bound."""

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge a look before it is run; return who may be asked."""

    def look(self, users: Users, ticks: Ticks) -> FloatArray:
        """Return noisy values, one row each; NaN where there is no answer."""

    def weight(self, ticks: Ticks, look: int) -> FloatArray:
        """Return the weight of this look's values in the average."""

    def score(self, averages: FloatArray) -> FloatArray:
        """Return the estimated scores of averaged values."""

    def width(self, users: Users, weights: FloatArray, look: int, beta: float) -> FloatArray:
        """Return what the estimates may be off by, except with probability beta each."""

    @property
    def columns(self) -> int:
        """Numbers in a value; 0 for plain numbers."""


@dataclass
class Elimination:
    """What is left after the looks, and what was decided on the way.

    ``users`` are those never decided, with ``sums`` and ``weights`` of their values. ``status``
    and ``decided_at`` are for all users.
    """

    users: Users
    sums: FloatArray
    weights: FloatArray
    status: NDArray[np.uint8]
    decided_at: NDArray[np.uint16]
    used: Ticks
    looks: int = 0
    rounds: list[Round] = field(default_factory=list)

    def averages(self, which: slice | NDArray[np.bool_] = slice(None)) -> FloatArray:
        """Return the weighted averages of some of the users left."""
        weights = self.weights[which]
        sums = self.sums[which]
        result: FloatArray = sums / (weights if sums.ndim == 1 else weights[:, None])
        return result


def block_rows(columns: int) -> int:
    """Return how many users are handled at a time."""
    return max(256, BLOCK // max(1, columns))


def start(allotment: Ticks, columns: int) -> Elimination:
    """Return the state before the first look; users without an allotment are not asked."""
    users = np.flatnonzero(allotment > 0)
    shape = (len(users), columns) if columns else (len(users),)
    return Elimination(
        users=users,
        sums=np.zeros(shape),
        weights=np.zeros(len(users)),
        status=np.zeros(len(allotment), np.uint8),
        decided_at=np.zeros(len(allotment), np.uint16),
        used=np.zeros(len(allotment), np.int64),
    )


def take_look(
    state: Elimination,
    looker: Looker,
    allotment: Ticks,
    split: tuple[float, ...],
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Charge everybody for the next look, then run it; return how many were asked and refused."""
    look = state.looks
    ticks = look_ticks(allotment[state.users], split, look)
    charged = looker.charge(state.users, ticks)
    state.used[state.users[charged]] += ticks[charged]
    rows = block_rows(looker.columns)
    for begin in range(0, len(state.users), rows):
        block = slice(begin, begin + rows)
        asked = charged[block]
        everybody = bool(asked.all())
        users = state.users[block] if everybody else state.users[block][asked]
        price = ticks[block] if everybody else ticks[block][asked]
        if not len(users):
            continue
        values = looker.look(users, price)
        weights = looker.weight(price, look)
        answered = np.isfinite(values if values.ndim == 1 else values[:, 0])
        if not answered.all():
            values, weights = np.where(_like(answered, values), values, 0.0), weights * answered
        values *= _like(weights, values)
        if everybody:
            state.sums[block] += values
            state.weights[block] += weights
        else:
            state.sums[block][asked] += values
            state.weights[block][asked] += weights
        if progress is not None:
            progress(len(users), len(users) * (len(split) - look))
    state.looks += 1
    return int(charged.sum()), int(len(charged) - charged.sum())


def _like(column: NDArray[Any], values: FloatArray) -> NDArray[Any]:
    return column if values.ndim == 1 else column[:, None]


def _keep(state: Elimination, kept: NDArray[np.bool_]) -> None:
    if not kept.all():
        state.users, state.sums = state.users[kept], state.sums[kept]
        state.weights = state.weights[kept]


def eliminate(
    looker: Looker,
    allotment: Ticks,
    split: tuple[float, ...],
    *,
    beta: float,
    low: float,
    high: float,
    decide: bool = True,
    progress: Progress | None = None,
) -> Elimination:
    """Run PIE-NI (Algorithm 4).

    :param looker: charges and asks
    :param allotment: ticks each user may spend on this query
    :param split: share of each look
    :param beta: failure probability of all decisions together
    :param low: a score below means inside (S_1)
    :param high: a score above means outside (S_0)
    :param decide: False for a baseline, which asks everybody in every look
    :param progress: called after every block
    """
    state = start(allotment, looker.columns)
    while state.looks < len(split) and len(state.users):
        asked, refused = take_look(state, looker, allotment, split, progress)
        inside = outside = 0
        if decide:
            share = beta / (len(split) * len(state.users))
            kept = np.ones(len(state.users), np.bool_)
            rows = block_rows(looker.columns)
            for begin in range(0, len(state.users), rows):
                block = slice(begin, begin + rows)
                known = state.weights[block] > 0.0
                users = state.users[block]
                with np.errstate(invalid="ignore", divide="ignore"):
                    score = looker.score(state.averages(block))
                    width = looker.width(users, state.weights[block], state.looks - 1, share)
                is_in = known & (score < low - width)
                is_out = known & (score > high + width)
                state.status[users[is_in]] = INSIDE
                state.status[users[is_out]] = OUTSIDE
                done = is_in | is_out
                state.decided_at[users[done]] = state.looks
                kept[block] = ~done
                inside += int(is_in.sum())
                outside += int(is_out.sum())
            _keep(state, kept)
        state.rounds.append(
            Round(state.looks, split[state.looks - 1], asked, refused, inside, outside)
        )
    return state


def eliminate_to(
    looker: Looker,
    allotment: Ticks,
    split: tuple[float, ...],
    k: int,
    *,
    beta: float,
    decide: bool = True,
    progress: Progress | None = None,
) -> Elimination:
    """Run PIE-k (Algorithm 5): keep the k smallest right ends and what their intervals meet.

    :param looker: charges and asks
    :param allotment: ticks each user may spend on this query
    :param split: share of each look
    :param k: how many are wanted
    :param beta: failure probability of all decisions together
    :param decide: False for a baseline, which asks everybody in every look
    :param progress: called after every block
    """
    state = start(allotment, looker.columns)
    while state.looks < len(split) and len(state.users) > (k if decide else 0):
        share = beta / (len(split) * len(state.users))
        asked, refused = take_look(state, looker, allotment, split, progress)
        outside = 0
        _keep(state, state.weights > 0.0)  # users without any answer cannot be ranked
        if decide and len(state.users) > k:
            score, width = scores(state, looker, share)
            right = score + width
            limit = np.partition(right, k - 1)[k - 1]
            # Right ends of the others are no smaller, so intervals meet iff left ends do not pass.
            kept = score - width <= limit
            gone = state.users[~kept]
            state.status[gone] = OUTSIDE
            state.decided_at[gone] = state.looks
            outside = len(gone)
            _keep(state, kept)
        state.rounds.append(Round(state.looks, split[state.looks - 1], asked, refused, 0, outside))
    return state


def scores(state: Elimination, looker: Looker, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return estimates and widths for the users left, block by block."""
    score, width = np.empty(len(state.users)), np.empty(len(state.users))
    rows = block_rows(looker.columns)
    for begin in range(0, len(state.users), rows):
        block = slice(begin, begin + rows)
        score[block] = looker.score(state.averages(block))
        width[block] = looker.width(state.users[block], state.weights[block], state.looks - 1, beta)
    return score, width

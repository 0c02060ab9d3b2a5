"""Algorithms 4 (PIE-NI) and 5 (PIE-k): look again only at those who may still matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_geo.allowances import Ticks, Users
from opendp_optimal_geo.answer import Round
from opendp_optimal_geo.plan import Prices

FloatArray = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with users x looks done and at most to do."""

BLOCK = 1 << 16
"""Numbers handled at a time."""


class Looker(Protocol):
    """What an elimination needs: charge users, get their noisy values, estimate, bound."""

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge a look before it is run; return who may be asked."""

    def commit(self) -> None:
        """Make the charges of a look last, before it is run."""

    def look(self, users: Users, ticks: Ticks) -> FloatArray:
        """Return noisy values, one row each; NaN where there is no answer."""

    def weight(self, ticks: Ticks, look: int) -> FloatArray:
        """Return the weight of this look's values in the average."""

    def score(self, averages: FloatArray) -> FloatArray:
        """Return the estimated scores of averaged values."""

    def width(
        self, users: Users, weights: FloatArray, look: int, beta: float
    ) -> FloatArray | float:
        """Return what the estimates may be off by, except with probability beta each."""

    @property
    def columns(self) -> int:
        """Numbers in a value; 0 for plain numbers."""

    def paying(self, state: Elimination) -> AbstractContextManager[None]:
        """Charge solvent users for all looks at first, and give back what was not begun."""

    @property
    def solvent(self) -> bool:
        """Whether it is known that everybody can pay for all looks."""

    @property
    def reliable(self) -> bool:
        """Whether everybody who is asked answers."""


@dataclass
class Elimination:
    """What is left after the looks, and what was decided on the way.

    ``users`` are those never decided, with ``sums`` and ``weights`` of their values; one weight if
    it is the same for all. ``fate`` is for all users: 0, or twice the look at which the user was
    decided, plus 1 if inside.
    """

    users: Users
    sums: FloatArray
    weights: FloatArray
    fate: NDArray[np.uint16]
    looks: int = 0
    rounds: list[Round] = field(default_factory=list)

    @property
    def decided_at(self) -> NDArray[np.uint16]:
        """The look at which each user was decided, 0 if never."""
        return self.fate >> np.uint16(1)

    @property
    def inside(self) -> int:
        """How many users were found inside."""
        return int(np.count_nonzero(self.fate & np.uint16(1)))

    @property
    def outside(self) -> int:
        """How many users were eliminated."""
        return int(np.count_nonzero(self.fate)) - self.inside

    def weight_of(self, which: slice | NDArray[np.bool_]) -> FloatArray:
        """Return the weights of some of the users left, or the one they share."""
        return self.weights if len(self.weights) == 1 else self.weights[which]

    def averages(self, which: slice | NDArray[np.bool_] = slice(None)) -> FloatArray:
        """Return the weighted averages of some of the users left."""
        sums, weights = self.sums[which], self.weight_of(which)
        result: FloatArray = sums / _like(weights[0] if len(weights) == 1 else weights, sums)
        return result

    def spread_weights(self) -> None:
        """Give every user left a weight of their own."""
        if len(self.weights) == 1:
            self.weights = np.repeat(self.weights, len(self.users))

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Go on with some of the users only."""
        if not kept.all():
            if len(self.weights) == len(self.users):  # also the one weight of the one user left
                self.weights = self.weights[kept]
            self.users, self.sums = self.users[kept], self.sums[kept]

    def _move(self, block: slice, kept: Users | None, to: int) -> int:
        """Move those kept of a block to a place before it; return the place after them."""
        rows = int(block.stop - block.start if kept is None else len(kept))
        if kept is None and to == block.start:
            return to + rows
        for values in (self.users, self.sums, self.weights):
            if values is not self.weights or len(self.weights) > 1:
                part = values[block]
                values[to : to + rows] = part if kept is None else part.take(kept, axis=0)
        return to + rows

    def _cut(self, length: int) -> None:
        self.users, self.sums = self.users[:length], self.sums[:length]
        if len(self.weights) > 1:
            self.weights = self.weights[:length]


def block_rows(columns: int) -> int:
    """Return how many users are handled at a time."""
    return max(64, BLOCK // max(1, columns))


def start(allotment: Ticks, columns: int) -> Elimination:
    """Return the state before the first look; users without an allotment are not asked."""
    users = np.flatnonzero(allotment > 0)
    shape = (len(users), columns) if columns else (len(users),)
    return Elimination(
        users=users,
        sums=np.zeros(shape),
        weights=np.zeros(1),
        fate=np.zeros(len(allotment), np.uint16),
    )


def _blocks(state: Elimination, looker: Looker) -> Iterator[slice]:
    rows = block_rows(looker.columns)
    for begin in range(0, len(state.users), rows):
        yield slice(begin, min(begin + rows, len(state.users)))


def take_look(
    state: Elimination,
    looker: Looker,
    allotment: Ticks,
    split: tuple[float, ...],
    progress: Progress | None = None,
    after: Callable[[slice], None] | None = None,
) -> tuple[int, int]:
    """Charge users for the next look, then run it; return how many were asked and refused.

    Everybody is charged before the first noise is drawn; solvent users have been already.

    :param after: called with every block that was looked at
    """
    look, total = state.looks, len(state.users)
    price = Prices(allotment, split, look)
    charged = np.ones(0 if looker.solvent else total, np.bool_)
    if not looker.solvent:
        for block in _blocks(state, looker):
            users = state.users[block]
            charged[block] = looker.charge(users, price.of(users))
    looker.commit()
    state.looks += 1
    asked = total if looker.solvent else int(np.count_nonzero(charged))
    shared = asked == total and price.same and looker.reliable and len(state.weights) == 1
    if shared:
        state.weights = state.weights + looker.weight(price.of(state.users[:1]), look)
    else:
        state.spread_weights()
    for block in _blocks(state, looker):
        users = state.users[block]
        everybody = asked == total or bool(charged[block].all())
        if not everybody:
            users = users[charged[block]]
        if len(users):
            ticks = price.of(users)
            values = looker.look(users, ticks)
            weights = looker.weight(ticks[:1] if price.same else ticks, look)
            if not looker.reliable:
                answered = np.isfinite(values if values.ndim == 1 else values[:, 0])
                values = np.where(_like(answered, values), values, 0.0)
                weights = weights * answered
            values *= _like(weights[0] if len(weights) == 1 else weights, values)
            where: slice | Users = block
            if not everybody:
                where = np.flatnonzero(charged[block]) + block.start
            state.sums[where] += values
            if not shared:
                state.weights[where] += weights
        if after is not None:
            after(block)
        if progress is not None:
            progress(len(users), len(users) * (len(split) - look))
    return asked, total - asked


def _like(column: Any, values: FloatArray) -> Any:
    return column if values.ndim == 1 or np.ndim(column) == 0 else column[:, None]


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
    share = place = inside = outside = 0.0

    def decide_block(block: slice) -> None:
        """Decide about a block and move what is left of it to the front."""
        nonlocal place, inside, outside
        users, weights = state.users[block], state.weight_of(block)
        with np.errstate(invalid="ignore", divide="ignore"):
            score = looker.score(state.averages(block))
            width = looker.width(users, weights, state.looks - 1, share)
            is_in, is_out = score < low - width, score > high + width
        done = is_in | is_out
        if weights.min() <= 0.0:  # somebody has not answered at all
            done &= weights > 0.0
            is_in &= done
            is_out &= done
        kept = None
        if done.any():
            gone = np.flatnonzero(done)
            state.fate[users.take(gone)] = 2 * state.looks + is_in.take(gone)
            inside += int(np.count_nonzero(is_in))
            outside += int(np.count_nonzero(is_out))
            kept = np.flatnonzero(~done)
        place = state._move(block, kept, int(place))

    with looker.paying(state):
        while state.looks < len(split) and len(state.users):
            share, place, inside, outside = beta / (len(split) * len(state.users)), 0, 0, 0
            after = decide_block if decide else None
            asked, refused = take_look(state, looker, allotment, split, progress, after)
            if decide:
                state._cut(int(place))
            part = split[state.looks - 1]
            state.rounds.append(Round(state.looks, part, asked, refused, int(inside), int(outside)))
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
    with looker.paying(state):
        while state.looks < len(split) and len(state.users) > (k if decide else 0):
            share = beta / (len(split) * len(state.users))
            asked, refused = take_look(state, looker, allotment, split, progress)
            outside = 0
            if len(state.weights) > 1:  # users without any answer cannot be ranked
                state.keep(state.weights > 0.0)
            if decide and len(state.users) > k:
                score, width = scores(state, looker, share)
                right = score + width
                limit = np.partition(right, k - 1)[k - 1]
                # The others' right ends are no smaller: intervals meet iff left ends do not pass.
                kept = score - width <= limit
                gone = state.users[~kept]
                state.fate[gone] = 2 * state.looks
                outside = len(gone)
                state.keep(kept)
            state.rounds.append(
                Round(state.looks, split[state.looks - 1], asked, refused, 0, outside)
            )
    return state


def scores(state: Elimination, looker: Looker, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return estimates and widths for the users left, block by block."""
    score, width = np.empty(len(state.users)), np.empty(len(state.users))
    for block in _blocks(state, looker):
        score[block] = looker.score(state.averages(block))
        width[block] = looker.width(
            state.users[block], state.weight_of(block), state.looks - 1, beta
        )
    return score, width

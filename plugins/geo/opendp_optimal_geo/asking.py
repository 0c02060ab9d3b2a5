"""The looks of one query, one after the other: who is asked has paid, before any noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from opendp_optimal.extend import Floats
from opendp_optimal_geo.allowances import Mask, Payment
from opendp_optimal_geo.answer import Round
from opendp_optimal_geo.elimination import Part, Reading, Rule, State, start
from opendp_optimal_geo.look import People
from opendp_optimal_geo.plan import Look, Plan

Engine = Callable[..., Iterable[Floats]]
"""Maps a look over blocks of users, in order: ``map``, or that of an executor."""
Progress = Callable[[int, int], None]
"""Called with users x looks done and at most to do."""


class Looked(NamedTuple):
    """What the looks of a query left."""

    state: State
    rounds: tuple[Round, ...]
    saving: float


def take_looks(
    plan: Plan,
    rule: Rule,
    people: People,
    payment: Payment,
    *,
    engine: Engine,
    note: str = "",
    progress: Progress | None = None,
) -> Looked:
    """Look as often as the plan says, or until nobody is left to look at.

    :param plan: of the query
    :param rule: who is looked at again
    :param people: whom the looks are at
    :param payment: how they are paid for
    :param engine: maps a look over blocks of users
    :param note: what the looks are for
    :param progress: called with users x looks done and at most to do
    """
    state, rounds = start(plan), list[Round]()
    for look in plan.looks:
        if not rule.goes_on(state):
            break
        users = [block.users for block in state.blocks]
        told = f"look {look.number + 1} of {len(plan.split)}: {note}"
        asked = payment.charge(users, [look.price(some) for some in users], told)
        before, state = state, _take_look(look, rule, people, state, asked, engine, progress)
        rounds.append(_round(look, before, state, asked))
    return Looked(state, tuple(rounds), payment.saving)


def _take_look(
    look: Look,
    rule: Rule,
    people: People,
    state: State,
    asked: list[Mask | None],
    engine: Engine,
    progress: Progress | None,
) -> State:
    """Look at those who were charged."""
    users = [
        block.users if mask is None else block.users[mask]
        for block, mask in zip(state.blocks, asked, strict=True)
    ]
    parts: list[Part] = []
    values = iter(engine(partial(people.look, look), users))
    for block, mask, some in zip(state.blocks, asked, users, strict=True):
        parts.append(rule.step(state, block, Reading(look, next(values), mask)))
        if progress is not None:
            progress(len(some), len(some) * (len(look.plan.split) - look.number))
    return rule.merge(look.plan, state, parts)


def _round(look: Look, before: State, after: State, asked: list[Mask | None]) -> Round:
    """Return what a look was like."""
    refused = sum(len(mask) - int(mask.sum()) for mask in asked if mask is not None)
    inside, outside = after.found - before.found, after.eliminated - before.eliminated
    return Round(look.number + 1, look.share, before.open - refused, refused, inside, outside)

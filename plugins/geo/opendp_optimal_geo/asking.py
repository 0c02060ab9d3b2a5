"""The looks of one query, one after the other: who is asked has paid, before any noise is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from opendp_optimal.extend import Floats
from opendp_optimal_geo.allowances import Payment
from opendp_optimal_geo.answer import Round
from opendp_optimal_geo.elimination import Part, Rule, State, start
from opendp_optimal_geo.look import People
from opendp_optimal_geo.plan import Plan

Engine = Callable[..., Iterable[Floats]]
"""Maps a look over blocks of users, in order: ``map``, or that of an executor."""
Progress = Callable[[int, int], None]
"""Called with users x looks done and at most to do."""


Looked = tuple[State, tuple[Round, ...], float]
"""What the looks of a query left, what they were like, and the share that was not spent."""


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
        users = [
            some if mask is None else some[mask] for some, mask in zip(users, asked, strict=True)
        ]
        before, parts = state, list[Part]()
        values = iter(engine(partial(people.look, look), users))
        for block, mask, some in zip(state.blocks, asked, users, strict=True):
            parts.append(rule.step(look, state, block, next(values), mask))
            if progress is not None:
                progress(len(some), len(some) * (len(plan.split) - look.number))
        state, count = rule.merge(look, state, parts), sum(map(len, users))
        inside, outside = state.found - before.found, state.eliminated - before.eliminated
        refused = before.open - count
        rounds.append(Round(look.number + 1, look.share, count, refused, inside, outside))
    return state, tuple(rounds), payment.saving

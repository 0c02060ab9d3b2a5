"""How far a schedule has come, for each person: people may come into it at any of its queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from opendp_optimal.extend import Floats, Integers

Ticks = Integers
Rule = Callable[[int, int, Floats, Floats], Floats]
"""Called with (query from 1, m, what users have left, what they had at first); returns budgets."""


@dataclass(frozen=True, eq=False)
class Course:
    """A schedule under way.

    :param queries: how many there will be
    :param rule: what its rule is called
    :param done: how many there were
    :param start: what each person had when they came into it, in ticks
    :param first: the query before which they came into it, from 1
    """

    queries: int
    rule: str
    done: int = 0
    start: Ticks = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    first: Ticks = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    def entered(self, start: Ticks) -> Self:
        """Return it with newcomers.

        :param start: what each of them has
        """
        first = np.full(len(start), self.done + 1)
        return replace(
            self,
            start=np.concatenate([self.start, start]),
            first=np.concatenate([self.first, first]),
        )

    def stepped(self) -> Self:
        """Return it after one more query."""
        return replace(self, done=self.done + 1)


def wanted(rule: Rule, course: Course, first: Ticks, start: Floats, remaining: Floats) -> Floats:
    """Return what a rule gives each user for the next query; for each the course began with them.

    :param rule: of the schedule
    :param course: how far it has come
    :param first: the query before which each user came into it
    :param start: what each user had then
    :param remaining: what each user has left
    """
    result = np.zeros(len(remaining))
    for begun in np.unique(first).tolist():
        who = first == begun
        before = begun - 1
        budgets = np.asarray(
            rule(
                *(course.done + 1 - before, course.queries - before),
                *(remaining[who], start[who]),
            ),
            np.float64,
        )
        if budgets.shape != (np.count_nonzero(who),) or not np.isfinite(budgets).all():
            raise ValueError("rule must return a finite budget for each user")
        result[who] = budgets
    return result

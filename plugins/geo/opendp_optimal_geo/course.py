"""How far a schedule has come, for each person: people may come into it at any of its queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from opendp_optimal.extend import Floats, Integers

Ticks = Integers
Rule = Callable[[int, int, Floats, Floats], Floats]
"""Called with (query from 1, m, what users have left, what they had at first); returns budgets."""


class Course(NamedTuple):
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
    start: Ticks = np.zeros(0, np.int64)
    first: Ticks = np.zeros(0, np.int64)

    def entered(self, start: Ticks) -> Course:
        """Return it with newcomers.

        :param start: what each of them has
        """
        first = np.concatenate([self.first, np.full(len(start), self.done + 1)])
        return self._replace(start=np.concatenate([self.start, start]), first=first)

    def stepped(self) -> Course:
        """Return it after one more query."""
        return self._replace(done=self.done + 1)


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
        query, queries = course.done + 2 - begun, course.queries + 1 - begun
        budgets = np.asarray(rule(query, queries, remaining[who], start[who]), np.float64)
        if budgets.shape != (np.count_nonzero(who),) or not np.isfinite(budgets).all():
            raise ValueError("rule must return a finite budget for each user")
        result[who] = budgets
    return result

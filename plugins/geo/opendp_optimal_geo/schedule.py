"""Algorithm 3: how a budget is spread over m queries, with what earlier ones saved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from opendp_optimal.extend import Floats, float_down, whole
from opendp_optimal_geo.accounts import Accounts
from opendp_optimal_geo.allowances import WHOLE
from opendp_optimal_geo.answer import Answer
from opendp_optimal_geo.course import Course, Rule, wanted
from opendp_optimal_geo.population import Population
from opendp_optimal_geo.query import KernelDensity, Nearest, Query, RangeCount

QUERIES: dict[str, Callable[..., Query]] = {
    "range_count": RangeCount,
    "kde": KernelDensity,
    "nearest": Nearest,
}


def saving_rule(
    query: int, queries: int, remaining: Floats, budget: Any, start: float = 0.75
) -> Floats:
    """Return ``gamma (B_i - (m - l + 1)/m B) + B/m``, gamma rising from 3/4 to 1 (Algorithm 3).

    :param query: number of the query, from 1
    :param queries: how many there are
    :param remaining: what each user has left
    :param budget: what each user had at first
    :param start: gamma for the first query

    >>> saving_rule(2, 2, np.array([0.75]), 1.0).tolist()
    [0.75]
    """
    gamma = 1.0 if queries == 1 else start + (1.0 - start) * (query - 1) / (queries - 1)
    part = (queries - query + 1) / queries
    result: Floats = gamma * (remaining - part * budget) + budget / queries
    return result


def spread_rule(query: int, queries: int, remaining: Floats, budget: Any) -> Floats:
    """Return ``B_i / (m - l + 1)``: savings spread evenly over the queries to come.

    :param query: number of the query, from 1
    :param queries: how many there are
    :param remaining: what each user has left
    :param budget: what each user had at first
    """
    return remaining / (queries - query + 1)


def even_rule(query: int, queries: int, remaining: Floats, budget: Any) -> Floats:
    """Return ``B / m`` whatever was saved: no adaptive budgeting.

    :param query: number of the query, from 1
    :param queries: how many there are
    :param remaining: what each user has left
    :param budget: what each user had at first
    """
    return np.full(len(remaining), budget / queries)


class _TakenError(Exception):
    """Somebody else has taken the query."""


@dataclass
class Schedule:
    """Budgets for m queries to one population, one after the other.

    Budgets count from what each user has when they come into the schedule: those who join the
    population later have as many queries as are left then. With a ledger a schedule goes on where
    it was left.

    :param population: whom the queries are for
    :param queries: m, how many there will be
    :param rule: how budgets are worked out; Algorithm 3 by default
    :param name: what the schedule is called in the ledger of the population, if it has one

    >>> people = Population(np.zeros((3, 2)), budget=1.0)
    >>> schedule = Schedule(people, 4)
    >>> schedule.next_budget().round(9).tolist()
    [0.25, 0.25, 0.25]
    """

    population: Population
    queries: int
    rule: Rule = saving_rule
    name: str = "schedule"

    def __post_init__(self) -> None:
        """Check, and note what there is to spread."""
        if not isinstance(self.population, Population):
            raise ValueError(f"population ({self.population!r}) must be a Population")
        self.queries = whole("queries", self.queries)
        if not callable(self.rule):
            raise ValueError(f"rule ({self.rule!r}) must be callable")
        if not isinstance(self.name, str) or not 0 < len(self.name) <= 100:
            raise ValueError(f"name ({self.name!r}) must be a text of 1 to 100 letters")
        self._called = getattr(self.rule, "__name__", type(self.rule).__name__)
        left = WHOLE - self.population.allowances.paid
        self._own = Course(self.queries, self._called).entered(left)
        self._course()

    @property
    def done(self) -> int:
        """How many queries there were."""
        return self._course().done

    def _course(self) -> Course:
        """Return how far it has come."""
        kept = self.population.allowances
        if isinstance(kept, Accounts):
            return kept.course(self.name, self.queries, self._called)
        return self._own

    def next_budget(self) -> Floats:
        """Return what each user may spend on the next query, never more than is left."""
        return self._budget(self._course())

    def _budget(self, course: Course) -> Floats:
        kept = self.population.allowances
        if course.done >= self.queries:
            raise ValueError(f"queries ({self.queries}) must be more: all of them are done")
        remaining, first = kept.remaining(), kept.rows(course.first)
        start = kept.rows(course.start) * float_down(kept.tick)
        budgets = np.clip(wanted(self.rule, course, first, start, remaining), 0.0, remaining)
        # Less than a millionth of a fair part is not worth a look.
        budgets[kept.halted | (budgets < 1e-6 * start / self.queries)] = 0.0
        return budgets

    def ask(self, query: str | Query, *args: Any, **options: Any) -> Answer:
        """Ask the next query with its budget.

        It is taken once everything is checked and before anybody pays: of two who ask at once one
        gets it, and the other the one after it.

        :param query: a query, or "range_count", "kde" or "nearest" with its arguments
        :param args: as for the query of that name
        :param options: as for :meth:`Population.ask`, without ``budget``
        """
        if isinstance(query, str):
            if query not in QUERIES:
                raise ValueError(f"query ({query!r}) must be 'range_count', 'kde' or 'nearest'")
            query = QUERIES[query](*args)
        while True:
            course = self._course()
            take = partial(self._take, course.done)
            try:
                return self.population.ask(
                    query, budget=self._budget(course), before=take, **options
                )
            except _TakenError:
                continue

    def _take(self, done: int) -> None:
        """Take the next query, unless somebody else has."""
        kept = self.population.allowances
        if isinstance(kept, Accounts):
            if not kept.step(self.name, done):
                raise _TakenError
            return
        with kept._reading():
            if self._own.done != done:
                raise _TakenError
            self._own = self._own.stepped()

    def run(self, queries: Sequence[tuple[Any, ...]], **options: Any) -> list[Answer]:
        """Ask several queries, each given as (name, argument, ...).

        :param queries: at most as many as are left
        :param options: the same for all
        """
        left = self.queries - self.done
        if len(queries) > left:
            raise ValueError(f"queries ({len(queries)}) must be at most the {left} that are left")
        return [self.ask(*query, **options) for query in queries]

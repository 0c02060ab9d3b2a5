"""A look at a block of people: their noisy points or noisy scores. Nothing here knows budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opendp_optimal.extend import (
    Floats,
    Integers,
    float_down,
    gaussian_integers,
    laplace_integers,
    laplace_vectors,
)
from opendp_optimal_geo.allowances import Users, pick, run
from opendp_optimal_geo.grid import Grid
from opendp_optimal_geo.plan import SAFE, Look, Plan
from opendp_optimal_geo.region import LARGEST
from opendp_optimal_geo.score import Score

gaussian_noise, laplace_noise = gaussian_integers, laplace_integers
planar_laplace_noise = laplace_vectors


@dataclass(frozen=True)
class Request:
    """What clients of their own are sent in a look.

    :param users: who is asked
    :param prices: what each is charged: at most this may be spent on the answer
    :param score: what to send a noisy value of; None for the point itself
    :param component: which data is meant
    """

    users: Users
    prices: Floats
    score: Score | None
    component: str


Clients = Callable[[Request], Floats]
"""Returns noisy scores, or noisy points as rows; NaN for no answer, and so is beyond 2^100."""


class People:
    """Those whom the looks of one query are at: points on the grid, or clients of their own.

    True scores are worked out when they are first needed, and remembered.

    :param data: points in grid steps, or clients
    :param plan: of the query
    """

    def __init__(self, data: Grid | Clients, plan: Plan) -> None:
        """Keep the data; nobody is looked at yet."""
        self._data, self._plan = data, plan
        self._scores = np.zeros(0)
        if isinstance(data, np.ndarray) and not plan.columns:
            self._scores = np.full(len(data), np.nan)

    def look(self, look: Look, users: Users) -> Floats:
        """Return noisy values, one (or one row) each; NaN where there is no answer.

        :param look: which look
        :param users: indices in rising order, each at most once
        """
        plan = self._plan
        if not len(users):
            return np.zeros((0, plan.columns) if plan.columns else 0)
        if not isinstance(self._data, np.ndarray):
            return self._ask(self._data, look, users)
        values = self._points(self._data, users) if plan.columns else self._true(self._data, users)
        values += _noise(look, users).reshape(values.shape)
        values *= plan.step
        return values

    def _ask(self, clients: Clients, look: Look, users: Users) -> Floats:
        plan = self._plan
        prices = np.broadcast_to(np.asarray(look.price(users), np.float64), len(users))
        prices = prices * float_down(plan.tick) * SAFE
        score = None if plan.columns else plan.score
        values = np.array(clients(Request(users, prices, score, plan.component)), np.float64)
        shape = (len(users), plan.columns) if plan.columns else (len(users),)
        if values.shape != shape:
            raise ValueError(f"clients returned shape {values.shape}, {shape} was wanted")
        within = np.abs(values) <= LARGEST  # False for NaN
        values[~(within.all(axis=1) if plan.columns else within)] = np.nan
        return values

    def _points(self, data: Grid, users: Users) -> Floats:
        """Return points in grid steps."""
        return pick(data, users).astype(np.float64)

    def _true(self, data: Grid, users: Users) -> Floats:
        """Return true scores in steps, rounded."""
        known = pick(self._scores, users)
        if not np.isnan(known[0]) and not np.isnan(known.sum()):
            return known.copy() if known.base is not None else known
        exact = self._plan.score(self._points(data, users) * self._plan.grid)
        exact /= self._plan.step
        self._scores[run(users)] = np.rint(exact, out=exact)
        return exact


def _noise(look: Look, users: Users) -> Integers:
    """Draw noise of a look's prices, in steps."""
    plan, rates = look.plan, look.rates(look.price(users))
    if plan.pure and plan.columns:
        return planar_laplace_noise(rates, len(users), plan.columns)
    draw = laplace_noise if plan.pure else gaussian_noise
    columns = plan.columns or 1
    many = np.repeat(rates, columns) if isinstance(rates, np.ndarray) else rates
    return draw(many, len(users) * columns)

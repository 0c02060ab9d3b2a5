"""What a query returns: estimates and error bounds from what the looks left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import Floats
from opendp_optimal_geo.allowances import Users
from opendp_optimal_geo.elimination import State
from opendp_optimal_geo.plan import Plan
from opendp_optimal_geo.radius import deviation
from opendp_optimal_geo.score import SignedDistance

FAR = 6.0
"""Bandwidths beyond which a point counts as far from a kernel's centre."""


@dataclass(frozen=True)
class Round:
    """One look: its share of the price, who was asked, who was decided.

    :param look: number of the look, from 1
    :param share: share of the query's budget that the look costs
    :param asked: users who were charged
    :param refused: users who halted instead
    :param inside: users found useful for certain (S_1)
    :param outside: users eliminated (S_0)
    """

    look: int
    share: float
    asked: int
    refused: int
    inside: int
    outside: int


@dataclass(frozen=True)
class Answer:
    """The answer to one query, with what is known about its error and its price.

    :param value: the estimate
    :param error_bound: the error is at most this, except with probability ``beta``
    :param beta: failure probability
    :param saving: mean share of the query's budget that users kept
    :param rounds: what happened in each look
    :param missing: users who gave no answer at all (halted, or nothing left)
    :param decided_at: for each user the look at which it was decided, 0 if never
    :param generation: of the ledger after the last look; None without one
    """

    value: Any
    error_bound: float
    beta: float
    saving: float
    rounds: tuple[Round, ...]
    missing: int = 0
    decided_at: NDArray[np.uint16] | None = field(default=None, repr=False, compare=False)
    generation: int | None = field(default=None, compare=False)


class Estimate(NamedTuple):
    """The value of an answer, its error bound, and how many gave no answer at all."""

    value: Any
    error_bound: float
    missing: int


@dataclass(frozen=True, eq=False)
class Rest:
    """Users who were never decided but have answered.

    :param users: indices
    :param score: estimates
    :param width: what these may be off by
    :param weights: of the averages
    :param missing: users who gave no answer at all
    """

    users: Users
    score: Floats
    width: Floats
    weights: Floats
    missing: int


def rest(plan: Plan, state: State, beta: float) -> Rest:
    """Return the final estimates.

    :param plan: of the query
    :param state: after the last look
    :param beta: failure probability of all of them together
    """
    blocks = [block.answered() for block in state.blocks]
    left = sum(map(len, blocks))
    score, width, weights = np.empty(left), np.empty(left), np.empty(left)
    users, end = np.empty(left, np.intp), 0
    for block in blocks:
        here = slice(end, end := end + len(block))
        score[here], width[here] = block.estimate(plan, state.looks - 1, beta / max(1, left))
        users[here], weights[here] = block.users, block.weights
    missing = plan.size - state.found - state.eliminated - left
    return Rest(users, score, width, weights, missing)


def count(plan: Plan, state: State, beta: float, *, shift: bool) -> Estimate:
    """Count users inside (Algorithm 6; PM_0 and PM_1 count estimates below the threshold)."""
    left = rest(plan, state, beta)
    cut = np.zeros(len(left.users))
    if shift and not plan.columns:
        from opendp_optimal_geo.region import threshold_shifts

        assert isinstance(plan.score, SignedDistance)
        scales = np.broadcast_to(deviation(plan, left.users, left.weights), cut.shape)
        cut = threshold_shifts(plan.score.region, scales)
    inside = left.score < cut
    # Whoever the interval does not settle may have been counted wrongly.
    doubtful = np.where(inside, left.score + left.width >= 0.0, left.score - left.width < 0.0)
    value = state.found + int(inside.sum())
    return Estimate(value, int(doubtful.sum()) + left.missing, left.missing)


def kernel_density(plan: Plan, state: State, beta: float, bandwidth: float) -> Estimate:
    """Estimate a kernel density (Algorithm 7, eliminating on the distance to the point)."""
    left = rest(plan, state, beta)
    kernel = _kernel(left.score, bandwidth)
    far = state.eliminated * math.exp(-(FAR**2) / 2.0)
    near = float(kernel.sum())
    value = (near + (far if far <= near else 0.0)) / plan.size
    highest = _kernel(np.maximum(0.0, left.score - left.width), bandwidth)
    lowest = _kernel(left.score + left.width, bandwidth)
    error = float(np.maximum(highest - kernel, kernel - lowest).sum()) + far + left.missing
    return Estimate(value, error / plan.size, left.missing)


def _kernel(distance: Floats, bandwidth: float) -> Floats:
    with np.errstate(over="ignore"):  # far beyond the kernel it is 0
        return np.exp(-0.5 * (distance / bandwidth) ** 2)


def nearest(plan: Plan, state: State, beta: float, k: int, *, eliminated: bool) -> Estimate:
    """Find the k nearest users (Algorithm 8), in the order of their estimates."""
    left = rest(plan, state, beta)
    order = np.argsort(left.score, kind="stable")[:k]
    # Lemmas 6.4 to 6.7: twice the largest width. When only k are left they are the nearest.
    alone = eliminated and len(left.users) <= k
    bound = 0.0 if alone else 2.0 * float(left.width.max(initial=0.0))
    value = tuple(left.users[order].tolist())
    return Estimate(value, math.inf if left.missing else bound, left.missing)


def points(plan: Plan, state: State, beta: float) -> Estimate:
    """Return one noisy point per user; rows of NaN for those who did not answer."""
    value = np.full((plan.size, plan.columns), np.nan)
    widest, left = 0.0, state.open
    for block in state.blocks:
        known = block.answered()
        value[known.users] = known.averages()
        _, width = known.estimate(plan, state.looks - 1, beta / max(1, left))
        widest = max(widest, float(width.max(initial=0.0)))
    return Estimate(value, widest, int(np.isnan(value[:, 0]).sum()))

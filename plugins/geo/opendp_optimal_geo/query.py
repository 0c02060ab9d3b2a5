"""What can be asked of a population: values that say what is estimated, who is eliminated, how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from opendp_optimal.extend import Floats, point, positive, whole
from opendp_optimal_geo.allowances import Users
from opendp_optimal_geo.elimination import KeepAll, Rule, Smallest, State, Threshold
from opendp_optimal_geo.plan import Plan
from opendp_optimal_geo.radius import deviation
from opendp_optimal_geo.region import check_region, threshold_shifts
from opendp_optimal_geo.score import DistanceTo, Score, SignedDistance

FAR = 6.0
"""Bandwidths beyond which a point counts as far from a kernel's centre."""
Estimate = tuple[Any, float, int]
"""The value of an answer, its error bound, and how many gave no answer at all."""


class Query(Protocol):
    """What a population needs to know of a question."""

    def score(self, size: int, dimension: int) -> Score:
        """Return what is estimated, or raise for people whom the question does not fit."""

    def rule(self, beta: float) -> Rule:
        """Return how users are eliminated, at a failure probability."""

    def estimate(self, plan: Plan, state: State, beta: float, baseline: bool) -> Estimate:
        """Return the value, its error bound, and how many gave no answer."""


@dataclass(frozen=True)
class RangeCount:
    """How many users are inside a region (Algorithm 6, or BM_0 and BM_1).

    :param region: a shapely Polygon or MultiPolygon; see :func:`~opendp_optimal_geo.rectangle`
    :param shift: for "distance": move the threshold as in appendix B
    """

    region: Any
    shift: bool = True

    def __post_init__(self) -> None:
        """Check the region."""
        check_region(self.region)

    def score(self, size: int, dimension: int) -> Score:
        """Return the signed distance to the border."""
        return SignedDistance(self.region)

    def rule(self, beta: float) -> Rule:
        """Decide whoever is on one side of the border."""
        return Threshold(0.0, 0.0, beta)

    def estimate(self, plan: Plan, state: State, beta: float, baseline: bool) -> Estimate:
        """Count (PM_0 and PM_1 count estimates below the threshold)."""
        left = _rest(plan, state, beta)
        cut = np.zeros(len(left.users))
        if self.shift and not plan.columns:
            scales = np.broadcast_to(deviation(plan, left.users, left.weights), cut.shape)
            cut = threshold_shifts(self.region, scales)
        inside = left.score < cut
        # Whoever the interval does not settle may have been counted wrongly.
        doubtful = np.where(inside, left.score + left.width >= 0.0, left.score - left.width < 0.0)
        value = state.found + int(inside.sum())
        return value, int(doubtful.sum()) + left.missing, left.missing


@dataclass(frozen=True)
class KernelDensity:
    """The Gaussian kernel density at a point (Algorithm 7, or BM_0 and BM_1).

    :param point: where
    :param bandwidth: of the kernel, in the units of the points
    """

    point: Any
    bandwidth: float

    def __post_init__(self) -> None:
        """Check the point and the bandwidth."""
        object.__setattr__(self, "point", tuple(point("point", self.point).tolist()))
        object.__setattr__(self, "bandwidth", positive("bandwidth", self.bandwidth))

    def score(self, size: int, dimension: int) -> Score:
        """Return the distance to the point."""
        return DistanceTo(point("point", self.point, dimension))

    def rule(self, beta: float) -> Rule:
        """Decide whoever is too far away to matter."""
        return Threshold(-math.inf, FAR * self.bandwidth, beta)

    def estimate(self, plan: Plan, state: State, beta: float, baseline: bool) -> Estimate:
        """Add up the kernels; users were eliminated on their distance to the point."""
        left = _rest(plan, state, beta)
        kernel = self._kernel(left.score)
        far = state.eliminated * math.exp(-(FAR**2) / 2.0)
        near = float(kernel.sum())
        value = (near + (far if far <= near else 0.0)) / plan.size
        highest = self._kernel(np.maximum(0.0, left.score - left.width))
        lowest = self._kernel(left.score + left.width)
        error = float(np.maximum(highest - kernel, kernel - lowest).sum()) + far + left.missing
        return value, error / plan.size, left.missing

    def _kernel(self, distance: Floats) -> Floats:
        with np.errstate(over="ignore"):  # far beyond the kernel it is 0
            return np.exp(-0.5 * (distance / self.bandwidth) ** 2)


@dataclass(frozen=True)
class Nearest:
    """The k users nearest to a point (Algorithm 8, or BM_0 and BM_1).

    :param point: where
    :param k: how many, at most as many as there are users
    """

    point: Any
    k: int

    def __post_init__(self) -> None:
        """Check the point and the number."""
        object.__setattr__(self, "k", whole("k", self.k))
        object.__setattr__(self, "point", tuple(point("point", self.point).tolist()))

    def score(self, size: int, dimension: int) -> Score:
        """Return the distance to the point."""
        if self.k > size:
            raise ValueError(f"k ({self.k}) must be at most the number of users, {size}")
        return DistanceTo(point("point", self.point, dimension))

    def rule(self, beta: float) -> Rule:
        """Keep whoever may be among the k nearest."""
        return Smallest(self.k, beta)

    def estimate(self, plan: Plan, state: State, beta: float, baseline: bool) -> Estimate:
        """Rank: the value is in the order of the estimates."""
        left = _rest(plan, state, beta)
        order = np.argsort(left.score, kind="stable")[: self.k]
        # Lemmas 6.4 to 6.7: twice the largest width. When only k are left they are the nearest.
        alone = not baseline and len(left.users) <= self.k
        bound = 0.0 if alone else 2.0 * float(left.width.max(initial=0.0))
        value = tuple(left.users[order].tolist())
        return value, math.inf if left.missing else bound, left.missing


@dataclass(frozen=True)
class Points:
    """One noisy point from every user; rows of NaN for those who do not answer.

    The error bound is for all points at once. The method is "point", and there is one look.
    """

    def score(self, size: int, dimension: int) -> Score:
        """Return the distance to the origin, which is not looked at."""
        return DistanceTo(np.zeros(dimension))

    def rule(self, beta: float) -> Rule:
        """Keep everybody."""
        return KeepAll()

    def estimate(self, plan: Plan, state: State, beta: float, baseline: bool) -> Estimate:
        """Return the points."""
        value = np.full((plan.size, plan.columns), np.nan)
        widest, left = 0.0, state.open
        for block in state.blocks:
            known = block.answered()
            value[known.users] = known.averages()
            _, width = known.estimate(plan, state.looks - 1, beta / max(1, left))
            widest = max(widest, float(width.max(initial=0.0)))
        return value, widest, int(np.isnan(value[:, 0]).sum())


class _Rest(NamedTuple):
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


def _rest(plan: Plan, state: State, beta: float) -> _Rest:
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
    return _Rest(users, score, width, weights, missing)

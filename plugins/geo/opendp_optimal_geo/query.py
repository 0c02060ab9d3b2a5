"""What can be asked of a population: values that say what is estimated, who is eliminated, how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from opendp_optimal.extend import Floats, point, positive, whole
from opendp_optimal_geo import answer
from opendp_optimal_geo.answer import Estimate
from opendp_optimal_geo.elimination import KeepAll, Rule, Smallest, State, Threshold
from opendp_optimal_geo.plan import Plan
from opendp_optimal_geo.region import LARGEST, check_region
from opendp_optimal_geo.score import DistanceTo, Score, SignedDistance

__all__ = ["KernelDensity", "Nearest", "Points", "Query", "RangeCount"]


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
        """Count."""
        return answer.count(plan, state, beta, shift=self.shift)


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
        return Threshold(-math.inf, answer.FAR * self.bandwidth, beta)

    def estimate(self, plan: Plan, state: State, beta: float, baseline: bool) -> Estimate:
        """Add up the kernels."""
        return answer.kernel_density(plan, state, beta, self.bandwidth)


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
        """Rank."""
        return answer.nearest(plan, state, beta, self.k, eliminated=not baseline)


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
        return answer.points(plan, state, beta)


def check_corners(bounds: Any) -> Floats:
    """Return the corners of a map: west, south, east, north."""
    corners = point("bounds", bounds, 4)
    if corners[0] >= corners[2] or corners[1] >= corners[3]:
        raise ValueError(f"bounds ({bounds!r}) must be (west, south, east, north)")
    sides = corners[2:] / 2.0 - corners[:2] / 2.0
    if np.abs(corners).max() > LARGEST or sides.min() < 2.0**-100:
        raise ValueError(f"bounds ({bounds!r}) must be within 2^100, and 2^-99 apart")
    return corners


def check_map(bounds: Any, cells: Any, bandwidth: Any) -> tuple[Floats, int, float]:
    """Return what a map of densities is drawn on: its corners, cells along a side, bandwidth."""
    corners = check_corners(bounds)
    width = positive("bandwidth", bandwidth)
    if width > (widest := float((corners[2:] - corners[:2]).max())):
        raise ValueError(f"bandwidth ({bandwidth!r}) must be at most the map, {widest:g}")
    return corners, whole("cells", cells, most=4096), width

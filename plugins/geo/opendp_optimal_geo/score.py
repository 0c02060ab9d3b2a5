"""1-Lipschitz scores of points: signed distance to a region, distance to a point.

What floats make of a score differs from a function that is exactly 1-Lipschitz by at most
:func:`score_error` of the largest coordinate, whatever the region and wherever the point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from opendp_optimal.extend import Floats
from opendp_optimal.extend import point as location
from opendp_optimal_geo.region import LARGEST, check_region, rectangle_frame, settle

FEW_EDGES = 24
"""Up to so many edges are measured one by one; more go through an index."""

SCORE_ERROR = 2.0**-44
"""Rounding errors of a score, at most, as a share of the largest coordinate, per sqrt(length)."""


def score_error(dimension: int) -> float:
    """Return the rounding errors of a score, at most, as a share of the largest coordinate.

    Every operation errs by at most 2^-53 of its result. A distance to edges on their lattice, or to
    a box, adds up to fewer than 64 such errors of the largest coordinate, of the 512 allowed. The
    distance to a point of ``d`` coordinates sums ``d`` squares: ``(d + 4) sqrt(d)`` errors.

    :param dimension: length of the points

    >>> score_error(1) == 2.0**-44
    True
    """
    return SCORE_ERROR * math.sqrt(dimension) * max(1.0, (dimension + 8) / 512.0)


def _within(points: Any) -> Floats:
    """Return points as floats whose squares are finite; NaN stays what it is."""
    return np.clip(np.asarray(points, np.float64), -LARGEST, LARGEST)


@dataclass(frozen=True)
class SignedDistance:
    """Distance to the boundary of a region, negative inside (equation 11).

    :param region: a shapely Polygon or MultiPolygon, in the units of the points

    >>> from opendp_optimal_geo import rectangle
    >>> score = SignedDistance(rectangle((0, 0), 4, 2))
    >>> score(np.array([[0.0, 0.0], [5.0, 5.0]])).tolist()
    [-1.0, 5.0]
    """

    region: BaseGeometry

    dimension = 2
    """Length of the points."""

    def __post_init__(self) -> None:
        """Check the region, also as it is once its corners are on their lattice."""
        check_region(self.region)
        self._shape  # noqa: B018 (raises for a region that vanishes)

    @property
    def extent(self) -> float:
        """The largest coordinate of the region, in size."""
        return float(np.abs(self.region.bounds).max())

    def __call__(self, points: Floats) -> Floats:
        """Return the score of every row."""
        points = _within(points)
        if self._frame is not None:
            return _box_distance(points, *self._frame)
        x, y = points[:, 0], points[:, 1]
        inside = shapely.contains_xy(self._shape, x, y)
        if self._edges is not None:
            distance = _edge_distance(self._edges, x, y)
        else:
            distance = shapely.distance(self._boundary, shapely.points(x, y))
        return np.where(inside, -distance, distance)

    @cached_property
    def _frame(self) -> tuple[Floats, Floats, Floats] | None:
        return rectangle_frame(self.region)

    @cached_property
    def _shape(self) -> BaseGeometry:
        shape = settle(self.region)
        shapely.prepare(shape)
        return shape

    @cached_property
    def _boundary(self) -> BaseGeometry:
        boundary = self._shape.boundary
        shapely.prepare(boundary)
        return boundary

    @cached_property
    def _edges(self) -> Floats | None:
        rings = shapely.get_rings(shapely.get_parts(self._shape))
        corners = map(shapely.get_coordinates, rings)
        edges = np.vstack([np.hstack([ring[:-1], ring[1:]]) for ring in corners])
        return edges if len(edges) <= FEW_EDGES else None


def _edge_distance(edges: Floats, x: Floats, y: Floats) -> Floats:
    nearest = np.full(len(x), np.inf)
    for ax, ay, bx, by in edges.tolist():
        dx, dy = bx - ax, by - ay
        px, py = x - ax, y - ay
        along = np.clip((px * dx + py * dy) / (dx * dx + dy * dy), 0.0, 1.0)
        px -= along * dx
        py -= along * dy
        np.minimum(nearest, px * px + py * py, out=nearest)
    return np.asarray(np.sqrt(nearest))


def _box_distance(points: Floats, centre: Floats, half: Floats, axes: Floats) -> Floats:
    x, y = points[:, 0] - centre[0], points[:, 1] - centre[1]
    across = np.abs(x * axes[0, 0] + y * axes[0, 1]) - half[0]
    up = np.abs(x * axes[1, 0] + y * axes[1, 1]) - half[1]
    inside = np.minimum(np.maximum(across, up), 0.0)
    np.maximum(across, 0.0, out=across)
    np.maximum(up, 0.0, out=up)
    return np.asarray(np.sqrt(across * across + up * up) + inside)


@dataclass(frozen=True)
class DistanceTo:
    """Euclidean distance to a point.

    :param point: its coordinates

    >>> DistanceTo((0.0, 0.0))(np.array([[3.0, 4.0]])).tolist()
    [5.0]
    """

    point: Any

    def __post_init__(self) -> None:
        """Check the point."""
        object.__setattr__(self, "point", tuple(location("point", self.point).tolist()))
        if self.extent > LARGEST:
            raise ValueError(f"point ({self.extent:g} at most) must be within {LARGEST:g}")

    @property
    def dimension(self) -> int:
        """Length of the points."""
        return len(self.point)

    @property
    def extent(self) -> float:
        """The largest coordinate of the point, in size."""
        return float(np.abs(self.point).max())

    def __call__(self, points: Floats) -> Floats:
        """Return the score of every row."""
        points, centre = _within(points), np.array(self.point)
        total: Floats
        if len(centre) <= 3:
            total = (points[:, 0] - centre[0]) ** 2
            for k in range(1, len(centre)):
                total += (points[:, k] - centre[k]) ** 2
        else:
            difference = points - centre
            total = np.einsum("ij,ij->i", difference, difference)
        return np.sqrt(total, out=total)


Score = SignedDistance | DistanceTo

"""Regions of the plane: checked polygons, rectangles at any angle, the shift of appendix B."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely
from shapely.geometry import MultiPolygon, Polygon
from shapely.geometry.base import BaseGeometry

from opendp_optimal.extend import Floats, finite, moderate, point, positive

LARGEST = 2.0**100
"""Coordinates are at most this: their squares, and sums of many squares, are finite floats."""
LATTICE_BITS = 40
"""Corners are rounded to this many binary digits of the largest coordinate."""
SMALLEST_STEP = -60
"""Corners are rounded to at least this power of two: products of lengths do not underflow."""


def rectangle(centre: Any, width: float, height: float, *, angle: float = 0.0) -> Polygon:
    """Return a rectangle.

    :param centre: its middle, (x, y)
    :param width: length of the first side
    :param height: length of the other side
    :param angle: in degrees, counterclockwise

    >>> rectangle((0, 0), 4, 2, angle=90).bounds
    (-1.0, -2.0, 1.0, 2.0)
    """
    middle = point("centre", centre, 2)
    width, height = positive("width", width), positive("height", height)
    degrees = finite("angle", angle) % 360.0
    quarter = {0.0: (1.0, 0.0), 90.0: (0.0, 1.0), 180.0: (-1.0, 0.0), 270.0: (0.0, -1.0)}
    turn = math.radians(degrees)
    cos, sin = quarter.get(degrees, (math.cos(turn), math.sin(turn)))
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (width / 2.0, height / 2.0)
    return Polygon(corners @ np.array([(cos, sin), (-sin, cos)]) + middle)


def check_region(region: Any) -> BaseGeometry:
    """Return a region that can be queried: a valid, bounded, not empty polygon or several.

    :param region: a shapely Polygon or MultiPolygon, holes allowed
    """
    if not isinstance(region, (Polygon, MultiPolygon)):
        raise ValueError(f"region ({region!r}) must be a shapely Polygon or MultiPolygon")
    if region.is_empty:
        raise ValueError(f"region ({region.wkt}) must not be empty")
    if not np.isfinite(shapely.get_coordinates(region)).all():
        raise ValueError("region must have finite coordinates")
    if (extent := float(np.abs(region.bounds).max())) > LARGEST:
        raise ValueError(f"region (coordinates up to {extent:g}) must be within {LARGEST:g}")
    with np.errstate(all="ignore"):
        if not region.is_valid:
            raise ValueError(f"region must be valid: {shapely.is_valid_reason(region)}")
        area = region.area
    if not 0.0 < area < math.inf:
        raise ValueError(f"region (area {area}) must have a positive, finite area")
    return region


def settle(region: BaseGeometry) -> BaseGeometry:
    """Return a region with its corners on a lattice; repeated corners are left out.

    The lattice has 2^-40 of the largest coordinate, and 2^-60 at least. On it the length of an edge
    is exact, no product of lengths underflows, and GEOS decides sides without error: what is
    computed about any point is as exact as floats can be.

    :param region: a checked region
    """
    extent = float(np.abs(region.bounds).max())
    step = 2.0 ** max(math.frexp(extent)[1] - LATTICE_BITS, SMALLEST_STEP)
    parts = []
    for part in shapely.get_parts(region):
        shell, *holes = (_corners(ring, step) for ring in shapely.get_rings(part))
        if shell is not None:
            parts.append(Polygon(shell, [hole for hole in holes if hole is not None]))
    settled = MultiPolygon(parts) if len(parts) > 1 else Polygon(*parts)
    if not settled.area > 0.0:
        raise ValueError(f"region (area {region.area:g}) must be wider than {step:g}")
    return settled


def _corners(ring: BaseGeometry, step: float) -> Floats | None:
    """Return the corners of a ring on the lattice; None if fewer than three are left."""
    corners = np.rint(shapely.get_coordinates(ring) / step) * step
    changed = np.any(corners[1:] != corners[:-1], axis=1)
    corners = corners[np.concatenate([[True], changed])]
    return corners if len(corners) > 3 else None


def rectangle_frame(region: BaseGeometry) -> tuple[Floats, Floats, Floats] | None:
    """Return centre, half sides and axes of a rectangle; None for any other region.

    :param region: a checked region
    """
    if not isinstance(region, Polygon) or len(region.interiors):
        return None
    corners = shapely.get_coordinates(region.normalize())[:-1]
    if len(corners) != 4:
        return None
    first, second = corners[1] - corners[0], corners[3] - corners[0]
    size = float(np.hypot(*first)), float(np.hypot(*second))
    if min(size) < 2.0**SMALLEST_STEP:
        return None
    skew = abs(float(first @ second)) / (size[0] * size[1])
    gap = float(np.abs(corners[0] + first + second - corners[2]).max())
    if not (skew <= 1e-12 and gap <= 1e-9 * max(size)):
        return None
    axis = first / size[0]
    axes = np.array([axis, (-axis[1], axis[0])])
    return (corners[0] + corners[2]) / 2.0, np.array(size) / 2.0, axes


def threshold_shift(region: BaseGeometry, scale: float) -> float:
    """Return eta of appendix B: where to cut noisy distances so that strays balance.

    More of the plane lies just outside a region than just inside. Cutting at ``eta = -a * scale``
    makes the areas within one noise scale of the cut equal. Rectangles use the closed form of the
    paper (square corners), other regions their own buffered areas.

    :param region: a checked region
    :param scale: standard deviation of the noise

    >>> round(threshold_shift(rectangle((0, 0), 100, 100), 10.0), 6)
    -1.010205
    """
    scale = moderate("scale", scale)
    frame = rectangle_frame(region)
    if frame is not None:
        length, width = 2.0 * frame[1]
        return -_rectangle_share(float(length), float(width), scale) * scale
    region = settle(region)
    area = region.area

    def surplus(a: float) -> float:
        outside = region.buffer((1.0 - a) * scale).area - area
        return float(outside - (area - region.buffer(-(1.0 + a) * scale).area))

    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if surplus(middle) > 0.0 else (low, middle)
    return -low * scale


def _rectangle_share(length: float, width: float, scale: float) -> float:
    total = length + width
    if min(length, width) > 2.0 * scale:
        return (total - math.sqrt(total**2 - 16.0 * scale**2)) / (4.0 * scale)
    root = math.sqrt(total**2 + 4.0 * length * width)
    return (4.0 * scale + total - root) / (4.0 * scale)


def threshold_shifts(region: BaseGeometry, scales: Floats) -> Floats:
    """Return eta of appendix B for many noise scales.

    :param region: a checked region
    :param scales: standard deviations of the noise
    """
    if not len(scales):
        return np.zeros(0)
    low, high = float(scales.min()), float(scales.max())
    if high <= low * (1.0 + 1e-9):
        return np.full(len(scales), threshold_shift(region, low))
    # eta is smooth in the scale: a few dozen nodes and straight lines between them.
    nodes = np.geomspace(low, high, 48)
    return np.interp(scales, nodes, [threshold_shift(region, float(node)) for node in nodes])

"""Points on a grid: whole steps, of any type of number, without error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Grid = NDArray[np.int32]
"""Points in grid steps, one row per user."""

CHUNK = 1 << 20


def to_grid(points: Any, grid: float) -> Grid:
    """Return points in grid steps; raise unless all of them are finite and within 2^31 steps.

    :param points: an array of numbers, one row per user
    :param grid: length of a grid step
    """
    try:
        raw = np.asarray(points)
        if raw.dtype.kind not in "fiu":
            raise ValueError
    except ValueError:
        raise ValueError("points must be an array of numbers, one row per user") from None
    if raw.ndim != 2 or not raw.shape[0] or not raw.shape[1]:
        raise ValueError(f"points (shape {raw.shape}) must have one row per user")
    result = np.empty(raw.shape, np.int32)
    rows = max(1, CHUNK // raw.shape[1])
    for begin in range(0, len(raw), rows):
        part = steps(raw[begin : begin + rows], grid)
        if not (np.isfinite(part).all() and (np.abs(part) < 2.0**31 - 1.0).all()):
            limit = grid * 2.0**31
            raise ValueError(f"points must be finite, with coordinates below {limit:g}")
        result[begin : begin + rows] = part
    return result


def steps(points: NDArray[Any], grid: float) -> NDArray[Any]:
    """Return the grid step nearest to each coordinate.

    :param points: of any type of number
    :param grid: length of a grid step, a power of two
    """
    bits = math.frexp(grid)[1] - 1
    if points.dtype.kind in "iu" and bits > 0:  # whole numbers beyond 2^53 are not floats
        whole = points if points.dtype == np.uint64 else points.astype(np.int64)
        return (whole >> bits) + ((whole >> (bits - 1)) & 1)
    with np.errstate(all="ignore"):  # what overflows is refused
        return np.rint(np.asarray(points, np.result_type(points, np.float64)) / grid)

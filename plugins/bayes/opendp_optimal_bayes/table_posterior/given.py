"""Released numbers and bounds of true values, checked at the door."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import fraction

Floats = NDArray[np.float64]

LARGEST = 2.0**53
"""Beyond it floats leave integers out."""


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def numbers(name: str, values: Any, shape: tuple[int, ...] | None) -> Floats:
    """Released numbers as an array of floats.

    :param name: what to call them in a message
    :param values: the numbers
    :param shape: to give them, if any
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must have no masked values")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be a table: its rows differ in length") from None
    plain = array.dtype.kind in "iuf"
    if not plain and not (array.dtype.kind == "O" and all(map(_is_number, array.flat))):
        raise ValueError(f"{name} (of type {array.dtype}) must hold numbers")
    # A copy: what the caller does to it later changes nothing.
    try:
        out = np.array(array, dtype=np.float64, order="C")
    except OverflowError:
        raise ValueError(f"{name} must be below 2^1024") from None
    if not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite: it holds {out[~np.isfinite(out)].flat[0]}")
    if out.size == 0:
        raise ValueError(f"{name} (of shape {array.shape}) must have at least one cell")
    if shape is None:
        return out.reshape(1) if out.ndim == 0 else out
    wanted = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if any(not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1 for n in wanted):
        raise ValueError(f"shape ({shape!r}) must be whole numbers above 0")
    if math.prod(wanted) != out.size:
        raise ValueError(f"shape {wanted} has {math.prod(wanted)} cells, {name} has {out.size}")
    return out.reshape(wanted)


def read_bounds(bounds: Any, integer: bool) -> tuple[float | None, float | None]:
    """Bounds of the true values.

    :param bounds: (low, high), either of which may be None
    :param integer: whether the values are counts
    """
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"bounds ({bounds!r}) must be a pair (low, high)")
    low, high = (None if b is None else fraction("bounds", b) for b in bounds)
    if integer:
        if low is None or low < 0:
            raise ValueError(f"bounds ({bounds!r}): the lower bound of counts must be at least 0")
        if low.denominator != 1 or (high is not None and high.denominator != 1):
            raise ValueError(f"bounds ({bounds!r}) of counts must be whole numbers")
    if low is not None and high is not None and not low < high:
        raise ValueError(f"bounds ({bounds!r}): the lower one must be below the upper one")
    ends = tuple(None if b is None else float(b) for b in (low, high))
    if integer and any(b is not None and b >= LARGEST for b in ends):
        raise ValueError(f"bounds ({bounds!r}) of counts must be below 2^53")
    return ends[0], ends[1]

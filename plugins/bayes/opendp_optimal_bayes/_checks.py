"""Argument checks shared by every module: a message names the argument, its value, the wish."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CLOSE = 1e-9
"""How far floats may add up from 1; they are then divided by their exact sum."""


def fraction(name: str, value: Any) -> Fraction:
    """Return a number as an exact fraction, or raise.

    :param name: what to call the argument in the message
    :param value: an integer, a fraction or a finite float
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise ValueError(f"{name} ({value!r}) must be a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} ({value!r}) must be finite")
    return Fraction(value)


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """Return an integer of at least ``least``, or raise.

    :param name: what to call the argument in the message
    :param value: the value given
    :param least: the smallest value allowed
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} ({value!r}) must be an integer") from None
    if isinstance(value, bool):
        raise ValueError(f"{name} ({value!r}) must be an integer")
    if number < least:
        raise ValueError(f"{name} ({number}) must be at least {least}")
    return number


def positive(name: str, value: Any) -> float:
    """Return a finite float above 0, or raise.

    :param name: what to call the argument in the message
    :param value: the value given
    """
    number = float(fraction(name, value))
    if not number > 0.0:
        raise ValueError(f"{name} ({value!r}) must be above 0")
    return number


def distribution(name: str, values: Any, size: int | None = None) -> tuple[Fraction, ...]:
    """Return chances that add up to 1 exactly, or raise.

    Exact numbers must add up to 1; floats, to within 1e-9, and are divided by their sum.

    :param name: what to call the argument in the message
    :param values: the chances
    :param size: how many there must be
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} ({values!r}) must be a sequence of chances")
    items = list(values)
    if size is not None and len(items) != size:
        raise ValueError(f"{name} (of length {len(items)}) must have {size} chances")
    if not items:
        raise ValueError(f"{name} must not be empty")
    exact = tuple(fraction(name, v) for v in items)
    if min(exact) < 0:
        raise ValueError(f"{name} has a negative chance ({float(min(exact)):g})")
    total = sum(exact, Fraction(0))
    if total == 1:
        return exact
    inexact = any(isinstance(v, float | np.floating) for v in items)
    if not inexact or abs(total - 1) > CLOSE:
        raise ValueError(f"{name} must add up to 1, not to {float(total):.12g}")
    return tuple(v / total for v in exact)


def matrix(name: str, values: Any, rows: int | None, columns: int | None) -> list[list[Fraction]]:
    """Return a rectangular table of exact numbers, or raise.

    :param name: what to call the argument in the message
    :param values: rows of numbers
    :param rows: how many rows there must be
    :param columns: how many columns there must be
    """
    try:
        table = [list(row) for row in values]
    except TypeError:
        raise ValueError(f"{name} must be a matrix: rows of numbers") from None
    widths = {len(row) for row in table}
    shape = f"{len(table)} x {'/'.join(map(str, sorted(widths)))}"
    wanted = f"{'any' if rows is None else rows} x {'any' if columns is None else columns}"
    if len(widths) != 1 or widths == {0}:
        raise ValueError(f"{name} (of shape {shape}) must be a matrix of shape {wanted}")
    if (rows is not None and len(table) != rows) or (columns is not None and widths != {columns}):
        raise ValueError(f"{name} (of shape {shape}) must be of shape {wanted}")
    return [[fraction(name, v) for v in row] for row in table]


def interval(lo: Any, hi: Any) -> tuple[Fraction, Fraction]:
    """Return the ends of an interval, or raise.

    :param lo: lower end
    :param hi: upper end
    """
    low, high = fraction("lo", lo), fraction("hi", hi)
    for name, value in (("lo", low), ("hi", high)):
        if abs(value) > sys.float_info.max:
            raise ValueError(f"{name} must be at most {sys.float_info.max:.3g} in size")
    if not low < high:
        raise ValueError(f"lo ({lo!r}) must be below hi ({hi!r})")
    return low, high


def floats(values: Sequence[Sequence[Fraction]]) -> Floats:
    """Return the nearest floats of a table of fractions.

    :param values: rows of fractions that floats can hold
    """
    return np.array([[float(v) for v in row] for row in values])


def scaled(values: Sequence[Sequence[Fraction]]) -> tuple[Floats, Fraction]:
    """Return the nearest floats of a table of fractions in units of its largest entry, and these.

    Whatever the size of the numbers, none overflows, and not all vanish.

    :param values: rows of fractions

    >>> table, unit = scaled([[Fraction(10**400), Fraction(1)]])
    >>> table.tolist() == [[1.0, 0.0]], unit == 10**400
    (True, True)
    """
    unit = max((abs(v) for row in values for v in row), default=Fraction(0)) or Fraction(1)
    if 2**-500 < unit < 2**500:
        unit = Fraction(1)
    return floats([[v / unit for v in row] for row in values]), unit


def in_units(name: str, value: float, unit: Fraction) -> float:
    """Return a number of units as a float, or raise where it is too large for one.

    :param name: what to call the argument in the message
    :param value: how many units
    :param unit: the unit
    """
    exact = Fraction(value) * unit
    if abs(exact) > sys.float_info.max:
        raise ValueError(f"{name} is too large: its expectation is beyond floats")
    return float(exact)

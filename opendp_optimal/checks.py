"""Arguments checked at the door: a message names the argument, its value and what was wanted."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLOSE = Fraction(1, 10**9)
"""How far chances given as floats may add up from 1; they are then divided by their exact sum."""


def fraction(
    name: str, value: Any, *, above: float | None = None, least: float | None = None
) -> Fraction:
    """Return a finite number exactly.

    :param name: what to call the argument in the message.
    :param value: an integer, a fraction, or a float of Python or numpy.
    :param above: it must be larger than this.
    :param least: it must be at least this.

    >>> fraction("epsilon", 0.5, above=0)
    Fraction(1, 2)
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, int | float | Fraction):
        raise ValueError(f"{name} ({value!r}) must be a number")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"{name} ({value!r}) must be finite")
    exact = Fraction(plain)
    if above is not None and not exact > above:
        wanted = "positive" if above == 0 else f"above {above:g}"
        raise ValueError(f"{name} ({value!r}) must be {wanted}")
    if least is not None and not exact >= least:
        raise ValueError(f"{name} ({value!r}) must be at least {least:g}")
    return exact


def finite(name: str, value: Any) -> float:
    """Return a finite number as a float.

    :param name: what to call the argument in the message.
    :param value: the value given.
    """
    try:
        return float(fraction(name, value))
    except OverflowError:
        raise ValueError(f"{name} ({value!r}) must be finite") from None


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0 as a float.

    :param name: what to call the argument in the message.
    :param value: the value given.
    """
    number = finite(name, value)
    if not number > 0.0:
        raise ValueError(f"{name} ({value!r}) must be positive")
    return number


def moderate(name: str, value: Any) -> float:
    """Return a positive number whose square, and the square of its inverse, are normal floats.

    :param name: what to call the argument in the message.
    :param value: the value given.
    """
    number = positive(name, value)
    if not 2.0**-300 <= number <= 2.0**300:
        raise ValueError(f"{name} ({value!r}) must be between 2^-300 and 2^300")
    return number


def share(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1.

    :param name: what to call the argument in the message.
    :param value: the value given.
    """
    number = finite(name, value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} ({value!r}) must be in (0, 1)")
    return number


def storable(text: str) -> bool:
    """Whether a text can be written as UTF-8 and has no zero in it, which databases refuse.

    :param text: of any length.
    """
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def whole(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Return an integer within bounds.

    :param name: what to call the argument in the message.
    :param value: the value given.
    :param least: the smallest value allowed.
    :param most: the largest value allowed.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} ({value!r}) must be an integer") from None
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} ({value!r}) must be an integer")
    if number < least or (most is not None and number > most):
        wanted = f"at least {least}" if most is None else f"in [{least}, {most}]"
        raise ValueError(f"{name} ({number}) must be {wanted}")
    return number


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of a few words.

    :param name: what to call the argument in the message.
    :param value: the value given.
    :param allowed: the words.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} ({value!r}) must be one of {', '.join(map(repr, allowed))}")
    return value


def power_of_two(name: str, value: Any) -> float:
    """Return a positive power of two between 2^-40 and 2^40, whole or not.

    :param name: what to call the argument in the message.
    :param value: the value given.
    """
    number = positive(name, value)
    if math.frexp(number)[0] != 0.5 or not 2.0**-40 <= number <= 2.0**40:
        raise ValueError(f"{name} ({value!r}) must be a power of two between 2**-40 and 2**40")
    return number


def interval(
    low: Any, high: Any, *, names: tuple[str, str] = ("lo", "hi")
) -> tuple[Fraction, Fraction]:
    """Return the ends of an interval exactly, the first below the second.

    :param low: lower end.
    :param high: upper end.
    :param names: what to call the ends in the message.
    """
    first, last = fraction(names[0], low), fraction(names[1], high)
    for name, value in zip(names, (first, last), strict=True):
        if abs(value) > sys.float_info.max:
            raise ValueError(f"{name} must be at most {sys.float_info.max:.3g} in size")
    if not first < last:
        raise ValueError(f"{names[0]} ({low!r}) must be below {names[1]} ({high!r})")
    return first, last


def point(name: str, value: Any, dimension: int | None = None) -> NDArray[np.float64]:
    """Return one point as an array of finite coordinates.

    :param name: what to call the argument in the message.
    :param value: the coordinates.
    :param dimension: how many there must be.
    """
    try:
        place = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} ({value!r}) must be a sequence of numbers") from None
    if place.ndim != 1 or not len(place) or (dimension is not None and len(place) != dimension):
        wanted = "coordinates" if dimension is None else f"{dimension} coordinates"
        raise ValueError(f"{name} (shape {place.shape}) must be one point with {wanted}")
    if not np.isfinite(place).all():
        raise ValueError(f"{name} ({value!r}) must be finite")
    return place


def chances(name: str, values: Any, size: int | None = None) -> tuple[Fraction, ...]:
    """Return chances that add up to 1 exactly.

    Exact numbers must add up to 1; floats, to within 1e-9, and are divided by their sum.

    :param name: what to call the argument in the message.
    :param values: the chances.
    :param size: how many there must be.

    >>> chances("prior", [0.25, 0.75])
    (Fraction(1, 4), Fraction(3, 4))
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} ({values!r}) must be a sequence of chances")
    items = list(values)
    if size is not None and len(items) != size:
        raise ValueError(f"{name} (of length {len(items)}) must have {size} chances")
    if not items:
        raise ValueError(f"{name} must not be empty")
    exact = tuple(fraction(name, item) for item in items)
    if min(exact) < 0:
        raise ValueError(f"{name} has a negative chance ({float(min(exact)):g})")
    total = sum(exact, Fraction(0))
    if total == 1:
        return exact
    inexact = any(isinstance(item, float | np.floating) for item in items)
    if not inexact or abs(total - 1) > CLOSE:
        raise ValueError(f"{name} must add up to 1, not to {float(total):.12g}")
    return tuple(item / total for item in exact)


def matrix(
    name: str, values: Any, rows: int | None = None, columns: int | None = None
) -> list[list[Fraction]]:
    """Return a rectangular table of exact numbers.

    :param name: what to call the argument in the message.
    :param values: rows of numbers.
    :param rows: how many rows there must be.
    :param columns: how many columns there must be.
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
    return [[fraction(name, value) for value in row] for row in table]

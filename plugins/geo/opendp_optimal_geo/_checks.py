"""Arguments checked at the door: messages name the argument, its value and what was wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def number(name: str, value: Any) -> float:
    """Return a finite number as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, np.number)):
        raise ValueError(f"{name} ({value!r}) must be a number")
    result = float(value)
    if not math.isfinite(result):
        raise ValueError(f"{name} ({value!r}) must be finite")
    return result


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0 as a float."""
    result = number(name, value)
    if result <= 0.0:
        raise ValueError(f"{name} ({value!r}) must be positive")
    return result


def moderate(name: str, value: Any) -> float:
    """Return a positive number whose square, and the square of its inverse, are normal floats."""
    result = positive(name, value)
    if not 2.0**-300 <= result <= 2.0**300:
        raise ValueError(f"{name} ({value!r}) must be between 2^-300 and 2^300")
    return result


def fraction(name: str, value: Any, *, zero: bool = False) -> Fraction:
    """Return a finite number above 0 (or at least 0) exactly."""
    number(name, value)
    exact = Fraction(value if isinstance(value, (int, float, Fraction)) else float(value))
    if exact < 0 or (exact == 0 and not zero):
        raise ValueError(f"{name} ({value!r}) must be {'at least 0' if zero else 'positive'}")
    return exact


def share(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    result = number(name, value)
    if not 0.0 < result < 1.0:
        raise ValueError(f"{name} ({value!r}) must be in (0, 1)")
    return result


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Return an integer within bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} ({value!r}) must be an integer")
    if value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"in [{least}, {most}]"
        raise ValueError(f"{name} ({value!r}) must be {wanted}")
    return int(value)


METHODS = ("point", "distance")
"""What gets the noise: the data themselves, or what is to be known of them."""


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of a few words."""
    if value not in allowed:
        raise ValueError(f"{name} ({value!r}) must be one of {', '.join(map(repr, allowed))}")
    return str(value)


def power_of_two(name: str, value: Any) -> float:
    """Return a positive power of two, whole or not."""
    result = positive(name, value)
    if math.frexp(result)[0] != 0.5 or not 2.0**-40 <= result <= 2.0**40:
        raise ValueError(f"{name} ({value!r}) must be a power of two between 2**-40 and 2**40")
    return result


def location(name: str, value: Any, dimension: int | None = None) -> FloatArray:
    """Return one point as an array of finite coordinates."""
    try:
        point = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} ({value!r}) must be a sequence of numbers") from None
    if point.ndim != 1 or not len(point) or (dimension is not None and len(point) != dimension):
        wanted = "coordinates" if dimension is None else f"{dimension} coordinates"
        raise ValueError(f"{name} (shape {point.shape}) must be one point with {wanted}")
    if not np.isfinite(point).all():
        raise ValueError(f"{name} ({value!r}) must be finite")
    return point

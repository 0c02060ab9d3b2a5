"""Argument checks shared by every module: a message names the argument, its value, the wish."""

from __future__ import annotations

import math
import operator
from typing import Any


def positive_integer(name: str, value: Any, *, at_most: int | None = None) -> int:
    """Return ``value`` as an integer of at least 1 (and at most ``at_most``), or raise.

    :param name: what to call the argument in the message
    :param value: the value given
    :param at_most: the largest value allowed
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} ({value!r}) must be an integer") from None
    if isinstance(value, bool):
        raise ValueError(f"{name} ({value!r}) must be an integer")
    if number < 1:
        raise ValueError(f"{name} ({number}) must be at least 1")
    if at_most is not None and number > at_most:
        raise ValueError(f"{name} ({number}) must be at most {at_most}")
    return number


MOST_OFFSETS = 1_000_000
"""More answers than anybody sends; many more would take all memory."""


def finite_float(name: str, value: Any) -> float:
    """Return ``value`` as a finite float, or raise.

    :param name: what to call the argument in the message
    :param value: the value given
    """
    if isinstance(value, (bool, str, bytes)):
        raise ValueError(f"{name} ({value!r}) must be a finite number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} ({value!r}) must be a finite number") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} ({number}) must be a finite number")
    return number


def positive_float(name: str, value: Any) -> float:
    """Return ``value`` as a finite float above 0, or raise.

    :param name: what to call the argument in the message
    :param value: the value given
    """
    number = finite_float(name, value)
    if number <= 0.0:
        raise ValueError(f"{name} ({number}) must be above 0")
    return number

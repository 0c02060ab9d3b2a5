"""Constants that are given from outside, checked: what every engine can hold."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np

from opendp_optimal.extend import storable

MOST_VALUES = 100_000
"""Constants in one list."""


def constant(name: str, value: Any) -> Any:
    """Return a constant as a plain value of Python; refuse what no engine holds.

    :param name: what to call the argument in the message
    :param value: a number, a text, a truth value, a date, a time without a zone
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool | int | float | str | datetime.date):
        if isinstance(plain, float) and not math.isfinite(plain):
            raise ValueError(f"{name} ({value!r}) must be finite")
        if isinstance(plain, int) and not -(1 << 63) <= plain < 1 << 63:
            raise ValueError(f"{name} ({value!r}) must be a whole number of 64 bits")
        if isinstance(plain, str) and not storable(plain):
            raise ValueError(f"{name} ({value!r}) must be a text in UTF-8, without zeros")
        if isinstance(plain, datetime.datetime) and plain.tzinfo is not None:
            raise ValueError(f"{name} ({value!r}) must be a time without a zone")
        return plain
    raise ValueError(f"{name} ({value!r}) must be a number, a text, a truth value or a date")


def constants(name: str, values: Any) -> tuple[Any, ...]:
    """Return a list of constants, checked.

    :param name: what to call the argument in the message
    :param values: the list
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise ValueError(f"{name} ({values!r}) must be a list of constants")
    found = tuple(constant(name, value) for value in values)
    if not 1 <= len(found) <= MOST_VALUES:
        raise ValueError(f"{name} ({len(found)} values) must have 1 to {MOST_VALUES} values")
    return found

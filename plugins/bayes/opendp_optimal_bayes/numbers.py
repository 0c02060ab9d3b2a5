"""Tables of fractions as floats, whatever their size."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opendp_optimal.extend import Floats


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

"""The largest number that fits, the least that holds: by halving what is left."""

from __future__ import annotations

import math
from collections.abc import Callable

_STEPS = 2200
"""More halvings than there are floats between two of them."""


def largest(fits: Callable[[float], bool], low: float, high: float, *, close: float = 0.0) -> float:
    """The largest float up to ``high`` that fits, from ``low``, which does.

    :param fits: true up to some number, false beyond it; it is asked, never believed in between
    :param low: a positive number that fits
    :param high: where to stop
    :param close: stop at a relative distance of this; 0 for neighbouring floats

    >>> largest(lambda x: x * x <= 2.0, 1.0, 2.0)
    1.414213562373095
    """
    return high if fits(high) else _halved(fits, low, high, close)[0]


def least(holds: Callable[[float], bool], low: float, high: float, *, close: float = 0.0) -> float:
    """The least float from ``low`` on for which something holds; infinite if not at ``high``.

    :param holds: false up to some number, true from there on
    :param low: where to begin, at least 0
    :param high: where to stop
    :param close: stop at a relative distance of this; 0 for neighbouring floats

    >>> least(lambda x: x * x >= 2.0, 0.0, 2.0)
    1.4142135623730951
    """
    if not holds(high):
        return math.inf
    return low if holds(low) else _halved(lambda x: not holds(x), low, high, close)[1]


def _halved(
    below: Callable[[float], bool], low: float, high: float, close: float
) -> tuple[float, float]:
    """Two numbers close to each other: the first is below what is looked for, the second not."""
    for _ in range(_STEPS):
        # The geometric middle where the ends are far apart, the plain middle where they are near.
        far = 0 < 2 * low < high
        middle = math.sqrt(low) * math.sqrt(high) if far else low + (high - low) / 2
        if high <= low * (1 + close) or not low < middle < high:
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high

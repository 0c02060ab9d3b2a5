"""What a disutility must satisfy, checked before anything is built on it.

A disutility ``h`` turns the distance between a user and an answer into a cost. The theory asks
for ``h(0) = 0``, ``h`` continuous and increasing, and ``log h`` Lipschitz from some point on, so
that ``h`` grows no faster than an exponential. Only finitely many points can be looked at: the
checks below catch every ordinary mistake, not a function made to deceive them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Disutility = Callable[[float], float]
"""A cost as a function of the distance between a user and an answer."""

_LENGTHS = np.concatenate([np.geomspace(1e-9, 1e-2, 60), np.linspace(0.02, 40.0, 400)])
_TAIL_LENGTHS = (20.0, 30.0, 45.0, 67.5, 101.25)
_JUMP = 0.5


def check_disutility(disutility: Disutility, *, epsilon: float) -> None:
    """Raise ``ValueError`` unless ``disutility`` meets the conditions of the theory.

    :param disutility: the function to look at, from distance to cost
    :param epsilon: privacy per unit of distance; the noise has length scale ``1/epsilon``, and
        the disutility must grow more slowly than ``exp(epsilon * t)``

    >>> check_disutility(lambda t: t**2, epsilon=1.0)
    >>> check_disutility(lambda t: t + 1, epsilon=1.0)
    Traceback (most recent call last):
    ...
    ValueError: disutility (value 1.0 at 0) must be 0 at 0
    """
    if not callable(disutility):
        raise ValueError(f"disutility ({disutility!r}) must be a function of a distance, or None")
    at_zero = _value(disutility, 0.0)
    if at_zero != 0.0:
        raise ValueError(f"disutility (value {at_zero} at 0) must be 0 at 0")
    points = [float(t) for t in _LENGTHS / epsilon]
    values = [0.0, *(_value(disutility, t) for t in points)]
    for t, before, after in zip(points, values, values[1:], strict=False):
        if after < before:
            raise ValueError(
                f"disutility (falls from {before} to {after} just before {t}) must not decrease"
            )
    if values[-1] <= 0.0:
        raise ValueError(f"disutility (0 up to distance {points[-1]}) must increase")
    # h is 0 at 0: a first value that hardly shrinks with the distance is a jump at 0.
    if values[1] > _JUMP * values[-1]:
        raise ValueError(f"disutility (value {values[1]} at {points[0]}) must be continuous at 0")
    _check_growth(disutility, epsilon)


def _check_growth(disutility: Disutility, epsilon: float) -> None:
    tail = [length / epsilon for length in _TAIL_LENGTHS]
    logs = [math.log(_value(disutility, t)) for t in tail]
    rates = [
        (upper - lower) / (right - left)
        for lower, upper, left, right in zip(logs, logs[1:], tail, tail[1:], strict=False)
    ]
    if rates[-1] >= 0.95 * epsilon or (rates[-1] > 0.5 * epsilon and rates[-1] > 1.2 * rates[0]):
        raise ValueError(
            f"disutility (growing at rate {rates[-1]} near {tail[-1]}) must grow more slowly than "
            f"exp(epsilon * t) with epsilon = {epsilon}"
        )


def _value(disutility: Disutility, distance: float) -> float:
    try:
        value = float(disutility(distance))
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise ValueError(
            f"disutility (raises {type(error).__name__} at {distance}) must take any distance "
            "from 0 on"
        ) from None
    if not math.isfinite(value):
        raise ValueError(f"disutility (value {value} at {distance}) must be finite")
    return value

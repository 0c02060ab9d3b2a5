"""What a disutility must satisfy, checked before anything is built on it.

A disutility ``h`` turns the distance between a user and an answer into a cost. The theory asks
for ``h(0) = 0``, ``h`` continuous and increasing, and ``log h`` Lipschitz from some point on, so
that ``h`` grows no faster than an exponential. Only finitely many points can be looked at: the
checks below catch every ordinary mistake, not a function made to deceive them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from opendp_optimal.extend import positive

Disutility = Callable[[float], float]
"""A cost as a function of the distance between a user and an answer."""

SMALLEST_RATE, LARGEST_RATE = 1e-250, 1e250
_LENGTHS = np.concatenate([np.geomspace(1e-9, 1e-2, 60), np.linspace(0.02, 40.0, 400)])
_TAIL_LENGTHS = (20.0, 30.0, 45.0, 67.5, 101.25)
_ROUNDING = 1e-12
_SUSPECTS = 4
_HALVINGS = 60
_JUMP = 0.5


def check_disutility(disutility: Disutility, *, epsilon: float) -> None:
    """Raise ``ValueError`` unless ``disutility`` meets the conditions of the theory.

    :param disutility: the function to look at, from distance to cost
    :param epsilon: privacy per unit of distance, from 1e-250 to 1e250; the noise has length
        scale ``1/epsilon``, and the disutility must grow more slowly than ``exp(epsilon * t)``

    >>> check_disutility(lambda t: t**2, epsilon=1.0)
    >>> check_disutility(lambda t: t + 1, epsilon=1.0)
    Traceback (most recent call last):
    ...
    ValueError: disutility (value 1.0 at 0) must be 0 at 0
    """
    if not callable(disutility):
        raise ValueError(f"disutility ({disutility!r}) must be a function of a distance, or None")
    if not SMALLEST_RATE <= positive("epsilon", epsilon) <= LARGEST_RATE:
        raise ValueError(
            f"epsilon ({epsilon}) must be from {SMALLEST_RATE:g} to {LARGEST_RATE:g} with a "
            "disutility of your own"
        )
    at_zero = _value(disutility, 0.0)
    if at_zero != 0.0:
        raise ValueError(f"disutility (value {at_zero} at 0) must be 0 at 0")
    points = [0.0, *(float(t) for t in _LENGTHS / epsilon)]
    values = [_value(disutility, t) for t in points]
    for t, (before, after) in zip(points[1:], pairwise(values), strict=True):
        if after < before * (1.0 - _ROUNDING):
            raise ValueError(
                f"disutility (falls from {before} to {after} just before {t}) must not decrease"
            )
    if values[-1] <= 0.0:
        raise ValueError(f"disutility (0 up to distance {points[-1]}) must increase")
    _check_continuity(disutility, points, values)
    _check_growth(disutility, epsilon)


def _check_continuity(
    disutility: Disutility, points: Sequence[float], values: Sequence[float]
) -> None:
    """Close in on sudden rises: a rise that stays while its interval vanishes is a jump."""
    rises = np.diff(values)
    slopes = np.append(rises / (np.diff(points) / points[-1]), 0.0)
    # Sudden: steep beside both neighbours. The first interval has one neighbour only.
    beside = np.maximum(np.roll(slopes, 1), np.roll(slopes, -1))[:-1]
    sudden = slopes[:-1] / np.maximum(beside + 1e-12 * slopes.max(), np.finfo(float).tiny)
    for i in np.argsort(sudden)[::-1][:_SUSPECTS]:
        rise, left, right = float(rises[i]), points[i], points[i + 1]
        low, high = values[i], values[i + 1]
        for _ in range(_HALVINGS):
            middle = 0.5 * (left + right)
            value = _value(disutility, middle)
            if value - low > high - value:
                right, high = middle, value
            else:
                left, low = middle, value
        if high - low > _JUMP * rise > 0.0:
            raise ValueError(
                f"disutility (jumps from {low} to {high} at {right}) must be continuous"
            )


def _check_growth(disutility: Disutility, epsilon: float) -> None:
    """Compare the growth of ``log h`` far out with that of the noise's own decay."""
    tail = [length / epsilon for length in _TAIL_LENGTHS]
    logs = [math.log(max(_value(disutility, t), 1e-300)) for t in tail]
    rates = (np.diff(logs) / np.diff(tail)).tolist()
    if rates[-1] >= 0.95 * epsilon or (rates[-1] > 0.5 * epsilon and rates[-1] > 1.2 * rates[-2]):
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

"""Staircases: each step one unit wide, and lower than the one before by what privacy allows.

In floats for choosing them, in integers for drawing from them. A long staircase rounded to integers
would fall short by a little at each of its points, which may be more than a tiny delta in all. So
integers are built from the inside out, each step the least that is private after the one before.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import BITS, exp_bounds

MARGINS = tuple(2.0**-power for power in (40, 30, 20, 14, 10, 7, 4))
"""Parts of epsilon that a closed form may leave unused, for what rounding to integers adds."""
_LONGER = 1e-5
"""From this part of epsilon on, leaving it unused makes the noise longer."""
_TRIES = 8
_SHRINK = 1 - 2.0**-44
_BESIDE = 4
"""Units by which each point of a step falls short where the rest of the weight ends."""


def staircase(epsilon: float, cells: int, radius: int, top: int) -> Floats:
    """Truncated staircase: steps one unit wide, each e^-epsilon of the one before.

    ``top`` is the radius of the highest step.
    """
    distance = np.abs(np.arange(-radius, radius + 1))
    law = np.exp(-epsilon * np.ceil(np.maximum(distance - top, 0) / cells))
    return np.asarray(law / law.sum())


def best_top(epsilon: float, cells: int, cost: Floats, radius: int) -> int:
    """The radius of the highest step that makes a staircase cheapest."""
    evenly = np.linspace(0, cells, min(cells + 1, 65)).astype(int)
    candidates: list[int] = np.unique(evenly).tolist()
    best = 0
    for _ in range(3):
        values = [float(cost @ staircase(epsilon, cells, radius, top)) for top in candidates]
        best = candidates[int(np.argmin(values))]
        step = max(1, (candidates[1] - candidates[0]) if len(candidates) > 1 else 1)
        near = range(max(0, best - step), min(cells, best + step) + 1)
        candidates = sorted(set(list(near)[:: max(1, len(near) // 32)]) | {best})
    return best


def truncation_radius(epsilon: float, delta: float, cells: int, top: int = 0) -> int:
    """The least radius at which a decaying law or staircase puts at most delta on its last unit."""
    inner, fall = 2 * top + 1, -math.expm1(-epsilon)

    def ends(steps: int) -> bool:
        last = cells * math.exp(-epsilon * steps)
        outer = 2 * cells * math.exp(-epsilon) * -math.expm1(-epsilon * steps) / fall
        return last <= delta * (1 - 1e-9) * (inner + outer)

    if math.exp(-epsilon) == 0:
        return top + cells
    enough = 1
    while not ends(enough):
        enough *= 2
    return top + cells * bisect_left(range(enough), True, lo=1 + enough // 2, key=ends)


def truncated(
    epsilon: float, delta: float, cells: int, top: int, edge: float
) -> Iterator[tuple[bool, Floats]]:
    """Truncated staircases that leave more and more of epsilon unused, for rounding to integers.

    :param edge: the farthest point that may have a mass
    :return: each with whether it is longer than it would have to be
    """
    radius = 0
    for margin in MARGINS:
        if margin > _LONGER or not radius:
            used = epsilon * (1 - margin) if radius else epsilon
            radius = max(1, int(min(truncation_radius(used, delta, cells, top), edge)))
        yield margin > _LONGER, staircase(epsilon * (1 - margin), cells, radius, top)


def outward(value: int, epsilon: float) -> int:
    """The least integer that is at least value / e^epsilon."""
    lower, _ = exp_bounds(epsilon)
    return -(-(value << BITS) // lower)


def falling_steps(
    high: int, epsilon: float, cells: int, spare: int, count: int = 0
) -> list[int] | None:
    """The steps after one so high, until the last of them may be dropped.

    :param high: the height of the first
    :param epsilon: privacy parameter
    :param cells: of a step
    :param spare: what may fall short
    :param count: how many steps there are, at least
    :return: None if steps become too small to fall by so little as privacy allows
    """
    step = high
    steps: list[int] = []
    while cells * step > spare or len(steps) < count:
        following = outward(step, epsilon)
        if following == step:
            return None
        step = following
        steps.append(step)
    return steps


def least_delta(epsilon: float, cells: int) -> float:
    """The smallest delta that integers of 62 bits can tell from 0, about: steps end at 1/epsilon.

    :param epsilon: privacy parameter
    :param cells: lattice points per unit of sensitivity
    """
    return cells * (_BESIDE + 1 + 1 / -math.expm1(-epsilon)) / TOTAL


def whole_staircase(
    epsilon: float, spare: int, cells: int, top: int, edge: float, total: int = TOTAL
) -> Integers | None:
    """A truncated staircase of integers, private by construction.

    :param epsilon: privacy parameter
    :param spare: what the last step may come to; a little more falls short in all
    :param cells: of a step
    :param top: the radius of the highest step
    :param edge: the farthest point that may have a weight
    :param total: what the weights add up to
    :return: weights of the points around 0, or None if there is no such staircase
    """
    if spare <= 0:
        return None
    count = (truncation_radius(epsilon, spare / total, cells, top) - top) // cells
    outer = 2 * cells * -math.expm1(-epsilon * count) / math.expm1(epsilon)
    high = math.floor(total / (2 * top + 1 + outer))
    for _ in range(_TRIES):
        steps = falling_steps(high, epsilon, cells, spare, count)
        if steps is None or top + cells * len(steps) > edge:
            return None
        count = len(steps)
        left = total - (2 * top + 1) * high - 2 * cells * sum(steps)
        points = 2 * (top + cells * len(steps)) + 1
        if 0 <= left <= points:
            break
        high += math.floor(left * high / (total - left))
    else:
        return None
    right = np.repeat(np.array(steps, np.int64), cells)
    weights = np.concatenate([right[::-1], np.full(2 * top + 1, high, np.int64), right])
    # What is left goes around 0, one unit to a point: at the end of it a step falls short by that.
    middle, reach = len(weights) // 2, (left + 1) // 2
    weights[middle - reach + 1 : middle + reach] += 1
    weights[middle] += left - max(0, 2 * reach - 1)
    return weights


def spare_units(delta: float, cells: int) -> int:
    """What the last step of a staircase may come to at a delta."""
    return math.floor(delta * TOTAL * _SHRINK) - _BESIDE * cells

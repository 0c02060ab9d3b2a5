"""Laplace noise on the ring, and the best answers to it, in closed form.

Write ``r_j = exp(-epsilon a_j / 2)`` for the answers ``a_1 < a_2 < ...`` on one side. Where two
cells meet, half-way, ``exp(-epsilon x)`` is ``r_j r_{j+1}``; that each answer halves its cell then
says ``2 r_j = r_{j-1} + r_{j+1}``: the ``r_j`` are equally spaced. The two ends of the side, where
the product is 1 and ``exp(-epsilon pi)``, leave a quadratic equation for the spacing. Its solution
below subtracts nothing from its like, so it is right for every epsilon.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammainc

from opendp_optimal.extend import Floats, positive, whole
from opendp_optimal_select.noise import MOST_OFFSETS, mirrored

_UNIFORM = 1e-17
"""Noise of this epsilon or less is uniform to all digits of a float."""


def laplace_ring(k: int, *, epsilon: float) -> tuple[float, tuple[float, ...]]:
    """Return cost and offsets (radians) for density ``exp(-epsilon * distance)`` on the ring.

    Every offset is the median of its cell; the offsets are symmetric about the signal.

    :param k: number of answers
    :param epsilon: privacy loss per unit of arc length, any positive number

    >>> round(laplace_ring(2, epsilon=0.375)[0], 4)
    0.7429
    """
    k = whole("k", k, most=MOST_OFFSETS)
    epsilon = max(positive("epsilon", epsilon), _UNIFORM)
    side = _side(k, epsilon)
    points = mirrored(side, k)
    return _cost(np.array(points[k // 2 :]), epsilon), points


def _side(k: int, epsilon: float) -> Floats:
    """Return the offsets above 0."""
    half = k // 2
    inside, edge = -math.expm1(-epsilon * math.pi), math.exp(-epsilon * math.pi)
    steps = np.arange(1, half + 1, dtype=np.float64)
    if k % 2:
        spacing = 2.0 * inside / (k + math.sqrt(1.0 + 4.0 * half * (half + 1) * edge))
        below_one = -steps * spacing
    else:
        root = math.sqrt(4.0 * half * half * edge + inside * inside)
        spacing = inside / math.sqrt(half * (half * (1.0 + edge) + root))
        middle = math.sqrt(1.0 + spacing * spacing / 4.0)
        below_one = spacing * spacing / (4.0 * (1.0 + middle)) - (steps - 0.5) * spacing
    return np.asarray(-2.0 * np.log1p(below_one) / epsilon)


def _cost(side: Floats, epsilon: float) -> float:
    """Return the expected arc to the nearest answer; ``side`` are those from 0 on."""
    edges = 0.5 * (side[1:] + side[:-1])
    low, high = np.append(0.0, edges), np.append(edges, math.pi)
    before, after = side - low, high - side
    far = np.exp(-epsilon * side) * after * _risen(epsilon * after)
    near = np.exp(-epsilon * low) * before * _fallen(epsilon * before)
    return float((far + near).sum()) / -math.expm1(-epsilon * math.pi)


def _risen(z: Floats) -> Floats:
    """Return ``(1 - (1 + z) exp(-z)) / z``."""
    return np.asarray(gammainc(2.0, z) / np.where(z > 0.0, z, 1.0))


def _fallen(z: Floats) -> Floats:
    """Return ``(z - 1 + exp(-z)) / z``: the rest of ``1 - exp(-z)``, at least half of it."""
    return np.asarray(-np.expm1(-z) - _risen(z))

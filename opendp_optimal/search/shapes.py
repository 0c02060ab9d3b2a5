"""Closed forms on the lattice: laws known to be private, to start from and to fall back on."""

from __future__ import annotations

import math

import numpy as np

from opendp_optimal.model.noise import Floats


def decaying(epsilon: float, cells: int, radius: int) -> Floats:
    """Truncated Laplace: weights that fall by e^-epsilon over a unit."""
    distance = np.abs(np.arange(-radius, radius + 1))
    law = np.exp(-epsilon * distance / cells)
    return np.asarray(law / law.sum())


def staircase(epsilon: float, cells: int, radius: int, top: int) -> Floats:
    """Truncated staircase: steps one unit wide, each e^-epsilon of the one before.

    ``top`` is the radius of the highest step.
    """
    distance = np.abs(np.arange(-radius, radius + 1))
    law = np.exp(-epsilon * np.ceil(np.maximum(distance - top, 0) / cells))
    return np.asarray(law / law.sum())


def best_top(epsilon: float, cells: int, cost: Floats, radius: int) -> int:
    """The radius of the highest step that makes a staircase cheapest."""
    most = cells
    candidates: list[int] = np.unique(np.linspace(0, most, min(most + 1, 65)).astype(int)).tolist()
    best = 0
    for _ in range(3):
        values = [float(cost @ staircase(epsilon, cells, radius, top)) for top in candidates]
        best = candidates[int(np.argmin(values))]
        step = max(1, (candidates[1] - candidates[0]) if len(candidates) > 1 else 1)
        near = range(max(0, best - step), min(most, best + step) + 1)
        candidates = sorted(set(list(near)[:: max(1, len(near) // 32)]) | {best})
    return best


def truncation_radius(epsilon: float, delta: float, cells: int, top: int = 0) -> int:
    """The least radius at which a decaying law or staircase puts at most delta on its last unit."""
    radius = top + cells
    ratio = math.exp(-epsilon)
    # Steps of mass r, r^2, ... beside a highest one of at least a unit's mass r^0 / 2 each side.
    while True:
        law = staircase(epsilon, cells, radius, top)
        if float(law[:cells].sum()) <= delta * (1 - 1e-9) or ratio == 0:
            return radius
        radius += cells

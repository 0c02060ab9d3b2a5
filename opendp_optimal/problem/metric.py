"""Distances between the inputs of a channel, exactly: which pairs imply the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats

Distance = Fraction | float
"""A fraction, or infinity for inputs that need not be hidden from each other."""
Distances = Sequence[Sequence[Distance]]

_EXACT = 2**52


def direct_pairs(distances: Distances) -> list[tuple[int, int]]:
    """Ordered pairs at a finite distance with nothing between them.

    Pure privacy along these implies it for all: where some y has d(x, y) + d(y, z) <= d(x, z),
    both parts above 0, the two shorter pairs imply the longer one.

    >>> line = [[Fraction(abs(x - z)) for z in range(4)] for x in range(4)]
    >>> direct_pairs(line)
    [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    """
    size = len(distances)
    near, exact = _floats(distances)
    apart = np.array([[d > 0 for d in row] for row in distances])
    # Sums that are surely longer, rounding and all, are left out; others are decided exactly.
    most = near if exact else near * (1 + 2.0**-50) + 1e-300
    out = []
    for x in range(size):
        for z in range(size):
            if x == z or near[x, z] == math.inf:
                continue
            between = (near[x] + near[:, z] <= most[x, z]) & apart[x] & apart[:, z]
            between[[x, z]] = False
            places = np.flatnonzero(between).tolist()
            if not any(
                exact or distances[x][y] + distances[y][z] <= distances[x][z] for y in places
            ):
                out.append((x, z))
    return out


def _floats(distances: Distances) -> tuple[Floats, bool]:
    """Distances as floats, and whether these are exact; in units of the largest if not."""
    finite = [Fraction(d) for row in distances for d in row if d != math.inf]
    top = max(finite, default=Fraction(0))
    exact = top < _EXACT and all(d.denominator == 1 for d in finite)
    unit = Fraction(1) if exact or top == 0 else top
    near = [[d if d == math.inf else float(Fraction(d) / unit) for d in row] for row in distances]
    return np.array(near, np.float64), exact


def same_inputs(distances: Distances) -> list[int]:
    """For every input the first one at distance 0 from it, in some number of steps."""
    out = list(range(len(distances)))
    for x, row in enumerate(distances):
        for z, d in enumerate(row):
            if d == 0 and out[x] != out[z]:
                a, b = sorted((out[x], out[z]))
                out = [a if g == b else g for g in out]
    return out

"""Distances between answers, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal_bayes._checks import matrix

Metric = Callable[[int, int], Any] | Sequence[Sequence[Any]]


def distances_of(metric: Metric | None, size: int) -> list[list[Fraction]]:
    """A metric as a table of exact distances, checked.

    :param metric: a matrix, a function of two positions, or None for their difference
    :param size: number of answers
    """
    if metric is None:
        return [[Fraction(abs(x - z)) for z in range(size)] for x in range(size)]
    if callable(metric):
        table = [[metric(x, z) for z in range(size)] for x in range(size)]
    else:
        table = metric  # type: ignore[assignment]
    exact = matrix("metric", table, size, size)
    for x in range(size):
        if exact[x][x] != 0:
            raise ValueError(f"metric must be 0 from an answer to itself, not {exact[x][x]}")
        for z in range(x):
            if exact[x][z] < 0 or exact[x][z] != exact[z][x]:
                raise ValueError(
                    f"metric must be symmetric and not negative; it is {float(exact[x][z]):g} "
                    f"from {x} to {z} and {float(exact[z][x]):g} back"
                )
    return exact


def direct_pairs(distances: Sequence[Sequence[Fraction]]) -> list[tuple[int, int]]:
    """Ordered pairs with nothing between them: privacy along these implies it for all.

    :param distances: a metric, as a table
    """
    size = len(distances)
    unit = math.lcm(*(v.denominator for row in distances for v in row))
    exact = np.array([[int(v * unit) for v in row] for row in distances], dtype=object)
    if int(exact.max()) < 2**52:
        exact = exact.astype(np.int64)
    out = []
    for x in range(size):
        for z in range(size):
            if x == z:
                continue
            through = exact[x] + exact[:, z] == exact[x, z]
            through[[x, z]] = False
            # A pair at distance 0 has the other answers at distance 0 between; keep it.
            if exact[x, z] == 0 or not bool(np.any(through & (exact[x] > 0) & (exact[:, z] > 0))):
                out.append((x, z))
    return out

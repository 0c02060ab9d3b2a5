"""Distances between answers, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

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

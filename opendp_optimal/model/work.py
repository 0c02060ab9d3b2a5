"""Counted work: how much solvers may still do.

It is counted from the sizes of programmes and the number of steps, never read off a clock, so that
an answer is the same on every machine, however busy. The unit is about a second of one core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from opendp_optimal.arrays import Floats

_TERM, _OPERATION, _STEP = 4e-7, 1 / 4e9, 5e-4
"""A step of an interior-point method: for each term, each operation of dense algebra, and the rest
of it."""
_PIVOT, _START = 1 / 1.2e8, 5e-7
"""HiGHS, for each entry of a programme: in an iteration of the simplex method, and in a run."""


@dataclass
class Work:
    """What is left, in about seconds; a part of other work is taken from that, too."""

    left: float
    whole: Work | None = None

    def part(self, share: float) -> Work:
        """A share of what is left."""
        return Work(self.left * share, self)

    def spend(self, seconds: float) -> None:
        """Take from what is left."""
        self.left -= seconds
        if self.whole is not None:
            self.whole.spend(seconds)


N = TypeVar("N", float, Floats)


def step_seconds(terms: N, operations: N) -> N:
    """A step of an interior-point method.

    :param terms: constraints that the step goes through, one by one
    :param operations: of the dense algebra that solves for it
    """
    return _TERM * terms + _OPERATION * operations + _STEP


def channel_seconds(rows: int, outputs: int, pairs: int, reach: int) -> float:
    """A step of the interior-point method for channels.

    :param rows: of the channel
    :param outputs: of the channel
    :param pairs: of rows that are neighbours
    :param reach: how many rows they are apart, at most
    """
    weights, band = rows * outputs, min(rows, reach + 1) * outputs
    return step_seconds(
        5000 + pairs * outputs + weights**2 / 20,
        weights * band * (band / 12 + rows) + 4 * pairs * outputs**2,
    )


def simplex_seconds(entries: int, iterations: int) -> float:
    """A run of the simplex method of HiGHS.

    :param entries: rows, columns and coefficients of the programme
    :param iterations: of the method
    """
    return entries * (_PIVOT * iterations + _START)


def simplex_iterations(entries: int, seconds: float) -> int:
    """How many iterations of the simplex method there is time for; 0 for none."""
    return max(0, int((seconds / entries - _START) / _PIVOT))

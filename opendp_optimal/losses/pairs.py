"""Exact costs of noise on a mean and its count.

Noise a on the centred sum and c on the count puts the mean at mu off by (a - (mu - 1/2) c) / count.
The cost is the loss of that error times the count, on average over mu in [0, 1]:

    squared   a^2 + c^2 / 12
    absolute  |a| where |c| <= 2 |a|, else a^2 / |c| + |c| / 4

Both are convex in c, so that their tangents at whole c are nowhere above them: ``lower`` is the
tangent's value half a unit on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Integers, Valued

_FINE = 1 << 40
"""Costs that are no multiples of a common unit are rounded to this part of one, outwards."""


@dataclass(frozen=True, eq=False)
class PairCost(Valued):
    """Costs as integers over one denominator; a row for each c, a column for each cell 0, 1, ...

    :param values: cell averages (``upper``) or values whose chords lie below the cost (``lower``)
    :param beyond: no cost outside of these rows and columns is below it
    :param denominator: of all of them
    """

    values: Integers
    beyond: int
    denominator: int


@dataclass(frozen=True)
class SquaredPairs:
    """a^2 + weight c^2.

    :param weight: the mean of (mu - 1/2)^2; 1/12 where all mu in [0, 1] count alike
    """

    weight: Fraction = Fraction(1, 12)

    def upper(self, cells: int, most: int, counts: Integers) -> PairCost:
        """Averages over the cells 0..most of width 1/cells, for each count noise."""
        unit, turn = self._units(cells)
        square = unit * (12 * np.arange(most + 1, dtype=np.int64) ** 2 + 1)
        return PairCost(square + turn * counts[:, None] ** 2, 0, 12 * unit * cells * cells)

    def lower(self, cells: int, most: int, counts: Integers) -> PairCost:
        """Values, half a unit of count noise on, whose chords lie below the cost everywhere."""
        unit, turn = self._units(cells)
        square = unit * (12 * np.arange(most + 1, dtype=np.int64) ** 2 - 3)
        values = square + turn * (counts * (counts + 1))[:, None]
        low, high = int(counts[0]) - 1, int(counts[-1]) + 1
        beyond = min(
            unit * (12 * (most + 1) ** 2 - 3),
            turn * low * (low + 1) - 3 * unit,
            turn * high * (high + 1) - 3 * unit,
        )
        return PairCost(values, beyond, 12 * unit * cells * cells)

    def _units(self, cells: int) -> tuple[int, int]:
        """What (1 / cells)^2 / 12 and the square of a unit of count noise are, in whole numbers."""
        unit = math.lcm(12, self.weight.denominator) // 12
        return unit, int(12 * unit * self.weight) * cells * cells


class AbsolutePairs:
    """|a| where |c| <= 2 |a|, else a^2 / |c| + |c| / 4."""

    def upper(self, cells: int, most: int, counts: Integers) -> PairCost:
        """Averages over the cells 0..most of width 1/cells, for each count noise."""
        rows = [_above(cells, most, abs(c)) for c in counts.tolist()]
        return PairCost(np.array(rows, np.int64), 0, _FINE)

    def lower(self, cells: int, most: int, counts: Integers) -> PairCost:
        """Values, half a unit of count noise on, whose chords lie below the cost everywhere."""
        rows = [_below(cells, most, c) for c in counts.tolist()]
        # The cost is at least |a| and |c| / 4; the tangent's slope is at most 1/4, and chords
        # lie at most 3 / (8 cells^2) above it.
        ends = min(-int(counts[0]) + 1, int(counts[-1]) + 1)
        least = min(_FINE * (most + 1) // cells, _FINE * ends // 4)
        beyond = least - _FINE // 8 - _FINE * 3 // (8 * cells * cells) - 1
        return PairCost(np.array(rows, np.int64), beyond, _FINE)


PairLoss = SquaredPairs | AbsolutePairs
"""What a loss knows of pairs."""


def _above(cells: int, most: int, c: int) -> list[int]:
    """Averages of the absolute cost over cells, rounded up; all times 24 cells^2 c before."""
    edge = c * cells // 2  # where a^2 / c + c / 4 meets |a|
    unit = 24 * cells * cells * max(1, c)
    row = []
    for j in range(most + 1):
        flat = 24 * cells * max(1, c) * j
        curved = 24 * j * j + 2 + 6 * cells * cells * c * c
        if j > edge:
            number = flat
        elif c == 0:  # the cell of 0
            number = 6 * cells
        elif j < edge:
            number = curved
        else:  # half of the cell on each side: j + 1/4 and j^2 - j/2 + 1/12 on average
            number = (flat + 6 * cells * c) // 2 + (curved - 12 * j) // 2
        row.append(-(-number * _FINE // unit))
    return row


def _below(cells: int, most: int, c: int) -> list[int]:
    """The tangent half a unit on, less what its chords lie above it, rounded down."""
    edge = abs(c) * cells // 2
    sign = (c > 0) - (c < 0)
    unit = 16 * cells * cells * max(1, c * c)
    bend = 2 * abs(c) - sign  # of a^2, over 2 c^2
    row = []
    for j in range(most + 1):
        if j > edge or c == 0:
            number = 16 * cells * max(1, c * c) * j
        else:
            number = 8 * bend * j * j + (4 * abs(c) + 2 * sign) * cells * cells * c * c - 2 * bend
        row.append(number * _FINE // unit)
    return row

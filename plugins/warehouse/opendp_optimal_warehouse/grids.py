"""Grids: how numbers become whole numbers, and the hash that rows are put in order by.

A float becomes a whole number by constants that are powers of two, and the exact 0.5; where they
make numbers smaller, a guard around 0 keeps PostgreSQL from failing on products that are too small
for a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import ibis

from opendp_optimal.extend import interval
from opendp_optimal_warehouse.constants import real, whole
from opendp_optimal_warehouse.kinds import Kind

_LEAST_STEPS = 1 << 8
_BINS = 1 << 14
_FARTHEST = 900
"""Bounds are at most 2^900 in size."""
MULTIPLIER, ADDEND, PRIME = 1_031_831_647 % (1 << 30), 715_225_739, (1 << 31) - 1
"""Of the hash: products of numbers below 2^32 and 2^30 stay below 2^62."""


@dataclass(frozen=True)
class Grid:
    """How numbers become whole numbers: multiples of 2^-bits, rounded (halves down), then clamped.

    :param bits: of the multiples
    :param reach: 2^reach is at least as large as the bounds
    :param low: the least multiple
    :param high: the largest multiple
    """

    bits: int
    reach: int
    low: int
    high: int

    @property
    def width(self) -> int:
        """Steps between the bounds."""
        return self.high - self.low

    @property
    def step(self) -> Fraction:
        """Of the grid."""
        return Fraction(2) ** -self.bits

    def place(self, value: Any, kind: Kind) -> Any:
        """The multiple that a value is taken for; missing if the value is.

        :param value: of Ibis
        :param kind: "whole", "float" or "boolean"
        """
        low, high = whole(self.low), whole(self.high)
        if kind.name == "boolean":
            value = ibis.cases((value, whole(1)), (~value, whole(0)))
        if kind.name in ("whole", "boolean") and self.bits >= 0:
            # Beyond these ends the bounds decide.
            first, last = self.low >> self.bits, -(-self.high >> self.bits)
            near = ibis.greatest(ibis.least(value, whole(last)), whole(first))
            scaled = near * whole(1 << self.bits) if self.bits else near
            placed = ibis.greatest(ibis.least(scaled, high), low)
            return ibis.ifelse(value.isnull(), ibis.null("int64"), placed)
        if kind.name != "float":
            value = value.cast("float64")
        near = value
        if self.bits < 0:
            small = math.ldexp(1.0, -self.bits - 2)
            near = ibis.ifelse(value.abs() < real(small), real(0.0), value)
        shifted = near * real(math.ldexp(1.0, self.bits)) - real(0.5)
        placed = ibis.greatest(ibis.least(shifted.ceil().cast("int64"), high), low)
        # Beyond the bounds nothing is multiplied; their places are floats exactly. NaN is above
        # everything in every engine: it is left over, as null is.
        ends = [math.ldexp(float(end), -self.bits) for end in (self.low, self.high)]
        return ibis.cases(
            (value <= real(ends[0]), low),
            (value < real(ends[1]), placed),
            (value <= real(math.inf), high),
            else_=ibis.null("int64"),
        )


def grid_of(name: str, bounds: Any, steps: int, within: Any = None) -> Grid:
    """The finest grid with at most so many steps between bounds.

    :param name: what to call the bounds in the message
    :param bounds: the lowest and the highest value
    :param steps: between them
    :param within: bounds that the grid is for, if other ones
    """
    low, high = _bounds(name, bounds)
    ends = (low, high) if within is None else _bounds(name, within)
    size = max(abs(end) for end in (low, high, *ends))
    reach = math.ceil(math.log2(size)) if size else 0
    while Fraction(2) ** reach < size:
        reach += 1
    if abs(reach) > _FARTHEST:
        raise ValueError(f"{name} ({bounds!r}) must be between 2^-900 and 2^900 in size")
    bits = math.floor(math.log2(steps / (ends[1] - ends[0]))) + 1
    while (ends[1] - ends[0]) * Fraction(2) ** bits > steps:
        bits -= 1
    bits = min(bits, 51 - reach)
    grid = Grid(bits, reach, _placed(low, bits), _placed(high, bits))
    if grid.width < (_LEAST_STEPS if within is None else 1):
        raise ValueError(f"{name} ({bounds!r}) must be farther apart, for their size")
    return grid


def bins_of(name: str, bounds: Any, kind: Kind) -> Grid:
    """Bins for quantiles: 2^14 at most, and no finer than whole numbers are.

    :param name: what to call the bounds in the message
    :param bounds: the lowest and the highest value
    :param kind: of the column
    """
    low, high = _bounds(name, bounds)
    if kind.name == "float" or high - low > _BINS:
        return grid_of(name, bounds, _BINS)
    reach = max(1, math.ceil(max(abs(low), abs(high)))).bit_length()
    if reach > 51 or _placed(low, 0) >= _placed(high, 0):
        raise ValueError(f"{name} ({bounds!r}) must hold whole numbers below 2^51 in size")
    return Grid(0, reach, _placed(low, 0), _placed(high, 0))


def _placed(value: Fraction, bits: int) -> int:
    return math.ceil(value * Fraction(2) ** bits - Fraction(1, 2))


def _bounds(name: str, bounds: Any) -> tuple[Fraction, Fraction]:
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"{name} ({bounds!r}) must be a pair (low, high)")
    return interval(*bounds, names=(f"{name}[0]", f"{name}[1]"))


def hashed(person: Any, numbers: Sequence[Any]) -> Any:
    """A number below 2^31 whose square is a hash of numbers in [0, 2^31), on every engine the same.

    Multiplied by a number of the person's own, and then squared: an order that is the same for
    everybody but for a shift or a factor would choose some rows more often than others.

    :param person: a number of the person
    :param numbers: of Ibis
    """
    row = reduce(_mixed, numbers, whole(ADDEND))
    own = _mixed(whole(ADDEND), person) % whole(PRIME - 1) + whole(1)
    return (row + whole(1)) * own % whole(PRIME)


def _mixed(h: Any, number: Any) -> Any:
    return ((h + number) * whole(MULTIPLIER) + whole(ADDEND)) % whole(PRIME)

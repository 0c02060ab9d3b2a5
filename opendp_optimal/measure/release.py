"""Releasing numbers: integer noise on a power-of-two grid, one rounding at the very end.

A float ``x`` is rounded to the nearest multiple of ``g = 2**-bits``, which moves the distance
between two values by at most ``g``. The noise is an exact integer number of grid steps. What is
released is the exact sum, rounded once to a float: a function of the sum alone, so
post-processing, and the low bits of the result hold nothing that the noisy integer does not.

Floats hold the sum's two parts exactly: ``x / g`` after rounding is an integer in a double, and
the noise stays below ``2**52``. Adding two doubles rounds their exact sum, so the one addition is
that one rounding. A larger noise (a tail that the tables with bounded support do not have) goes
through Python's integers.

Integers are on the grid already, ``bits`` being 0 or more. Only where the noise would be too long
for the sampler is the grid coarser than 1: then ``x`` is rounded down to it, in integers, which is
counted like any other rounding.

Non-finite and huge values behave as in OpenDP's native noise: NaN (outside the domain) counts as
0, values beyond the largest float as the largest float; nothing is raised.

Handing one number to OpenDP and its answer back costs more than drawing the noise. When our own
measurement is called directly on a plain Python number, the release is computed here; any other
argument, and every use in a chain, a compositor or a context, takes OpenDP's way.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import introduce, make_measurement
from opendp_optimal.measure.facts import Facts, remember
from opendp_optimal.measure.space import DTYPES, INTEGER_RANGES, Space
from opendp_optimal.table import NoiseTable

LARGEST = {"f64": sys.float_info.max, "f32": float(np.finfo(np.float32).max)}
EXACT = 2**52
FINEST = 1074
"""Every float is a multiple of ``2**-FINEST``: on a finer grid nothing is rounded."""
LONGEST_NOISE = 2**59
"""Grid steps that the noise can be long, at most: it is drawn in 64-bit integers."""
RESOLUTION = 2**16
"""Grid steps in a lattice cell, at least: the grid costs less than 1 part in 10000."""


@dataclass(frozen=True)
class Grid:
    """The grid on which a table's noise is drawn for a given sensitivity.

    ``bits`` is the binary logarithm of grid steps in 1, ``slack`` the grid steps that rounding
    adds to a distance, ``steps`` the grid steps in a lattice cell, ``reach`` the grid steps that
    the table hides.
    """

    bits: int
    slack: int
    steps: int
    reach: int

    def shift(self, distance: Fraction) -> Fraction:
        """Return a distance between values as a share of what the table hides."""
        moved = math.floor(distance * Fraction(2) ** self.bits) + self.slack
        return Fraction(moved, self.reach)


def grid_for(space: Space, table: NoiseTable, sensitivity: Fraction) -> Grid:
    """Choose the grid for a table and the largest move of one value.

    :param space: floats are rounded to the grid, integers are on it already.
    :param table: a real table, or an integer table designed for this sensitivity.
    :param sensitivity: the largest move that must be hidden.
    """
    if table.kind == "integer":
        return Grid(0, 0, 1, table.cells)
    # The coarsest power of two with RESOLUTION steps in a cell.
    parts = 1 if table.spike is None else table.spike.parts
    target = sensitivity / (table.cells * parts * RESOLUTION)
    bits = target.denominator.bit_length() - target.numerator.bit_length()
    while Fraction(2) ** -bits > target:
        bits += 1
    # Whole numbers stay as they are, unless their noise would be too long to be drawn.
    if space.integer and (sensitivity / table.cells + 2) * (table.radius + 1) < LONGEST_NOISE:
        bits = max(bits, 0)
    slack = slack_of(space, bits)
    moved = math.floor(sensitivity * Fraction(2) ** bits) + slack
    steps = -(-moved // table.cells) | 1  # an odd number
    return Grid(bits, slack, steps, table.cells * steps)


def slack_of(space: Space, bits: int) -> int:
    """Return the grid steps that rounding to a grid of multiples of 2^-bits adds to a distance."""
    exact = bits >= 0 if space.integer else bits >= FINEST
    return 0 if exact else 1


Draw = Callable[..., Any]
"""Draws noise in grid steps: one integer, or as many as its argument says; ``steps`` in a cell."""


def releaser(space: Space, draw: Draw, grid: Grid) -> Callable[[Any], Any]:
    """Return the function that adds noise to data of a space."""
    return (_integers if space.integer else _floats)(space, draw, grid)


def _floats(space: Space, draw: Draw, grid: Grid) -> Callable[[Any], Any]:
    steps, bits, largest = grid.steps, grid.bits, LARGEST[space.carrier]
    # From here on the value's own last digit is coarser than any noise: nothing to add.
    beyond = math.ldexp(1.0, 1023 - bits) if bits > 0 else math.inf

    def one(x: float) -> float:
        noise = int(draw(steps=steps))
        if not -largest <= x <= largest:
            x = math.copysign(largest, x) if x == x else 0.0
        if -beyond < x < beyond:
            x = _ldexp(round(math.ldexp(x, bits)) + noise, -bits)
        return x if -largest <= x <= largest else math.copysign(largest, x)

    def many(data: Any) -> npt.NDArray[Any]:
        x = _sized(np.nan_to_num(np.asarray(data, dtype=np.float64), nan=0.0), space)
        noise = np.asarray(draw(x.size, steps=steps))
        if noise.size and (noise.max() >= EXACT or noise.min() <= -EXACT):
            result = _slowly(x, noise.tolist(), bits)
        else:
            with np.errstate(all="ignore"):
                scaled = np.rint(np.ldexp(x, bits))
                result = np.where(np.isfinite(scaled), np.ldexp(scaled + noise, -bits), x)
        return np.clip(result, -largest, largest).astype(DTYPES[space.carrier])

    return many if space.vector else one


def _ldexp(total: int, exponent: int) -> float:
    try:
        return math.ldexp(float(total), exponent)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _slowly(x: Floats, noise: list[int], bits: int) -> Floats:
    """Add noise of any size, value by value, in Python's integers."""
    scale = Fraction(2) ** bits
    sums = [round(Fraction(v) * scale) + n for v, n in zip(x.tolist(), noise, strict=True)]
    return np.array([_ldexp(s, -bits) for s in sums])


def _integers(space: Space, draw: Draw, grid: Grid) -> Callable[[Any], Any]:
    steps, bits, kind = grid.steps, grid.bits, DTYPES[space.carrier]
    low, high = INTEGER_RANGES[space.carrier]
    fine, coarse = max(bits, 0), max(-bits, 0)
    half = ((1 << fine) >> 1) + ((1 << coarse) >> 1)

    def one(x: int) -> int:
        # Rounding to whole numbers after the noise is post-processing: x is on the grid.
        noise = (int(draw(steps=steps)) << coarse) + half >> fine
        noisy = (x >> coarse << coarse) + noise
        return low if noisy < low else high if noisy > high else noisy

    def many(data: Any) -> npt.NDArray[Any]:
        x: npt.NDArray[Any] = _sized(np.asarray(data, dtype=kind), space)
        noise = np.asarray(draw(x.size, steps=steps))
        if coarse or noise.dtype == object:
            pairs = zip(x.tolist(), noise.tolist(), strict=True)
            sums = ((v >> coarse << coarse) + ((n << coarse) + half >> fine) for v, n in pairs)
            return np.array([min(max(total, low), high) for total in sums], dtype=kind)
        noise = (noise + half) >> fine
        if kind.itemsize == 8:
            return _saturating(x, noise)
        wide = np.clip(noise, -(2**33), 2**33) + x.astype(np.int64)
        narrow: npt.NDArray[Any] = np.clip(wide, low, high).astype(kind)
        return narrow

    return many if space.vector else one


def _sized(x: npt.NDArray[Any], space: Space) -> npt.NDArray[Any]:
    """Vectors of the length that the domain states, which proofs count on: cut, or filled with 0.

    Neither moves two vectors further apart.
    """
    if space.size is None or x.size == space.size:
        return x
    return np.concatenate([x[: space.size], np.zeros(max(0, space.size - x.size), x.dtype)])


def _saturating(x: npt.NDArray[Any], noise: Integers) -> npt.NDArray[Any]:
    """Add 64-bit integers and signed noise, stopping at the ends of the type."""
    ends = np.iinfo(x.dtype)
    with np.errstate(over="ignore"):
        result: npt.NDArray[Any] = x + noise.astype(x.dtype)  # wraps
    over = (noise > 0) & (result < x)
    under = (noise < 0) & (result > x)
    result[over] = ends.max
    result[under] = ends.min
    return result


class DirectMeasurement(dp.Measurement):
    """A measurement on plain numbers that can be called without a round trip."""

    _type_ = dp.Measurement._type_
    _direct: tuple[type, Any, Any, Callable[[Any], Any]]

    def invoke(self, arg: Any) -> Any:
        """Release a value.

        :param arg: a member of the input domain.
        """
        kind, low, high, release = self._direct
        # Exactly this type, in range: what OpenDP would accept, and nothing that it would not.
        if type(arg) is kind and (low is None or low <= arg <= high):
            return release(arg)
        return dp.Measurement.invoke(self, arg)

    __call__ = invoke


introduce(DirectMeasurement)


def make_numeric(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    output_measure: dp.Measure,
    space: Space,
    release: Callable[[Any], Any],
    privacy_map: Callable[[Any], Any],
    facts: Facts,
) -> dp.Measurement:
    """Make a measurement from numbers of a space to such; on scalars it can be called directly."""
    made = make_measurement(
        input_domain, input_metric, output_measure, release, privacy_map, TO=space.output_type
    )
    if not space.vector and space.carrier != "f32":
        made.__class__ = DirectMeasurement  # of this one: every other keeps OpenDP's
        low, high = INTEGER_RANGES.get(space.carrier, (None, None))
        made._direct = (int if space.integer else float, low, high, release)
    return remember(made, facts)

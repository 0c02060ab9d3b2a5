"""Coordinate descent in compiled loops, for many descents side by side.

What a step sums over records is t = tanh(m / 2), m the margin of a record, times known factors. The
step moves all margins by known amounts. Where these are small the next t follows from t by a series
and margins wait; where they are not, and at the beginning of an iteration, t is computed.

Descents are taken a few at a time, and records in pieces, so that what is read again and again
stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt

__all__ = ["Table", "released", "tanh", "walk"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

TOGETHER = 5 << 16
"""Margins of descents that are taken together."""
PIECE = 2048
"""Records that are taken together."""

_ONE, _HALF, _TWO_THIRDS = np.array([1, 1 / 2, 2 / 3], np.float32)
_FAR = np.float32(7.0)
_P0, _P1, _P2, _P3 = np.array([0.9999957, 0.12302186, 2.2769922e-3, 3.930026e-6], np.float32)
_Q1, _Q2, _Q3 = np.array([0.45634034, 0.021072196, 1.4235117e-4], np.float32)
_SMALL = np.float32(0.04)
"""The series ends with the cube of a move: it is wrong by less than 0.18 times its fourth power."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _compiled(function: Function) -> Function:
    """Sums may be in any order, and division does not look for zero: loops use all of a core."""
    made: Function = numba.njit(function, fastmath=True, error_model="numpy")
    return made


class Table(NamedTuple):
    """Releases that depend on the sum, as in :class:`~docs.reproduce.selvi.laws.BoundedLaw`.

    Sums are within [-most, most], and ``per`` of them are one unit of the table.
    """

    most: float
    per: float = 1.0
    cumulated: Floats = np.zeros(1)
    length: float = 0.0
    start: float = 0.0
    step: float = 1.0
    rows: int = 1
    revealing: int = 0


@_compiled
def tanh(x: Any) -> Any:
    """A quotient of polynomials, fitted so that it is wrong by less than 2e-6."""
    x = min(max(x, -_FAR), _FAR)
    s = x * x
    return x * (_P0 + s * (_P1 + s * (_P2 + s * _P3))) / (_ONE + s * (_Q1 + s * (_Q2 + s * _Q3)))


@_compiled
def released(table: Any, total: float, uniform: float, shift: float) -> float:
    """What a table releases of a sum, from numbers in (0, 1)."""
    answer = (total + table.most) / table.per
    origin = table.start + shift * table.step
    cell = min(max(math.floor((answer - origin) / table.step) + 1, 0), table.rows - 1)
    columns = table.rows + 2 * table.revealing
    found = np.searchsorted(table.cumulated, cell + uniform, side="right")
    y = min(found - cell * columns, columns - 1) - table.revealing
    drawn = answer if y < 0 or y >= table.rows else origin + (y - 0.5) * table.step
    out: float = min(max(drawn, 0.0), table.length) * table.per - table.most
    return out


# --- loops over a piece of the records of one descent ---------------------------------------------


@_compiled
def _multiply(some: Any, others: Any, out: Any) -> None:
    for i in range(len(some)):
        out[i] = some[i] * others[i]


@_compiled
def _near(slopes: Any, features: Any, move: Any, factors: Any) -> Any:
    total = np.float32(0.0)
    for i in range(len(slopes)):
        t, far = slopes[i], move * features[i]
        g = _ONE - t * t
        t += g * far * (_ONE - far * (t + far * (g - _TWO_THIRDS)))
        slopes[i] = t
        total += t * factors[i]
    return total


@_compiled
def _anywhere(margins: Any, slopes: Any, features: Any, move: Any, factors: Any) -> Any:
    total = np.float32(0.0)
    for i in range(len(slopes)):
        margins[i] += move * features[i]
        t = tanh(margins[i])
        slopes[i] = t
        total += t * factors[i]
    return total


@_compiled
def _add(margins: Any, w: Any, a: Any, x: Any, b: Any, y: Any, c: Any, z: Any, d: Any) -> None:
    for i in range(len(margins)):
        margins[i] += a * w[i] + b * x[i] + c * y[i] + d * z[i]


# --- all records of descents that are taken together ----------------------------------------------


@_compiled
def _follow(
    margins: Any, slopes: Any, now: Any, changes: Any, then: Any, counts: Any, sums: Any, new: Any
) -> None:
    """Slopes after a coordinate has changed; their sums for the next. All are computed if new."""
    factors = np.empty(PIECE, np.float32)
    sums[:] = 0.0
    for low in range(0, len(counts), PIECE):
        part = slice(low, min(low + PIECE, len(counts)))
        _multiply(then[part], counts[part], factors)
        for row in range(len(changes)):
            move = _HALF * changes[row]
            if new or abs(move) > _SMALL:
                sums[row] += _anywhere(
                    margins[row, part], slopes[row, part], now[part], move, factors
                )
            else:
                sums[row] += _near(slopes[row, part], now[part], move, factors)


@_compiled
def _move(margins: Any, features: Any, chosen: Any, changes: Any) -> None:
    """Margins after coordinates have changed, four at a time; those too many change by 0."""
    last = len(chosen) - 1
    halves = np.zeros((len(margins), last + 4), np.float32)
    for k in range(last + 1):
        for row in range(len(margins)):
            halves[row, k] = _HALF * changes[k, row]
    for low in range(0, margins.shape[1], PIECE):
        part = slice(low, min(low + PIECE, margins.shape[1]))
        for k in range(0, last + 1, 4):
            w, x = features[chosen[k], part], features[chosen[min(k + 1, last)], part]
            y = features[chosen[min(k + 2, last)], part]
            z = features[chosen[min(k + 3, last)], part]
            for row in range(len(margins)):
                a, b = halves[row, k], halves[row, k + 1]
                c, d = halves[row, k + 2], halves[row, k + 3]
                _add(margins[row, part], w, a, x, b, y, c, z, d)


@_compiled
def walk(
    weights: Floats,
    features: Singles,
    counts: Singles,
    fixed: Floats,
    chosen: npt.NDArray[np.int64],
    drawn: Floats,
    shifts: Floats,
    limits: Floats,
    table: Table,
    penalty: float,
) -> None:
    """Descend: weights are changed in place.

    :param weights: a column for each descent: all draws of the first noise, and so on
    :param features: a row for each coordinate, of records that differ
    :param counts: half the number of records that have these features
    :param fixed: for each coordinate what is added to the sum
    :param chosen: for each iteration the coordinates to update, one after the other
    :param drawn: for each iteration, step, noise and draw what is added after that; a number in
        (0, 1) where noise depends on the sum
    :param shifts: for each iteration, step and draw a number in (0, 1), for such noise
    :param limits: for each noise where releases are clamped; 0 where noise depends on the sum
    :param table: noise that depends on the sum, and the largest sum
    :param penalty: weight of the l1 norm
    """
    iterations, updates, _, draws = drawn.shape
    together = max(1, min(TOGETHER // len(counts), weights.shape[1]))
    for start in range(0, weights.shape[1], together):
        mine = weights[:, start : start + together]
        count = mine.shape[1]
        margins = np.zeros((count, len(counts)), np.float32)
        slopes = np.empty_like(margins)
        changes = np.empty((updates, count), np.float32)
        sums = np.empty(count)
        known = np.zeros(count, np.int64)  # how many changes of this iteration margins know
        _move(margins, features, np.arange(len(weights)), mine)
        for iteration in range(iterations):
            order = chosen[iteration]
            changes[0] = 0.0
            first = features[order[0]]
            _follow(margins, slopes, first, changes[0], first, counts, sums, True)
            known[:] = 0
            for step in range(updates):
                j = order[step]
                for row in range(count):
                    noise, draw = (start + row) // draws, (start + row) % draws
                    total, random = sums[row] + fixed[j], drawn[iteration, step, noise, draw]
                    if limits[noise] > 0:
                        noisy = min(max(total + random, -limits[noise]), limits[noise])
                    else:
                        noisy = released(table, total, random, shifts[iteration, step, draw])
                    moved = mine[j, row] - noisy / table.most
                    after = math.copysign(max(abs(moved) - penalty, 0.0), moved)
                    changes[step, row] = after - mine[j, row]
                if step + 1 == updates:
                    break
                for row in range(count):
                    if abs(_HALF * changes[step, row]) > _SMALL:
                        if known[row] < step:
                            late, one = slice(known[row], step), slice(row, row + 1)
                            _move(margins[one], features, order[late], changes[late, one])
                        known[row] = step + 1
                now, then = features[j], features[order[step + 1]]
                _follow(margins, slopes, now, changes[step], then, counts, sums, False)
            # The iteration ends with the mean of its steps, and no coordinate moves twice.
            for step in range(updates):
                share = np.float32((updates - step) / updates)
                for row in range(count):
                    mine[order[step], row] += share * changes[step, row]
                    changes[step, row] *= share - np.float32(step < known[row])
            _move(margins, features, order, changes)

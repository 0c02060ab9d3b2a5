"""Uniform points of balls of a norm, rounded down to integers: exact, in batches.

The points are real. What is returned is the integer below each coordinate: post-processing of the
real point, so that what is true of real noise is true of it. Random words decide; floats decide
only what they can decide with a wide margin, and the few cases that are closer are settled in
exact arithmetic with more random digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opendp_optimal.arrays import Booleans, Floats, Integers, frozen_array
from opendp_optimal.exact.exponentials import EXP_ERROR, exp_many
from opendp_optimal.sample.digits import Digits, settled
from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal.sample.words import (
    Source,
    random_words,
    secure_bytes,
    uniform_below_each,
)

LARGEST_RADIUS = 1 << 50
"""Radii, in integers: their squares are floats with a small error."""
LONGEST = 1 << 11
"""Vectors for which points of an l2 ball are drawn: one in sqrt(pi * length) is kept."""
_CLOSE = 2.0**-18
"""Far more than floats can be wrong by in a chance."""
_NEAR = 2.0**-36
"""Far more than floats can be wrong by in a squared length, relative to it."""
_LEAST_CELLS = 8
"""Binary logarithm of the cells on each side of 0, at least."""
_BATCH = 1 << 19
"""Coordinates that are proposed at once, about."""


def cube_points(widths: Integers, size: int, source: Source = secure_bytes) -> Integers:
    """Points whose coordinates are uniform on so many integers around 0.

    An odd width w gives -(w - 1)/2..(w - 1)/2; an even one -w/2..w/2 - 1, the integers below real
    numbers in [-w/2, w/2).

    :param widths: one for each point, or one for each of its coordinates
    :param size: of the points
    :param source: of random bytes

    >>> sorted(set(cube_points(np.array([3] * 100), 4).ravel().tolist()))
    [-1, 0, 1]
    """
    each = widths if widths.ndim == 2 else np.repeat(widths, size).reshape(len(widths), size)
    return uniform_below_each(each.astype(np.uint64), source) - each // 2


def ball_points(norm: str, radii: Integers, size: int, source: Source = secure_bytes) -> Integers:
    """Uniform points of real balls around 0, each coordinate rounded down to an integer.

    :param norm: "l1", "l2" or "linf"
    :param radii: of the balls, integers from 1 to 2^50, one for each point
    :param size: of the points
    :param source: of random bytes

    >>> ball_points("l2", np.array([1000] * 5), 3).shape
    (5, 3)
    """
    if len(radii) and not 1 <= int(radii.min()) <= int(radii.max()) <= LARGEST_RADIUS:
        raise ValueError("radii must be in [1, 2^50]")
    if norm == "linf":
        return cube_points(2 * radii, size, source)
    drawn = _simplex if norm == "l1" else _ball
    out = np.empty((len(radii), size), np.int64)
    rows = max(1, _BATCH // (4 * size))
    for start in range(0, len(radii), rows):
        out[start : start + rows] = drawn(radii[start : start + rows], size, source)
    return out


def _simplex(radii: Integers, size: int, source: Source) -> Integers:
    """Points of l1 balls: the gaps between uniform numbers in order, with random signs."""
    count = len(radii)
    bounds = np.repeat(radii.astype(np.uint64), size).reshape(count, size)
    whole = uniform_below_each(bounds, source)
    part = random_words(count * size, source).reshape(count, size)
    order = np.lexsort((part, whole), axis=1)
    whole, part = np.take_along_axis(whole, order, 1), np.take_along_axis(part, order, 1)
    # Before the first of them is 0, exactly.
    gaps = np.diff(whole, axis=1, prepend=0)
    gaps[:, 1:] -= part[:, 1:] < part[:, :-1]
    for i in np.flatnonzero((part[:, 1:] == part[:, :-1]).any(axis=1)).tolist():
        gaps[i] = _long_gaps(whole[i].tolist(), part[i].tolist(), source)
    signs = np.unpackbits(np.frombuffer(source(-(-count * size // 8)), np.uint8))[: count * size]
    return np.where(signs.reshape(count, size) == 1, gaps, -gaps - 1)


def _long_gaps(whole: list[int], part: list[int], source: Source) -> list[int]:
    """The same gaps where 64 digits are not enough to tell the numbers apart."""
    bits = 64
    while len(set(part)) < len(part):
        more = random_words(len(part), source).tolist()
        part, bits = [p << 64 | m for p, m in zip(part, more, strict=True)], bits + 64
    ordered = sorted((w << bits) + p for w, p in zip(whole, part, strict=True))
    return [(b - a) >> bits for a, b in zip([0, *ordered], ordered, strict=False)]


@dataclass(frozen=True)
class _Cells:
    """Cells that cover a radius, chosen about like a Gaussian: cell c with weight w[c] of 2^62.

    w[c] >= s exp(-(size/2) (c / cells)^2), so that within a ball the product of the weights of all
    coordinates is at least s^size exp(-size/2).
    """

    cells: int
    sampler: WeightedSampler
    weights: list[int]
    least: int
    logs: Floats


@lru_cache(maxsize=64)
def _cells(size: int) -> _Cells:
    cells = 1 << max(_LEAST_CELLS, math.ceil(math.log2(2.0 * size**1.5)))
    place = np.arange(cells) / cells
    heights = exp_many(0.5 * size * (1 - 2.0**-48) * place * place) + 2 * EXP_ERROR
    half = 1 << 61
    least = math.floor(half / float(heights.sum()) * (1 - 2.0**-20)) - 1
    # Floats are off by less than the second EXP_ERROR.
    weights = [math.ceil(Fraction(h) * least) for h in heights.tolist()]
    weights[0] += half - sum(weights)
    side = np.array(weights, np.int64)
    logs = np.log(side / least)
    return _Cells(
        cells,
        WeightedSampler.of(np.concatenate([side[::-1], side])),
        weights,
        least,
        frozen_array(logs),
    )


def _ball(radii: Integers, size: int, source: Source) -> Integers:
    """Points of l2 balls, by rejection; a rejected point is drawn again in the same ball."""
    out = np.empty((len(radii), size), np.int64)
    left = np.arange(len(radii))
    many = max(2, math.ceil(2 * math.sqrt(size)))
    while len(left):
        copies = max(1, min(many, _BATCH // (size * len(left))))
        which = np.repeat(left, copies)
        points, kept = _propose(radii[which], size, source)
        found, first = np.unique(which[kept], return_index=True)
        out[found] = points[kept][first]
        left = np.setdiff1d(left, found, assume_unique=True)
    return out


def _propose(radii: Integers, size: int, source: Source) -> tuple[Integers, Booleans]:
    cells = _cells(size)
    count = len(radii)
    width = radii // cells.cells + 1
    cell = cells.sampler.draw(count * size, source).reshape(count, size) - cells.cells
    inner = np.where(cell >= 0, cell, -cell - 1)
    widths = np.repeat(width.astype(np.uint64), size).reshape(count, size)
    points = cell * width[:, None] + uniform_below_each(widths, source)
    near = np.where(points >= 0, points, -points - 1).astype(np.float64)
    square = radii.astype(np.float64) ** 2
    least, most = (near * near).sum(axis=1), ((near + 1) * (near + 1)).sum(axis=1)
    chance = exp_many(np.maximum(0.5 * size + cells.logs[inner].sum(axis=1), 0.0))
    drawn = random_words(count, source)
    uniform = (drawn >> np.uint64(11)) * 2.0**-53
    possible = (uniform < chance + _CLOSE) & (least < square * (1 + _NEAR))
    kept = possible & (uniform < chance - _CLOSE) & (most < square * (1 - _NEAR))
    for i in np.flatnonzero(possible & ~kept).tolist():
        v = Digits(int(drawn[i]), 64, source)
        weights = [cells.weights[c] for c in inner[i].tolist()]
        kept[i] = _chosen(weights, cells.least, v) and _inside(
            points[i].tolist(), int(radii[i]), source
        )
    return points, kept


def _chosen(weights: list[int], least: int, v: Digits) -> bool:
    """Whether v is below s^size exp(-size/2) over the product of the weights."""
    size = len(weights)
    return settled(v, Fraction(size, 2), Fraction(least**size, math.prod(weights)))


def _inside(point: list[int], radius: int, source: Source) -> bool:
    """Whether the real point above these integers lies in the ball."""
    parts = [Digits(0, 0, source) for _ in point]
    while True:
        bits = parts[0].bits
        lows = [(p << bits) + d.value for p, d in zip(point, parts, strict=True)]
        square = (radius << bits) ** 2
        if sum(max(v * v, (v + 1) * (v + 1)) for v in lows) <= square:
            return True
        if sum(min(v * v, (v + 1) * (v + 1)) for v in lows) >= square:
            return False
        for digit in parts:
            digit.extend()

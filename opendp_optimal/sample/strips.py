"""Strips under which Gaussian and Laplace noise of any scale is drawn.

The line is cut into strips of ``M`` units, ``M`` the smallest integer that is at least ``width``
scales. Strip ``J`` is ``[J M, (J + 1) M)``; its inner edge is at least ``a * width`` scales from 0,
``a = J`` or ``-J - 1``. Whatever the scale, the density on it is at most ``h(a)``: a strip is
chosen with the fixed probability ``W(a) / 2**16``, ``W(a) >= c * h(a)`` an integer, a place in it
uniformly, and the place is kept with probability ``c * density / W(a) <= 1``.

Two of the ``2**16`` slots mean "beyond": the tail starts again ``STRIPS`` strips farther out, with
weights smaller by ``2**-15`` each time, which the density falls below (``exp(-32)`` each time).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Floats
from opendp_optimal.exact.exponentials import exp_bounds

Shape = Literal["gaussian", "laplace"]

SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS
BEYOND_SLOTS = 2
BEYOND_SHIFT = SLOT_BITS - 1
"""A strip one turn farther out is chosen 2**-15 times as often."""
FIRST_BEYOND = SLOTS - BEYOND_SLOTS
"""From this slot on a slot means "beyond"."""
TAIL_BITS = 24
"""A place beyond is kept with a probability below 2**-24."""


@dataclass(frozen=True)
class Envelope:
    """Strips for one shape of noise.

    ``width`` is in scales: sigma for a Gaussian, 1/rate for Laplace noise. ``weights[a]`` belongs
    to the two strips with inner edge ``a``; ``factor`` is ``c``.
    """

    shape: Shape
    width: float
    strips: int
    factor: int
    weights: tuple[int, ...]

    def exponent(self, a: float) -> float:
        """Return minus the logarithm of the density ``a`` strip widths from 0."""
        t = a * self.width
        return t * t / 2 if self.shape == "gaussian" else t


@cache
def envelope(shape: Shape) -> Envelope:
    """Return the envelope of a shape; checked exactly when it is made.

    :param shape: "gaussian" or "laplace"

    >>> sum(envelope("gaussian").weights) * 2 + BEYOND_SLOTS
    65536
    """
    width, strips = (0.0625, 128) if shape == "gaussian" else (0.25, 128)
    heights = []
    for a in range(strips):
        t = Fraction(width) * a
        x = t * t / 2 if shape == "gaussian" else t
        heights.append(Fraction(exp_bounds(x, 128)[1], 1 << 128))  # rounded up
    half = (SLOTS - BEYOND_SLOTS) // 2
    low, high = 1, half  # the largest factor whose weights fit
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(math.ceil(middle * h) for h in heights) <= half
        low, high = (middle, high) if fits else (low, middle - 1)
    weights = [math.ceil(low * h) for h in heights]
    weights[0] += half - sum(weights)
    return Envelope(shape, width, strips, low, tuple(weights))


@cache
def slots(shape: Shape) -> NDArray[np.int8]:
    """Return the strip of every slot; the last two slots, which mean "beyond", have none.

    :param shape: "gaussian" or "laplace"
    """
    weights = envelope(shape).weights
    outward = np.repeat(np.arange(len(weights)), weights)
    return np.concatenate([outward, -outward - 1, np.zeros(BEYOND_SLOTS)]).astype(np.int8)


@cache
def sure(shape: Shape, stretch: float) -> NDArray[np.uint8]:
    """Return for every slot how many of 256 first digits mean "keep" without a closer look.

    :param shape: "gaussian" or "laplace"
    :param stretch: strips are at most this many times as wide as ``width`` scales
    """
    if not math.isfinite(stretch):
        return np.zeros(SLOTS, np.uint8)
    env = envelope(shape)
    counts = []
    for a, weight in enumerate(env.weights):
        x = Fraction(env.exponent((a + 1) * stretch)) * (1 + Fraction(1, 1 << 40))
        lowest = Fraction(exp_bounds(x, 64)[0], 1 << 64) * env.factor / weight
        counts.append(min(255, math.floor(256 * lowest)))
    strip = slots(shape).astype(np.int64)
    table = np.array(counts, dtype=np.uint8)[np.where(strip >= 0, strip, -strip - 1)]
    table[FIRST_BEYOND:] = 0
    return table


@cache
def packed(shape: Shape, stretch: float) -> NDArray[np.uint16]:
    """Return strip (low byte) and sure digits (high byte) of every slot, to be looked up at once.

    :param shape: "gaussian" or "laplace"
    :param stretch: strips are at most this many times as wide as ``width`` scales
    """
    both = np.column_stack([slots(shape).view(np.uint8), sure(shape, stretch)])
    return np.ascontiguousarray(both).view("<u2").ravel()


@cache
def keep_factors(shape: Shape) -> Floats:
    """Return ``c / W(a)`` for every inner edge.

    :param shape: "gaussian" or "laplace"
    """
    env = envelope(shape)
    return np.array([env.factor / weight for weight in env.weights])

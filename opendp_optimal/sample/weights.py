"""Exact draws from integer weights: a uniform word located in the cumulative weights."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from opendp_optimal.arrays import Integers, frozen_array
from opendp_optimal.sample.words import Source, one_word, random_words, secure_bytes, uniform_below

_CHUNK = 1 << 20


@dataclass(frozen=True)
class WeightedSampler:
    """Draws k with probability weights[k] / 2^62; the weights must add up to 2^62 exactly.

    >>> import numpy as np
    >>> WeightedSampler.of(np.array([0, 1 << 62, 0])).draw(3).tolist()
    [1, 1, 1]
    """

    cumulative: Integers
    as_list: list[int]

    @staticmethod
    def of(weights: Integers) -> WeightedSampler:
        """Prepare the cumulative weights."""
        cumulative = np.cumsum(weights, dtype=np.int64)
        if len(weights) == 0 or weights.min() < 0 or int(cumulative[-1]) != 1 << 62:
            raise ValueError("weights must be non-negative and add up to 2^62")
        return WeightedSampler(frozen_array(cumulative), cumulative.tolist())

    def draw_one(self, source: Source = secure_bytes) -> int:
        """One draw."""
        return bisect_right(self.as_list, one_word(source) >> 2)

    def draw(self, count: int, source: Source = secure_bytes) -> Integers:
        """Independent draws, in memory proportional to their number."""
        out = np.empty(count, np.int64)
        for start in range(0, count, _CHUNK):
            part = out[start : start + _CHUNK]
            places = (random_words(len(part), source) >> np.uint64(2)).astype(np.int64)
            part[:] = np.searchsorted(self.cumulative, places, side="right")
        return out


def spread_over_cells(cells: Integers, steps: int, source: Source = secure_bytes) -> Integers:
    """Replace each cell by a uniform one of its ``steps`` grid points (odd, centred)."""
    out = cells * np.int64(steps)
    for start in range(0, len(out), _CHUNK):
        part = out[start : start + _CHUNK]
        part += uniform_below(steps, len(part), source) - steps // 2
    return out

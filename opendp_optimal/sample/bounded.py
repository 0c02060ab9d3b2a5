"""Releases of bounded answers in exact integers: a random shift or rounding, then one draw.

Answers are integers of grid steps here, and nothing is computed in floats. Where rows have two
outputs more than there are cells, the first and the last of them release the answer itself.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal.sample.words import Source, one_below


@dataclass(frozen=True)
class Shifting:
    """Equal bins of ``step`` grid steps from ``start`` on: shift all cells, draw, take the middle.

    For every shift, answers up to ``k * step`` grid steps apart lie at most k cells apart.
    """

    rows: Sequence[WeightedSampler]
    start: int
    step: int
    telling: bool

    def draw(self, answer: int, source: Source = os.urandom) -> int:
        """The grid place that is released for an answer."""
        shift = one_below(self.step, source)
        cell = (answer - self.start - shift) // self.step + 1
        cell = min(max(cell, 0), len(self.rows) - 1)
        y = self.rows[cell].draw_one(source) - self.telling
        if not 0 <= y < len(self.rows):
            return answer
        return self.start + shift + y * self.step - self.step // 2


@dataclass(frozen=True)
class Rounding:
    """Unequal bins: round at random, without bias, to an end of the answer's bin, then draw."""

    rows: Sequence[WeightedSampler]
    ends: Sequence[int]
    telling: bool

    def draw(self, answer: int, source: Source = os.urandom) -> int:
        """The grid place that is released for an answer."""
        answer = min(max(answer, self.ends[0]), self.ends[-1])
        x = min(bisect_right(self.ends, answer) - 1, len(self.ends) - 2)
        length = self.ends[x + 1] - self.ends[x]
        x += one_below(length, source) < answer - self.ends[x]
        y = self.rows[x].draw_one(source) - self.telling
        return self.ends[y] if 0 <= y < len(self.ends) else answer


@dataclass(frozen=True)
class Listed:
    """Integers from ``start`` on: each has its own row."""

    rows: Sequence[WeightedSampler]
    start: int

    def draw(self, answer: int, source: Source = os.urandom) -> int:
        """The integer that is released for an answer."""
        x = min(max(answer - self.start, 0), len(self.rows) - 1)
        return self.start + self.rows[x].draw_one(source)


@dataclass(frozen=True)
class Adding:
    """Noise that is the same for all answers; what leaves ``low``..``high`` is moved to its end."""

    noise: Callable[[], int]
    low: int
    high: int

    def draw(self, answer: int) -> int:
        """The grid place that is released for an answer."""
        return min(max(answer + self.noise(), self.low), self.high)

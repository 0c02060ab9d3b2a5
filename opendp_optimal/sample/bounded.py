"""Releases of bounded answers in exact integers: a random shift or rounding, then one draw.

Mechanisms take answers as integers of grid steps, and compute nothing in floats. Where rows have
two outputs more than there are cells, the first and the last of them release the answer itself.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import exactly
from opendp_optimal.model.bounded import rounding_pairs
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal.sample.words import Source, one_below, secure_bytes

_RESOLUTION = 24
"""Binary logarithm of the grid steps in a bin, at least."""


@dataclass(frozen=True)
class Shifting:
    """Equal bins of ``step`` grid steps from ``start`` on: shift all cells, draw, take the middle.

    For every shift, answers up to ``k * step`` grid steps apart lie at most k cells apart.
    """

    rows: Sequence[WeightedSampler]
    start: int
    step: int
    revealing: bool

    def draw(self, answer: int, source: Source = secure_bytes) -> int:
        """The grid place that is released for an answer."""
        shift = one_below(self.step, source)
        cell = (answer - self.start - shift) // self.step + 1
        cell = min(max(cell, 0), len(self.rows) - 1)
        y = self.rows[cell].draw_one(source) - self.revealing
        if not 0 <= y < len(self.rows):
            return answer
        return self.start + shift + y * self.step - self.step // 2


@dataclass(frozen=True)
class Rounding:
    """Unequal bins: round at random, without bias, to an end of the answer's bin, then draw."""

    rows: Sequence[WeightedSampler]
    ends: Sequence[int]
    revealing: bool

    def draw(self, answer: int, source: Source = secure_bytes) -> int:
        """The grid place that is released for an answer."""
        answer = min(max(answer, self.ends[0]), self.ends[-1])
        x = min(bisect_right(self.ends, answer) - 1, len(self.ends) - 2)
        length = self.ends[x + 1] - self.ends[x]
        x += one_below(length, source) < answer - self.ends[x]
        y = self.rows[x].draw_one(source) - self.revealing
        return self.ends[y] if 0 <= y < len(self.ends) else answer


@dataclass(frozen=True)
class Listed:
    """Integers from ``start`` on: each has its own row."""

    rows: Sequence[WeightedSampler]
    start: int

    def draw(self, answer: int, source: Source = secure_bytes) -> int:
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


Mechanism = Shifting | Rounding | Listed | Adding


def resolution(problem: BoundedProblem, bins: int) -> int:
    """The grid is that of multiples of 2^-bits: so fine for so many bins (integers: 0)."""
    if problem.integer:
        return 0
    least = problem.width / bins
    if problem.edges is not None:
        ends = [Fraction(e) for e in problem.edges]
        least = min(b - a for a, b in itertools.pairwise(ends))
    return _RESOLUTION - math.floor(math.log2(float(least)))


def prepare(
    problem: BoundedProblem,
    weights: Integers,
    cells: int,
    bits: int,
    proved: Integers,
    revealing: bool,
) -> Mechanism:
    """What is drawn from on the grid of multiples of 2^-bits.

    :param problem: what was asked
    :param weights: a row for each cell, end of a bin or integer, each adding up to 2^62
    :param cells: equal bins that cover the sensitivity
    :param bits: of the grid
    :param proved: pairs of rows whose privacy is proved
    :param revealing: whether the first and the last column release the answer itself
    :raises CertificateError: if the grid moves answers further apart than is proved
    """
    rows = tuple(WeightedSampler.of(row) for row in weights)
    if problem.integer:
        return Listed(rows, int(problem.low))
    unit = Fraction(2) ** bits
    moved = math.floor(problem.reach * unit) + 1
    if problem.edges is not None:
        ends = [round(Fraction(e) * unit) for e in problem.edges]
        needed = rounding_pairs([Fraction(e) for e in ends], Fraction(moved))
        if not set(map(tuple, needed.tolist())) <= set(map(tuple, proved.tolist())):
            raise CertificateError("bins are too narrow for floats")
        return Rounding(rows, tuple(ends), revealing)
    bins = len(rows) - 1
    low, high = round(Fraction(problem.low) * unit), round(Fraction(problem.high) * unit)
    step = max(-(-moved // cells), -(-(high - low + 1) // bins))
    return Shifting(rows, low - (bins * step - (high - low)) // 2, step, revealing)


def releaser(problem: BoundedProblem, mechanism: Mechanism, bits: int) -> Callable[[Any], Any]:
    """A function from an answer of any type of number to its release.

    Answers outside the range count as its nearer end, NaN as 0 (or the end nearest to it).
    """
    low, high = problem.low, problem.high
    if problem.integer:
        whole = whole_releaser(problem, mechanism, bits)
        return lambda answer: whole(math.floor(_within(answer, low, high)))
    unit = Fraction(2) ** bits

    def release(answer: Any) -> float:
        answer = _within(answer, low, high)
        if isinstance(answer, float):
            place = round(math.ldexp(answer, bits))
        else:
            place = round(exactly(answer) * unit)
        drawn = mechanism.draw(place)
        return min(max(math.ldexp(float(drawn), -bits), low), high)

    return release


def whole_releaser(
    problem: BoundedProblem, mechanism: Mechanism, bits: int
) -> Callable[[int], int]:
    """The same for integers, on any grid: nothing becomes a float."""
    low, high = math.ceil(problem.low), math.floor(problem.high)
    fine, coarse = max(bits, 0), max(-bits, 0)

    def release(answer: int) -> int:
        place = _over(min(max(int(answer), low), high) << fine, coarse)
        # Rounding what is released is post-processing.
        return min(max(_over(mechanism.draw(place) << coarse, fine), low), high)

    return release


def _within(answer: Any, low: float, high: float) -> Any:
    """The answer as it is, or the end of the range that is nearer; 0 for NaN."""
    if isinstance(answer, Integral):
        answer = int(answer)  # compared exactly
    elif isinstance(answer, np.float16 | np.float32):
        answer = float(answer)
    return min(max(0.0 if answer != answer else answer, low), high)


def _over(value: int, bits: int) -> int:
    """An integer over 2^bits, rounded to the nearest integer."""
    return value + ((1 << bits) >> 1) >> bits

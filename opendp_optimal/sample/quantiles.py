"""Many quantiles and the distribution between them, from one release.

The quantile that is nearest to the middle splits the data in two; the others are found in the two
parts, and so on. A record is in one part of each level, so that all quantiles of a level cost what
one costs: nine of them cost four, sixty-three six.

A quantile of a part is selected among candidates that are fixed beforehand. A record is in one of
the cells that they make: before the first, at the first, between the first and the second, and so
on. The score of a candidate is how far the wanted rank is from the ranks of the records that equal
it, in whole parts of a rank; it is negative, by how deep it lies among them, where it is one of
these. Every score gets geometric noise, and the best one wins (report noisy max). The records
before a candidate, and those up to it, less the wanted rank, move by at most the larger of a and
1 - a with one record more or less, where a is the part's share below the quantile, and so does
every score. Given the noise of the others, a candidate wins if its own noise reaches some number;
neighbours move that number by at most twice as much, and noise that is so much larger is at least
exp(-epsilon) times as likely, whatever the number: with integers, in steps and with ties, too.

Records that share a cell are put in order at random, each by digits of its own, so that a cell with
many of them can be split: a second selection, with a small share, says where. Digits are drawn for
the cells that are split only, so that a histogram is all that is held of the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.exact.numbers import float_down
from opendp_optimal.sample.integers import geometric
from opendp_optimal.sample.words import random_words

MOST_BINS, ORDER_BITS = 1 << 16, 16
"""How many candidates there are, about, and bits of the order of records within a cell."""
_SPLITS = 10
"""The places where the cells at a candidate can be split, a power of two."""
_UNIT, _STEPS = 1 << 24, 128
"""Scores are in such parts of a rank; noise has so many steps in twice the move of a score."""
_SPLIT_SHARE = 0.05
_CHUNK = 1 << 20
_DIGITS = 1 << 32
_NORMAL = 2.1
"""So many standard deviations hold 95 % of sums of a few Laplace variables."""


@dataclass(frozen=True)
class Step:
    """One quantile of a part, and those that are found in the two parts that it leaves.

    :param at: which of the probabilities
    :param share: of the part that is below it, in units of 2^-32
    :param level: of the tree
    :param below: the step for the part below, if any
    :param above: the step for the part above, if any
    """

    at: int
    share: int
    level: int
    below: Step | None
    above: Step | None

    @property
    def leaf(self) -> bool:
        """Whether nothing else is found in its part."""
        return self.below is None and self.above is None


def steps_of(probabilities: Sequence[float]) -> Step:
    """The tree of quantiles: each one nearest to the middle of those that are left.

    :param probabilities: sorted, between 0 and 1

    >>> found = steps_of([0.25, 0.5, 0.75])
    >>> found.at, found.below.at, found.above.at, found.above.level
    (1, 0, 2, 1)
    """
    step = _step(probabilities, 0, len(probabilities), 0.0, 1.0, 0)
    assert step is not None
    return step


def _step(
    wanted: Sequence[float], first: int, last: int, low: float, high: float, level: int
) -> Step | None:
    if first == last:
        return None
    middle = (first + last) // 2
    around = {middle, middle - 1} if (last - first) % 2 == 0 else {middle}
    at = min(sorted(around), key=lambda i: abs(wanted[i] - (low + high) / 2))
    here = wanted[at]
    share = round((here - low) / (high - low) * _DIGITS)
    return Step(
        at,
        min(max(share, 1), _DIGITS - 1),
        level,
        _step(wanted, first, at, low, here, level + 1),
        _step(wanted, at + 1, last, here, high, level + 1),
    )


def depth(step: Step | None) -> int:
    """The levels of a tree."""
    return 0 if step is None else 1 + max(depth(step.below), depth(step.above))


def shares(step: Step, left: Fraction) -> tuple[Fraction, Fraction]:
    """What selecting a bin and splitting it may cost, of what is left for the records of a part.

    Equal parts for all levels that are left; where nothing is left to find, there is no split.

    :param step: of the part
    :param left: an epsilon for one record
    """
    each = left / depth(step)
    split = Fraction(0) if step.leaf else each * Fraction(_SPLIT_SHARE)
    return each - split, split


def sensitivity(share: int) -> int:
    """How far one record moves a score, at most, in units: the target is rounded down to them."""
    least = share * _UNIT // _DIGITS
    most = -(-share * _UNIT // _DIGITS)
    return max(most, _UNIT - least)


def noise_step(share: int) -> int:
    """A step of the noise, in units: ``_STEPS`` of them are at least twice what a record moves."""
    return -(-2 * sensitivity(share) // _STEPS)


def scores(below: Integers, until: Integers, records: int, share: int) -> Integers:
    """How far each candidate is from the wanted rank, in units; less than 0 where it has it.

    :param below: records of the part before each candidate
    :param until: records of the part up to it
    :param records: of the part
    :param share: of the part that is below the quantile
    """
    wanted = _wanted(share, records)
    return np.asarray(np.maximum(below * _UNIT - wanted, wanted - until * _UNIT))


def _wanted(share: int, records: Any) -> Any:
    """The wanted rank among so many records, in units, rounded down."""
    return share * records // (_DIGITS // _UNIT)  # below 2^63 for up to 2^31 records


def noisy_best(short: Integers, share: int, epsilon: Fraction) -> int:
    """Select a candidate of small score, epsilon-privately.

    :param short: scores, in units
    :param share: of the part that is below the quantile
    :param epsilon: for one record
    """
    rate = min(float_down(epsilon / _STEPS), 1.0)
    return int(np.argmin(short - noise_step(share) * geometric(rate, len(short))))


def cells_of(values: Any, candidates: Any) -> Integers:
    """The cell of each value: 2 i + 1 where it equals candidate i, 2 i between i - 1 and i.

    :param values: of any length
    :param candidates: rising

    >>> cells_of(np.array([0.0, 1.0, 1.5, 2.0, 9.0]), np.array([1.0, 2.0])).tolist()
    [0, 1, 2, 3, 4]
    """
    below = np.searchsorted(candidates, values, "left")
    until = np.searchsorted(candidates, values, "right")
    return np.asarray(below + until, np.int64)


def released_candidates(
    cells: Integers,
    numbers: Integers,
    candidates: int,
    steps: Step,
    count: int,
    epsilon: Fraction,
) -> Integers:
    """Which candidates the quantiles are, in order.

    :param cells: that have records; a cell may stand there several times
    :param numbers: of records, at least one, for each of these cells
    :param candidates: how many there are
    :param steps: the tree
    :param count: of probabilities
    :param epsilon: for one record
    """
    found = np.zeros(count, np.int64)
    records = _Records(cells, numbers)
    part = _Part(records, 0, (2 * candidates + 1) << ORDER_BITS, 0, candidates - 1)
    _descend(part, steps, epsilon, found)
    return found


class _Records:
    """Records by cell, in a random order within each.

    A place is a cell and ``ORDER_BITS`` random digits.
    """

    def __init__(self, cells: Integers, numbers: Integers) -> None:
        """Add up the numbers of each cell."""
        self._cells, at = np.unique(np.asarray(cells, np.int64), return_inverse=True)
        self._numbers = np.zeros(len(self._cells), np.int64)
        np.add.at(self._numbers, at, numbers)
        self._before = np.concatenate([[0], np.cumsum(self._numbers)])
        self._orders: dict[int, NDArray[Any]] = {}

    def before(self, places: Any) -> Integers:
        """How many records are before each of some places."""
        cells, digits = np.divmod(np.asarray(places, np.int64), 1 << ORDER_BITS)
        at = np.searchsorted(self._cells, cells)
        ranks = self._before[at]
        held = np.append(self._cells, -1)[at] == cells
        for one in np.unique(at[held & (digits > 0)]).tolist():
            here = held & (at == one)
            ranks[here] += self._before_in(one, digits[here])
        return np.asarray(ranks, np.int64)

    def _before_in(self, at: int, digits: Integers) -> Integers:
        """How many records of one cell have smaller digits than these."""
        number = int(self._numbers[at])
        few = number < 1 << ORDER_BITS
        if at not in self._orders:
            if few:
                self._orders[at] = np.sort(_orders(number))
            else:
                found = np.zeros((1 << ORDER_BITS) + 1, np.int64)
                for start in range(0, number, _CHUNK):
                    drawn = _orders(min(_CHUNK, number - start))
                    found[1:] += np.bincount(drawn, minlength=1 << ORDER_BITS)
                self._orders[at] = np.cumsum(found)
        order = self._orders[at]
        return np.asarray(np.searchsorted(order, digits) if few else order[digits], np.int64)


def _orders(count: int) -> NDArray[Any]:
    """Random digits for so many records."""
    each = 64 // ORDER_BITS
    return random_words(-(-count // each)).view(f"u{ORDER_BITS // 8}")[:count]


@dataclass(frozen=True)
class _Part:
    """Records in a range of places, ``low`` up to before ``high``.

    :param records: all of them
    :param low: where the range begins
    :param high: where it ends
    :param first: the first candidate for its quantiles
    :param last: the last one
    """

    records: _Records
    low: int
    high: int
    first: int
    last: int

    def before(self, places: Any) -> Integers:
        """How many records of the part are before some places."""
        ends = np.append(np.clip(places, self.low, self.high), self.low)
        ranks = self.records.before(ends)
        return np.asarray(ranks[:-1] - ranks[-1])


def _descend(part: _Part, step: Step | None, left: Fraction, found: Integers) -> None:
    """Find the quantiles of a part."""
    if step is None:
        return
    select, split = shares(step, left)
    own = 2 * np.arange(part.first, part.last + 1) + 1
    records = int(part.before(part.high)[0])
    below, until = (part.before(cells << ORDER_BITS) for cells in (own, own + 1))
    at = part.first + noisy_best(scores(below, until, records, step.share), step.share, select)
    found[step.at] = at
    if step.leaf:
        return
    start, end = (min(max(c << ORDER_BITS, part.low), part.high) for c in (2 * at, 2 * at + 3))
    inside = np.unique(np.linspace(start, end, (1 << _SPLITS) + 1).astype(np.int64))
    off = np.abs(part.before(inside) * _UNIT - _wanted(step.share, records))
    place = int(inside[noisy_best(off, step.share, split)])
    rest = left - select - split
    _descend(_Part(part.records, part.low, place, part.first, at), step.below, rest, found)
    _descend(_Part(part.records, place, part.high, at, part.last), step.above, rest, found)


def rank_spread(steps: Step, count: int, epsilon: Fraction) -> Floats:
    """What the errors of the ranks stay within, about 95 % of the time, where records are dense.

    :param steps: the tree
    :param count: of probabilities
    :param epsilon: for one record
    """
    spread = np.zeros(count)
    for at, variance in _variances(steps, epsilon, 0.0, 0.0):
        spread[at] = _NORMAL * math.sqrt(variance)
    return spread


def _variances(
    step: Step | None, left: Fraction, low: float, high: float
) -> Iterator[tuple[int, float]]:
    """The variance of each rank: its own, and what it inherits from the ends of its part."""
    if step is None:
        return
    share = step.share / _DIGITS
    select, split = shares(step, left)
    own = 2 * (2 * sensitivity(step.share) / _UNIT / float(select)) ** 2
    own += (1 - share) ** 2 * low + share**2 * high
    yield step.at, own
    yield from _variances(step.below, left - select - split, low, own)
    yield from _variances(step.above, left - select - split, own, high)


def round_numbers(low: Floats, high: Floats) -> Floats:
    """The number with the fewest digits in each [low, high): data written by people hold it most.

    :param low: where each range begins
    :param high: where it ends

    >>> round_numbers(np.array([498.8, -3.0, 0.0123]), np.array([501.3, 2.0, 0.0177])).tolist()
    [500.0, 0.0, 0.013]
    """
    found, left = low.copy(), np.ones(len(low), np.bool_)
    with np.errstate(all="ignore"):
        largest = float(np.max(np.maximum(np.abs(low), np.abs(high)), initial=0.0))
        first = min(308, math.floor(math.log10(largest)) + 1) if largest else 0
        narrow = float(np.min(high - low, initial=largest))
        last = max(-307, math.floor(math.log10(narrow)) - 1) if narrow > 0 else -307
        for digit in range(first, max(last, first - 40) - 1, -1):
            step = 10.0 ** abs(digit)
            number = np.ceil(low / step) * step if digit >= 0 else np.ceil(low * step) / step
            fits = left & (low <= number) & (number < high)
            found[fits] = number[fits] + 0.0  # no zero has a sign
            left &= ~fits
    return found

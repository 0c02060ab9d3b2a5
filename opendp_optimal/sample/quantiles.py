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
many of them can be split: a second selection, with a small share, says where.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.exact.numbers import float_down
from opendp_optimal.sample.integers import laplace_integers
from opendp_optimal.sample.words import random_words

MOST_BINS, ORDER_BITS = 1 << 16, 16
"""How many candidates there are, about, and bits of the order of records within a cell."""
_SPLITS = 10
"""The places where the cells at a candidate can be split, a power of two."""
_UNIT, _STEPS = 1 << 24, 128
"""Scores are in such parts of a rank; noise has so many steps in twice the move of a score."""
_SPLIT_SHARE = 0.05
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


def geometric(rate: float, count: int) -> Integers:
    """Draws of 0, 1, ... with chances proportional to exp(-rate k), exactly."""
    drawn = laplace_integers(rate, count)
    return np.where(drawn >= 0, drawn, -1 - drawn)


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
    cells: Integers, candidates: int, steps: Step, count: int, epsilon: Fraction
) -> Integers:
    """Which candidates the quantiles are, in order.

    :param cells: of the records
    :param candidates: how many there are
    :param steps: the tree
    :param count: of probabilities
    :param epsilon: for one record
    """
    order = (random_words(len(cells)) >> np.uint64(64 - ORDER_BITS)).astype(np.int64)
    places = np.sort((cells.astype(np.int64) << ORDER_BITS) | order)
    found = np.zeros(count, np.int64)
    part = _Part(places, 0, (2 * candidates + 1) << ORDER_BITS, 0, candidates - 1)
    _descend(part, steps, epsilon, found)
    return found


@dataclass(frozen=True)
class _Part:
    """Records in a range of places, ``low`` up to before ``high``.

    :param places: of the records, sorted
    :param low: where the range begins
    :param high: where it ends
    :param first: the first candidate for its quantiles
    :param last: the last one
    """

    places: Integers
    low: int
    high: int
    first: int
    last: int

    def ranks(self, cells: Any) -> Integers:
        """How many of the records are before these cells."""
        edges = np.clip(cells << ORDER_BITS, self.low, self.high)
        return np.asarray(np.searchsorted(self.places, edges))


def _descend(part: _Part, step: Step | None, left: Fraction, found: Integers) -> None:
    """Find the quantiles of a part."""
    if step is None:
        return
    select, split = shares(step, left)
    own = 2 * np.arange(part.first, part.last + 1) + 1
    records = len(part.places)
    short = scores(part.ranks(own), part.ranks(own + 1), records, step.share)
    at = part.first + noisy_best(short, step.share, select)
    found[step.at] = at
    if step.leaf:
        return
    start, end = (min(max(c << ORDER_BITS, part.low), part.high) for c in (2 * at, 2 * at + 3))
    inside = np.unique(np.linspace(start, end, (1 << _SPLITS) + 1).astype(np.int64))
    ranks = np.searchsorted(part.places, inside)
    off = np.abs(ranks * _UNIT - _wanted(step.share, records))
    place = int(inside[noisy_best(off, step.share, split)])
    middle = int(np.searchsorted(part.places, place))
    rest = left - select - split
    below = _Part(part.places[:middle], part.low, place, part.first, at)
    above = _Part(part.places[middle:], place, part.high, at, part.last)
    _descend(below, step.below, rest, found)
    _descend(above, step.above, rest, found)


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

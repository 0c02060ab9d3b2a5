"""Many quantiles and the distribution between them, from one release.

The quantile that is nearest to the middle splits the data in two; the others are found in the two
parts, and so on. A record is in one part of each level, so that all quantiles of a level cost what
one costs: nine of them cost four, sixty-three six.

A quantile of a part is selected among bins that are fixed beforehand. The score of a bin is how far
the wanted rank is from the ranks that it holds, in whole parts of a rank; every score gets
geometric noise, and the best one wins (report noisy max). The difference between the records before
a candidate and the wanted rank moves by at most the larger of a and 1 - a with one record more or
less, where a is the part's share below the quantile, and so does every score. Given the noise of
the others, a bin wins if its own noise reaches some number; neighbours move that number by at most
twice as much, and noise that is so much larger is at least exp(-epsilon) times as likely, whatever
the number: with integers and ties, too.

Records that share a bin are put in order at random, each by digits of its own, so that a bin with
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
"""How many bins there are, and bits of the order of records within one."""
_SPLITS = 10
"""The places where a bin can be split, a power of two."""
_UNIT = 64
"""Scores are in such parts of a rank."""
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


def scores(below: Integers, until: Integers, share: int, *, full: bool) -> Integers:
    """How far each candidate is from the wanted rank, in units.

    Where bins are full, a candidate is as good as the records outside it are shared well: that
    tells neighbours apart best. Where many are empty, by how far the wanted rank is from its own.

    :param below: records of the part before each candidate
    :param until: records of the part before its end; all of them in the last place
    :param share: of the part that is below the quantile
    :param full: whether most bins hold records
    """
    records = until[-1]
    if full:
        others = records - (until - below)
        return np.asarray(np.abs(below * _UNIT - _wanted(share, others)))
    wanted = _wanted(share, records)
    short = np.maximum(below * _UNIT - wanted, wanted - until * _UNIT)
    return np.asarray(np.maximum(short, 0))


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
    rate = float_down(epsilon / (2 * sensitivity(share)))
    return int(np.argmin(short - geometric(min(rate, 1.0), len(short))))


def release_bins(
    bins: Integers, most: int, steps: Step, count: int, epsilon: Fraction, *, full: bool
) -> Integers:
    """Bins of the quantiles, which are in order.

    :param bins: of the records, 0 up to before ``most``
    :param most: how many bins there are
    :param steps: the tree
    :param count: of probabilities
    :param epsilon: for one record
    :param full: whether most bins hold records
    """
    order = (random_words(len(bins)) >> np.uint64(64 - ORDER_BITS)).astype(np.int64)
    places = np.sort((bins.astype(np.int64) << ORDER_BITS) | order)
    found = np.zeros(count, np.int64)
    _descend(places, 0, most << ORDER_BITS, steps, epsilon, found, full)
    return found


def _descend(
    places: Integers,
    low: int,
    high: int,
    step: Step | None,
    left: Fraction,
    found: Integers,
    full: bool,
) -> None:
    """Find the quantiles of the records in a range of places, ``low`` up to before ``high``."""
    if step is None:
        return
    if high == low:  # no place is left: the one before it has all that there is
        found[step.at] = max(low - 1, 0) >> ORDER_BITS
        _descend(places, low, high, step.below, left, found, full)
        _descend(places, low, high, step.above, left, found, full)
        return
    select, split = shares(step, left)
    first, last = low >> ORDER_BITS, (high - 1) >> ORDER_BITS
    edges = np.clip(np.arange(first, last + 2) << ORDER_BITS, low, high)
    ranks = np.searchsorted(places, edges)
    short = scores(ranks[:-1], ranks[1:], step.share, full=full)
    at = noisy_best(short, step.share, select)
    found[step.at] = first + at
    if step.leaf:
        return
    inside = np.unique(np.linspace(edges[at], edges[at + 1], (1 << _SPLITS) + 1).astype(np.int64))
    ranks = np.searchsorted(places, inside)
    short = np.abs(ranks * _UNIT - _wanted(step.share, len(places)))
    place = int(inside[noisy_best(short, step.share, split)])
    middle = int(np.searchsorted(places, place))
    rest = left - select - split
    _descend(places[:middle], low, place, step.below, rest, found, full)
    _descend(places[middle:], place, high, step.above, rest, found, full)


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


def roundest(low: Fraction, high: Fraction) -> Fraction:
    """The number with the fewest digits in [low, high), which data written by people hold most.

    >>> roundest(Fraction(4988, 10), Fraction(5013, 10))
    Fraction(500, 1)
    """
    if low <= 0 < high:
        return Fraction(0)
    size = max(abs(low), abs(high))
    power = math.floor(math.log10(size.numerator) - math.log10(size.denominator)) + 1
    for digit in range(power, power - 40, -1):
        step = Fraction(10) ** digit
        found = -(-low // step) * step
        if found < high:
            return found
    return low

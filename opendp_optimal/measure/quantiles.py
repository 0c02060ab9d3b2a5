"""Quantiles, as many as are wanted, and the distribution between them, in one measurement.

:mod:`opendp_optimal.sample.quantiles` has the mechanism and why it is private. Here values become
bins, each by a function of the value alone: no rounding of floats is part of an argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.budget.events import Approximate
from opendp_optimal.budget.ledger.answers import storable
from opendp_optimal.checks import interval
from opendp_optimal.checks import whole as _whole
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, require_features
from opendp_optimal.measure.facts import Facts, record_text, remember
from opendp_optimal.measure.noise import stated, target_of
from opendp_optimal.measure.space import DTYPES, INTEGER_RANGES, records_of
from opendp_optimal.measure.waiting import defer, to_then
from opendp_optimal.problem.noise import MIN_EPSILON
from opendp_optimal.sample.integers import laplace_integers
from opendp_optimal.sample.quantiles import (
    MOST_BINS,
    Step,
    cells_of,
    rank_spread,
    released_candidates,
    round_numbers,
    steps_of,
)

_COUNT_SHARE = Fraction(1, 50)
"""Of epsilon, for the count, by which intervals are as wide as errors of ranks make them."""
_MOST_QUANTILES = 1023
_SURELY = 3.0
"""Laplace noise is below so many scales in 97 % of all cases: records there are, for intervals."""
_MOST_ROWS = 1 << 20
_EXPONENTS = 1075
"""Powers of two: 2^-1074 is the smallest float."""
MOST_POWER = _EXPONENTS + 1024
"""The power of the largest float, counted from below all of them."""
_SURE = 1e4
"""One release in so many, at most, takes an empty power of two for a used one."""
_LARGE, _EXACT = 2.0**1020, 1 << 53
Bounds = tuple[Any, Any]


@storable
@dataclass(frozen=True)
class Quantiles:
    """Released quantiles; iterating gives their values.

    :param probabilities: in order
    :param values: of the quantiles, never falling
    :param low: about 95 % of the time no quantile is below its own, where records are dense
    :param high: the same from above
    :param count: noisy number of records
    :param bounds: values beyond count as these
    """

    probabilities: tuple[float, ...]
    values: tuple[Any, ...]
    low: tuple[Any, ...]
    high: tuple[Any, ...]
    count: float
    bounds: Bounds

    def __iter__(self) -> Iterator[Any]:
        """The values."""
        return iter(self.values)

    def __len__(self) -> int:
        """How many quantiles there are."""
        return len(self.values)

    def quantile(self, probability: float) -> float:
        """Any quantile, on straight lines between those that were released.

        :param probability: in [0, 1]
        """
        if not 0 <= probability <= 1:
            raise ValueError(f"probability ({probability!r}) must be in [0, 1]")
        return float(np.interp(probability, *self._curve()))

    def cdf(self, value: float) -> float:
        """The share of records up to a value, on the same lines.

        :param value: any number
        """
        chances, values = self._curve()
        if math.isnan(value):
            raise ValueError(f"value ({value!r}) must be a number")
        # Where many quantiles share a value, all up to the last of them are up to it.
        at = int(np.searchsorted(values, value, side="right"))
        if at == 0 or at == len(values):
            return 0.0 if at == 0 else 1.0
        part = (value - values[at - 1]) / (values[at] - values[at - 1])
        return float(chances[at - 1] + part * (chances[at] - chances[at - 1]))

    def _curve(self) -> tuple[list[float], list[float]]:
        low, high = (float(end) for end in self.bounds)
        return [0.0, *self.probabilities, 1.0], [low, *map(float, self.values), high]


@dataclass(frozen=True)
class Line:
    """The numbers between two bounds that quantiles are selected from.

    :param low: the smallest
    :param high: the largest
    :param whole: whether they are integers
    :param count: of bins of equal length, each with a number of few digits
    """

    low: Any
    high: Any
    whole: bool
    count: int = MOST_BINS

    @cached_property
    def numbers(self) -> NDArray[Any]:
        """The candidates, rising: a number of each bin, and both bounds."""
        if not self.whole:
            edges = self._edges()
            found = round_numbers(edges[:-1], edges[1:])
            ends = [self.low + 0.0, self.high + 0.0]
            return np.unique(np.clip(np.concatenate([found, ends]), self.low, self.high))
        span = self.high - self.low + 1
        starts = [self.low + at * span // self.count for at in range(self.count + 1)]
        dtype = np.uint64 if self.high >= 1 << 63 else np.int64
        if span > self.count and max(abs(self.low), abs(self.high)) < _EXACT:
            edges = np.array(starts, np.float64)
            starts = np.ceil(round_numbers(edges[:-1], edges[1:])).astype(np.int64).tolist()
        return np.unique(np.array([*starts[: self.count], self.low, self.high], dtype))

    def _edges(self) -> Floats:
        """Where bins of floats begin, and the end of the last."""
        part = np.arange(self.count + 1)
        unit = 0.5 if max(abs(self.low), abs(self.high)) > _LARGE else 1.0
        low, high = self.low * unit, self.high * unit
        with np.errstate(over="ignore"):
            above = part * (high - low) / self.count
        if not np.all(np.isfinite(above)):
            above = part / self.count * (high - low)
        return np.asarray((above + low) / unit)

    def cells(self, values: NDArray[Any]) -> Integers:
        """The cell of each value, a function of the value alone; NaN is at the lowest."""
        if not self.whole:
            plain = np.nan_to_num(np.asarray(values, np.float64), nan=self.low)
            return cells_of(np.clip(plain, self.low, self.high), self.numbers)
        ends = np.array([self.low, self.high], values.dtype)
        return cells_of(np.clip(values, *ends).astype(self.numbers.dtype), self.numbers)

    def outward(self, end: float, sign: int) -> Any:
        """An end of an interval as it is shown: -1 for the lower one, 1 for the upper one."""
        if not self.whole:
            return end
        return math.floor(end) if sign < 0 else math.ceil(end)


def _power_bins(values: NDArray[Any], whole: bool) -> Integers:
    """The power of two of each value, with its sign; 0 for 0 and NaN."""
    floats = np.nan_to_num(np.asarray(values, np.float64), nan=0.0)  # infinities become the largest
    _, exponents = np.frexp(floats)
    if whole:
        exponents = np.minimum(exponents, 64)
    powers = np.where(floats == 0, 0, exponents + _EXPONENTS)
    return np.where(floats < 0, -powers, powers).astype(np.int64)


def _power_end(power: int, *, upper: bool) -> Fraction:
    """An end of a bin of values with the same power of two."""
    if power == 0:
        return Fraction(0)
    exponent = abs(power) - _EXPONENTS - (0 if upper == (power > 0) else 1)
    return Fraction(2) ** exponent * (1 if power > 0 else -1)


def _private_bounds(values: NDArray[Any], whole: bool, epsilon: Fraction) -> tuple[Any, Any]:
    """The bounds of some values."""
    powers = _power_bins(values, whole) + MOST_POWER
    return bounds_of_powers(np.bincount(powers, minlength=2 * MOST_POWER + 1), whole, epsilon)


def bounds_of_powers(counts: Integers, whole: bool, epsilon: Fraction) -> tuple[Any, Any]:
    """The outermost powers of two that hold more records than noise would explain.

    One record moves one of the counts by 1.

    :param counts: of the powers -MOST_POWER..MOST_POWER
    :param whole: whether values are integers
    :param epsilon: for one record
    """
    most = MOST_POWER
    noisy = counts + laplace_integers(min(float_down(epsilon), 1.0), len(counts))
    enough = math.ceil(math.log(len(counts) * _SURE) / min(float(epsilon), 1.0))
    used = np.flatnonzero(noisy >= enough)
    if not len(used):
        used = np.array([int(np.argmax(noisy))])
    low = _power_end(int(used[0]) - most, upper=False)
    high = _power_end(int(used[-1]) - most, upper=True)
    if whole:
        return math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    largest = Fraction(float(np.finfo(float).max))
    first, last = (float(min(max(end, -largest), largest)) for end in (low, high))
    return (first, last) if first < last else (first - 1.0, last + 1.0)


@dataclass(frozen=True)
class QuantileDesign:
    """How quantiles are released, whatever the bins.

    :param wanted: probabilities
    :param counting: what counting the records costs one of them
    :param selecting: what the quantiles cost one of them
    """

    wanted: tuple[float, ...]
    counting: Fraction
    selecting: Fraction

    @cached_property
    def steps(self) -> Step:
        """The tree of quantiles."""
        return steps_of(self.wanted)

    @cached_property
    def spread(self) -> Floats:
        """How far the rank of each quantile is off, about 95 % of the time at most."""
        return rank_spread(self.steps, len(self.wanted), self.selecting)

    def release(self, line: Line, cells: Integers, numbers: Integers | None = None) -> Quantiles:
        """The quantiles of some records.

        :param line: with the candidates
        :param cells: of the records
        :param numbers: of the records in each of these cells; one each, if None
        """
        held = np.ones(len(cells), np.int64) if numbers is None else numbers
        count = int(held.sum()) + int(laplace_integers(min(float_down(self.counting), 1.0), 1)[0])
        places = released_candidates(
            cells, held, len(line.numbers), self.steps, len(self.wanted), self.selecting
        )
        surely = count - _SURELY / float(self.counting)
        spread = self.spread / max(surely, 1.0)
        return _answer(line, self.wanted, places.tolist(), spread, float(count))


def design_quantiles(probabilities: Any, epsilon: Fraction) -> QuantileDesign:
    """How quantiles are released where one record may cost so much.

    :param probabilities: rising, each between 0 and 1
    :param epsilon: for one record
    :raises ValueError: if probabilities are none
    """
    wanted = _probabilities(probabilities)
    counting = epsilon * _COUNT_SHARE
    return QuantileDesign(wanted, counting, epsilon - counting)


def make_optimal_quantiles(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    bounds: tuple[float, float] | None,
    probabilities: Sequence[float],
    d_in: int,
    d_out: float | tuple[float, float],
    *,
    bins: int = MOST_BINS,
    share: float = 0.1,
) -> dp.Measurement:
    """Make a measurement that releases quantiles, and the distribution between them, together.

    Nine quantiles cost what four cost, sixty-three what six do. Delta is not used.

    :param input_domain: a vector domain of integers, or of floats that exclude NaN.
    :param input_metric: ``symmetric_distance()``.
    :param bounds: values beyond count as these; None to find powers of two privately.
    :param probabilities: of the quantiles, rising, each between 0 and 1.
    :param d_in: how many records a person has at most.
    :param d_out: an epsilon, or ``(epsilon, delta)``.
    :param bins: between the bounds, of equal length, at most 65536; quantiles are selected from a
        number of few digits in each. Where the data have fewer values than that, one bin for each
        is best: (0, 500000) in hundreds makes 5000.
    :param share: of epsilon that finds bounds, where they are None.
    :returns: a measurement that releases :class:`Quantiles`.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    >>> meas = make_optimal_quantiles(*space, (0, 100), [0.25, 0.5, 0.75], d_in=1, d_out=1.0)
    >>> first, median, third = meas([age for age in range(100)] * 100)
    >>> abs(first - 25) <= 1, abs(median - 50) <= 1, abs(third - 75) <= 1, meas.map(1)
    (True, True, True, 1.0)
    """
    require_features("contrib")
    carrier = _carrier(input_domain, input_metric)
    whole = carrier in INTEGER_RANGES
    count_of_bins = _whole("bins", bins, least=2, most=MOST_BINS)
    line = None if bounds is None else _line(bounds, carrier, count_of_bins)
    wanted = _probabilities(probabilities)
    records_of(d_in, _MOST_ROWS)
    if isinstance(share, bool) or not isinstance(share, float | int) or not 0.01 <= share <= 0.9:
        raise ValueError(f"share ({share!r}) must be in [0.01, 0.9]")
    epsilon, _ = target_of(d_out)
    each = Fraction(epsilon) / d_in
    if each < Fraction(MIN_EPSILON):
        raise ValueError(f"d_out ({d_out!r}) must leave each record at least {MIN_EPSILON:g}")
    finding = each * Fraction(share) if line is None else Fraction(0)
    design = design_quantiles(wanted, each - finding)
    dtype = DTYPES[carrier]

    def release(data: Any) -> Quantiles:
        values = np.asarray(data, dtype)
        found = line or _clipped(_private_bounds(values, whole, finding), carrier, count_of_bins)
        return design.release(found, found.cells(values))

    def pair(distance: Any) -> tuple[float, float]:
        return (epsilon if int(distance) == d_in else float_up(each * int(distance))), 0.0

    measure, price = stated(d_out, pair)
    made = make_measurement(
        input_domain, input_metric, measure, release, price, TO="ExtrinsicObject"
    )
    ends = None if line is None else (line.low, line.high)
    record = record_text(
        "make_optimal_quantiles", ends, count_of_bins, wanted, d_in, d_out, float(share)
    )

    def event(distance: Any = None) -> Approximate:
        return Approximate(*pair(d_in if distance is None else distance))

    return remember(made, Facts(record, None, event))


def _answer(
    line: Line, wanted: tuple[float, ...], places: list[int], spread: Any, count: float
) -> Quantiles:
    """Quantiles from their bins, with intervals as wide as errors of their ranks make them."""
    ends = line.low, line.high
    values = tuple(line.numbers[places].tolist())
    plain = Quantiles(wanted, values, values, values, count, ends)
    sides = []
    for sign in (-1, 1):
        moved = np.clip(np.array(wanted) + sign * spread, 0.0, 1.0).tolist()
        reached = [line.outward(plain.quantile(p), sign) for p in moved]
        sides.append(tuple(min(max(v, ends[0]), ends[1]) for v in reached))
    return Quantiles(wanted, values, sides[0], sides[1], count, ends)


def _carrier(input_domain: Any, input_metric: Any) -> str:
    """OpenDP's name of the type of the numbers, checked."""
    carrier = str(input_domain.carrier_type) if isinstance(input_domain, dp.Domain) else ""
    name = carrier.removeprefix("Vec<").removesuffix(">")
    if carrier != f"Vec<{name}>" or name not in DTYPES or "nan=true" in str(input_domain).lower():
        raise ValueError(
            f"input_domain ({input_domain}) must be a vector domain of integers, or of floats "
            f"without NaN"
        )
    if str(input_metric) != "SymmetricDistance()":
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance()")
    return name


def _line(bounds: Any, carrier: str, bins: int) -> Line:
    """The bins between two bounds, checked."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"bounds ({bounds!r}) must be a pair (low, high), or None")
    if carrier not in INTEGER_RANGES:
        ends = interval(*bounds, names=("bounds[0]", "bounds[1]"))
        return Line(float(ends[0]), float(ends[1]), False, bins)
    for end in bounds:
        if isinstance(end, bool) or not isinstance(end, int | np.integer):
            raise ValueError(f"bounds ({bounds!r}) must be integers, as the data are")
    least, most = INTEGER_RANGES[carrier]
    low, high = int(bounds[0]), int(bounds[1])
    if not least <= low < high <= most:
        raise ValueError(f"bounds ({bounds!r}) must rise and be numbers of type {carrier}")
    return Line(low, high, True, min(bins, high - low + 1))


def _clipped(bounds: tuple[Any, Any], carrier: str, bins: int) -> Line:
    """Bounds that were found, within the type of the data."""
    if carrier not in INTEGER_RANGES:
        return Line(*bounds, whole=False, count=bins)
    least, most = INTEGER_RANGES[carrier]
    low = min(max(bounds[0], least), most - 1)
    high = max(min(bounds[1], most), low + 1)
    return Line(low, high, True, min(bins, high - low + 1))


def _probabilities(probabilities: Any) -> tuple[float, ...]:
    """Probabilities, checked: rising, each between 0 and 1."""
    try:
        found = tuple(float(p) for p in probabilities)
    except (TypeError, ValueError, OverflowError):
        found = ()
    rising = all(a + 1e-9 <= b for a, b in pairwise(found))
    inside = all(1e-9 <= p <= 1 - 1e-9 for p in found)
    if not 1 <= len(found) <= _MOST_QUANTILES or not rising or not inside:
        raise ValueError(
            f"probabilities ({probabilities!r}) must rise, each between 0 and 1, at most "
            f"{_MOST_QUANTILES} of them"
        )
    return found


then_optimal_quantiles = to_then(make_optimal_quantiles)
make_quantiles = defer(make_optimal_quantiles, "make_quantiles")

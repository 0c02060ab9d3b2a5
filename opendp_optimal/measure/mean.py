"""Means with their count, released together for the price of one count.

A record moves the count by 1 and each centred sum by at most half of its range. So count and
doubled sums move within a box, and noise that falls with the linf norm hides all of them at once,
whatever their number. The noise of the count enters every mean: boxes are the longer in the sums
the more of them there are. For a single mean there is better noise still: the pair table of
:mod:`opendp_optimal.search.pair`. For very many, or a large delta, it is noise that falls with the
l2 norm, each coordinate in units of its own. The best is taken.

Records are made whole numbers one by one, by a function of the record alone, and added as integers:
no rounding, no order of rows and no overflow can move a sum by more than is counted.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.budget.events import Approximate, Profile
from opendp_optimal.checks import interval
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.exact.numbers import float_down
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import make_measurement, require_features
from opendp_optimal.measure.facts import Facts, record_text, remember
from opendp_optimal.measure.guarantee import group, step_delta
from opendp_optimal.measure.noise import stated, target_of
from opendp_optimal.measure.space import records_of
from opendp_optimal.measure.waiting import defer, to_then
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA
from opendp_optimal.problem.pair import LEAST_EPSILON
from opendp_optimal.search.pair import solve_pair
from opendp_optimal.search.radial import solve_radial
from opendp_optimal.table.pair import PairTable
from opendp_optimal.table.radial import RadialTable

_STEPS = (1 << 20) + 1
"""Grid steps in a cell of a pair table."""
_FINE_UNITS, _LEAST_UNITS, _LONGEST = 1 << 12, 1 << 4, 1 << 28
"""Integers in a range: as a rule, and at least; and how many of them noise may be long, about."""
_SPARE = 12
"""Bits of them in a step of radial noise: rounding a move up to steps costs nothing to speak of."""
_TURNS = 1 << 4
"""Steps of noise in the l2 norm in an integer, at least."""
_CHUNK = 1 << 20
_MOMENTS = {1: (1.0, 2.0, 1.0), 2: (0.63, 7 / 3, 1.0)}
"""What errors of count and doubled sums count in those of mean and variance, for each power of the
loss: with mu and mu^2 + v/2 as the means, v the largest variance, on average over all mu."""
_MOST_ROWS = 1024
_MOST_COLUMNS = 1 << 10
Bounds = tuple[float, float]
Weights = tuple[float, ...]


@dataclass(frozen=True)
class _Noise:
    """Noise for a count and some centred sums.

    :param table: a pair table, or radial noise
    :param units: integers that a record's range is divided into, an even number
    :param rows: how many records of a person the noise hides
    :param reach: how far they move the count and the doubled sums at most, in steps of radial noise
    :param scale: such steps in a record for the count, and in an integer for each doubled sum
    :param loss: expected, of the count and the doubled sums as they count
    """

    table: PairTable | RadialTable
    units: int
    rows: int
    reach: int
    scale: tuple[int, ...]
    loss: float

    def released(self, count: int, sums: Sequence[int]) -> tuple[float, Floats]:
        """The noisy count, and noisy sums over the noisy count, in [-1/2, 1/2]."""
        if isinstance(self.table, PairTable):
            place, more = self.table.draw(1, steps=_STEPS)
            noisy = float(count + int(more[0]))
            totals = [sums[0] + int(place[0])]
        else:
            drawn = self.table.draw(1, self.reach)[0].tolist()
            noisy = (count * self.scale[0] + drawn[0]) / self.scale[0]
            noises = zip(sums, self.scale[1:], drawn[1:], strict=True)
            totals = [(2 * s * k + z) / (2 * k) for s, k, z in noises]
        least = max(noisy, 1.0) * self.units
        return noisy, np.clip([total / least for total in totals], -0.5, 0.5)


@lru_cache(maxsize=64)
def _noise(weights: Weights, rows: int, epsilon: float, delta: float, loss: Loss) -> _Noise:
    """The noise of least loss for a person with so many rows.

    :param weights: of the errors of the count and of each doubled sum
    :param rows: of the person
    :param epsilon: privacy loss
    :param delta: probability of a larger loss
    :param loss: l1 or l2
    """
    # Noise that is more private than asked for will do.
    epsilon, delta = min(epsilon, MAX_EPSILON), delta if delta >= MIN_DELTA else 0.0
    size = len(weights)
    box = solve_radial(epsilon, 0.0, size, norm="linf", loss=loss, weights=weights)
    lattice = getattr(box.law, "step", 1)
    # Fine, but for so many rows at so small an epsilon that their noise would be too long.
    fine = min(_FINE_UNITS, max(_LEAST_UNITS, math.floor(_LONGEST * epsilon / rows)))
    fine += fine % 2
    units = max(fine, -(-max(box.least_grid, lattice << _SPARE) // rows))
    units += units % 2
    reach = -(-rows * units // lattice) * lattice
    cost = box.upper * rows**box.problem.power
    best = _Noise(box, units, rows, reach, (units, *[1] * (size - 1)), cost)
    flat = _flat(weights, rows, fine, epsilon, delta, loss) if delta > 0 else None
    if flat is not None and flat.loss < cost:
        best = flat
    # A pair table hides one record; several are so many steps.
    each = float_down(Fraction(epsilon) / rows)
    part = step_delta(each, delta, rows)
    if size > 2 or part < MIN_DELTA or each < LEAST_EPSILON:
        return best
    try:
        pair = solve_pair(each, part, loss=loss)
    except (CertificateError, SolverError):
        return best
    cost = pair.upper * 2**box.problem.power
    return _Noise(pair, pair.cells * _STEPS, rows, 0, (), cost) if cost < best.loss else best


def _flat(
    weights: Weights, rows: int, units: int, epsilon: float, delta: float, loss: Loss
) -> _Noise | None:
    """Noise in the l2 norm.

    Let coordinate i move by s_i, so that all move by S = (sum s_i^2)^(1/2). Its noise is S / s_i
    times that of sensitivity 1, and sum w_i (S / s_i)^p is least for s_i like w_i^(1 / (p + 2)).
    """
    try:
        table = solve_radial(epsilon, delta, len(weights), norm="l2", loss=loss, bound=False)
    except SolverError:
        return None
    power = table.problem.power
    moves = np.array(weights) ** (1 / (power + 2))
    moves /= moves.min()
    long = rows * float(np.linalg.norm(moves))
    units = min(units, int(table.most_grid / (long * (_TURNS + 1))) // 2 * 2)
    if units < _LEAST_UNITS:
        return None
    # Fine enough for the law, and for what each coordinate moves by.
    fine = max(_TURNS, math.ceil(table.least_grid / (long * units)))
    scale = [round(fine * move) for move in moves.tolist()]
    moved = math.isqrt(units**2 * sum(k * k for k in scale)) + 1
    lattice = getattr(table.law, "step", 1)
    reach = -(-max(rows * moved, table.least_grid) // lattice) * lattice
    if reach > table.most_grid:
        return None
    shares = zip(weights, scale, strict=True)
    cost = sum(w * (reach / (k * units)) ** power for w, k in shares) * table.upper / len(weights)
    return _Noise(table, units, rows, reach, (scale[0] * units, *scale[1:]), cost)


def _loss(loss: str | Loss) -> Loss:
    """A loss that sums of errors can have."""
    found = loss_of(loss)
    if not found.endless:
        raise ValueError(f"loss ({found.name!r}) must be 'l1' or 'l2' for means")
    return found


def _means(columns: int, loss: Loss) -> Weights:
    """What errors of the count and of each doubled sum count in those of the means.

    The error of a mean times the count is half of the noise on its doubled sum, less (mu - 1/2)
    times that on the count: on average over all mu 1/4 and 1/12 of the variance, and at most 1/2
    and 1/4 of the mean absolute value. The noise of the count counts for every column.
    """
    return (columns / (loss.power + 1), *[1.0] * columns)


def _whole(values: NDArray[Any], bounds: Bounds, units: int) -> Integers:
    """Each value's place in its range, from -units/2 to units/2; NaN is in the middle.

    A function of each value alone, whatever floats do.
    """
    low, high = bounds
    with np.errstate(all="ignore"):
        clipped = np.clip(np.asarray(values, np.float64), low, high)
        share = (clipped / 2 - low / 2) / (high / 2 - low / 2)  # of the range, at any size
        place = np.rint((share - 0.5) * units)
    half = units // 2
    whole: Integers = np.clip(np.nan_to_num(place, nan=0.0), -half, half).astype(np.int64)
    return whole


def _exact_sum(whole: Integers) -> int:
    """The sum in whole numbers, whatever its length."""
    return sum(int(whole[at : at + _CHUNK].sum()) for at in range(0, len(whole), _CHUNK))


def _measurement(
    space: tuple[dp.Domain, dp.Metric],
    noise: _Noise,
    target: Any,
    columns: Callable[[NDArray[Any]], Iterator[Integers]],
    answer: Callable[[float, Floats], Any],
    output: str,
    record: str,
) -> dp.Measurement:
    """A measurement of means.

    :param columns: the values of some data as whole numbers
    :param answer: from the noisy count and the noisy sums over it
    """
    epsilon, delta = target_of(target)
    drawn = noise.table

    def pair(d_in: int) -> tuple[float, float]:
        """(epsilon, delta) at a number of records; group privacy beyond those of the design."""
        if d_in == 0:
            return 0.0, 0.0
        return group(epsilon, delta, -(-int(d_in) // noise.rows))

    def event(d_in: Any = None) -> Approximate:
        rows = noise.rows if d_in is None else int(d_in)
        unknown = isinstance(drawn, PairTable) and rows > 1  # its profile is that of one record
        if unknown or not 0 < rows <= noise.rows:
            return Approximate(*pair(rows))
        return Profile(epsilon, delta, drawn, rows, drawn.delta_at, 1 << 14)

    def release(data: Any) -> Any:
        table = np.asarray(data)
        sums = [_exact_sum(whole) for whole in columns(table)]
        return answer(*noise.released(len(table), sums))

    measure, privacy_map = stated(target, pair)
    made = make_measurement(*space, measure, release, privacy_map, TO=output)
    made.table = drawn
    return remember(made, Facts(record, None, event))


def _check_space(
    input_domain: dp.Domain, input_metric: dp.Metric, wanted: str, carrier: str
) -> None:
    """Raise unless data are rows of floats without NaN, and neighbours differ by rows."""
    domain = str(input_domain)
    given = isinstance(input_domain, dp.Domain) and str(input_domain.carrier_type) == carrier
    if not given or "nan=true" in domain.lower():
        raise ValueError(f"input_domain ({domain}) must be {wanted}, without NaN")
    if str(input_metric) != "SymmetricDistance()":
        raise ValueError(f"input_metric ({input_metric}) must be symmetric_distance()")


def make_optimal_mean(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    bounds: tuple[float, float],
    d_in: int,
    d_out: float | tuple[float, float],
    *,
    loss: str | Loss = "l2",
) -> dp.Measurement:
    """Make a measurement that releases a mean and the count, for the price of one count.

    :param input_domain: a vector domain of floats that exclude NaN.
    :param input_metric: ``symmetric_distance()``.
    :param bounds: values are clamped to them.
    :param d_in: how many records a person has at most.
    :param d_out: an epsilon, or ``(epsilon, delta)``.
    :param loss: of the mean's error times the count, on average over all means: "l1" or "l2".

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    >>> meas = make_optimal_mean(*space, (0.0, 100.0), d_in=1, d_out=(1.0, 1e-6))
    >>> mean, count = meas([30.0, 50.0] * 5000)
    >>> meas.map(1), 39 < mean < 41, 9900 < count < 10100
    ((1.0, 1e-06), True, True)
    """
    require_features("contrib")
    _check_space(input_domain, input_metric, "a vector domain of floats", "Vec<f64>")
    low, high = _range(bounds)
    wanted = _loss(loss)
    noise = _noise(_means(1, wanted), records_of(d_in, _MOST_ROWS), *target_of(d_out), wanted)

    def columns(data: NDArray[Any]) -> Iterator[Integers]:
        yield _whole(data, (low, high), noise.units)

    def answer(count: float, centred: Floats) -> tuple[float, float]:
        return _mean(float(centred[0]), (low, high)), count

    record = record_text("make_optimal_mean", (low, high), d_in, d_out, wanted.name)
    space = input_domain, input_metric
    return _measurement(space, noise, d_out, columns, answer, "(f64, f64)", record)


def _range(bounds: Any, name: str = "bounds") -> Bounds:
    """The ends of a range, checked."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise ValueError(f"{name} ({bounds!r}) must be a pair (low, high)")
    low, high = interval(*bounds, names=(f"{name}[0]", f"{name}[1]"))
    return float(low), float(high)


def _mean(centred: float, bounds: Bounds) -> float:
    low, high = bounds
    share = centred + 0.5
    return min(max(low * (1 - share) + high * share, low), high)


def make_optimal_means(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    bounds: Sequence[tuple[float, float]],
    d_in: int,
    d_out: float | tuple[float, float],
    *,
    loss: str | Loss = "l2",
) -> dp.Measurement:
    """Make a measurement that releases the means of several columns and the count, together.

    All of it costs what one count costs; OpenDP's means would each need a share of the budget.

    :param input_domain: ``dp.numpy.array2_domain(num_columns=..., T=float, nan=False)``.
    :param input_metric: ``symmetric_distance()``.
    :param bounds: of each column; values are clamped to them.
    :param d_in: how many records a person has at most.
    :param d_out: an epsilon, or ``(epsilon, delta)``.
    :param loss: "l1" or "l2".
    :returns: a measurement that releases an array of means, and the count.

    >>> import numpy as np
    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> domain = dp.numpy.array2_domain(num_columns=2, T=float, nan=False)
    >>> space = domain, dp.symmetric_distance()
    >>> meas = make_optimal_means(*space, [(0.0, 1.0), (18.0, 90.0)], d_in=1, d_out=1.0)
    >>> means, count = meas(np.array([[0.5, 40.0]] * 10_000))
    >>> means.round(1).tolist(), meas.map(1)
    ([0.5, 40.0], 1.0)
    """
    require_features("contrib")
    _check_space(input_domain, input_metric, "an array2_domain of floats", "ExtrinsicObject")
    many = getattr(input_domain.descriptor, "num_columns", None)
    if many is None or input_domain.descriptor.nan is not False:
        raise ValueError(f"input_domain ({input_domain}) must fix num_columns and exclude NaN")
    if not 1 <= many <= _MOST_COLUMNS:
        raise ValueError(f"input_domain ({many} columns) must have 1 to {_MOST_COLUMNS} columns")
    if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != many:
        raise ValueError(f"bounds ({bounds!r}) must be a pair for each of {many} columns")
    ranges = [_range(pair, f"bounds[{at}]") for at, pair in enumerate(bounds)]
    wanted = _loss(loss)
    noise = _noise(_means(many, wanted), records_of(d_in, _MOST_ROWS), *target_of(d_out), wanted)

    def columns(data: NDArray[Any]) -> Iterator[Integers]:
        return (_whole(data[:, j], ends, noise.units) for j, ends in enumerate(ranges))

    def answer(count: float, centred: Floats) -> tuple[Floats, float]:
        means = [_mean(c, pair) for c, pair in zip(centred.tolist(), ranges, strict=True)]
        return np.array(means), count

    record = record_text("make_optimal_means", tuple(ranges), d_in, d_out, wanted.name)
    space = input_domain, input_metric
    return _measurement(space, noise, d_out, columns, answer, "ExtrinsicObject", record)


def make_optimal_moments(
    input_domain: dp.Domain,
    input_metric: dp.Metric,
    bounds: tuple[float, float],
    d_in: int,
    d_out: float | tuple[float, float],
    *,
    degree: int = 2,
    loss: str | Loss = "l2",
) -> dp.Measurement:
    """Make a measurement that releases count, mean and variance, for the price of one count.

    :param input_domain: a vector domain of floats that exclude NaN.
    :param input_metric: ``symmetric_distance()``.
    :param bounds: values are clamped to them.
    :param d_in: how many records a person has at most.
    :param d_out: an epsilon, or ``(epsilon, delta)``.
    :param degree: of the highest moment: 2.
    :param loss: "l1" or "l2".
    :returns: a measurement that releases ``(count, mean, variance)``.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    >>> meas = make_optimal_moments(*space, (0.0, 10.0), d_in=1, d_out=1.0)
    >>> count, mean, variance = meas([2.0, 8.0] * 50_000)
    >>> round(mean, 1), round(variance, 1)
    (5.0, 9.0)
    """
    require_features("contrib")
    _check_space(input_domain, input_metric, "a vector domain of floats", "Vec<f64>")
    if degree != 2:
        raise ValueError(f"degree ({degree!r}) must be 2")
    low, high = _range(bounds)
    wanted = _loss(loss)
    noise = _noise(_MOMENTS[wanted.power], records_of(d_in, _MOST_ROWS), *target_of(d_out), wanted)

    def columns(data: NDArray[Any]) -> Iterator[Integers]:
        first = _whole(data, (low, high), noise.units)
        yield first
        share = first / noise.units + 0.5
        yield _whole(share * share, (0.0, 1.0), noise.units)

    def answer(count: float, centred: Floats) -> tuple[float, float, float]:
        first, second = (centred + 0.5).tolist()
        spread = min(max(second - first * first, 0.0), first * (1 - first))
        half = high / 2 - low / 2
        variance = min(4 * spread * half * half, sys.float_info.max) if spread else 0.0
        return count, _mean(first - 0.5, (low, high)), variance

    record = record_text("make_optimal_moments", (low, high), d_in, d_out, degree, wanted.name)
    space = input_domain, input_metric
    return _measurement(space, noise, d_out, columns, answer, "ExtrinsicObject", record)


then_optimal_mean = to_then(make_optimal_mean)
then_optimal_means = to_then(make_optimal_means)
then_optimal_moments = to_then(make_optimal_moments)
make_mean = defer(make_optimal_mean, "make_mean")
make_means = defer(make_optimal_means, "make_means")
make_moments = defer(make_optimal_moments, "make_moments")

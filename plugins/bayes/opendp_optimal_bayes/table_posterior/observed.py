"""What was released: numbers and the law of their noise, read and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_optimal import NoiseTable
from opendp_optimal.extend import known, law_of, loss_of
from opendp_optimal_bayes import grid
from opendp_optimal_bayes.table_posterior.dependent import Dependent, dependent
from opendp_optimal_bayes.table_posterior.given import LARGEST, numbers, read_bounds
from opendp_optimal_bayes.table_posterior.likelihood import Likelihood, Windows, window
from opendp_optimal_bayes.table_posterior.prior import Lattice

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST_SUM = 2.0**900
_WIDE = 64.0
_FINE = 32.0
_LARGEST_WINDOWS = 1 << 24


@dataclass(frozen=True)
class Observed:
    """A released table.

    :param shape: of the table
    :param raw: the released value of each cell; of several releases, their best average
    :param variance: of the noise of each cell's raw value
    :param error: mean size of the noise of each cell's raw value
    :param lattice: where true values lie
    :param likelihood: of the distinct observations
    :param index: the distinct observation of each cell
    :param counts: how many cells have each
    :param law: of the noise, where it is the same for all
    :param unbiased: whether the mean of what is released is the true value
    :param together: whether the noise of the cells depends on each other
    :param several: whether the raw values are averages of several releases
    """

    shape: tuple[int, ...]
    raw: Floats
    variance: Floats
    error: Floats
    lattice: Lattice
    likelihood: Likelihood
    index: Integers
    counts: Floats
    law: known.Law | None
    unbiased: bool = True
    together: bool = False
    several: bool = False

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.index)


def bounded(noise: Any) -> grid.Law | None:
    """The law of noise that keeps what it releases within bounds.

    :param noise: a law, or a measurement
    """
    if isinstance(noise, dp.Measurement):
        noise = getattr(grid.mechanism(noise), "law", None)
    return noise if isinstance(noise, grid.Law) else None


def read_law(noise: Any) -> known.Law:
    """The law of a noise.

    :param noise: a law, a measurement, or a table of noise as it is, for a sensitivity of 1
    """
    inside = bounded(noise)
    if inside is not None:
        # Laplace and geometric noise forget: what was moved to an end says as much as the end.
        return inside.noise
    if isinstance(noise, known.Law):
        return noise
    if isinstance(noise, NoiseTable):
        return noise.law()
    if dependent(noise) is not None:
        raise ValueError("noise that depends on the answer must be the same for all cells")
    if isinstance(noise, dp.Measurement):
        try:
            return law_of(noise, vectors=True)
        except ValueError as error:
            raise ValueError(f"noise: {error}") from None
    raise ValueError(f"noise ({noise!r}) must be a measurement, a law or a table")


def read(
    released: Any,
    noise: Any,
    shape: tuple[int, ...] | None,
    bounds: Any,
    parts: Floats | None = None,
) -> Observed:
    """Read a release.

    :param released: the numbers; a tuple of tables for several releases
    :param noise: of all cells; an array or list of as many as cells; a tuple for several releases
    :param shape: of the table, if the numbers are a list of its cells
    :param bounds: of the true values
    :param parts: chances of a known prior, if it is given so
    """
    within = dependent(noise)
    if within is not None:
        return _read_dependent(numbers("released", released, shape), within, bounds, parts)
    several = isinstance(noise, tuple)
    if not several and isinstance(released, tuple) and any(np.ndim(each) for each in released):
        raise ValueError(
            f"noise must be a tuple, one for each of {len(released)} releases; rows of one table "
            "are a list or an array"
        )
    given = tuple(released) if several else (released,)
    noises = noise if several else (noise,)
    if several and (len(given) != len(noises) or not noises):
        raise ValueError(f"noise has {len(noises)} releases, released has {len(given)}")
    tables = [numbers("released", each, shape) for each in given]
    if any(table.shape != tables[0].shape for table in tables):
        raise ValueError(f"released: tables of shapes {[t.shape for t in tables]} must be alike")
    laws: list[known.Law] = []
    kinds = [_kinds(each, tables[0].shape, laws) for each in noises]
    integer = laws[0].integer
    if any(law.integer != integer for law in laws):
        raise ValueError("noise must be of integers everywhere or of real numbers everywhere")
    if integer and any((table != np.rint(table)).any() for table in tables):
        raise ValueError("released must be whole numbers: the noise is one of integers")
    if not all(2.0**-400 <= law.spread <= 2.0**400 for law in laws):
        raise ValueError("noise must vary over a width between 2^-400 and 2^400")
    second = np.array([law.expected_loss(loss_of("l2")) for law in laws])
    first = np.array([law.expected_loss(loss_of("l1")) for law in laws])
    low, high = read_bounds(bounds, integer)
    inside = None if several else bounded(noise)
    if inside is not None:
        low = max(float(inside.lo), -math.inf if low is None else low)
        high = min(float(inside.hi), math.inf if high is None else high)
    largest = max(float(np.abs(table).max()) for table in tables)
    if largest >= (LARGEST if integer else _LARGEST_SUM):
        raise ValueError(f"released ({largest:g}) must be below {'2^53' if integer else '2^900'}")
    if not integer and parts is None:
        # Bounds that are further away than floats can see from here are none.
        far = 2.0**40 * max(largest, math.sqrt(float(second.max())))
        low, high = (None if b is None or abs(b) > far else b for b in (low, high))
    # Noise that is hardly ever different from 0 is not told apart more finely than this.
    sigma = np.maximum(np.sqrt(second), [law.spread * 2.0**-12 for law in laws])
    lattice = _lattice(integer, low, high, sigma, largest, parts)
    points = [np.rint((table.ravel() - lattice.base) / lattice.unit) for table in tables]
    whole = [each.astype(np.int64) for each in points]
    likelihood, index, counts = _likelihood(laws, kinds, whole, lattice)
    raw, variance, error = tables[0].ravel(), second[kinds[0]], first[kinds[0]]
    if several:
        weights = np.stack([second.max() / np.maximum(second[kind], 1e-300) for kind in kinds])
        weights = weights / weights.sum(axis=0)
        raw = (weights * np.stack([table.ravel() for table in tables])).sum(axis=0)
        variance = (weights**2 * np.stack([second[kind] for kind in kinds])).sum(axis=0)
        error = np.sqrt(2.0 / np.pi * variance)
    return Observed(
        tables[0].shape,
        raw,
        variance,
        error,
        lattice,
        likelihood,
        index,
        counts,
        laws[0] if len(laws) == 1 else None,
        not any(bounded(each) is not None for each in _distinct(noise)),
        any(isinstance(law, known.Tabulated) and law.dependent for law in laws),
        several,
    )


def _read_dependent(table: Floats, noise: Dependent, bounds: Any, parts: Floats | None) -> Observed:
    """Read a release whose noise depends on the answer: each observation has a likelihood."""
    low, high = read_bounds(bounds, integer=False)
    if (low is not None and low > noise.low) or (high is not None and high < noise.high):
        raise ValueError(
            f"bounds ({bounds!r}) must hold the range of the noise, {noise.low:g} to {noise.high:g}"
        )
    if noise.integer and (table != np.rint(table)).any():
        raise ValueError("released must be whole numbers: the noise is one of integers")
    outside = (table < noise.low) | (table > noise.high)
    if outside.any():
        raise ValueError(
            f"noise cannot have produced the released value {table[outside][0]:g}: it stays within "
            f"{noise.low:g} and {noise.high:g}"
        )
    count, unit = noise.points(None if parts is None else len(parts))
    shift = 0.0 if noise.integer or parts is None else unit / 2.0
    base = noise.low + shift
    answers = base + unit * np.arange(count, dtype=np.float64)
    distinct, index, counts = np.unique(table.ravel(), return_inverse=True, return_counts=True)
    if len(distinct) * (2 * count + 1) > _LARGEST_WINDOWS:
        centre = np.rint((table.ravel() - base) / unit)
        distinct, index, counts = np.unique(centre, return_inverse=True, return_counts=True)
        distinct = np.clip(base + unit * distinct, noise.low, noise.high)
    centre = np.rint((distinct - base) / unit).astype(np.int64)
    windows = np.zeros((len(distinct), 2 * count + 1))
    column = count + np.arange(count)[None, :] - centre[:, None]
    windows[np.arange(len(distinct))[:, None], column] = _scaled(
        noise.chances(distinct, answers, unit)
    )
    first, second = noise.errors
    each = 1 if parts is None or noise.integer else count // len(parts)
    deviation = math.sqrt(second / 2.0) / unit
    ends = noise.low, noise.high
    lattice = Lattice(base, unit, 0, count - 1, deviation, noise.integer, each, ends)
    likelihood = Likelihood(Windows(windows), np.arange(len(distinct)), centre)
    cells = np.ones(table.size)
    return Observed(
        table.shape,
        table.ravel(),
        second * cells,
        first * cells,
        lattice,
        likelihood,
        index.ravel(),
        counts.astype(np.float64),
        None,
        unbiased=False,
    )


def _kinds(noise: Any, shape: tuple[int, ...], laws: list[known.Law]) -> Integers:
    """Which of the laws each cell has; new ones are added to them."""
    if not isinstance(noise, list | np.ndarray):
        law = read_law(noise)
        place = _same(laws, law)
        return np.full(math.prod(shape), place, dtype=np.int64)
    # A list stays one: numpy would look for numbers in measurements.
    cells = noise if isinstance(noise, list) else noise.ravel().tolist()
    if len(cells) != math.prod(shape):
        raise ValueError(f"noise ({len(cells)} of them) must have one for each cell of {shape}")
    known_by: dict[int, int] = {}
    out = np.empty(len(cells), dtype=np.int64)
    for at, each in enumerate(cells):
        if id(each) not in known_by:
            known_by[id(each)] = _same(laws, read_law(each))
        out[at] = known_by[id(each)]
    return out


def _distinct(noise: Any) -> list[Any]:
    """The different ones of what was given as noise."""
    if isinstance(noise, np.ndarray):
        noise = noise.ravel().tolist()
    if not isinstance(noise, tuple | list):
        return [noise]
    return [part for each in {id(n): n for n in noise}.values() for part in _distinct(each)]


def _same(laws: list[known.Law], law: known.Law) -> int:
    """The place of a law among others, to which it is added if it is new."""
    for place, each in enumerate(laws):
        if each is law or (not isinstance(law, known.Tabulated) and each == law):
            return place
    laws.append(law)
    return len(laws) - 1


def _lattice(
    integer: bool,
    low: float | None,
    high: float | None,
    sigma: Floats,
    largest: float,
    parts: Floats | None,
) -> Lattice:
    """Counts as they are, unless the noise is wide; sums in parts of the noise."""
    # Floats have no finer parts of the largest number than these.
    parted = max(largest, *(abs(b) for b in (low, high) if b is not None), 0.0) * 2.0**-48
    least = max(float(sigma.min()), parted, 1e-300)
    unit = 2.0 ** math.floor(math.log2(least / _FINE))
    each, shift = 1, 0.0
    if integer and (parts is not None or least <= _WIDE):
        unit = 1.0
    elif parts is not None:
        if low is None or high is None or not high - low < _LARGEST_SUM:
            raise ValueError(
                "prior (a list of chances of equal parts) needs both bounds, below 2^900"
            )
        width = (high - low) / len(parts)
        each = max(1, math.ceil(width / unit))
        unit = width / each
        shift = unit / 2.0  # the middles of equal parts
    base = low if low is not None else (high if high is not None else 0.0)
    first = None if low is None else 0
    last = None if high is None else round((high - base - 2.0 * shift) / unit - 0.5 * (unit > 1.0))
    typical = math.sqrt(float((sigma**2).mean()) / 2.0) / unit
    noise = min(typical, 4.0 * least / unit)
    ends = -math.inf if low is None else low, math.inf if high is None else high
    return Lattice(base + shift, unit, first, last, noise, integer, each, ends)


def _likelihood(
    laws: list[known.Law], kinds: list[Integers], points: list[Integers], lattice: Lattice
) -> tuple[Likelihood, Integers, Floats]:
    """The likelihoods of the distinct observations, and where each cell finds its own."""
    shapes = [window(law, lattice.unit) for law in laws]
    radius = max(len(each) // 2 for each in shapes)
    if radius * 2 * len(shapes) > _LARGEST_WINDOWS:
        raise ValueError(f"noise: {len(laws)} laws as different as these are too many")
    shapes = [np.pad(each, radius - len(each) // 2) for each in shapes]
    codes = np.zeros(len(points[0]), dtype=np.int64)
    for column in (*(kinds if len(laws) > 1 else ()), *points):
        distinct, place = np.unique(column, return_inverse=True)
        if codes.any():
            _, codes = np.unique(codes * len(distinct) + place, return_inverse=True)
        else:
            codes = place
    counts = np.bincount(codes)
    example = np.empty(len(counts), dtype=np.int64)
    example[codes] = np.arange(len(codes))
    rows = np.stack([kind[example] for kind in kinds], axis=1)
    seen = np.stack([each[example] for each in points], axis=1)
    if len(points) == 1:
        found = Likelihood(Windows(np.stack(shapes)), rows[:, 0], seen[:, 0])
    else:
        found = _combined(np.stack(shapes), rows, seen)
    return found, codes, counts.astype(np.float64)


def _combined(shapes: Floats, rows: Integers, seen: Integers) -> Likelihood:
    """Products of likelihoods: one window for each pattern of laws and distances."""
    radius = shapes.shape[1] // 2
    away = np.arange(-radius, radius + 1)
    inverse = 1.0 / np.maximum((shapes * away**2).sum(axis=1), 1e-300)
    reach = np.where(shapes > 0, np.abs(away), 0).max(axis=1)
    weight = inverse[rows]
    mean = ((seen - seen[:, :1]) * weight).sum(axis=1) / weight.sum(axis=1)
    centre = seen[:, 0] + np.rint(mean).astype(np.int64)
    pattern, kind = np.unique(
        np.concatenate([rows, seen - centre[:, None]], axis=1), axis=0, return_inverse=True
    )
    count = rows.shape[1]
    # The narrowest noise of each pattern says how far true values can lie.
    narrowest = (np.abs(pattern[:, count:]) + reach[pattern[:, :count]]).min(axis=1)
    near = min(int(narrowest.max()), radius)
    away = np.arange(-near, near + 1)
    if len(pattern) * len(away) > _LARGEST_WINDOWS:
        raise ValueError("noise: too many different combinations of releases for their width")

    def shifted(at: int) -> Floats:
        place = away[None, :] - pattern[:, count + at, None] + radius
        inside = (place >= 0) & (place <= 2 * radius)
        found = shapes[pattern[:, at, None], np.clip(place, 0, 2 * radius)]
        return np.asarray(np.where(inside, found, 0.0))

    product = reduce(np.multiply, [_scaled(shifted(at)) for at in range(count)])
    return Likelihood(Windows(_scaled(product)), kind.ravel(), centre)


def _scaled(rows: Floats) -> Floats:
    """Rows in units of their largest entry."""
    return np.asarray(rows / np.maximum(rows.max(axis=1, keepdims=True), 1e-300))

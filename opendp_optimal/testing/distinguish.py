"""What tells two neighbours apart: features of outputs, and events learnt or from a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from opendp_optimal.arrays import Booleans, Floats, Integers
from opendp_optimal.table import NoiseTable

_MOST_COORDINATES = 8
_BINS = (2, 8, 32, 128, 512)
_COMMON = 64
_KEPT = 4
_CAUTION = (0.0, 1.0, 2.5)


@dataclass(frozen=True)
class Outputs:
    """Draws from one input, as columns of numbers under a name each; ``labels`` for the rest."""

    columns: dict[str, Floats]
    labels: tuple[str, ...] | None

    def head(self, count: int) -> Outputs:
        """The first draws: those that teach."""
        return self._part(slice(0, count))

    def tail(self, count: int) -> Outputs:
        """The draws after those: the ones that count."""
        return self._part(slice(count, 2 * count))

    def _part(self, part: slice) -> Outputs:
        columns = {name: column[part] for name, column in self.columns.items()}
        return Outputs(columns, None if self.labels is None else self.labels[part])


def features(outputs: Sequence[Any]) -> Outputs:
    """Turn outputs into columns.

    >>> sorted(features([0.5, 3.0]).columns)
    ['lowest bit', 'value']
    >>> features(["a", "b"]).labels
    ("'a'", "'b'")
    """
    array = _numbers(outputs)
    if array is None:
        return Outputs({}, tuple(repr(output) for output in outputs))
    columns: dict[str, Floats] = {}
    if array.ndim == 1:
        _add(columns, "", array)
    else:
        flat = array.reshape(len(array), -1)
        for i in range(min(flat.shape[1], _MOST_COORDINATES)):
            _add(columns, f" {i}", flat[:, i])
        with np.errstate(all="ignore"):
            columns["sum"] = flat.sum(axis=1)
    return Outputs(columns, None)


def _numbers(outputs: Sequence[Any]) -> Floats | None:
    try:
        array = np.asarray(outputs)
    except ValueError:  # ragged
        return None
    if array.dtype.kind not in "iufb":
        return None
    return array.astype(np.float64)


def _add(columns: dict[str, Floats], suffix: str, values: Floats) -> None:
    columns["value" + suffix] = values
    if np.any(values != np.rint(values)):
        columns["lowest bit" + suffix] = lowest_bit(values)


def lowest_bit(values: Floats) -> Floats:
    """The exponent of the lowest bit set in each float; 2000 for 0, 3000 for what is not finite.

    >>> lowest_bit(np.array([3.0, 0.5, 0.0, 5e-324])).tolist()
    [0.0, -1.0, 2000.0, -1074.0]
    """
    finite = np.isfinite(values)
    part, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = np.abs(part * 2.0**53).astype(np.int64)
    low = whole & -whole
    places = np.log2(np.maximum(low, 1).astype(np.float64)) - 53 + exponent
    return np.where(finite, np.where(whole == 0, 2000.0, places), 3000.0)


@dataclass(frozen=True)
class Event:
    """A set of outputs: in words, and as a function on draws."""

    words: str
    holds: Callable[[Outputs], Booleans]


def learn(here: Outputs, there: Outputs, epsilon: float) -> list[Event]:
    """The most promising events for P(S) > e^epsilon Q(S), by the look of some draws.

    :param here: draws of P
    :param there: draws of Q
    :param epsilon: the epsilon of the claim
    """
    rated: list[tuple[float, Event]] = []
    if here.labels is not None:
        rated += _rate(_labels(here, there), here, there, epsilon)
    for name in here.columns.keys() & there.columns.keys():
        pooled = np.concatenate([here.columns[name], there.columns[name]])
        for bins in _BINS:
            rated += _rate(_intervals(name, pooled, bins), here, there, epsilon)
        rated += _rate(_repeated(name, pooled), here, there, epsilon)
    rated.sort(key=lambda entry: (-entry[0], entry[1].words))
    return [event for _, event in rated[:_KEPT]]


@dataclass(frozen=True)
class _Partition:
    """A way to put outputs into numbered parts."""

    words: str
    count: int
    codes: Callable[[Outputs], Integers]


def _intervals(name: str, pooled: Floats, bins: int) -> _Partition:
    finite = pooled[np.isfinite(pooled)]
    edges = np.unique(finite)
    if len(edges) > bins:
        edges = np.unique(np.quantile(finite, np.arange(1, bins) / bins))

    def codes(outputs: Outputs) -> Integers:
        column = outputs.columns[name]
        return np.searchsorted(edges, np.where(np.isnan(column), np.inf, column)).astype(np.int64)

    return _Partition(f"{name} in {bins} intervals", len(edges) + 1, codes)


def _repeated(name: str, pooled: Floats) -> _Partition:
    values, counts = np.unique(pooled, return_counts=True)
    often = np.sort(values[np.argsort(-counts, kind="stable")][:_COMMON])

    def codes(outputs: Outputs) -> Integers:
        column = outputs.columns[name]
        place = np.minimum(np.searchsorted(often, column), len(often) - 1)
        return np.where(often[place] == column, place, len(often)).astype(np.int64)

    return _Partition(f"{name} among the most common", len(often) + 1, codes)


def _labels(here: Outputs, there: Outputs) -> _Partition:
    different = dict.fromkeys((here.labels or ()) + (there.labels or ()))
    number = {label: place for place, label in enumerate(different)}

    def codes(outputs: Outputs) -> Integers:
        return np.array([number.get(v, len(number)) for v in outputs.labels or ()], np.int64)

    return _Partition("output", len(number) + 1, codes)


def _rate(
    parts: _Partition, here: Outputs, there: Outputs, epsilon: float
) -> list[tuple[float, Event]]:
    """The union of parts where P exceeds e^epsilon Q, more or less cautiously, with its merit."""
    growth = math.exp(epsilon)
    p = np.bincount(parts.codes(here), minlength=parts.count).astype(float)
    q = np.bincount(parts.codes(there), minlength=parts.count).astype(float)
    count = max(1.0, p.sum())
    p, q = p / count, q / count
    spread = np.sqrt(p + growth**2 * np.maximum(q, 1 / count)) / math.sqrt(count)
    out = []
    for caution in _CAUTION:
        chosen = p - growth * q > caution * spread
        if chosen.any() and not chosen.all():
            inside, outside = p[chosen].sum(), q[chosen].sum()
            noise = math.sqrt((inside + growth**2 * max(outside, 3 / count)) / count)
            merit = inside - growth * outside - 5 * noise
            words = f"{parts.words}: {int(chosen.sum())} of {parts.count}"
            out.append((float(merit), Event(words, partial(_within, parts, chosen))))
    return out


def _within(parts: _Partition, chosen: Booleans, outputs: Outputs) -> Booleans:
    """Which outputs are in the chosen parts."""
    return np.asarray(chosen[parts.codes(outputs)])


def suggested(table: Any, x: Any, x_prime: Any, epsilon: float, unit: float) -> list[Event]:
    """The worst event of a table for the shift between two numbers, and the ends of its support.

    :param table: a :class:`NoiseTable`, or anything else for none
    :param x: the input whose outputs are more likely in the event
    :param x_prime: its neighbour
    :param epsilon: the epsilon of the claim
    :param unit: the sensitivity that a real table was scaled to
    """
    plain = all(isinstance(v, (int, float)) and math.isfinite(v) for v in (x, x_prime))
    if not isinstance(table, NoiseTable) or not plain or x == x_prime:
        return []
    width = 1.0 if table.kind == "integer" else unit / table.cells
    shift = round((Fraction(x_prime) - Fraction(x)) / Fraction(width))
    weights = table.weights.astype(float)
    if table.spike is not None:
        weights[table.radius] += table.spike.weight
    other = np.zeros_like(weights)
    if abs(shift) < len(weights):
        # The neighbour gives the same output with a noise that is smaller by the shift.
        kept = slice(max(0, shift), len(weights) + min(0, shift))
        moved = slice(max(0, -shift), len(weights) + min(0, -shift))
        other[kept] = weights[moved]
    worse = np.append(weights > math.exp(epsilon) * other, False)
    ends = np.append((other == 0) & (weights > 0), False)
    return [
        _offsets(words, table.radius, float(x), width, chosen)
        for words, chosen in (("worst event of the table", worse), ("ends of the table", ends))
        if chosen.any()
    ]


def _offsets(words: str, radius: int, x: float, width: float, chosen: Booleans) -> Event:
    def holds(outputs: Outputs) -> Booleans:
        if "value" not in outputs.columns:
            return np.zeros(len(next(iter(outputs.columns.values()), np.zeros(0))), np.bool_)
        with np.errstate(all="ignore"):
            place = np.rint((outputs.columns["value"] - x) / width) + radius
        inside = np.isfinite(place) & (place >= 0) & (place <= 2 * radius)
        index = np.where(inside, place, 2 * radius + 1).astype(np.int64)
        return np.asarray(chosen[index])

    return Event(words, holds)

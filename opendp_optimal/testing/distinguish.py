"""Events that may tell two neighbours apart: learnt from draws, or suggested by a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Floats
from opendp_optimal.table import NoiseTable
from opendp_optimal.testing.features import Outputs

Mask = NDArray[np.bool_]

_BINS = (2, 8, 32, 128, 512)
_COMMON = 64
_KEPT = 4
_CAUTION = (0.0, 1.0, 2.5)


@dataclass(frozen=True)
class Event:
    """A set of outputs: in words, and as a function on draws."""

    words: str
    holds: Callable[[Outputs], Mask]


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
    codes: Callable[[Outputs], NDArray[np.int64]]


def _intervals(name: str, pooled: Floats, bins: int) -> _Partition:
    finite = pooled[np.isfinite(pooled)]
    values = np.unique(finite)
    if len(values) > bins:
        edges = np.unique(np.quantile(finite, np.arange(1, bins) / bins))
    else:
        edges = values

    def codes(outputs: Outputs) -> NDArray[np.int64]:
        column = outputs.columns[name]
        return np.searchsorted(edges, np.where(np.isnan(column), np.inf, column)).astype(np.int64)

    return _Partition(f"{name} in {bins} intervals", len(edges) + 1, codes)


def _repeated(name: str, pooled: Floats) -> _Partition:
    values, counts = np.unique(pooled, return_counts=True)
    often = np.sort(values[np.argsort(-counts, kind="stable")][:_COMMON])

    def codes(outputs: Outputs) -> NDArray[np.int64]:
        column = outputs.columns[name]
        place = np.minimum(np.searchsorted(often, column), len(often) - 1)
        return np.where(often[place] == column, place, len(often)).astype(np.int64)

    return _Partition(f"{name} among the most common", len(often) + 1, codes)


def _labels(here: Outputs, there: Outputs) -> _Partition:
    number: dict[str, int] = {}
    for label in (here.labels or ()) + (there.labels or ()):
        number.setdefault(label, len(number))

    def codes(outputs: Outputs) -> NDArray[np.int64]:
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
            out.append((float(merit), Event(words, _member(parts, chosen))))
    return out


def _member(parts: _Partition, chosen: Mask) -> Callable[[Outputs], Mask]:
    def holds(outputs: Outputs) -> Mask:
        inside: Mask = chosen[parts.codes(outputs)]
        return inside

    return holds


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


def _offsets(words: str, radius: int, x: float, width: float, chosen: Mask) -> Event:
    def holds(outputs: Outputs) -> Mask:
        if "value" not in outputs.columns:
            return np.zeros(len(next(iter(outputs.columns.values()), np.zeros(0))), np.bool_)
        with np.errstate(all="ignore"):
            place = np.rint((outputs.columns["value"] - x) / width) + radius
        inside = np.isfinite(place) & (place >= 0) & (place <= 2 * radius)
        index = np.where(inside, place, 2 * radius + 1).astype(np.int64)
        hit: Mask = chosen[index]
        return hit

    return Event(words, holds)

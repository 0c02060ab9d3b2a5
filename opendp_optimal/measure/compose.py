"""Tight composition: many releases priced together from their exact privacy profiles.

Adding epsilons and deltas is safe and loose. Here each release is replaced by a pair of
distributions whose privacy profile lies nowhere below its own (the profile is evaluated exactly
on a grid of epsilons and its points are joined by chords in exp(epsilon), above a convex curve),
and these are composed with every rounding upwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_optimal.budget.losses import LARGEST, TAIL, Losses, from_pair, from_profile, step_for
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.measure import dp
from opendp_optimal.measure._opendp import links
from opendp_optimal.measure.guarantee import Guarantee
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.bounded import BoundedTable

__all__ = ["compose"]

FloatArray = npt.NDArray[np.float64]

DOTS = 256
"""Grid points of a profile up to its designed epsilon."""
FEW_DOTS = 32
"""The least of them, for tables so large that each point of their profile takes its time."""
WORK = 1 << 21
"""So many weights are looked at for one profile, about."""
FEW_PARTS = 16
"""Up to so many different releases are composed as finely as can be."""
MANY_PAIRS = 8
"""A weight of a bounded table counts so many times: it is compared with many others."""
BEYOND = 4
"""One in so many grid points more after that, ever wider apart."""


@dataclass(frozen=True)
class _Priced:
    """One release, known by its price: releases that are equal are the same mechanism.

    ``mechanism`` and ``distance`` say which curve is meant, ``work`` what a point of it takes.
    """

    epsilon: float
    delta: float
    mechanism: Hashable = None
    distance: Hashable = None
    curve: Callable[[float], float] | None = field(default=None, compare=False)
    work: int = field(default=0, compare=False)


def compose(
    releases: Iterable[NoiseTable | BoundedTable | dp.Measurement],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    d_in: Any = None,
) -> tuple[float, float]:
    """Return the (epsilon, delta) of many releases on the same data, from their exact profiles.

    Pass ``delta`` to get the epsilon that goes with it, or ``epsilon`` to get the delta. The
    answer is never better than the truth and never worse than adding up. Epsilon is infinite where
    no epsilon goes with a delta.

    :param releases: tables (each at the sensitivity it was designed for) or measurements; a
        measurement of this package, also behind a transformation, counts with its profile, any
        other with its privacy map. Any iterable; each item counts once.
    :param delta: the total probability of a larger loss.
    :param epsilon: the total privacy loss; infinite for the probability of an infinite loss.
    :param d_in: distance between neighbours; needed for measurements that are chained or not ours.
    :raises ValueError: if neither or both of delta and epsilon are given, or a release cannot be
        priced.

    >>> from opendp_optimal import compose, solve
    >>> table = solve(epsilon=0.1, delta=1e-6)
    >>> epsilon, delta = compose([table] * 64, delta=1e-4)
    >>> epsilon < 64 * 0.1
    True
    """
    if (delta is None) == (epsilon is None):
        raise ValueError(f"give one of delta ({delta!r}) and epsilon ({epsilon!r})")
    if delta is not None and not 0 <= _number("delta", delta) <= 1:
        raise ValueError(f"delta ({delta!r}) must be in [0, 1]")
    if epsilon is not None and not _number("epsilon", epsilon) >= 0:
        raise ValueError(f"epsilon ({epsilon!r}) must not be negative")

    counted: dict[_Priced, int] = {}
    last: Any = None
    for release in releases:
        if release is not last:  # the one before, which is still held, has the same price again
            priced, last = _price(release, d_in), release
        counted[priced] = counted.get(priced, 0) + 1
    if not counted:
        return epsilon or 0.0, delta or 0.0

    sum_epsilon, sum_delta = _sums(counted)
    total = _together(counted)
    if delta is not None:
        tight = total.epsilon_at(delta)
        return (min(tight, sum_epsilon) if delta >= sum_delta else tight), delta
    assert epsilon is not None
    tight = total.delta_at(_number("epsilon", epsilon))
    return epsilon, (min(tight, sum_delta) if epsilon >= sum_epsilon else tight)


def _number(name: str, value: Any) -> float:
    """The largest float that is not above a number."""
    try:
        near = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        near = math.nan
    if math.isnan(near):
        raise ValueError(f"{name} ({value!r}) must be a number") from None
    return near if near <= value else math.nextafter(near, -math.inf)


def _sums(counted: dict[_Priced, int]) -> tuple[float, float]:
    """What adding up says, rounded up."""
    sum_delta = sum((n * Fraction(p.delta) for p, n in counted.items()), Fraction(0))
    if any(p.epsilon == math.inf for p in counted):
        return math.inf, min(1.0, float_up(sum_delta))
    sum_epsilon = sum((n * Fraction(p.epsilon) for p, n in counted.items()), Fraction(0))
    return float_up(sum_epsilon), min(1.0, float_up(sum_delta))


def _price(release: Any, d_in: Any) -> _Priced:
    if isinstance(release, NoiseTable | BoundedTable):
        return _profiled(release.epsilon, release.delta, release, None, release.delta_at)
    if not isinstance(release, dp.Measurement):
        raise ValueError(f"releases ({release!r}) must hold tables and measurements")
    inner, distance = release, d_in
    while (parts := links(inner)) is not None:
        if distance is None:
            raise ValueError("d_in must be given: a measurement is chained after a transformation")
        inner, distance = parts[0], parts[1].map(distance)
    guarantee = getattr(inner, "guarantee", None)
    if isinstance(guarantee, Guarantee):
        distance = guarantee.d_in if distance is None else distance
        epsilon, delta = guarantee.pair(distance)
        return _profiled(epsilon, delta, guarantee, distance, guarantee.curve(distance))
    table = getattr(inner, "table", None)
    if isinstance(table, BoundedTable):
        epsilon, delta = table.epsilon, table.delta
        if distance is not None:
            epsilon, delta = _mapped(inner, distance)
        # The curve of the whole sensitivity holds for every distance that has a price.
        return _profiled(epsilon, delta, table, None, table.delta_at)
    if d_in is None:
        raise ValueError("d_in must be given: a measurement is not from this package")
    return _Priced(*_mapped(release, d_in))


def _profiled(
    epsilon: float,
    delta: float,
    mechanism: NoiseTable | BoundedTable | Guarantee,
    distance: Any,
    curve: Callable[[float], float],
) -> _Priced:
    table = mechanism.table if isinstance(mechanism, Guarantee) else mechanism
    work = table.weights.size * (MANY_PAIRS if isinstance(table, BoundedTable) else 1)
    return _Priced(epsilon, delta, mechanism, distance, curve, work)


def _mapped(measurement: dp.Measurement, d_in: Any) -> tuple[float, float]:
    """The (epsilon, delta) that a measurement's own map states."""
    kind = str(measurement.output_measure.type)
    if kind == "MaxDivergence":
        epsilon, delta = measurement.map(d_in), 0.0
    elif kind == "Approximate<MaxDivergence>":
        epsilon, delta = measurement.map(d_in)
    else:
        raise ValueError(
            f"releases: cannot price a measurement under {kind}; convert it to (epsilon, delta) "
            "first"
        )
    if not (epsilon >= 0 and 0 <= delta <= 1):
        raise ValueError(f"releases: a measurement states the price ({epsilon!r}, {delta!r})")
    return float(epsilon), float(delta)


def _together(counted: dict[_Priced, int]) -> Losses:
    """Privacy losses that dominate those of all releases together, by pairs of like grids."""
    parts = [_losses(one, count) for one, count in counted.items()]
    largest = LARGEST if len(parts) <= FEW_PARTS else LARGEST // 4
    while len(parts) > 1:
        parts.sort(key=lambda part: part.step)
        pairs = zip(parts[::2], parts[1::2], strict=False)
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [one.together(two, largest=largest) for one, two in pairs] + odd
    return parts[0]


def _losses(priced: _Priced, count: int) -> Losses:
    if priced.curve is None or priced.epsilon == 0:
        # With epsilon at 0 nothing is known beyond (0, delta), nor needed.
        one = from_pair(priced.epsilon, priced.delta, DOTS)
    else:
        one = _pessimistic(priced)
    return one.shortened(TAIL / (8 * count)).repeated(count)


def _pessimistic(priced: _Priced) -> Losses:
    """Return privacy losses whose profile is nowhere below the curve of a release.

    The curve bounds both directions of every pair of neighbours, so below 0 it continues as
    ``delta(-e) = 1 - exp(-e) (1 - delta(e))``.
    """
    assert priced.curve is not None
    epsilon = priced.epsilon
    dots = max(FEW_DOTS, min(DOTS, WORK // max(1, priced.work)))
    step = step_for(epsilon, DOTS)
    last = math.ceil(epsilon / step)
    chosen = set(np.linspace(0, last, min(dots, last) + 1).round().astype(int).tolist())
    tail = last * np.geomspace(1.0, 4.0 + 4.0 / max(epsilon, 0.1), dots // BEYOND)
    chosen |= set(np.ceil(tail).astype(int).tolist())
    places = np.array(sorted(chosen))
    # What the price says holds beside the curve.
    above = np.array([_least(priced, float(place * step)) for place in places])
    decay = np.exp(-places[1:] * step)
    below = np.minimum(1.0, (-np.expm1(-places[1:] * step) + decay * above[1:]) * (1 + 1e-15))
    rounded = np.concatenate([-places[:0:-1], places])
    # True profiles never rise and are convex in exp(epsilon): whatever lies above that is slack.
    deltas = np.minimum.accumulate(np.concatenate([below[::-1], above]))
    kept = _lower_hull(np.exp((rounded - places[-1]) * step), deltas)
    return from_profile(step, rounded[kept].tolist(), deltas[kept].tolist())


def _least(priced: _Priced, epsilon: float) -> float:
    assert priced.curve is not None
    delta = priced.curve(epsilon)
    return min(delta, priced.delta) if epsilon >= priced.epsilon else delta


def _lower_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Return the indices of the lower convex hull, the point (0, 1) included in its making."""
    hull: list[int] = [-1]
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            left = (0.0, 1.0) if a < 0 else (x[a], y[a])
            if (y[b] - left[1]) * (x[i] - left[0]) < (y[i] - left[1]) * (x[b] - left[0]):
                break
            hull.pop()
        hull.append(i)
    return hull[1:]

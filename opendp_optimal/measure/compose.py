"""Tight composition: many releases priced together from their exact privacy profiles.

Adding epsilons and deltas is safe and loose. Here each release is replaced by a pair of
distributions whose privacy profile lies nowhere below its own (the profile is evaluated exactly
on a grid of epsilons and its points are joined by chords in exp(epsilon), above a convex curve),
and these are composed by ``dp-accounting``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp

from opendp_optimal.measure._opendp import links
from opendp_optimal.measure.maps import Guarantee
from opendp_optimal.spec.exact import float_up
from opendp_optimal.table import NoiseTable

__all__ = ["compose"]

FloatArray = npt.NDArray[np.float64]

DOTS = 256
"""Grid points of a profile up to its designed epsilon."""
BEYOND = 64
"""Grid points after that, ever wider apart."""


@dataclass(frozen=True)
class _Priced:
    """One release: its (epsilon, delta) and, where known, its whole profile."""

    key: tuple[Any, ...]
    epsilon: float
    delta: float
    curve: Callable[[float], float] | None


def compose(
    releases: Iterable[NoiseTable | dp.Measurement],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    d_in: Any = None,
) -> tuple[float, float]:
    """Return the (epsilon, delta) of many releases on the same data, from their exact profiles.

    Pass ``delta`` to get the epsilon that goes with it, or ``epsilon`` to get the delta. The
    answer is never better than the truth and never worse than adding up. Needs the extra
    ``accounting``.

    :param releases: tables (each at the sensitivity it was designed for) or measurements; a
        measurement of this package, also behind a transformation, counts with its profile, any
        other with its privacy map.
    :param delta: the total probability of a larger loss.
    :param epsilon: the total privacy loss.
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
    if delta is not None and not 0 <= delta <= 1:
        raise ValueError(f"delta ({delta!r}) must be in [0, 1]")
    if epsilon is not None and not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon ({epsilon!r}) must be finite and not negative")

    counted: dict[tuple[Any, ...], tuple[_Priced, int]] = {}
    for release in releases:
        priced = _price(release, d_in)
        counted[priced.key] = priced, counted.get(priced.key, (priced, 0))[1] + 1
    if not counted:
        return epsilon or 0.0, delta or 0.0

    zero = Fraction(0)
    sum_epsilon = float_up(sum((n * Fraction(p.epsilon) for p, n in counted.values()), zero))
    sum_delta = min(1.0, float_up(sum((n * Fraction(p.delta) for p, n in counted.values()), zero)))
    total = _distribution(list(counted.values()))
    if delta is not None:
        tight = float(total.get_epsilon_for_delta(delta))
        return (min(tight, sum_epsilon) if delta >= sum_delta else tight), delta
    assert epsilon is not None
    tight = min(1.0, float(total.get_delta_for_epsilon(epsilon)))
    return epsilon, (min(tight, sum_delta) if epsilon >= sum_epsilon else tight)


def _price(release: Any, d_in: Any) -> _Priced:
    if isinstance(release, NoiseTable):
        return _Priced((id(release),), release.epsilon, release.delta, release.delta_at)
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
        return _Priced((id(guarantee), distance), epsilon, delta, guarantee.curve(distance))
    kind = str(release.output_measure.type)
    if d_in is None:
        raise ValueError("d_in must be given: a measurement is not from this package")
    if kind == "MaxDivergence":
        return _Priced((id(release),), release.map(d_in), 0.0, None)
    if kind == "Approximate<MaxDivergence>":
        epsilon, delta = release.map(d_in)
        return _Priced((id(release),), epsilon, delta, None)
    raise ValueError(
        f"releases: cannot price a measurement under {kind}; convert it to (epsilon, delta) first"
    )


def _distribution(counted: list[tuple[_Priced, int]]) -> Any:
    """Return a privacy loss distribution that dominates all releases together."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError as error:  # pragma: no cover
        raise ImportError(
            "compose needs dp-accounting: pip install opendp-optimal[accounting]"
        ) from error

    smallest = min((p.epsilon for p, _ in counted if p.epsilon > 0), default=1.0)
    # A power of two, so that the grid's epsilons are exact floats.
    step = 2.0 ** math.floor(math.log2(smallest / DOTS))
    parts = []
    for priced, count in counted:
        if priced.curve is None:
            one = pld.from_privacy_parameters(
                pld.common.DifferentialPrivacyParameters(priced.epsilon, priced.delta),
                value_discretization_interval=step,
            )
        else:
            one = pld.PrivacyLossDistribution(_pessimistic(priced.curve, priced.epsilon, step))
        parts.append(one.self_compose(count) if count > 1 else one)
    return reduce(lambda left, right: left.compose(right), parts)


def _pessimistic(curve: Callable[[float], float], epsilon: float, step: float) -> Any:
    """Return a discrete privacy loss distribution whose profile is nowhere below ``curve``.

    The curve bounds both directions of every pair of neighbours, so below 0 it continues as
    ``delta(-e) = 1 - exp(-e) (1 - delta(e))``.
    """
    from dp_accounting.pld import pld_pmf

    last = max(1, math.ceil(epsilon / step))
    dots = set(np.linspace(0, last, min(DOTS, last) + 1).round().astype(int).tolist())
    tail = last * np.geomspace(1.0, 4.0 + 4.0 / max(epsilon, 0.1), BEYOND)
    dots |= set(np.ceil(tail).astype(int).tolist())
    positive = np.array(sorted(dots))
    above = np.array([curve(float(k * step)) for k in positive])
    decay = np.exp(-positive[1:] * step)
    below = np.minimum(1.0, (-np.expm1(-positive[1:] * step) + decay * above[1:]) * (1 + 1e-15))
    rounded = np.concatenate([-positive[:0:-1], positive])
    # True profiles never rise and are convex in exp(epsilon): whatever lies above that is slack.
    deltas = np.minimum.accumulate(np.concatenate([below[::-1], above]))
    kept = _lower_hull(np.exp(rounded * step), deltas)
    return pld_pmf.create_pmf_pessimistic_connect_dots(step, rounded[kept], deltas[kept])


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

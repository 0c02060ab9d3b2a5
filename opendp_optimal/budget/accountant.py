"""Adding events up, tightly: each release by a distribution of losses nowhere better than its own.

Adding epsilons and deltas is safe and loose. Here each release is replaced by a pair of
distributions whose privacy profile lies nowhere below its own (the profile is evaluated exactly
on a grid of epsilons and its points are joined by chords in exp(epsilon), above a convex curve),
and these are composed with every rounding upwards.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.budget.events import Approximate, Concentrated, Event, Gaussian, Joint, Profile
from opendp_optimal.budget.losses import LARGEST, TAIL, Losses, from_pair, from_profile, step_for
from opendp_optimal.budget.theorems import concentrated_delta, gaussian_delta_above
from opendp_optimal.exact.halving import least
from opendp_optimal.exact.numbers import float_down, float_up

DOTS = 256
"""Grid points of a profile up to its designed epsilon."""
FEW_DOTS = 32
"""The least of them, where each takes its time: large tables, very many releases."""
MANY_DOTS = 1 << 14
"""So many for all releases that differ, about."""
WORK = 1 << 21
"""So many weights are looked at for one profile, about."""
FEW_PARTS = 16
"""Up to so many different releases are composed as finely as can be."""
BEYOND = 4
"""One in so many grid points more after that, ever wider apart."""
_RARE = 1e-10
"""Gaussian and concentrated releases are looked at up to the epsilon with this delta."""
_END = 1e6
"""No profile is looked at beyond this epsilon."""


def total_epsilon(events: Iterable[Event], delta: float) -> float:
    """The epsilon of all events together at a delta, rounded up; infinite if there is none.

    :param events: releases on the same data, each chosen knowing those before it
    :param delta: the total probability of a larger loss
    """
    counted, rest = _counted(events)
    left = Fraction(delta) - rest
    if left < 0:
        return math.inf
    delta = float_down(left)
    if not counted:
        return 0.0
    alone = _alone(counted)
    if alone is not None:
        return least(lambda epsilon: _least(alone, epsilon) <= delta, 0.0, _END, close=1e-12)
    tight = _together(counted).epsilon_at(delta)
    sum_epsilon, sum_delta = _sums(counted)
    return min(tight, sum_epsilon) if delta >= sum_delta else tight


def total_delta(events: Iterable[Event], epsilon: float) -> float:
    """The delta of all events together at an epsilon, rounded up.

    :param events: releases on the same data, each chosen knowing those before it
    :param epsilon: the total privacy loss, possibly infinite
    """
    return total_curve(events)(epsilon)


def total_curve(events: Iterable[Event]) -> Callable[[float], float]:
    """The delta of all events together at any epsilon, rounded up; they are composed once.

    :param events: releases on the same data, each chosen knowing those before it
    """
    counted, rest = _counted(events)
    found = _curve(counted) if counted else lambda _: 0.0
    return lambda epsilon: min(1.0, float_up(Fraction(found(epsilon)) + rest))


def _curve(counted: Counter[Approximate]) -> Callable[[float], float]:
    alone = _alone(counted)
    if alone is not None:
        return lambda epsilon: _least(alone, min(epsilon, _END))
    tight = _together(counted)
    sum_epsilon, sum_delta = _sums(counted)

    def delta(epsilon: float) -> float:
        known = tight.delta_at(epsilon)
        return min(known, sum_delta) if epsilon >= sum_epsilon else known

    return delta


def _counted(events: Iterable[Event]) -> tuple[Counter[Approximate], Fraction]:
    """How often each event happens, Gaussian and concentrated ones as one of all together.

    With it, what adds to the delta of all, whatever the epsilon.
    """
    counted: Counter[Approximate] = Counter()
    sums = {Gaussian: Fraction(0), Concentrated: Fraction(0)}
    rest = Fraction(0)
    waiting = [iter(events)]
    while waiting:
        event = next(waiting[-1], None)
        if event is None:
            waiting.pop()
        elif isinstance(event, Joint):
            waiting.append(iter(event.parts))
        elif isinstance(event, Approximate) and event.epsilon == 0:
            rest += Fraction(event.delta)
        elif isinstance(event, Approximate):
            counted[event] += 1
        elif isinstance(event, Gaussian | Concentrated):
            if event.rho == math.inf:
                counted[Approximate(math.inf)] += 1
                continue
            sums[type(event)] += Fraction(event.rho)
            rest += Fraction(event.delta)
        else:
            raise ValueError(f"releases: cannot price {event!r}")
    for kind, rho in sums.items():
        if rho > 0:
            counted[_summed(kind, float_up(rho))] += 1
    return counted, rest


def _summed(kind: type[Event], rho: float) -> Profile:
    """All Gaussian, or all concentrated, releases: as private as one of the sum of their losses."""

    def curve(epsilon: float) -> float:
        if kind is Concentrated:
            return concentrated_delta(rho, epsilon)
        return gaussian_delta_above(math.sqrt(0.5 / rho) * (1 - 1e-15), epsilon)

    epsilon = least(lambda e: curve(e) <= _RARE, 0.0, _END, close=1e-3)
    if epsilon == math.inf:
        return Profile(_END, 1.0, (kind, rho), None, lambda _: 1.0)
    return Profile(epsilon, curve(epsilon), (kind, rho), None, curve)


def _alone(counted: Counter[Approximate]) -> Profile | None:
    """The one release there is, if its whole profile is known."""
    ((event, count), *others) = counted.items()
    if others or count > 1 or not isinstance(event, Profile) or event.epsilon == 0:
        return None
    return event


def _sums(counted: Counter[Approximate]) -> tuple[float, float]:
    """What adding up says, rounded up."""
    sum_delta = sum((n * Fraction(p.delta) for p, n in counted.items()), Fraction(0))
    if any(p.epsilon == math.inf for p in counted):
        return math.inf, min(1.0, float_up(sum_delta))
    sum_epsilon = sum((n * Fraction(p.epsilon) for p, n in counted.items()), Fraction(0))
    return float_up(sum_epsilon), min(1.0, float_up(sum_delta))


def _together(counted: Counter[Approximate]) -> Losses:
    """Privacy losses that dominate those of all releases together, by pairs of like grids."""
    dots = max(FEW_DOTS, min(DOTS, MANY_DOTS // len(counted)))
    parts = [_losses(one, count, dots) for one, count in counted.items()]
    largest = LARGEST if len(parts) <= FEW_PARTS else LARGEST // 4
    while len(parts) > 1:
        parts.sort(key=lambda part: part.step)
        pairs = zip(parts[::2], parts[1::2], strict=False)
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [one.together(two, largest=largest) for one, two in pairs] + odd
    return parts[0]


def _losses(event: Approximate, count: int, dots: int) -> Losses:
    # With epsilon at 0 nothing is known beyond (0, delta), nor needed.
    if isinstance(event, Profile) and event.epsilon != 0:
        one = _pessimistic(event, dots)
    else:
        one = from_pair(event.epsilon, event.delta, DOTS)
    return one.shortened(TAIL / (8 * count)).repeated(count)


def _pessimistic(event: Profile, dots: int = DOTS) -> Losses:
    """Return privacy losses whose profile is nowhere below the curve of a release.

    The curve bounds both directions of every pair of neighbours, so below 0 it continues as
    ``delta(-e) = 1 - exp(-e) (1 - delta(e))``.
    """
    epsilon = event.epsilon
    dots = max(FEW_DOTS, min(dots, WORK // max(1, event.work)))
    step = step_for(epsilon, DOTS)
    last = math.ceil(epsilon / step)
    near = np.linspace(0, last, min(dots, last) + 1).round()
    tail = last * np.geomspace(1.0, 4.0 + 4.0 / max(epsilon, 0.1), dots // BEYOND)
    places = np.unique(np.concatenate([near, np.ceil(tail)])).astype(int)
    # What the price says holds beside the curve.
    above = np.array([_least(event, float(place * step)) for place in places])
    decay = np.exp(-places[1:] * step)
    below = np.minimum(1.0, (-np.expm1(-places[1:] * step) + decay * above[1:]) * (1 + 1e-15))
    rounded = np.concatenate([-places[:0:-1], places])
    # True profiles never rise and are convex in exp(epsilon): whatever lies above that is slack.
    deltas = np.minimum.accumulate(np.concatenate([below[::-1], above]))
    kept = _lower_hull(np.exp((rounded - places[-1]) * step), deltas)
    return from_profile(step, rounded[kept].tolist(), deltas[kept].tolist())


def _least(event: Profile, epsilon: float) -> float:
    delta = event.curve(epsilon)
    return min(delta, event.delta) if epsilon >= event.epsilon else delta


def _lower_hull(x: Floats, y: Floats) -> list[int]:
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

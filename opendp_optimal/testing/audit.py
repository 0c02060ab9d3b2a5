"""Audit a measurement by drawing from it: a lower confidence bound on its true delta.

If a mechanism is (epsilon, delta)-private, every event S has P(S) <= e^epsilon Q(S) + delta, where
P and Q are the laws of its output on two neighbours. One half of the draws teaches which events
tell the neighbours apart; the other half, never looked at before, counts them. Exact
Clopper-Pearson bounds on the counts bound delta from below, whatever the laws are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from opendp_optimal.testing.bounds import clopper_high, clopper_low
from opendp_optimal.testing.distinguish import Event, Outputs, features, learn, suggested
from opendp_optimal.testing.repeats import repeats

Release = Callable[[Any], Any]


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    :param epsilon: the epsilon that was asked about
    :param delta: the delta that is claimed there
    :param lower: with probability at least 1 - alarm, the true delta at epsilon is not below this
    :param event: the event behind ``lower``, in words
    :param repeated: whether two processes with the same memory released the same values
    :param draws: releases drawn for each of the two inputs
    :param alarm: the false-alarm rate: how likely an honest mechanism is to be called violated
    """

    epsilon: float
    delta: float
    lower: float
    event: str
    repeated: bool
    draws: int
    alarm: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, at the stated false-alarm rate."""
        return self.repeated or self.lower > self.delta


def audit(
    measurement: Release,
    x: Any,
    x_prime: Any,
    epsilon: float,
    delta: float,
    *,
    draws: int = 20_000,
    alarm: float = 1e-6,
    batch: Callable[[Any, int], Sequence[Any]] | None = None,
    fork: bool = True,
    unit: float = 1.0,
) -> AuditResult:
    """Try to refute that a measurement is (epsilon, delta)-private between two inputs.

    Both directions are tried. Outputs may be numbers, sequences of numbers, or anything with a
    ``repr``. Learnt events look at the values, at the lowest bits of floats, and at values that
    are met again and again. A measurement with a ``table`` (as :func:`make_optimal_noise` returns)
    adds the worst events of that table.

    A passed audit proves nothing; a violation is real, but for the false-alarm rate.

    :param measurement: an OpenDP measurement, or any function from an input to an output
    :param x: an input
    :param x_prime: a neighbour of it
    :param epsilon: the claimed epsilon for this pair
    :param delta: the claimed delta for this pair
    :param draws: releases from each input; half of them teach, half of them count
    :param alarm: the false-alarm rate; all bounds hold together with this probability
    :param batch: draws many at once, ``batch(x, count)``, where that is faster
    :param fork: also compare two forked processes, which betrays seedable randomness (where the
        platform can fork)
    :param unit: the sensitivity that a real ``table`` was scaled to
    :raises ValueError: naming the argument that makes no sense

    >>> import secrets
    >>> coin = lambda bit: bit if secrets.randbelow(4) else 1 - bit
    >>> audit(coin, 0, 1, epsilon=1.0986123, delta=0.0, fork=False).violated
    False
    >>> audit(coin, 0, 1, epsilon=0.5, delta=0.0, fork=False).violated
    True
    """
    _check(epsilon, delta, draws, alarm)
    take = batch or (lambda value, count: [measurement(value) for _ in range(count)])
    half = draws // 2
    first, second = features(take(x, 2 * half)), features(take(x_prime, 2 * half))
    found = []
    for here, there, origin, other in ((first, second, x, x_prime), (second, first, x_prime, x)):
        events = learn(here.head(half), there.head(half), epsilon)
        events += suggested(getattr(measurement, "table", None), origin, other, epsilon, unit)
        found.append((here, there, events))
    tests = 2 * sum(len(events) for _, _, events in found) + 1
    share = alarm / tests
    best, words = 0.0, "none"
    for here, there, events in found:
        for event in events:
            bound = _lower(event, here, there, half, epsilon, share)
            if bound > best:
                best, words = bound, event.words
    repeated = fork and repeats(measurement, x, share)
    return AuditResult(epsilon, delta, best, words, repeated, 2 * half, alarm)


def _check(epsilon: float, delta: float, draws: int, alarm: float) -> None:
    if not 0 <= epsilon < 700:
        raise ValueError(f"epsilon ({epsilon}) must be in [0, 700)")
    if not 0 <= delta <= 1:
        raise ValueError(f"delta ({delta}) must be in [0, 1]")
    if draws < 100:
        raise ValueError(f"draws ({draws}) must be at least 100")
    if not 0 < alarm < 1:
        raise ValueError(f"alarm ({alarm}) must be in (0, 1)")


def _lower(
    event: Event, here: Outputs, there: Outputs, half: int, epsilon: float, share: float
) -> float:
    """P(S) from below minus e^epsilon Q(S) from above, each wrong with probability ``share``."""
    hits = int(event.holds(here.tail(half)).sum())
    misses = int(event.holds(there.tail(half)).sum())
    growth = math.exp(epsilon) * (1 + 1e-12)
    return clopper_low(hits, half, share) - growth * clopper_high(misses, half, share)

"""compose: what many releases cost together, from what tables and measurements are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from opendp_optimal.budget.accountant import total_delta, total_epsilon
from opendp_optimal.budget.events import Event
from opendp_optimal.measure import dp
from opendp_optimal.measure.anatomy import event_of
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.bounded import BoundedTable


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
        measurement of this package, also in a chain, and OpenDP's own Laplace and Gaussian noise
        count with their profiles, any other with its privacy map: pure, approximate, zCDP or
        approximate zCDP. Any iterable; each item counts once.
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

    events = _events(releases, d_in)
    if delta is not None:
        return total_epsilon(events, delta), delta
    assert epsilon is not None
    return epsilon, total_delta(events, _number("epsilon", epsilon))


def _events(releases: Iterable[Any], d_in: Any) -> Iterator[Event]:
    last: Any = object()
    for release in releases:
        if release is not last:  # the one before, which is still held, is the same again
            event, last = event_of(release, d_in), release
        yield event


def _number(name: str, value: Any) -> float:
    """The largest float that is not above a number."""
    try:
        near = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        near = math.nan
    if math.isnan(near):
        raise ValueError(f"{name} ({value!r}) must be a number") from None
    return near if near <= value else math.nextafter(near, -math.inf)

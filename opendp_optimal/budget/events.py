"""What a release is, as far as its price is concerned: plain values, equal if they mean the same.

Who adds events up is another matter (:mod:`~opendp_optimal.budget.accountant`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from opendp_optimal.table import NoiseTable
from opendp_optimal.table.bounded import BoundedTable

MANY_PAIRS = 8
"""A weight of a bounded table counts so many times: it is compared with many others."""


@dataclass(frozen=True)
class Event:
    """One release on the data."""


@dataclass(frozen=True)
class Approximate(Event):
    """(epsilon, delta) is all that is known.

    :param epsilon: privacy loss, possibly infinite
    :param delta: probability of a larger loss
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        if not (self.epsilon >= 0 and 0 <= self.delta <= 1):
            raise ValueError(
                f"releases: a measurement states the price ({self.epsilon!r}, {self.delta!r})"
            )


@dataclass(frozen=True)
class Concentrated(Event):
    """Zero-concentrated privacy, but for an event of probability delta.

    :param rho: loss
    :param delta: probability of a larger loss
    """

    rho: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        if not (self.rho >= 0 and 0 <= self.delta <= 1):
            raise ValueError(f"releases: a measurement states the price ({self.rho!r})")


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise and nothing else, or post-processing of it.

    :param rho: half the squared distance of neighbours in standard deviations
    :param delta: what the noise may differ from a Gaussian
    """

    rho: float
    delta: float = 0.0


@dataclass(frozen=True)
class Joint(Event):
    """Several releases at once.

    :param parts: what they are
    """

    parts: tuple[Event, ...]


@dataclass(frozen=True)
class Profile(Approximate):
    """A release with a known curve of delta over epsilon, rounded up.

    :param mechanism: with ``distance``, says which curve is meant
    :param distance: between neighbours
    :param curve: bounds both directions of every pair of neighbours
    :param work: what a point of the curve takes, about
    """

    mechanism: Hashable = None
    distance: Hashable = None
    curve: Callable[[float], float] = field(default=lambda epsilon: 1.0, compare=False)
    work: int = field(default=0, compare=False)


def of_table(table: NoiseTable | BoundedTable) -> Profile:
    """A release with a table's noise, at the sensitivity it was designed for."""
    many = MANY_PAIRS if isinstance(table, BoundedTable) else 1
    work = table.weights.size * many
    return Profile(table.epsilon, table.delta, table, None, table.delta_at, work)

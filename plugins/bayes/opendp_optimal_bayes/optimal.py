"""The least loss that any private mechanism can give one consumer, with a proof from both sides.

The solver, the table and its exact proofs are the core's; here is how this plugin sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from opendp_optimal import CertificateError, ChannelTable, solve_channel
from opendp_optimal.extend import Integers, chances
from opendp_optimal_bayes.channel import Channel, Metric, distances_of

_TOTAL = 1 << 62
"""What each row of weights adds up to."""


@dataclass(frozen=True, eq=False)
class OptimalChannel:
    """A private channel for one consumer, and the proof that hardly any other serves better.

    :param table: the channel in integers, what was asked, and the proofs
    """

    table: ChannelTable

    @property
    def weights(self) -> Integers:
        """The channel in units of 2^-62; observations are actions."""
        return self.table.weights

    @property
    def epsilon(self) -> float | Fraction:
        """Privacy loss per unit of the metric: a float, or a fraction that no float is equal to."""
        exact = self.table.request.epsilon
        return near if (near := float(exact)) == exact else exact

    @cached_property
    def channel(self) -> Channel:
        """The channel from answers to actions, exactly."""
        return Channel([[Fraction(w, _TOTAL) for w in row] for row in self.weights.tolist()])

    @property
    def upper(self) -> float:
        """The expected loss of the channel, rounded up."""
        return self.table.upper

    @property
    def lower(self) -> float:
        """No epsilon-private mechanism has a smaller expected loss; rounded down."""
        return self.table.lower

    @property
    def gap(self) -> float:
        """By what part of the lower bound the two differ."""
        return self.table.gap

    def verify(self) -> None:
        """Prove privacy and both bounds again, from the integers and what was asked.

        :raises CertificateError: if a proof fails
        """
        if not isinstance(self.table, ChannelTable):
            raise CertificateError(f"table ({self.table!r}) is not a ChannelTable")
        if self.table.request.delta != 0:
            raise CertificateError(f"delta ({self.table.request.delta}) is not 0")
        self.table.verify()

    def __repr__(self) -> str:
        """Show the bounds."""
        return (
            f"OptimalChannel(epsilon={self.epsilon!r}, upper={self.upper:.9g}, "
            f"lower={self.lower:.9g})"
        )


def optimal_channel(
    *,
    prior: Any,
    loss: Any,
    epsilon: float | Fraction,
    metric: Metric | None = None,
    progress: Callable[[str], None] | None = None,
) -> OptimalChannel:
    """The channel of least expected loss for one consumer, among all epsilon-private ones.

    :param prior: chances of the answers
    :param loss: loss[w][x] of acting as w when the answer is x: a row for each action
    :param epsilon: privacy loss per unit of the metric
    :param metric: metric[x][x'] as a matrix, or a function of two positions; the difference of
        positions by default
    :param progress: called with a line of text at each step
    :returns: ``channel`` (observations are actions), ``upper``, ``lower``, and ``verify()``

    >>> best = optimal_channel(
    ...     prior=[0.5, 0.25, 0.25], loss=[[0, 1, 2], [1, 0, 1], [2, 1, 0]], epsilon=1.0
    ... )
    >>> best.lower <= best.upper < best.lower * (1 + 1e-6)
    True
    >>> best.channel.epsilon() <= 1.0
    True
    >>> best.verify()
    """
    weights = chances("prior", prior)
    if len(weights) == 1:
        raise ValueError("prior (of length 1) must have at least 2 chances")
    distances = distances_of(metric, len(weights))
    return OptimalChannel(solve_channel(weights, loss, epsilon, distances, progress=progress))

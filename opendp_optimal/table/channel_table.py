"""ChannelTable: a private channel as integers, with proofs of privacy and near-optimality."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.certify import channel as proofs
from opendp_optimal.certify.privacy import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.model.channel import ChannelProblem
from opendp_optimal.sample.sampler import Sampler
from opendp_optimal.table.certified import Certified

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ChannelTable(Certified):
    """A channel P(y|x) for one consumer, and a bound for all private channels.

    :param weights: integer weights, one row for each input, each adding up to 2^62
    :param above: the problem whose costs are not below those that were asked for
    :param below: the problem whose costs are not above them, with inputs at distance 0 merged
    :param dual: prices that prove the lower bound
    :param upper: expected loss, rounded up
    :param lower: a bound below the expected loss of every private channel, rounded down
    """

    weights: Integers
    above: ChannelProblem
    below: ChannelProblem
    dual: proofs.ChannelDual
    upper: float
    lower: float

    @property
    def channel(self) -> NDArray[np.float64]:
        """The chances P(y|x) as floats, one row for each input."""
        return np.asarray(self.weights / TOTAL)

    def verify(self) -> None:
        """Repeat both proofs from the data alone; raises CertificateError if one fails."""
        proofs.prove_private(self.weights, self.above)
        if self.upper < proofs.expected_cost(self.weights, self.above):
            raise CertificateError(f"upper ({self.upper}) is below the expected loss")
        if self.lower > proofs.prove_bound(self.dual, self.below):
            raise CertificateError(f"lower ({self.lower}) is above what the prices prove")

    @cached_property
    def _samplers(self) -> tuple[Sampler, ...]:
        return tuple(Sampler.of(row) for row in self.weights)

    def draw(self, x: int) -> int:
        """The output for input x, from the secure source."""
        return self._samplers[x].draw_one()

    def __repr__(self) -> str:
        """One line with the shape and the certified interval."""
        inputs, outputs = self.weights.shape
        return (
            f"ChannelTable({inputs} x {outputs}, upper={self.upper:.6g}, "
            f"lower={self.lower:.6g}, gap={self.gap:.3%})"
        )

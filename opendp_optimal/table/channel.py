"""ChannelTable: a private channel as integers, with proofs of privacy and near-optimality."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Floats, Integers, Valued
from opendp_optimal.certify import channel as proofs
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.problem.channel import ChannelProblem, ChannelRequest
from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal.table.base import Certified


@dataclass(frozen=True, eq=False)
class ChannelTable(Certified, Valued):
    """A channel P(y|x) for one consumer, and a bound for all private channels.

    :param request: what was asked, exactly
    :param weights: integer weights, one row for each input, each adding up to 2^62
    :param dual: prices that prove the lower bound
    :param upper: expected loss, rounded up
    :param lower: a bound below the expected loss of every private channel, rounded down
    """

    request: ChannelRequest
    weights: Integers
    dual: proofs.ChannelDual
    upper: float
    lower: float

    @staticmethod
    def of(request: ChannelRequest, rows: Integers, dual: proofs.ChannelDual) -> ChannelTable:
        """The table with the bounds that its proofs give.

        :param request: what was asked
        :param rows: a row of weights for each row of the request's problems
        :param dual: prices
        """
        weights = rows[list(request.rows)]
        upper, lower = _bounds(request, rows, dual)
        return ChannelTable(request, weights, dual, upper, lower)

    @property
    def above(self) -> ChannelProblem:
        """The problem, in units of the request, whose costs are not below those asked for."""
        return self.request.above

    @property
    def below(self) -> ChannelProblem:
        """The problem, in units of the request, whose costs are not above those asked for."""
        return self.request.below

    @property
    def channel(self) -> Floats:
        """The chances P(y|x) as floats, one row for each input."""
        return np.asarray(self.weights / TOTAL)

    def _proved(self) -> tuple[float, float]:
        # A request of its own: nothing that was computed before is believed.
        request = replace(self.request)
        proofs.check_rows(self.weights, len(request.prior), len(request.loss))
        if not np.array_equal(self.weights, self.weights[list(request.same)]):
            raise CertificateError("inputs at distance 0 have different rows")
        rows = self.weights[sorted(set(request.same))]
        proofs.prove_private(rows, request.above)
        return _bounds(request, rows, self.dual)

    @cached_property
    def _samplers(self) -> tuple[WeightedSampler, ...]:
        return tuple(WeightedSampler.of(row) for row in self.weights)

    def draw(self, x: int) -> int:
        """The output for input x, from the secure source."""
        return self._samplers[x].draw_one()

    def __repr__(self) -> str:
        """One line with the shape and the certified interval."""
        inputs, outputs = self.weights.shape
        return f"ChannelTable({inputs} x {outputs}, {self._interval})"


def _bounds(
    request: ChannelRequest, rows: Integers, dual: proofs.ChannelDual
) -> tuple[float, float]:
    """The expected loss, rounded up, and what the prices prove, rounded down."""
    upper = proofs.expected_cost(rows, request.above) * request.unit
    lower = proofs.prove_bound(dual, request.below) * request.unit
    return float_up(upper), float_down(lower)

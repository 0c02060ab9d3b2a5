"""The least loss that any private mechanism can give one consumer, with a proof from both sides.

The channel programme, its repair and its exact certificates are the core's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.certify.channel import (
    ChannelDual,
    expected_cost,
    private_rows,
    prove_bound,
    prove_private,
    round_prices,
)
from opendp_optimal.certify.privacy import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.model.channel import ChannelProblem
from opendp_optimal.spec.exact import float_down, float_up
from opendp_optimal_bayes._checks import distribution, fraction, matrix
from opendp_optimal_bayes.channel import Channel
from opendp_optimal_bayes.metric import Metric, direct_pairs, distances_of

MOST_ENTRIES = 40_000
_LARGEST = 64.0
_MOST_BITS = 512


@dataclass(frozen=True, eq=False)
class OptimalChannel:
    """A private channel for one consumer, and the proof that hardly any other serves better.

    :param problem: what was asked, exactly
    :param weights: the channel in units of 2^-62; observations are actions
    :param dual: prices that prove the lower bound
    :param distances: the metric
    :param epsilon: privacy loss per unit of the metric
    :param slack: by how much rounding of the costs can have moved any expected loss
    """

    problem: ChannelProblem
    weights: NDArray[np.int64]
    dual: ChannelDual
    distances: tuple[tuple[Fraction, ...], ...]
    epsilon: float
    slack: Fraction = Fraction(0)

    @cached_property
    def channel(self) -> Channel:
        """The channel from answers to actions, exactly."""
        return Channel(
            tuple(tuple(Fraction(w, TOTAL) for w in row) for row in self.weights.tolist())
        )

    @cached_property
    def upper(self) -> float:
        """The expected loss of the channel, rounded up."""
        return float_up(expected_cost(self.weights, self.problem) + self.slack)

    @cached_property
    def lower(self) -> float:
        """No epsilon-private mechanism has a smaller expected loss; rounded down."""
        proved = max(prove_bound(self.dual, self.problem), self._constant)
        return float_down(proved - self.slack)

    @property
    def gap(self) -> float:
        """By what part of the lower bound the two differ."""
        return (self.upper - self.lower) / self.lower if self.lower > 0 else math.inf

    @property
    def _constant(self) -> Fraction:
        """What even the truth costs: every answer with its best action."""
        least = sum(min(row) for row in self.problem.cost)
        return Fraction(least, self.problem.denominator)

    def verify(self) -> None:
        """Prove privacy and both bounds again, from the integers.

        :raises CertificateError: if a proof fails
        """
        prove_private(self.weights, self.problem)
        _prove_metric(self.problem, self.distances, self.epsilon)
        proved = max(prove_bound(self.dual, self.problem), self._constant) - self.slack
        if proved < Fraction(self.lower):
            raise CertificateError("the prices prove less than the lower bound")
        if expected_cost(self.weights, self.problem) + self.slack > Fraction(self.upper):
            raise CertificateError("the channel costs more than the upper bound")

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
    epsilon: float,
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
    from opendp_optimal.solvers.channel import run  # the solvers are loaded only when needed

    chances = distribution("prior", prior)
    size = len(chances)
    table = matrix("loss", loss, None, size)
    if not 0 < (epsilon_exact := fraction("epsilon", epsilon)) <= _LARGEST:
        raise ValueError(f"epsilon ({epsilon!r}) must be above 0 and at most {_LARGEST:g}")
    distances = distances_of(metric, size)
    if size * len(table) > MOST_ENTRIES:
        raise ValueError(
            f"loss (of shape {len(table)} x {size}) must have at most {MOST_ENTRIES} entries"
        )
    if size == 1:
        raise ValueError("prior (of length 1) must have at least 2 chances")
    problem, slack = _problem(chances, table, distances, epsilon_exact)
    program = problem.program()
    solution = run(program, method="highs", progress=progress)
    weights = private_rows(program.unfold(solution.weights), problem)
    dual = round_prices(solution, program, problem)
    found = OptimalChannel(
        problem, weights, dual, tuple(map(tuple, distances)), float(epsilon_exact), slack
    )
    found.verify()
    return found


def _problem(
    chances: Sequence[Fraction],
    table: Sequence[Sequence[Fraction]],
    distances: Sequence[Sequence[Fraction]],
    epsilon: Fraction,
) -> tuple[ChannelProblem, Fraction]:
    """The core's statement, and what rounding the costs to integers can have changed."""
    cost = [[p * row[x] for row in table] for x, p in enumerate(chances)]
    # Floats have powers of two for denominators: a common one is small. Where it is not, costs
    # are rounded to a part in 2^80 of the largest.
    denominator, slack = _common([v for row in cost for v in row]), Fraction(0)
    if denominator.bit_length() > _MOST_BITS:
        top = max(abs(v) for row in cost for v in row)
        denominator = 1 << (80 + max(0, -math.floor(math.log2(top))))
        slack = Fraction(len(cost), denominator)
    whole = [[round(v * denominator) for v in row] for row in cost]
    pairs, low, high = [], [], []
    for x, z in direct_pairs(distances):
        exact = epsilon * distances[x][z]
        if exact > _LARGEST:
            raise ValueError(
                f"metric: epsilon times the distance from {x} to {z} ({float(exact):g}) must be at "
                f"most {_LARGEST:g}"
            )
        pairs.append((x, z))
        low.append(float_down(exact))
        high.append(float_up(exact))
    problem = ChannelProblem(
        cost=whole,
        denominator=denominator,
        pairs=np.array(pairs, np.int64).reshape(-1, 2),
        low=np.array(low, np.float64),
        high=np.array(high, np.float64),
        delta=0.0,
    )
    return problem, slack


def _common(values: Sequence[Fraction]) -> int:
    """A common denominator, or some larger one if it is too long to be of use."""
    out = 1
    for value in values:
        out = math.lcm(out, value.denominator)
        if out.bit_length() > _MOST_BITS:
            break
    return out


def _prove_metric(
    problem: ChannelProblem, distances: Sequence[Sequence[Fraction]], epsilon: float
) -> None:
    """Raise unless the problem's pairs imply privacy in the metric for every two answers.

    A pair may be left out only if some answer lies exactly between: then its two halves, which
    are shorter, imply it.

    :param problem: its pairs and their epsilons
    :param distances: the metric
    :param epsilon: privacy loss per unit
    """
    stated = dict(zip(map(tuple, problem.pairs.tolist()), problem.low.tolist(), strict=True))
    for x, z in direct_pairs(distances):
        if (x, z) not in stated:
            raise CertificateError(f"privacy between the answers {x} and {z} is not stated")
        if Fraction(stated[x, z]) > Fraction(epsilon) * distances[x][z]:
            raise CertificateError(f"privacy between {x} and {z} is stated too weakly")

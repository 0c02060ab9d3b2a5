"""Exact proofs for channels given by integer weights. Knows nothing of solvers.

*Privacy*: the worst event of every pair is added up in integers.

*Optimality*: prices 0 <= slack[r, y] <= budget[r] of the terms [P(y|x) - growth P(y|x')]+ (without
a bound when delta is 0), and prices of the caps, prove for every channel

    expected cost >= sum_x min_y { cost[x, y] + cap prices + own slacks - growth * others' slacks }
                     - delta sum_r budget[r] - cap sum_q price[q].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.noise import TOTAL, are_integers, grown
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.problem.channel import ChannelProblem

LARGEST_EPSILON = 64.0
"""Of a pair, in proofs."""
_MOST_SCALE = 4096


@dataclass(frozen=True, eq=False)
class ChannelDual(Valued):
    """Prices in units of 2^-scale that prove a lower bound.

    ``pairs`` are indices into the problem's pairs; ``slack`` has a row for each of them. The
    other pairs have no price.
    """

    pairs: Integers
    budget: Integers
    slack: Integers
    caps: Integers
    scale: int


def _growth_up(epsilon: float) -> int:
    if epsilon > LARGEST_EPSILON:
        raise CertificateError(f"a pair has an epsilon ({epsilon}) above {LARGEST_EPSILON:g}")
    return exp_bounds(epsilon)[1]


def check_rows(weights: Integers, inputs: int, outputs: int) -> None:
    """Raise unless every row is non-negative and adds up to TOTAL."""
    if weights.dtype != np.int64 or weights.shape != (inputs, outputs):
        raise CertificateError(f"weights are not {inputs} x {outputs} 64-bit integers")
    if int(weights.min()) < 0:
        raise CertificateError("a weight is negative")
    if any(sum(row) != TOTAL for row in weights.tolist()):
        raise CertificateError(f"a row of weights does not add up to {TOTAL}")


def shortfall_units(weights: Integers, problem: ChannelProblem) -> Integers:
    """Upper bounds of sum_y [w(y|x) - e^epsilon w(y|x')]+ for every pair."""
    bounds: dict[tuple[int, float], Integers] = {}
    out = np.empty(len(problem.pairs), np.int64)
    for r, ((x, z), epsilon) in enumerate(
        zip(problem.pairs.tolist(), problem.low.tolist(), strict=True)
    ):
        if (z, epsilon) not in bounds:
            bounds[z, epsilon] = grown(weights[z], epsilon)
            bounds[z, epsilon][list(problem.revealing)] = 0
        out[r] = np.maximum(weights[x] - bounds[z, epsilon], 0).sum()
    return out


def prove_private(weights: Integers, problem: ChannelProblem) -> None:
    """Raise unless every row is a distribution and every pair is private."""
    check_rows(weights, problem.inputs, problem.outputs)
    worst = int(shortfall_units(weights, problem).max(initial=0))
    allowed = Fraction(problem.delta) * TOTAL
    if worst > allowed:
        raise CertificateError(
            f"privacy: the worst shortfall exceeds delta ({problem.delta}) by "
            f"{float(worst - allowed) / TOTAL:.3g}"
        )


def expected_cost(weights: Integers, problem: ChannelProblem) -> Fraction:
    """The exact expected cost."""
    spent = sum(
        w * c
        for row, costs in zip(weights.tolist(), problem.cost, strict=True)
        for w, c in zip(row, costs, strict=True)
    )
    return Fraction(spent, TOTAL * problem.denominator)


def cap_values(weights: Integers, problem: ChannelProblem) -> list[Fraction]:
    """The exact value of what each cap bounds."""
    rows = weights.tolist()
    return [
        Fraction(
            sum(
                w * c
                for x, costs in zip(cap.rows, cap.cost, strict=True)
                for w, c in zip(rows[x], costs, strict=True)
            ),
            TOTAL * problem.denominator,
        )
        for cap in problem.caps
    ]


def prove_caps(weights: Integers, problem: ChannelProblem) -> None:
    """Raise unless every cap is kept."""
    values = cap_values(weights, problem)
    if problem.cap is not None and values and max(values) > problem.cap:
        raise CertificateError(f"a conditional loss exceeds the cap ({float(problem.cap)})")


def prove_bound(dual: ChannelDual, problem: ChannelProblem) -> Fraction:
    """The lower bound that the prices prove, exactly; raises if they are out of bounds."""
    inputs, outputs = problem.inputs, problem.outputs
    count = len(dual.pairs)
    if not are_integers(dual.pairs, dual.budget, dual.caps) or not are_integers(dual.slack, ndim=2):
        raise CertificateError("prices are not lists and tables of 64-bit integers")
    if not -_MOST_SCALE <= dual.scale <= _MOST_SCALE:
        raise CertificateError(f"the scale of the prices ({dual.scale}) is out of bounds")
    if dual.slack.shape != (count, outputs) or len(dual.budget) != count:
        raise CertificateError("prices do not fit the problem in shape")
    if len(dual.caps) not in (0, len(problem.caps)):
        raise CertificateError("prices of caps do not fit the problem")
    if count and not (int(dual.pairs.min()) >= 0 and int(dual.pairs.max()) < len(problem.pairs)):
        raise CertificateError("a price belongs to no pair")
    if len(set(dual.pairs.tolist())) != count:
        raise CertificateError("a pair has two prices")
    if any(np.any(a < 0) for a in (dual.slack, dual.budget, dual.caps)):
        raise CertificateError("a price is negative")
    if problem.delta > 0 and np.any(dual.slack > dual.budget[:, None]):
        raise CertificateError("a price is above its budget price")
    if problem.delta == 0 and np.any(dual.budget > 0):
        raise CertificateError("a budget has a price, but delta is 0")
    if int(dual.slack.max(initial=0)).bit_length() + max(1, count).bit_length() > 60:
        raise CertificateError("prices are too large to be added exactly")
    # All over one denominator: problem.denominator * 2^(scale + BITS); a scale below 0 (prices in
    # large units) is made up for by the prices.
    scale, more = max(0, dual.scale), max(0, -dual.scale)
    lift = scale + BITS
    reduced = [[c << lift for c in row] for row in problem.cost]
    for cap, price in zip(problem.caps, dual.caps.tolist(), strict=False):
        for x, costs in zip(cap.rows, cap.cost, strict=True):
            reduced[x] = [
                a + (price * c << BITS + more) for a, c in zip(reduced[x], costs, strict=True)
            ]
    own = np.zeros((inputs, outputs), np.int64)
    others: dict[float, Integers] = {}
    shared = problem.shared.astype(np.int64)
    for r, slack in zip(dual.pairs.tolist(), dual.slack, strict=True):
        x, z = problem.pairs[r].tolist()
        own[x] += slack
        epsilon = float(problem.high[r])
        if epsilon not in others:
            others[epsilon] = np.zeros((inputs, outputs), np.int64)
        others[epsilon][z] += slack * shared
    unit = problem.denominator << BITS + more
    for x, row in enumerate(own.tolist()):
        reduced[x] = [a + y * unit for a, y in zip(reduced[x], row, strict=True)]
    for epsilon, taken in others.items():
        factor = _growth_up(epsilon) * problem.denominator << more
        for x in np.flatnonzero(taken.any(axis=1)).tolist():
            row = taken[x].tolist()
            reduced[x] = [a - y * factor for a, y in zip(reduced[x], row, strict=True)]
    paid: Fraction = Fraction(problem.delta) * sum(dual.budget.tolist())
    if problem.cap is not None:
        paid += problem.cap * sum(dual.caps.tolist())
    least = sum(min(row) for row in reduced)
    gained: Fraction = Fraction(least, problem.denominator << lift)
    return gained - paid * Fraction(1 << more, 1 << scale)


def no_prices(problem: ChannelProblem) -> ChannelDual:
    """The dual that proves what needs no privacy: the least cost of every row."""
    none = np.zeros(0, np.int64)
    return ChannelDual(none, none, np.zeros((0, problem.outputs), np.int64), none, 0)

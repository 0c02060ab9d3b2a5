"""Exact proofs for channels given by integer weights. Knows nothing of solvers.

*Privacy*: the worst event of every pair is added up in integers.

*Optimality*: prices 0 <= slack[r, y] <= budget[r] of the terms [P(y|x) - growth P(y|x')]+ (without
a bound when delta is 0), and prices of the caps, prove for every channel

    expected cost >= sum_x min_y { cost[x, y] + cap prices + own slacks - growth * others' slacks }
                     - delta sum_r budget[r] - cap sum_q price[q].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Frozen
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.model.channel import ChannelProblem, ChannelProgram, ChannelSolution

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SHRINK = 1 - 2.0**-50
_LARGEST = 64.0
_MOST_SCALE = 4096
_RARE = 2.0**-36
"""Outputs that no input releases more often are a solver's dust, too fine to be rounded."""


@dataclass(frozen=True, eq=False)
class ChannelDual(Frozen):
    """Prices in units of 2^-scale that prove a lower bound.

    ``pairs`` are indices into the problem's pairs; ``slack`` has a row for each of them. The
    other pairs have no price.
    """

    pairs: Integers
    budget: Integers
    slack: Integers
    caps: Integers
    scale: int


@lru_cache(maxsize=4096)
def _growth_down(epsilon: float) -> int:
    return exp_bounds(min(epsilon, _LARGEST))[0]


@lru_cache(maxsize=4096)
def _growth_up(epsilon: float) -> int:
    if epsilon > _LARGEST:
        raise CertificateError(f"a pair has an epsilon ({epsilon}) above {_LARGEST:g}")
    return exp_bounds(epsilon)[1]


def _grown(row: list[int], epsilon: float) -> Integers:
    factor = _growth_down(epsilon)
    return np.array([min(TOTAL, w * factor >> BITS) for w in row], np.int64)


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
    rows = weights.tolist()
    grown: dict[tuple[int, float], Integers] = {}
    out = np.empty(len(problem.pairs), np.int64)
    for r, ((x, z), epsilon) in enumerate(
        zip(problem.pairs.tolist(), problem.low.tolist(), strict=True)
    ):
        bound = grown.get((z, epsilon))
        if bound is None:
            bound = grown[z, epsilon] = _grown(rows[z], epsilon)
            bound[list(problem.telling)] = 0
        out[r] = np.maximum(weights[x] - bound, 0).sum()
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
    if any(a.dtype != np.int64 for a in (dual.pairs, dual.budget, dual.slack, dual.caps)):
        raise CertificateError("prices are not 64-bit integers")
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


def round_rows(weights: Floats) -> Integers:
    """Integers in proportion to each row that add up to TOTAL; what is left goes to the largest."""
    weights = np.maximum(weights, 0.0)
    scale = TOTAL * _SHRINK / weights.sum(axis=1, keepdims=True)
    out = np.floor(weights * scale).astype(np.int64)
    for row in out:
        row[int(np.argmax(row))] += TOTAL - sum(row.tolist())
    return np.asarray(out)


def private_rows(
    weights: Floats, problem: ChannelProblem, *, largest_mix: float = 1e-3
) -> Integers:
    """Round to integers that are private, mixing in a row common to all inputs as needed.

    With what all inputs share there is nothing to tell them apart, and each pair gains room.
    Raises if more than ``largest_mix`` of it would be needed.
    """
    if problem.delta == 0:
        weights = _lifted(weights, problem)
    common = weights.mean(axis=0) + weights.max(axis=0)
    if problem.mirrored:
        common = common + common[::-1]
    common = common * problem.shared
    common = common / common.sum()
    allowed = Fraction(problem.delta) * TOTAL
    mix = 0.0
    while mix <= largest_mix:
        out = round_rows((1 - mix) * weights + mix * common)
        if int(shortfall_units(out, problem).max(initial=0)) <= allowed:
            return out
        mix = max(4 * mix, 1e-15)
    raise CertificateError("weights are too far from private to be repaired")


def _lifted(weights: Floats, problem: ChannelProblem) -> Floats:
    """The least channel above the weights that is private in every entry, divided out.

    Every weight is raised to what pure privacy asks, given the others: the envelope
    ``max_z exp(-epsilon(z, x)) P(y|z)`` over all paths of pairs. Rows then add up to a little more
    than 1, by different amounts. What they lack of a common sum goes to the fullest outputs: it is
    private itself once that sum is large enough, and so are sums of private columns.
    """
    first, second = problem.pairs[:, 0], problem.pairs[:, 1]
    fall = np.exp(-problem.low)[:, None]
    out = np.maximum(weights, 0.0) * problem.shared
    out[:, out.max(axis=0) < _RARE] = 0.0
    for _ in range(len(weights)):
        before = out.copy()
        np.maximum.at(out, second, out[first] * fall)
        if np.all(out <= before * (1 + 1e-14)):
            break
    sums = out.sum(axis=1)
    closest = float(problem.low[problem.low > 0].min(initial=1.0))
    # The lacks are within a factor 2 - exp(-closest) of each other, at most exp(closest).
    common = sums.max() + (sums.max() - sums.min()) / -math.expm1(-closest)
    taker = np.zeros(problem.outputs)
    taker[int((out.sum(axis=0)).argmax())] = 1.0
    if problem.mirrored:
        taker = (taker + taker[::-1]) / 2
    return np.asarray((out + np.outer(common - sums, taker)) / common)


def no_prices(problem: ChannelProblem) -> ChannelDual:
    """The dual that proves what needs no privacy: the least cost of every row."""
    none = np.zeros(0, np.int64)
    return ChannelDual(none, none, np.zeros((0, problem.outputs), np.int64), none, 0)


def round_prices(
    solution: ChannelSolution, program: ChannelProgram, problem: ChannelProblem
) -> ChannelDual:
    """Integers for the prices of a solution, within their bounds, for the unfolded problem."""
    pairs, budget, slack = _unfold_prices(solution, program, problem)
    bounded = problem.delta > 0
    slack = np.maximum(slack, 0.0)
    if bounded:
        slack = np.minimum(slack, budget[:, None])
    caps = np.maximum(_unfold_caps(solution, program, problem), 0.0)
    # The least budget price that the terms allow, and none where the growth is beyond proof.
    budget = slack.max(axis=1, initial=0.0)
    used = (budget > 0) & (problem.high[pairs] <= _LARGEST)
    pairs, budget, slack = pairs[used], budget[used], slack[used]
    value = max(abs(solution.dual), 1e-12)
    # Rounding all terms of an output moves the bound by a small part of its value.
    scale = math.ceil(math.log2(2.0**24 * max(4, len(problem.pairs)) / value))
    widest = max(float(slack.max(initial=0.0)), float(caps.max(initial=0.0)), 2.0**-40)
    room = 58 - max(1, len(pairs)).bit_length()
    scale = min(scale, room - math.ceil(math.log2(widest)))
    unit = 2.0**scale
    # Downwards: what a price takes from the second row is its growth times larger than its gain.
    rounded = np.floor(slack * unit).astype(np.int64)
    whole = rounded.max(axis=1, initial=0) if bounded else np.zeros(len(pairs), np.int64)
    return ChannelDual(pairs, whole, rounded, np.rint(caps * unit).astype(np.int64), scale)


def _unfold_prices(
    solution: ChannelSolution, program: ChannelProgram, problem: ChannelProblem
) -> tuple[Integers, Floats, Floats]:
    """Prices of the problem's pairs; a folded pair gives half to each of its two images."""
    count, last = len(problem.pairs), problem.inputs - 1
    if not program.folded:
        return np.arange(count), solution.budget_price, solution.slack_price
    index = {(x, z): r for r, (x, z) in enumerate(problem.pairs.tolist())}
    budget = np.zeros(count)
    slack = np.zeros((count, problem.outputs))
    for x, z, flip, price, row in zip(
        program.first.tolist(),
        program.second.tolist(),
        program.flips.tolist(),
        solution.budget_price,
        solution.slack_price,
        strict=True,
    ):
        far = last - z if flip else z
        for r, values in ((index[x, far], row), (index[last - x, last - far], row[::-1])):
            budget[r] += price / 2
            slack[r] += values / 2
    return np.arange(count), budget, slack


def _unfold_caps(
    solution: ChannelSolution, program: ChannelProgram, problem: ChannelProblem
) -> Floats:
    """Prices of caps on single rows; others are not needed for bounds."""
    out = np.zeros(len(problem.caps))
    if not len(solution.cap_price) or any(len(cap.rows) != 1 for cap in problem.caps):
        return out
    where = {cap.rows[0]: q for q, cap in enumerate(problem.caps)}
    for price, row in zip(solution.cap_price, program.caps, strict=True):
        if not row.any():
            continue  # what costs nothing is within every cap
        x = int(np.flatnonzero(row.any(axis=1))[0])
        if not program.folded:
            out[where[x]] += price
            continue
        for image in (x, problem.inputs - 1 - x):
            out[where[image]] += price / 2
    return out

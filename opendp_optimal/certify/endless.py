"""Exact proofs for pure noise, whose support has no end.

Beyond the radius of the weights the noise goes on in blocks: each side is chosen with ``weight``,
then a point of the block with its weight or, with weight ``again``, the next block. The law must
be symmetric and fall outwards: then only pairs exactly one sensitivity apart matter.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.noise import TOTAL, are_integers, grown
from opendp_optimal.certify.spike import Spike, spike_ratio, spike_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.losses.base import Loss


@dataclass(frozen=True, eq=False)
class PureTail(Valued):
    """How noise goes on: ``weight`` for each side, a block of weights, and ``again``."""

    weight: int
    weights: Integers
    again: int


def _right_half(weights: Integers, tail: PureTail, blocks: int) -> list[int]:
    """Probabilities of 0, 1, 2, ... as integers over one denominator, with so many tail blocks."""
    out = [w * TOTAL ** (blocks + 1) for w in weights[len(weights) // 2 :].tolist()]
    for q in range(blocks):
        factor = tail.weight * tail.again**q * TOTAL ** (blocks - q)
        out += [t * factor for t in tail.weights.tolist()]
    return out


def _check(weights: Integers, tail: PureTail, spike: Spike | None = None) -> None:
    if type(tail.weight) is not int or type(tail.again) is not int:
        raise CertificateError("pure noise is not given by integers")
    if not are_integers(weights, tail.weights) or 0 in (len(weights), len(tail.weights)):
        raise CertificateError("pure noise is not given by lists of 64-bit integers")
    if len(weights) % 2 != 1:
        raise CertificateError("the weights of pure noise have no middle")
    if not np.array_equal(weights, weights[::-1]) or min(tail.weight, tail.again) <= 0:
        raise CertificateError("pure noise is not symmetric and endless")
    middle = 0 if spike is None else spike.weight
    if sum(weights.tolist()) + middle + 2 * tail.weight != TOTAL:
        raise CertificateError(f"weights and tails do not add up to {TOTAL}")
    if sum(tail.weights.tolist()) + tail.again != TOTAL:
        raise CertificateError(f"the weights of the tail do not add up to {TOTAL}")


def _largest_ratio(
    weights: Integers, tail: PureTail, step: int, spike: Spike | None = None
) -> Fraction:
    """The largest ratio of densities at most ``step`` apart; the law must fall outwards."""
    _check(weights, tail, spike)
    period = len(tail.weights)
    blocks = 2 + -(-step // period)
    right = _right_half(weights, tail, blocks)
    if min(right) <= 0 or any(a < b for a, b in itertools.pairwise(right)):
        raise CertificateError("pure noise does not fall outwards")
    # From the first tail block on, ratios repeat with every block.
    high, low = 1, 1
    for one, other in dict.fromkeys(zip(right[:-step], right[step:], strict=True)):
        if one * low > high * other:
            high, low = one, other
    ratio = Fraction(high, low)
    return ratio if spike is None else max(ratio, spike_ratio(weights, spike, step))


def prove_pure(
    weights: Integers, tail: PureTail, cells: int, epsilon: float, spike: Spike | None = None
) -> None:
    """Raise unless the noise is epsilon-private for all shifts of up to ``cells`` points."""
    lower, _ = exp_bounds(epsilon)
    if _largest_ratio(weights, tail, cells, spike) > Fraction(lower, 1 << BITS):
        raise CertificateError(f"privacy: a ratio of probabilities exceeds e^{epsilon}")


def pure_epsilon(
    weights: Integers, tail: PureTail, shift: Fraction, proved: float, spike: Spike | None = None
) -> float:
    """The least float epsilon proved for shifts of up to ``shift`` cells."""
    ratio = _largest_ratio(weights, tail, math.ceil(shift), spike)
    high = math.log(ratio)
    for _ in range(200):
        if Fraction(exp_bounds(max(high, 0.0))[0], 1 << BITS) >= ratio:
            return min(max(high, 0.0), proved)
        high = math.nextafter(high, math.inf) + 1e-18
    return proved


def pure_delta(
    weights: Integers, tail: PureTail, shift: Fraction, epsilon: float, spike: Spike | None = None
) -> Fraction:
    """An upper bound of delta at epsilon over all shifts of up to ``shift`` cells."""
    lower, _ = exp_bounds(min(epsilon, 64.0))
    reach = math.ceil(shift)
    if _largest_ratio(weights, tail, reach, spike) <= Fraction(lower, 1 << BITS):
        return Fraction(0)
    delta = _profile(weights, tail, shift, epsilon)
    if spike is not None:
        delta += spike_units(weights, spike, reach, epsilon) / TOTAL
    return min(Fraction(1), delta)


def _profile(weights: Integers, tail: PureTail, shift: Fraction, epsilon: float) -> Fraction:
    """Shortfalls of the first blocks; what lies beyond counts in full."""
    again = Fraction(tail.again, TOTAL)
    blocks = 1 + max(1, math.ceil(70 / max(1e-9, -math.log2(again))))
    high = weights[len(weights) // 2 :].tolist()
    low = list(high)
    share = Fraction(tail.weight, TOTAL)
    for q in range(blocks):
        factor = share * again**q
        for t in tail.weights.tolist():
            exact = t * factor
            high.append(math.ceil(exact))
            low.append(math.floor(exact))
    beyond = math.ceil(2 * TOTAL * share * again**blocks)
    up, down = np.array(high, np.int64), grown(np.array(low, np.int64), epsilon)
    full_up = np.concatenate([up[:0:-1], up])
    full_low = np.concatenate([down[:0:-1], down])
    n = len(full_up)

    def at(m: int) -> int:
        if m == 0:
            return 0
        if m >= n:
            return TOTAL
        short = int(np.maximum(full_up[m:] - full_low[:-m], 0).sum())
        return short + int(full_up[:m].sum()) + beyond

    whole = math.floor(shift)
    falls = [at(m) for m in range(whole + 1)]
    worst = Fraction(max(falls))
    part = shift - whole
    if part:
        worst = max(worst, (1 - part) * falls[whole] + part * at(whole + 1))
    return min(Fraction(1), worst / TOTAL)


def tail_moments(weights: Integers, tail: PureTail, loss: Loss, cells: int, kind: str) -> Fraction:
    """Expected loss contributed by both tails, exactly."""
    radius, period = len(weights) // 2, len(tail.weights)
    again = Fraction(tail.again, TOTAL)
    block = tail.weights.tolist()
    # Moments of the position in a block, and of the number of blocks passed.
    m0 = Fraction(sum(block), TOTAL)
    m1 = Fraction(sum(t * (radius + 1 + j) for j, t in enumerate(block)), TOTAL)
    m2 = Fraction(sum(t * (radius + 1 + j) ** 2 for j, t in enumerate(block)), TOTAL)
    stop = 1 - again
    g0, g1 = 1 / stop, again / stop**2
    g2 = again * (1 + again) / stop**3
    first = m1 * g0 + m0 * period * g1
    second = m2 * g0 + 2 * m1 * period * g1 + m0 * period**2 * g2
    both = Fraction(2 * tail.weight, TOTAL)
    spread = kind != "integer"
    return both * loss.tail_mean(m0 * g0, first, second, cells if spread else 1, spread)

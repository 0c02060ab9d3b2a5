"""Small laws and channels, number by number, for tests of the certifier."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np

from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import BITS
from opendp_optimal.problem.channel import CapRow, ChannelProblem

ONE = 1 << BITS


def law(rng: random.Random, count: int, zeros: bool = True) -> np.ndarray:
    """Integer weights with sum TOTAL, some of them 0, some tiny."""
    parts = [
        rng.choice((0, 1, 1, 5, 50, 500, 10**6)) if zeros else rng.randrange(1, 99)
        for _ in range(count)
    ]
    parts[count // 2] += 1
    whole = sum(parts)
    weights = [TOTAL * p // whole for p in parts]
    weights[count // 2] += TOTAL - sum(weights)
    return np.array(weights, np.int64)


def plain(weights: list[int], shift: int, growth: Fraction) -> int:
    """The shortfall with growth times the weight rounded down, term by term."""
    out = 0
    for i, w in enumerate(weights):
        j = i - shift
        other = weights[j] if 0 <= j < len(weights) else 0
        out += max(0, w - min(TOTAL, math.floor(growth * other)))
    return out


def laws() -> list[np.ndarray]:
    rng = random.Random(5)
    return [law(rng, n) for n in (1, 3, 3, 5, 7, 9, 11, 5, 7) for _ in range(4)]


def least_float(value: Fraction) -> float:
    """The least float that is not below a fraction."""
    out = float(value)
    while Fraction(out) < value:
        out = math.nextafter(out, math.inf)
    return out


def random_problem(
    rng: random.Random,
    *,
    delta: float = 0.1,
    caps: int = 0,
    revealing: tuple[int, ...] = (),
    inputs: int = 3,
    outputs: int = 4,
) -> ChannelProblem:
    """Any costs, several epsilons, caps over one or two rows."""
    cost = [[rng.randrange(20) for _ in range(outputs)] for _ in range(inputs)]
    pairs = np.array([(x, z) for x in range(inputs) for z in range(inputs) if x != z])
    low = np.array([rng.choice((0.2, 0.7, 1.3, 70.0)) for _ in pairs])
    high = np.minimum(low * 1.25, 60.0)
    rows = [tuple(sorted(rng.sample(range(inputs), 1 + q % 2))) for q in range(caps)]
    bounds = tuple(CapRow(r, [[rng.randrange(9) for _ in range(outputs)] for _ in r]) for r in rows)
    cap = Fraction(7, 3) if caps else None
    return ChannelProblem(cost, 5, pairs, low, high, delta, bounds, cap, revealing)

"""From floats to integers, for pairs. Nothing here is a proof; ``certify.pair`` checks the rest."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.pair import PairDual, shortfall, unfolded
from opendp_optimal.errors import CertificateError
from opendp_optimal.model.pair import PairProgram, PairSolution

_SHRINK = 1 - 2.0**-50
_ATTEMPTS = 12


def _whole(weights: Floats) -> Integers:
    """Integers in proportion to the floats that add up to TOTAL; what is left goes to 0."""
    weights = np.maximum(weights, 0.0)
    scale = TOTAL * _SHRINK / float(unfolded(weights).sum())
    out: Integers = np.floor(weights * scale).astype(np.int64)
    out[0, 0] += TOTAL - sum(unfolded(out).ravel().tolist())
    return out


def private_pairs(program: PairProgram, weights: Floats, largest_mix: float) -> Integers:
    """Integers that are private, mixing in noise that leaves a part of delta unused as needed."""
    reference = np.exp(-program.epsilon * program.distance).reshape(weights.shape)
    reference /= unfolded(reference).sum()
    allowed = Fraction(program.delta) * TOTAL
    mix, spare = 0.0, None
    for attempt in range(_ATTEMPTS):
        whole = _whole((1 - mix) * weights + mix * reference)
        over = shortfall(whole, program.cells, program.epsilon) - allowed
        if over <= 0:
            return whole
        if spare is None:
            spare = allowed - shortfall(_whole(reference), program.cells, program.epsilon)
        if spare <= 0:
            break
        mix += float(over / spare) * (1 + 0.01 * 2**attempt) + 1e-15
        if mix > largest_mix:
            break
    raise CertificateError("weights are too far from private to be repaired")


def pair_prices(program: PairProgram, solution: PairSolution) -> PairDual:
    """Integers for the prices of a solution, within their bounds."""
    slack = np.clip(solution.slack_price, 0.0, solution.budget_price[:, None])
    growth = math.exp(min(program.epsilon, 64.0))
    # Rounding all terms of a point by half a unit moves the bound by a part in 2^15 of its value.
    scale = math.ceil(math.log2(2.0**14 * (1 + growth) * len(slack) / abs(solution.dual)))
    scale = min(scale, 50 - math.ceil(math.log2(float(solution.budget_price.max()))))
    budget = np.ceil(solution.budget_price * 2.0**scale).astype(np.int64)
    rounded = np.minimum(np.rint(slack * 2.0**scale).astype(np.int64), budget[:, None])
    return PairDual(
        cells=program.cells,
        reach=int(program.counts[-1]),
        moves=program.moves,
        budget=budget,
        slack=rounded,
        scale=scale,
    )

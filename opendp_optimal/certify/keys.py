"""Exact proofs for the release of keys that are secret themselves. Knows no solver.

A key with count n has noise Z added, with integer weights, and is released with n + Z where that
reaches the threshold. Where it does not, it is *rescued* with some probability x(n): released with
one fixed number, whatever n and Z are. Else nothing is released, with probability u(n), and a key
with count 0 is never released.

*Privacy* of a key whose count moves from n to n', both above 0. What is released is the sum of
three parts: the noise above the threshold, the rescued, and nothing. The shortfall of a sum,
[P - e^epsilon P']+ over all outputs, is at most the sum of the shortfalls of its parts. That of the
first is at most the noise's own. So

    noise's + [x(n) - e^epsilon x(n')]+ + [u(n) - e^epsilon u(n')]+ <= delta

for all n and n' up to ``move`` apart is enough. Where neither is ever rescued, the noisy count
decides all, and the noise's own shortfall is enough. Between 0 and n <= move it is enough that n is
released with probability at most delta: then nothing is released with at least 1 - delta.

All in integers, of which TOTAL make 1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.certify.noise import TOTAL, are_integers, grown, prove_private
from opendp_optimal.errors import CertificateError

MOST_COUNTS = 1 << 24


def below_threshold(weights: Integers, threshold: int, counts: int) -> Integers:
    """What noise has below ``threshold - n``, for the counts n = 0, 1, ..., so many of them."""
    radius = len(weights) // 2
    sums = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])
    place = np.clip(threshold + radius - np.arange(counts), 0, len(weights))
    return np.asarray(sums[place])


def rows(weights: Integers, threshold: int, move: int) -> int:
    """How many counts there are before every noisy count reaches the threshold, and a move on."""
    return threshold + len(weights) // 2 + 1 + move


def prove_keys(
    weights: Integers,
    nothing: Integers,
    *,
    threshold: int,
    move: int,
    epsilon: float,
    delta: float,
) -> None:
    """Raise unless keys are released (epsilon, delta)-privately.

    :param weights: of the noise -radius..radius, which add up to TOTAL
    :param nothing: u(n) for n = 0, 1, ...; 0 beyond
    :param threshold: at least 1
    :param move: how far neighbours can be apart in the count of a key
    """
    if type(threshold) is not int or type(move) is not int or threshold < 1 or move < 1:
        raise CertificateError("a threshold or a move is not a number that is at least 1")
    spare = prove_private(weights, 0, move, epsilon, delta)
    count = rows(weights, threshold, move)
    if not are_integers(nothing) or not 1 <= len(nothing) <= count or count > MOST_COUNTS:
        raise CertificateError("chances to release nothing are not 64-bit integers of right number")
    held = np.zeros(count, np.int64)
    held[: len(nothing)] = nothing
    below = below_threshold(weights, threshold, count)
    if held[0] != TOTAL or np.any(held < 0) or np.any(held[1:] > below[1:]):
        raise CertificateError("a chance to release nothing is not within its bounds")
    rescued = below - held
    if TOTAL - int(held[1 : move + 1].min()) > Fraction(delta) * TOTAL:
        raise CertificateError(f"keys: a count of at most {move} is released too often")
    worst = _shortfall(held[1:], rescued[1:], move, epsilon)
    if worst > spare:
        raise CertificateError(
            f"keys: the worst shortfall exceeds delta ({delta}) by "
            f"{float(worst - spare) / TOTAL:.3g}"
        )


def _shortfall(held: Integers, rescued: Integers, move: int, epsilon: float) -> int:
    """The worst of [x(n) - e^epsilon x(n')]+ + [u(n) - e^epsilon u(n')]+, for n and n' above 0."""
    held_bound, rescued_bound = grown(held, epsilon), grown(rescued, epsilon)
    worst = 0
    for step in range(1, min(move, len(held) - 1) + 1):
        for one, other in (
            (slice(None, -step), slice(step, None)),
            (slice(step, None), slice(None, -step)),
        ):
            short = np.maximum(held[one] - held_bound[other], 0)
            short += np.maximum(rescued[one] - rescued_bound[other], 0)
            short *= (rescued[one] > 0) | (rescued[other] > 0)
            worst = max(worst, int(short.max()))
    return worst

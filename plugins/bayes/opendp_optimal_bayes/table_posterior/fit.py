"""The weights of a mixture that make observations likeliest, with a certificate.

Maximises ``sum_j n_j log (A w)_j + sum_k a_k log w_k`` over the simplex: concave, and for a > 0
with one maximum. A primal-dual interior-point method finds it without random numbers. Nothing of
it is believed: the gap is computed from the weights alone. With ``D_k = sum_j n_j A_jk / (A w)_j``
no weights are better by more than ``max_k (D_k + a_k / w_k) - (sum n + sum a)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from opendp_optimal import SolverError

Floats = NDArray[np.float64]

LARGEST_GAP = 1e-6
"""What every fit must reach, in nats for each observation."""
WANTED_GAP = 1e-9
_ROUNDS = 300
_BACK = 0.95
_CALM = 3


@dataclass(frozen=True)
class Fit:
    """Weights and how far from the best they can be.

    :param weights: of the columns, adding up to 1
    :param gap: the objective is within this of its maximum, in nats for each observation
    """

    weights: Floats
    gap: float


def certified_gap(chances: Floats, counts: Floats, pseudo: Floats, weights: Floats) -> float:
    """How much better, for each observation, the best weights can be at most.

    :param chances: of each observation (row) under each column, up to a factor for each row
    :param counts: how often each observation was made
    :param pseudo: pseudo-counts of the columns, above 0
    :param weights: of the columns, above 0 and adding up to 1
    """
    pull = chances.T @ (counts / (chances @ weights)) + pseudo / weights
    return max(0.0, float(pull.max() - counts.sum() - pseudo.sum())) / float(counts.sum())


def fit_weights(chances: Floats, counts: Floats, pseudo: Floats) -> Fit:
    """Find the best weights.

    :param chances: of each observation (row) under each column, up to a factor for each row;
        every row has a positive entry
    :param counts: how often each observation was made, above 0
    :param pseudo: pseudo-counts of the columns, above 0
    :raises SolverError: if no weights with a gap of at most ``LARGEST_GAP`` are found

    >>> fit_weights(np.eye(2), np.array([3.0, 1.0]), np.full(2, 1e-9)).weights.round(6).tolist()
    [0.75, 0.25]
    """
    rows = chances / chances.max(axis=1, keepdims=True)
    total = float(counts.sum() + pseudo.sum())
    share, goal = counts / total, pseudo / total
    size = rows.shape[1]
    weights = np.full(size, 1.0 / size)
    slack = np.full(size, 0.5)
    barrier = 0.1 / size
    best = Fit(weights, certified_gap(rows, counts, pseudo, weights))
    calm = 0
    for _ in range(_ROUNDS):
        try:
            with np.errstate(over="ignore", under="ignore"):
                target = np.maximum(goal, barrier)
                weights, slack, step = _newton(rows, share, target, weights, slack)
        except np.linalg.LinAlgError:
            break  # rounding has the last word; the gap says whether that is enough
        simplex = weights / weights.sum()
        found = Fit(simplex, certified_gap(rows, counts, pseudo, simplex))
        calm = 0 if found.gap < 0.5 * best.gap else calm + 1
        best = found if found.gap < best.gap else best
        # Rounding ends the progress; until then one more round is worth ten digits.
        if best.gap <= WANTED_GAP and calm >= _CALM:
            break
        mean = float((weights * slack).mean())
        if step > 0.05:
            barrier = min(0.5 * barrier, mean * (0.2 if step > 0.5 else 0.6))
    if best.gap > LARGEST_GAP:
        raise SolverError(f"the fit of a prior ended with a gap of {best.gap:.1e} nat per cell")
    return best


def _newton(
    rows: Floats, share: Floats, target: Floats, weights: Floats, slack: Floats
) -> tuple[Floats, Floats, float]:
    """One step towards ``weights * slack = target`` and ``slack = 1 - gradient``."""
    mixed = rows @ weights
    slope = 1.0 - rows.T @ (share / mixed)
    curved = (rows.T * (share / mixed**2)) @ rows
    curved[np.diag_indices_from(curved)] += slack / weights
    move = cho_solve(cho_factor(curved), target / weights - slope)
    drift = (target - weights * slack - slack * move) / weights
    step = _largest_step(weights, move)
    mixed_move = rows @ move

    def cost(t: float) -> float:
        at = weights + t * move
        return float(at.sum() - share @ np.log(mixed + t * mixed_move) - target @ np.log(at))

    start, downhill = cost(0.0), float((slope - target / weights) @ move)
    while step > 1e-10 and cost(step) > start + 1e-4 * step * downhill + 1e-13 * abs(start):
        step *= 0.5
    return weights + step * move, slack + _largest_step(slack, drift) * drift, step


def _largest_step(at: Floats, move: Floats) -> float:
    """How far to go, up to 1, so that everything stays positive."""
    falling = move < 0
    if not falling.any():
        return 1.0
    return min(1.0, _BACK * float((-at[falling] / move[falling]).min()))

"""Offsets for any symmetric log-concave noise: the quantile rule and the numerical optimum.

The optimum satisfies Lloyd's condition: every offset is the median of the noise within its own
cell, cells being split at midpoints. For a log-concave density this stationary point is unique,
so it is symmetric, and Newton's method on the (tridiagonal) conditions finds it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_banded

from opendp_optimal.extend import Floats, whole
from opendp_optimal_select.noise import MOST_OFFSETS, SymmetricNoise, mirrored

_MAX_STEPS = 500
_MAX_HALVINGS = 14


def quantile_offsets(k: int, noise: SymmetricNoise) -> tuple[float, ...]:
    """Return the offsets of the quantile rule of appendix A.6.

    For odd ``k = 2K - 1``: 0 and, on either side, the points the noise exceeds in absolute value
    with probability ``1 - i/K``, for ``i = 1..K-1``. For even ``k = 2K`` there is no point at 0 and
    the probabilities are ``1 - (i - 1/2)/(K + 1/2)``, the same spacing seen from a half step.

    :param k: number of answers
    :param noise: the noise added by the client

    >>> from opendp_optimal_select.noise import LaplaceNoise
    >>> [round(a, 4) for a in quantile_offsets(3, LaplaceNoise(1.0))]
    [-0.6931, 0.0, 0.6931]
    """
    k = whole("k", k, most=MOST_OFFSETS)
    upper = noise.quantile(_start_probabilities(k))
    return mirrored(upper, k)


def lloyd_offsets(k: int, noise: SymmetricNoise) -> tuple[float, ...]:
    """Return the ``k`` offsets that minimise the expected distance to the nearest one.

    :param k: number of answers
    :param noise: the noise added by the client

    >>> from opendp_optimal_select.noise import GaussianNoise
    >>> [round(a, 4) for a in lloyd_offsets(2, GaussianNoise(1.0))]
    [-0.6745, 0.6745]
    """
    k = whole("k", k, most=MOST_OFFSETS)
    if k == 1:
        return (0.0,)
    upper = noise.quantile(_start_probabilities(k))
    residual = _residual(upper, k, noise)
    for _ in range(_MAX_STEPS):
        step = _newton_step(upper, residual, k, noise)
        for halvings in range(_MAX_HALVINGS):
            trial = upper - 0.5**halvings * step
            if trial[0] > 0.0 and np.all(np.diff(trial) > 0.0):
                trial_residual = _residual(trial, k, noise)
                if np.linalg.norm(trial_residual) < np.linalg.norm(residual):
                    break
        else:
            break  # nothing on the way is closer
        done = float(np.abs(trial - upper).max()) <= 1e-15 * float(trial[-1])
        upper, residual = trial, trial_residual
        if done:
            break
    return mirrored(upper, k)


def placement_cost(offsets: tuple[float, ...], noise: SymmetricNoise) -> float:
    """Return the expected distance from the noise to the nearest of ``offsets``.

    :param offsets: any offsets, in ascending order
    :param noise: the noise added by the client

    >>> from opendp_optimal_select.noise import LaplaceNoise
    >>> round(placement_cost((-0.5, 0.0, 0.5), LaplaceNoise(1.0)), 6)
    0.65546
    """
    points = np.asarray(offsets, dtype=np.float64)
    if points.ndim != 1 or points.size == 0 or np.any(np.diff(points) < 0.0):
        raise ValueError(f"offsets ({offsets!r}) must be a non-empty ascending sequence")
    return 0.5 * (_one_side(points, noise) + _one_side(-points[::-1], noise))


def _one_side(points: Floats, noise: SymmetricNoise) -> float:
    """Return the expected distance from ``|Y|`` to the nearest of ``points``."""
    middles = np.maximum(0.5 * (points[1:] + points[:-1]), 0.0)
    edges = np.concatenate([[0.0], middles])
    inner = np.clip(points, edges, np.append(middles, np.inf))
    mass, moment = noise.survival(edges), noise.upper_moment(edges)
    mass_at, moment_at = noise.survival(inner), noise.upper_moment(inner)
    mass_end, moment_end = np.append(mass[1:], 0.0), np.append(moment[1:], 0.0)
    below = points * (mass - mass_at) - (moment - moment_at)
    above = (moment_at - moment_end) - points * (mass_at - mass_end)
    return float(np.sum(below + above))


def _start_probabilities(k: int) -> Floats:
    half = k // 2
    steps = np.arange(1, half + 1, dtype=np.float64)
    return 1.0 - steps / (half + 1) if k % 2 else 1.0 - (steps - 0.5) / (half + 0.5)


def _edges(upper: Floats, k: int) -> Floats:
    first = 0.5 * upper[0] if k % 2 else 0.0
    return np.concatenate([[first], 0.5 * (upper[1:] + upper[:-1])])


def _residual(upper: Floats, k: int, noise: SymmetricNoise) -> Floats:
    """Return, cell by cell, how far the offset is from halving its own probability."""
    lower = noise.survival(_edges(upper, k))
    return np.asarray(2.0 * noise.survival(upper) - lower - np.append(lower[1:], 0.0))


def _newton_step(upper: Floats, residual: Floats, k: int, noise: SymmetricNoise) -> Floats:
    at_edges = 0.5 * noise.density(_edges(upper, k))
    at_edges[0] *= k % 2  # between the two middle answers of even k the edge stays at 0
    banded = np.zeros((3, upper.size))
    banded[1] = -2.0 * noise.density(upper) + at_edges + np.append(at_edges[1:], 0.0)
    banded[0, 1:] = at_edges[1:]
    banded[2, :-1] = at_edges[1:]
    return np.asarray(solve_banded((1, 1), banded, residual), dtype=np.float64)

"""What is made of the looks: counts, densities, neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from opendp_optimal_geo.answer import Answer
from opendp_optimal_geo.elimination import (
    Elimination,
    Progress,
    eliminate,
    eliminate_to,
    scores,
    start,
    take_look,
)
from opendp_optimal_geo.look import GridLooker
from opendp_optimal_geo.region import threshold_shifts
from opendp_optimal_geo.score import SignedDistance

FloatArray = NDArray[np.float64]

ELIMINATION_SHARE = 0.25
"""Part of the failure probability that goes to the eliminations (Remark 6)."""
FAR = 6.0
"""Bandwidths beyond which a point counts as far from a kernel's centre."""


def _betas(beta: float, baseline: bool) -> tuple[float, float]:
    return (0.0, beta) if baseline else (ELIMINATION_SHARE * beta, (1 - ELIMINATION_SHARE) * beta)


def _missing(looker: GridLooker, state: Elimination) -> int:
    """Return how many users gave no answer."""
    state.spread_weights()
    return int(np.count_nonzero(looker.allotment == 0) + np.count_nonzero(state.weights == 0.0))


def _finish(looker: GridLooker, state: Elimination, beta: float) -> tuple[FloatArray, FloatArray]:
    """Drop users without any answer; return final estimates and widths of the others left."""
    state.spread_weights()
    state.keep(state.weights > 0.0)
    return scores(state, looker, beta / max(1, len(state.users)))


def range_count(
    looker: GridLooker, beta: float, *, baseline: bool, shift: bool, progress: Progress | None
) -> Answer:
    """Count users inside (Algorithm 6; PM_0 and PM_1 count estimates below the threshold)."""
    first, last = _betas(beta, baseline)
    state = eliminate(
        looker,
        looker.allotment,
        looker.split,
        beta=first,
        low=0.0,
        high=0.0,
        decide=not baseline,
        progress=progress,
    )
    missing = _missing(looker, state)
    estimate, width = _finish(looker, state, last)
    cut = np.zeros(len(estimate))
    if shift and not looker.columns:
        assert isinstance(looker.score_of, SignedDistance)
        scale = looker.scale(state.users, state.weights)
        cut = threshold_shifts(looker.score_of.region, scale)
    inside = estimate < cut
    # Whoever the interval does not settle may have been counted wrongly.
    doubtful = np.where(inside, estimate + width >= 0.0, estimate - width < 0.0)
    settled = state.inside
    return Answer(
        value=settled + int(inside.sum()),
        error_bound=int(doubtful.sum()) + missing,
        beta=beta,
        saving=looker.saving(),
        rounds=tuple(state.rounds),
        missing=missing,
        decided_at=state.decided_at,
    )


def kernel_density(
    looker: GridLooker,
    bandwidth: float,
    beta: float,
    *,
    baseline: bool,
    progress: Progress | None,
) -> Answer:
    """Estimate a kernel density (Algorithm 7, eliminating on the distance to the point)."""
    first, last = _betas(beta, baseline)
    state = eliminate(
        looker,
        looker.allotment,
        looker.split,
        beta=first,
        low=-math.inf,
        high=FAR * bandwidth,
        decide=not baseline,
        progress=progress,
    )
    users = len(looker.allotment)
    missing = _missing(looker, state)
    estimate, width = _finish(looker, state, last)
    kernel = _kernel(estimate, bandwidth)
    far = state.outside * math.exp(-(FAR**2) / 2.0)
    near = float(kernel.sum())
    value = (near + (far if far <= near else 0.0)) / users
    highest = _kernel(np.maximum(0.0, estimate - width), bandwidth)
    lowest = _kernel(estimate + width, bandwidth)
    error = float(np.maximum(highest - kernel, kernel - lowest).sum()) + far + missing
    return Answer(
        value=value,
        error_bound=error / users,
        beta=beta,
        saving=looker.saving(),
        rounds=tuple(state.rounds),
        missing=missing,
        decided_at=state.decided_at,
    )


def _kernel(distance: FloatArray, bandwidth: float) -> FloatArray:
    with np.errstate(over="ignore"):  # far beyond the kernel it is 0
        return np.exp(-0.5 * (distance / bandwidth) ** 2)


def nearest(
    looker: GridLooker, k: int, beta: float, *, baseline: bool, progress: Progress | None
) -> Answer:
    """Find the k nearest users (Algorithm 8), in the order of their estimates."""
    first, last = _betas(beta, baseline)
    state = eliminate_to(
        looker,
        looker.allotment,
        looker.split,
        k,
        beta=first,
        decide=not baseline,
        progress=progress,
    )
    alone = len(state.users) <= k and not baseline
    estimate, width = _finish(looker, state, last)
    missing = int((looker.allotment > 0).sum()) - len(state.users)
    missing -= state.outside
    missing += int((looker.allotment == 0).sum())
    order = np.argsort(estimate, kind="stable")[:k]
    # Lemmas 6.4 to 6.7: twice the largest width. When only k are left they are the nearest.
    bound = 0.0 if alone and not missing else 2.0 * float(width.max(initial=0.0))
    return Answer(
        value=tuple(state.users[order].tolist()),
        error_bound=bound if not missing else math.inf,
        beta=beta,
        saving=looker.saving(),
        rounds=tuple(state.rounds),
        missing=missing,
        decided_at=state.decided_at,
    )


@dataclass(frozen=True)
class DensityMap:
    """A density on a map.

    :param density: users per squared unit of distance, rows from south to north
    :param bounds: (west, south, east, north)
    :param answered: users who sent a point
    """

    density: FloatArray
    bounds: tuple[float, float, float, float]
    answered: int


def release_points(looker: GridLooker, size: int, progress: Progress | None = None) -> FloatArray:
    """Return one noisy point per user."""
    state = start(looker.allotment, looker.columns)
    with looker.paying(state):
        take_look(state, looker, looker.allotment, looker.split, progress)
    out = np.full((size, looker.columns), np.nan)
    state.spread_weights()
    known = state.weights > 0.0
    out[state.users[known]] = state.averages(known)
    return out


def density_map(
    released: FloatArray, bounds: FloatArray, cells: int, bandwidth: float
) -> DensityMap:
    """Smooth a histogram of released points."""
    west, south, east, north = bounds.tolist()
    known = released[np.isfinite(released[:, 0])]
    counts, _, _ = np.histogram2d(
        known[:, 1], known[:, 0], bins=cells, range=[(south, north), (west, east)]
    )
    size = (north - south) / cells, (east - west) / cells
    smooth = gaussian_filter(
        counts, (bandwidth / size[0], bandwidth / size[1]), mode="constant", truncate=5.0
    )
    density = smooth / (size[0] * size[1])
    return DensityMap(density, (west, south, east, north), len(known))

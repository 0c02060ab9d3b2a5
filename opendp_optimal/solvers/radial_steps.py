"""Balls whose mixture is private noise for vectors, of little loss: a linear programme, refined.

The density of the noise is f_i between two radii of a grid. A point of shell i is in shell j, seen
from the answer of a neighbour, with a chance p_ij that volumes of caps give; the programme is

    minimise    sum_i c_i v_i f_i
    subject to  sum_i v_i f_i = 1,   f falls,   s_ij >= f_i - e^epsilon f_j, s >= 0,
                sum_ij v_i p_ij s_ij <= delta,

v_i being the volume of shell i and c_i its mean loss. Few balls get a weight in most cases: the
grid is then made finer around them. Variables are relative to a law that is known to be good.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.special import betainc

from opendp_optimal.arrays import Floats
from opendp_optimal.errors import SolverError
from opendp_optimal.solvers.highs import SMALLEST, add_columns, add_rows, optimum, quiet_highs

_FARTHEST = 28.0
"""Noise that reaches farther, in sensitivities, is hardly better in steps."""
_POINTS, _FINEST = 160, 24.0
"""Radii of the first grid, at most, and in a sensitivity."""
_MOST_POINTS, _MOST_TERMS = 200, 4000
"""Radii and shortfalls of a programme, at most."""
_AROUND = np.arange(-2.0, 3.0)
"""Places around a ball that are tried next, in cells a third as wide."""
_ROUNDS = 8
_KEEP, _DROP = 1e-6, 1e-3
"""Where the density falls by less than these parts, there is no ball, or none to refine; nor where
there is less of it than such a part of delta."""
_BETTER = 1 - 1e-5
_LEAST = 1e-7
"""Chances that are left out, as parts of delta."""

LogDensity = Callable[[Floats], Floats]


def radial_steps(
    size: int, epsilon: float, delta: float, power: int, near: LogDensity
) -> tuple[Floats, Floats] | None:
    """Radii of l2 balls, in sensitivities, and their weights; None where steps are not worth it.

    :param size: of the vectors, at least 2
    :param epsilon: privacy parameter
    :param delta: privacy parameter, above 0
    :param power: of the loss
    :param near: the logarithm of a density that is nearly as good, in units of the unit ball
    """
    grid = _first_grid(size, epsilon, delta, near)
    if grid is None:
        return None
    radii, cells = grid
    found, least = None, math.inf
    for _ in range(_ROUNDS):
        try:
            weights = _programme(size, epsilon, delta, power, radii, near)
        except SolverError:
            break
        heights = _heights(radii, weights, size)
        falls = 1 - np.append(heights[1:], 0.0) / np.maximum(heights, 1e-300)
        counts = np.cumsum(weights[::-1])[::-1] > max(_KEEP * delta * math.exp(-epsilon), 2.0**-60)
        kept, used = counts & (falls > _KEEP), counts & (falls > _DROP)
        balls, shares = radii[kept], weights[kept] / weights[kept].sum()
        stretch = _stretch(balls, shares, size, epsilon, delta)
        loss = float(shares @ balls**power) * stretch**power
        better = loss < least * _BETTER
        if loss < least:
            found, least = (balls * stretch, shares), loss
        radii, cells = _finer(radii[used], cells[used] / 3)
        if not better or len(radii) > _MOST_POINTS:
            break
    return found


def _first_grid(
    size: int, epsilon: float, delta: float, near: LogDensity
) -> tuple[Floats, Floats] | None:
    """Radii over all that counts of a law, and how wide their cells are."""
    r = np.geomspace(1e-10, 1.0, 8001) * (4 * (size + 8 * math.sqrt(size) + 40) / epsilon + 4)
    logs = near(r) + size * np.log(r)
    beyond = np.cumsum(np.exp(logs - logs.max())[::-1])[::-1]
    beyond /= beyond[0]
    last = float(r[np.searchsorted(-beyond, -0.01 * delta)]) + 1
    first = 0.8 * float(r[np.searchsorted(1 - beyond, 0.01 * delta)])
    if last > _FARTHEST or size * math.log(last / first) > 600:
        return None
    fine = _FINEST * max(1.0, math.sqrt(size / 16))
    while True:
        radii = [first]
        while radii[-1] < last:
            near_0 = 1.5 * radii[-1] * max(1.0, min(16 / size, 8.0))
            radii.append(radii[-1] + min(1.0, near_0) / fine)
        if len(radii) <= _POINTS:
            grid = np.array(radii)
            return grid, np.minimum(np.diff(grid, prepend=0.0), 1 / fine)
        fine *= 0.95


def _finer(centres: Floats, cells: Floats) -> tuple[Floats, Floats]:
    """A finer grid around radii; where two of its points nearly meet, one is left out."""
    radii = (centres[:, None] + cells[:, None] * _AROUND).ravel()
    order = np.argsort(radii)
    radii, cells = radii[order], np.repeat(cells, len(_AROUND))[order]
    apart = np.diff(radii, prepend=-1.0) > 0.3 * cells
    return radii[apart], cells[apart]


def _programme(
    size: int, epsilon: float, delta: float, power: int, radii: Floats, near: LogDensity
) -> Floats:
    """The best weights of balls of these radii."""
    count = len(radii)
    inner = np.append(0.0, radii[:-1])
    part = (inner / radii) ** size
    logs = size * np.log(radii) + np.log1p(-part)
    # Most of the innermost ball is far out.
    share = near(np.append(radii[0], (inner + radii)[1:] / 2)) + logs
    share = np.exp(share - share.max())
    share /= share.sum()
    level = np.log(share) - logs
    mean = radii**power * (1 - part * (inner / radii) ** power) / (1 - part)
    # The chance that a point of shell i is beyond radius j of a neighbour.
    outside = _outside(size, radii[:, None], radii)
    beyond = outside - np.vstack([np.zeros(count), outside[:-1]]) * part[:, None]
    beyond = np.maximum(beyond / (1 - part)[:, None], 0.0)
    chance = np.triu(beyond[:, :-1] - beyond[:, 1:]) * share[:, None] / delta
    one, other = np.nonzero(chance > _LEAST)
    spent, other = chance[one, other], other + 1
    terms = len(one)
    if terms > _MOST_TERMS:
        raise SolverError("the programme is larger than a request may have")
    odds = np.exp(np.minimum(epsilon + level[other] - level[one], 30.0))
    scale = 1 / np.maximum(1.0, odds)
    each = sparse.eye_array(count, format="csr")
    inside = sparse.diags_array(odds * scale) @ each[other] - sparse.diags_array(scale) @ each[one]
    short = sparse.hstack([inside, sparse.diags_array(scale)])
    budget = np.concatenate([share * beyond[:, -1] / delta, spent])
    mass = np.concatenate([share, np.zeros(terms)])
    falls = each[:-1] - sparse.diags_array(np.exp(np.diff(level))) @ each[1:]
    falls = sparse.hstack([falls, sparse.csr_array((count - 1, terms))])
    highs = quiet_highs(solver="ipm", run_crossover="choose", primal_feasibility_tolerance=1e-7)
    costs = share * mean
    add_columns(highs, np.concatenate([costs / costs.sum(), np.zeros(terms)]))
    matrix = sparse.vstack([short, falls, budget[None, :], mass[None, :]], format="csr")
    matrix.data[np.abs(matrix.data) < SMALLEST] = 0.0
    matrix.eliminate_zeros()
    low, high = np.zeros(matrix.shape[0]), np.full(matrix.shape[0], np.inf)
    low[-2:], high[-2:] = (-np.inf, 1.0), 1.0
    add_rows(highs, matrix, low, high)
    solved, _, _ = optimum(highs)
    # What counts is far out: inside, where hardly any noise is, the density may be off.
    heights = np.maximum(solved[:count], 0.0) * np.exp(level - level.max())
    heights = np.maximum.accumulate(heights[::-1])[::-1]
    weights = (heights - np.append(heights[1:], 0.0)) * (radii / radii[-1]) ** size
    total = float(weights.sum())
    if not total > 0:
        raise SolverError("no ball has a weight")
    return np.asarray(weights / total)


def _heights(radii: Floats, weights: Floats, size: int) -> Floats:
    """The density between radii, in units of the largest ball."""
    return np.cumsum((weights / (radii / radii[-1]) ** size)[::-1])[::-1]


def _delta(radii: Floats, weights: Floats, size: int, epsilon: float) -> float:
    """The delta of a mixture of balls for moves of length 1, level by level."""
    up = _heights(radii, weights, size)[::-1]
    levels = np.unique(np.concatenate([up, up * math.exp(epsilon)]))
    width = np.diff(levels, prepend=0.0)
    middle = levels - width / 2
    near = len(up) - np.searchsorted(up, middle)
    far = len(up) - np.searchsorted(up * math.exp(epsilon), middle)
    inside = near > 0
    one, other = radii[near[inside] - 1], radii[far[inside] - 1]
    volume = (one / radii[-1]) ** size
    return float(width[inside] @ (volume * _outside(size, one, other)))


def _stretch(radii: Floats, weights: Floats, size: int, epsilon: float, delta: float) -> float:
    """What radii must be multiplied by to spend delta."""

    def fits(log_stretch: float) -> bool:
        return _delta(radii * math.exp(log_stretch), weights, size, epsilon) <= delta

    low = high = 0.0
    step = 1e-6
    while not fits(high) and high < 20:
        low, high, step = high, high + step, 2 * step
    step = 1e-6
    while fits(low) and low > -20:
        low, high, step = low - step, low, 2 * step
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return math.exp(high)


def _outside(size: int, one: Floats, other: Floats) -> Floats:
    """The part of a ball outside of another one, their centres 1 apart."""
    plane = np.clip((one * one + 1 - other * other) / 2, -one, one)
    mine = _cap(size, -plane / one)
    theirs = _cap(size, np.clip((1 - plane) / other, -1.0, 1.0))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        less = np.exp(size * np.log(other / one) + np.log(theirs))
    found = np.where(one + other <= 1, 1.0, np.where(one + 1 <= other, 0.0, mine - less))
    return np.asarray(np.where(other + 1 <= one, 1 - (other / one) ** size, found))


def _cap(size: int, height: Floats) -> Floats:
    """The part of the unit ball beyond a height in [-1, 1]."""
    part = 0.5 * betainc((size + 1) / 2, 0.5, (1 - height) * (1 + height))
    return np.asarray(np.where(height >= 0, part, 1 - part))

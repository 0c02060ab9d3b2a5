"""Priors that vary with a predictor s: a point, the prior without structure, and multiples of s.

``x | s ~ w_0 at 0 + w_1 G + sum_k w_k NB(s rho_k)``, with weights that vary slowly with s. G keeps
a lone large cell where it is. A second fit mixes this prior with the dictionary of priors without
structure, as far as the cells near s ask for another shape; sums of real numbers have one fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_bayes.table_posterior.fit import fit_weights
from opendp_optimal_bayes.table_posterior.prior import geometric_steps, negative_binomials

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST = 0.02
"""The smallest predictor, in lattice units."""
_NODES = 48
_APART = 0.12
_RATIO = 1.5
_WIDEST = 32.0
ENOUGH = 1500
"""Cells that a window holds at least."""
_MANY = 5000.0
_KEPT_SHAPE = 10.0
"""Pseudo-counts of the first prior in the second fit: about the parameters that it adds."""


def place_nodes(predictor: Floats, top: float) -> tuple[Floats, Integers]:
    """Places at which priors are fitted, and the nearest one of each cell.

    :param predictor: of each cell, in lattice units
    :param top: the largest that makes sense
    """
    logs = np.log(np.clip(predictor.ravel(), LEAST, max(top, 2.0 * LEAST)))
    low, high = float(logs.min()), float(logs.max())
    count = max(2, min(_NODES, int((high - low) / _APART) + 2))
    width = max(high - low, 1e-6)
    nearest = np.rint((logs - low) / width * (count - 1)).astype(np.int64)
    return np.linspace(low, low + width, count), nearest


def varying_priors(
    chances: Callable[[Integers], Floats],
    edges: Integers,
    common: Floats,
    nodes: Floats,
    node: Integers,
    seen: Integers,
    counts: Floats,
    shapes: Floats | None,
    shown: Floats | None,
    *,
    clipped: bool = False,
) -> tuple[Floats, float]:
    """Fit a prior for each node; return chances of the bins, a row for each, and the largest gap.

    :param chances: takes observations to their chances for each bin
    :param edges: of the bins, from the bound on: the first is 0
    :param common: chances of the bins without structure
    :param nodes: logarithms of predictors
    :param node: of each distinct pair of node and observation, sorted
    :param seen: the observation of each pair
    :param counts: how many cells each pair has
    :param shapes: the dictionary without structure, for a second fit: chances of the bins under
        each column; None for one fit only
    :param shown: the chance that a value of each bin is released at all, if some are not
    :param clipped: whether the last bin, too, has a chance of its own: values are clipped there
    """
    ratios = geometric_steps(1.0 / _WIDEST, _WIDEST, _RATIO)
    size = len(ratios) + 2 + clipped
    starts = np.searchsorted(node, np.arange(len(nodes) + 1))
    first, last = np.eye(len(edges) - 1)[:, [0, -1]].T[:, :, None]
    top = float(edges[-2])
    columns, rows = [], np.empty((len(seen), size))
    for place, log in enumerate(nodes):
        means = np.minimum(np.exp(log) * ratios, max(top, 1.0))
        mixed = [first, common[:, None], negative_binomials(edges, means)]
        columns.append(np.concatenate([*mixed, last] if clipped else mixed, axis=1))
        if shown is not None:
            columns[-1] = columns[-1] / (shown @ columns[-1])
        at = slice(starts[place], starts[place + 1])
        if at.stop > at.start:
            rows[at] = chances(seen[at]) @ columns[-1]
    total = float(counts.sum())
    pseudo = np.full(size, 0.5 / size)
    if shown is None:
        pseudo[0] += 2.0 * min(1.0, total / _MANY) ** 2
    pseudo[1] += 1.0
    whole = fit_weights(rows, counts, pseudo)
    weights = np.repeat(whole.weights[None], len(nodes), axis=0)
    if total <= ENOUGH:
        return _normal(_mixed(columns, weights)), whole.gap
    cells = np.asarray(np.bincount(node, counts, len(nodes)), dtype=np.float64)
    used = np.flatnonzero(cells).tolist()
    windows = {place: counts * _window(cells, place)[node] for place in used}
    pseudo = 5.0 * whole.weights + 0.05 / size
    pseudo[0] += 3.0 if shown is None else 0.0
    pseudo[1] += 0.2
    gap = whole.gap
    for place, share in windows.items():
        local = fit_weights(rows[share > 0], share[share > 0], pseudo)
        weights[place], gap = local.weights, max(gap, local.gap)
    priors = _mixed(columns, weights)
    if shapes is None:
        return _normal(priors), gap
    distinct, row = np.unique(seen, return_inverse=True)
    plain = chances(distinct) @ shapes
    own = np.einsum("ik,ik->i", rows, weights[node])
    pseudo = np.full(shapes.shape[1] + 1, 0.1 / (shapes.shape[1] + 1))
    pseudo[0] = _KEPT_SHAPE
    second = priors.copy()
    for place, share in windows.items():
        near = share > 0
        both = np.concatenate([own[near, None], plain[row[near]]], axis=1)
        local = fit_weights(both, share[near], pseudo)
        second[place] = local.weights[0] * priors[place] + shapes @ local.weights[1:]
        gap = max(gap, local.gap)
    return _normal(second), gap


def _mixed(columns: list[Floats], weights: Floats) -> Floats:
    """The priors that columns and weights make, up to a factor for each."""
    return np.stack([each @ w for each, w in zip(columns, weights, strict=True)])


def _normal(priors: Floats) -> Floats:
    return np.asarray(priors / priors.sum(axis=1, keepdims=True))


def _window(cells: Floats, place: int) -> Floats:
    """Tricube weights of the nodes around one, wide enough to hold enough cells."""
    away = np.abs(np.arange(len(cells)) - place)
    for width in range(2, len(cells) + 1):
        near = np.maximum(1.0 - (away / width) ** 3, 0.0) ** 3
        if near @ cells >= ENOUGH:
            break
    return np.asarray(near)

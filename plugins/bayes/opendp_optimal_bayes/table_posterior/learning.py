"""From a released table to its posterior."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from opendp_optimal.extend import chances, finite, frozen_array
from opendp_optimal_bayes.table_posterior.distribution import BLOCK, Distributions, bin_chances
from opendp_optimal_bayes.table_posterior.frames import is_frame, read_column, read_likeness
from opendp_optimal_bayes.table_posterior.likelihood import Likelihood, mirrored
from opendp_optimal_bayes.table_posterior.observed import Observed, read
from opendp_optimal_bayes.table_posterior.posterior import Posterior, PosteriorWarning
from opendp_optimal_bayes.table_posterior.prior import (
    Lattice,
    Prior,
    bin_edges,
    dictionary,
    fit_prior,
    places_of,
)
from opendp_optimal_bayes.table_posterior.structure import (
    Likeness,
    likeness,
    predict,
    predict_place,
)
from opendp_optimal_bayes.table_posterior.varying import place_nodes, varying_priors

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Progress = Callable[[str], None]

FEW = 20.0
"""As many cells as the mixing for few cells counts for."""
LEAST_STRUCTURED = 500
"""With fewer cells, which of them are alike is left out."""
MEASURABLE = 10.0
"""A total of fewer deviations of its noise is hardly measured."""
_FAR = 20.0
_DISTINCT = 4096
_NOTHING = 1e-9


def posterior(
    released: Any,
    noise: Any,
    *,
    shape: tuple[int, ...] | None = None,
    like: Any = None,
    bounds: Any = (0, None),
    prior: Any = None,
    threshold: float | None = None,
    column: str | None = None,
    progress: Progress | None = None,
) -> Posterior:
    """Learn from a released table how its true values are distributed, and what each one is.

    It is post-processing: it costs no privacy. No random numbers are used.

    :param released: the released numbers, a table with any number of axes, or a data frame of
        Polars; a tuple of tables for several releases of the same table
    :param noise: the measurement that released them, the law of its noise, or the table that it
        draws from; an array or a list of as many as there are cells; a tuple, one for each of
        several releases
    :param shape: of the table, if the numbers are a list of its cells
    :param like: which cells are alike: ``"margins"`` (in the same row, column, ...),
        ``"neighbours"`` (on a grid), an array of labels, an adjacency matrix (sparse, or of
        booleans), or a predictor (an array of floats, such as a population); or a tuple of these.
        For a frame also names of its columns, and ``"margins"`` are rows that share keys.
    :param bounds: of the true values, either of which may be None
    :param prior: chances of the true values, if they are known: of the whole numbers from the
        lower bound on, or of equal parts between bounds; or the prior of another posterior.
        Then nothing is fitted.
    :param threshold: if cells were released only where the noisy value was at least this
    :param column: of a frame: what was released; by default ``len`` or the only numbers
    :param progress: called with a line of text at each step

    >>> from opendp_optimal.extend import known
    >>> found = posterior([0, -1, 2, 0, 40, 1, -2, 0] * 20, known.Geometric(0.5))
    >>> found.median[:5].tolist()
    [0, 0, 0, 0, 40]
    >>> found.gap < 1e-6
    True
    """
    if isinstance(released, tuple) and any(map(is_frame, released)):
        raise ValueError("released (a tuple of data frames) must be of their columns of numbers")
    if is_frame(released):
        if shape is not None:
            raise ValueError(f"shape ({shape!r}) is for lists of cells, not for data frames")
        name, values = read_column(released, column)
        alike = read_likeness(released, name, like)
        found = posterior(
            values,
            noise,
            like=alike,
            bounds=bounds,
            prior=prior,
            threshold=threshold,
            progress=progress,
        )
        return replace(found, table=(released, name))
    if column is not None:
        raise ValueError(f"column ({column!r}) is for data frames")
    say = progress or (lambda text: None)
    parts = None if prior is None or isinstance(prior, Prior) else _parts(prior)
    observed = read(released, noise, shape, bounds, parts)
    alike = None if like is None else likeness(like, observed.shape)
    if prior is not None:
        if like is not None or threshold is not None:
            raise ValueError("prior is the whole prior: like and threshold must be None")
        return _known(observed, prior if parts is None else parts)
    _warn_of_total(observed)
    if threshold is not None:
        _check_threshold(observed, finite("threshold", threshold))
    # The matrices are small: more threads are slower, and on a busy machine many times slower.
    with _blas().limit(limits=1, user_api="blas"):
        return _learnt(observed, alike, threshold, say)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _learnt(
    observed: Observed, alike: Likeness | None, threshold: float | None, say: Progress
) -> Posterior:
    """The posterior with a prior that is fitted."""
    say(f"fitting a prior to {len(observed.likelihood)} distinct values")
    free = _free(observed, threshold)
    if alike is None or observed.size < LEAST_STRUCTURED:
        return Posterior(observed, free.found, observed.index, None, free.prior, free.gap)
    say("predicting cells from those that are alike")
    if not observed.lattice.whole and threshold is None:
        moved = _moved(observed, alike, free)
        if moved is not None:
            return moved
    return _structured(observed, alike, free, threshold, say)


def _warn_of_total(observed: Observed) -> None:
    if observed.lattice.low is None:
        return
    total = float((observed.raw - observed.lattice.base).sum())
    ratio = total / max(float(np.sqrt(observed.variance.sum())), 1e-300)
    if ratio < MEASURABLE:
        warnings.warn(
            f"the total of the table is only {ratio:.1f} deviations of its noise: intervals may "
            "hold fewer cells than they claim",
            PosteriorWarning,
            stacklevel=3,
        )


class _Free(NamedTuple):
    """What is known without structure: posteriors, prior, gap, and what priors are mixed of."""

    found: Distributions
    prior: Prior
    gap: float
    columns: Floats


def _free(observed: Observed, threshold: float | None, *, distances: bool = False) -> _Free:
    """Fit one prior for all cells; of sums, or of their distances from predictions."""
    lattice, likelihood = observed.lattice, observed.likelihood
    low, high = int(likelihood.centre.min()), int(likelihood.centre.max())
    margin = math.ceil(_FAR * lattice.noise)
    seen = likelihood.centre[observed.index]
    places = None if lattice.whole else places_of(lattice, seen, distances=distances)
    edges = bin_edges(lattice, low - margin, high + margin, places)
    top = min(float(high - edges[0]) + 3.0 * lattice.noise, float(edges[-1] - edges[0]))
    columns = dictionary(lattice, edges, top, places)
    if threshold is not None:
        columns = columns / (_shown(observed, edges, threshold) @ columns)
    rows = _mixed(observed, edges, columns)
    helped = lattice.low is not None and (places is None or places.point == lattice.low)
    some, counts = _grouped(observed, edges)
    fit = fit_prior(rows[some], counts, spike=helped and threshold is None)
    found = columns @ fit.weights
    found = found / found.sum()
    every = np.arange(len(likelihood))
    trust = observed.size / (observed.size + FEW)
    free = Distributions(likelihood, edges, every, np.zeros_like(every), found[None], trust)
    return _Free(free, _summary(lattice, edges, found), fit.gap, columns)


def _mixed(observed: Observed, edges: Integers, columns: Floats) -> Floats:
    """Chances of the distinct observations under each column."""
    likelihood = observed.likelihood
    radius = likelihood.windows.radius
    out = np.zeros((len(likelihood), columns.shape[1]))
    size = max(256, BLOCK // (len(edges) - 1))
    for start in range(0, len(likelihood), size):
        at = np.arange(start, min(start + size, len(likelihood)))
        ends = likelihood.centre[at].min() - radius, likelihood.centre[at].max() + radius
        low, high = np.searchsorted(edges, ends, side="right")
        cut = slice(max(int(low) - 1, 0), min(int(high), len(edges) - 1))
        if cut.start < cut.stop:
            near = edges[cut.start : cut.stop + 1]
            out[at] = bin_chances(likelihood, near, at) @ columns[cut]
    impossible = np.flatnonzero(~(out.max(axis=1) > 0))
    if len(impossible):
        cell = np.flatnonzero(observed.index == impossible[0])[0]
        raise ValueError(
            f"noise cannot have produced the released value {observed.raw[cell]:g} from a true "
            "value within the bounds"
        )
    return out


def _grouped(observed: Observed, edges: Integers) -> tuple[Integers, Floats]:
    """Observations to fit a prior to, and how many cells each stands for.

    Sums have nearly as many distinct values as cells. Where they are many, those that hardly any
    part of a prior tells apart are taken together: quarters of a bin, eighths of the noise beyond
    all bins.
    """
    seen = observed.likelihood
    if len(seen) <= _DISTINCT or observed.lattice.whole or len(seen.windows.chances) > 1:
        return np.arange(len(seen)), observed.counts
    order = np.argsort(seen.centre, kind="stable")
    centre = seen.centre[order]
    place = np.searchsorted(edges, centre, side="right") - 1
    inside = np.clip(place, 0, len(edges) - 2)
    quarter = np.clip((centre - edges[inside]) * 4 // np.diff(edges)[inside], 0, 3)
    step = max(1, int(observed.lattice.noise / 8.0))
    below = np.maximum(edges[0] - centre, 0) // step
    above = np.maximum(centre - edges[-1], 0) // step
    _, first, sizes = np.unique(
        4 * inside + quarter - below + above, return_index=True, return_counts=True
    )
    summed = np.add.reduceat(observed.counts[order], first)
    return order[first + sizes // 2], summed


def _summary(lattice: Lattice, edges: Integers, found: Floats) -> Prior:
    parts = lattice.values(edges[:-1]), lattice.values(edges[1:] - 1), found
    return Prior(*map(frozen_array, parts))


def _check_threshold(observed: Observed, threshold: float) -> None:
    if observed.law is None:
        raise ValueError("threshold needs one release with the same noise for all cells")
    if float(observed.raw.min()) < threshold:
        raise ValueError(
            f"threshold ({threshold:g}) must be at most the smallest released value, "
            f"{observed.raw.min():g}"
        )


def _shown(observed: Observed, edges: Integers, threshold: float) -> Floats:
    """The chance that a true value of each bin is released."""
    assert observed.law is not None
    points = np.linspace(edges[:-1], edges[1:] - 1, 9)
    upper = mirrored(observed.law).cdf(observed.lattice.values(points) - threshold)
    return np.asarray(np.maximum(np.asarray(upper).mean(axis=0), 1e-300))


def _structured(
    observed: Observed, alike: Likeness, free: _Free, threshold: float | None, say: Progress
) -> Posterior:
    """The posterior with a prior that varies with a predictor: multiples of the prediction."""
    lattice, edges = observed.lattice, free.found.edges
    # Values are counted from their bound: downwards, where there is only an upper one.
    down = lattice.low is None
    turn, end = (-1, edges[-1] - 1) if down else (1, edges[0])
    from_end = slice(None, None, turn)
    means = turn * (free.found.moments[0][observed.index] - end)
    released = turn * ((observed.raw - lattice.base) / lattice.unit - end)
    small = turn * ((free.prior.mean - lattice.base) / lattice.unit - float(end))
    predictor = predict(
        alike, observed.shape, means, released, observed.variance / lattice.unit**2, small
    )
    nodes, nearest = place_nodes(predictor, float(edges[-2] - edges[0]))
    count = len(observed.likelihood)
    pairs, place, cells = np.unique(
        nearest * count + observed.index, return_inverse=True, return_counts=True
    )
    node, seen = pairs // count, pairs % count
    say(f"fitting priors at {len(nodes)} values of the predictor")
    shown = None if threshold is None else _shown(observed, edges, threshold)[from_end]
    priors, worst = varying_priors(
        lambda rows: free.found.chances(rows)[:, from_end],
        (edges[-1] - edges)[::-1] if down else edges - edges[0],
        free.found.priors[0][from_end],
        nodes,
        node,
        seen,
        cells.astype(np.float64),
        free.columns if lattice.whole else None,
        shown,
        clipped=not (lattice.whole or lattice.low is None or lattice.high is None),
    )
    priors = priors[:, from_end]
    found = Distributions(observed.likelihood, edges, seen, node, priors, free.found.trust)
    expected = lattice.values(turn * predictor + end).reshape(observed.shape)
    gap = max(free.gap, worst)
    return Posterior(observed, found, place, None, free.prior, gap, frozen_array(expected))


def _moved(observed: Observed, alike: Likeness, free: _Free) -> Posterior | None:
    """The posterior of sums by their distances from a prediction; None where bounds are near."""
    lattice = observed.lattice
    means = free.found.moments[0][observed.index]
    released = (observed.raw - lattice.base) / lattice.unit
    offset = np.rint(predict_place(alike, observed.shape, means, released)).astype(np.int64)
    old = observed.likelihood
    centre = old.centre[observed.index] - offset
    kind = old.shape[observed.index]
    pairs, index, counts = np.unique(
        np.stack([kind, centre], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    residual = replace(
        observed,
        lattice=replace(lattice, base=0.0, low=None, high=None),
        likelihood=Likelihood(old.windows, pairs[:, 0], pairs[:, 1]),
        index=index.ravel(),
        counts=counts.astype(np.float64),
    )
    near = _free(residual, None, distances=True)
    ends = near.found.quantiles(np.array([_NOTHING, 1 - _NOTHING]))[residual.index]
    ends += offset[:, None]
    least, most = lattice.low, lattice.high
    if (least is not None and ends.min() < least) or (most is not None and ends.max() > most):
        return None
    expected = lattice.values(offset).reshape(observed.shape)
    gap = max(free.gap, near.gap)
    expected = frozen_array(expected)
    return Posterior(observed, near.found, residual.index, offset, free.prior, gap, expected)


def _parts(prior: Any) -> Floats:
    array = np.asarray(prior)
    if array.ndim != 1 or array.dtype.kind not in "iufO":
        raise ValueError("prior must be a list of chances, or the prior of another posterior")
    return np.array([float(p) for p in chances("prior", array.tolist())])


def _known(observed: Observed, prior: Prior | Floats) -> Posterior:
    """The posterior for a prior that is known."""
    lattice = observed.lattice
    if isinstance(prior, Prior):
        starts = np.rint((prior.low - lattice.base) / lattice.unit).astype(np.int64)
        last = int(np.rint((prior.high[-1] - lattice.base) / lattice.unit)) + 1
        first, place = np.unique(starts, return_inverse=True)
        masses = np.asarray(np.bincount(place, prior.chances), dtype=np.float64)
        edges = np.append(first, max(last, int(first[-1]) + 1))
        outside = lattice.low is not None and edges[0] < lattice.low
        if outside or (lattice.high is not None and edges[-1] - 1 > lattice.high):
            raise ValueError("prior must have its chances within the bounds")
    else:
        masses = prior
        edges = np.arange(len(prior) + 1) * lattice.parts
        if lattice.high is not None and lattice.whole and len(prior) != lattice.high + 1:
            raise ValueError(
                f"prior (of {len(prior)} chances) must have {lattice.high + 1}, one for each count"
            )
    every = np.arange(len(observed.likelihood))
    _mixed(observed, edges, masses[:, None])
    found = Distributions(
        observed.likelihood, edges, every, np.zeros_like(every), masses[None], 1.0
    )
    return Posterior(observed, found, observed.index, None, _summary(lattice, edges, masses), 0.0)

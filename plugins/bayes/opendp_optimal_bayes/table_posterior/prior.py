"""Distributions of true values: the bins they are told apart in, and what priors are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_bayes.table_posterior.fit import Fit, fit_weights

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SHAPE = 4
"""Of the negative binomials: their deviation is at least half of their mean."""
_RATIO = 1.25
_SMALLEST = 0.1
_SPIKE = 2.0
_MANY = 5000.0
_CENTRES = 33
_BRIDGES = 4


@dataclass(frozen=True)
class Lattice:
    """Where true values lie: ``base + unit k`` for k from ``low`` to ``high``.

    :param base: the value of k = 0
    :param unit: between neighbours; 1 for counts, unless the noise is wide
    :param low: the first k, if there is one
    :param high: the last k, if there is one
    :param noise: standard deviation of the noise over root 2, in units
    :param whole: whether the values are counts
    :param parts: how many units each part of a known prior has
    :param bounds: of the true values themselves
    """

    base: float
    unit: float
    low: int | None
    high: int | None
    noise: float
    whole: bool
    parts: int = 1
    bounds: tuple[float, float] = (-math.inf, math.inf)

    @property
    def finest(self) -> float:
        """The smallest deviation of a part of a prior for sums: half of the noise's."""
        return max(self.noise / math.sqrt(2.0), 0.5)

    def values(self, k: NDArray[np.generic] | Floats) -> Floats:
        """The values of lattice points, or of averages of them.

        :param k: lattice points
        """
        return np.asarray(self.base + self.unit * np.asarray(k, dtype=np.float64))

    def around(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Ends of runs of values, as far as the lattice points that they are the values of reach.

        :param low: values of the first lattice points
        :param high: values of the last
        """
        if self.whole and self.unit == 1.0:
            return low, high
        half, (least, most) = self.unit / 2.0, self.bounds
        return np.maximum(low - half, least), np.minimum(high + half, most)


def _distances(reach: int, noise: float) -> list[int]:
    """Edges of bins from 0 on: of width 1 at first, then of a part of the noise or distance."""
    edges = list(range(int(max(20.0, 6.0 * noise)) + 1))
    while edges[-1] <= reach:
        edges.append(edges[-1] + max(1, int(max(0.05 * noise, 0.015 * edges[-1]))))
    return edges


@dataclass(frozen=True)
class Places:
    """What a dictionary for sums is fine around.

    :param point: a lattice point with a chance of its own: 0, or the bound next to it
    :param centres: lattice points, more of them where more was seen
    :param widths: of the parts that the centres stand for
    :param ends: other lattice points with chances of their own: bounds, at which sums are clipped
    :param blur: deviation of what has its middle at ``point``; 0 for the point itself
    """

    point: int
    centres: Floats
    widths: Floats
    ends: tuple[int, ...] = ()
    blur: float = 0.0


def places_of(lattice: Lattice, seen: Integers, *, distances: bool = False) -> Places:
    """Where a dictionary for sums is fine.

    :param lattice: where true values lie
    :param seen: the lattice points of what was released
    :param distances: whether these are distances from predictions. None of them is exactly 0, but
        so many cells cannot tell smaller deviations than ``blur`` from 0.
    """
    least = -math.inf if lattice.low is None else lattice.low
    most = math.inf if lattice.high is None else lattice.high
    point = int(min(max(round(-lattice.base / lattice.unit), least), most))
    finest = lattice.finest
    spread = np.quantile(np.clip(seen, least, most), np.linspace(0.0, 1.0, _CENTRES))
    centres = [float(spread[0])]
    for each in spread[1:].tolist():
        if each >= centres[-1] + finest:
            # Wide gaps are bridged.
            parts = min(math.ceil((each - centres[-1]) / finest), _BRIDGES)
            centres.extend(np.linspace(centres[-1], each, parts + 1)[1:].tolist())
    found = np.array(centres)
    gaps = np.diff(found, prepend=found[0] - finest, append=found[-1] + finest)
    ends = tuple(k for k in (lattice.low, lattice.high) if k is not None and k != point)
    blur = max(lattice.noise * math.sqrt(2.0) * len(seen) ** -0.25, 0.5) if distances else 0.0
    return Places(point, found, np.maximum(gaps[:-1], gaps[1:]), ends, blur)


def bin_edges(lattice: Lattice, lowest: int, highest: int, places: Places | None) -> Integers:
    """Edges of the bins that true values are told apart in.

    :param lattice: where they lie
    :param lowest: smallest that matters, where there is no bound
    :param highest: largest that matters, where there is no bound
    :param places: around which bins are fine, for sums; for counts, only the lower bound is one
    """
    low = lowest if lattice.low is None else lattice.low
    high = max(highest, low + 1) if lattice.high is None else lattice.high
    anchor = low if places is None else min(max(places.point, low), high)
    steps = np.array(_distances(max(high + 1 - anchor, anchor - low), lattice.noise))
    ends = [low, low + 1, high + 1] + ([] if lattice.high is None else [high])
    edges = [np.array(ends), anchor + steps, anchor - steps + 1]
    if places is not None:
        around = places.centres[:, None] + places.widths[:, None] * np.arange(-2.0, 2.1, 0.5)
        edges.append(np.rint(around.ravel()).astype(np.int64))
    found = np.unique(np.concatenate(edges))
    return found[(found >= low) & (found <= high + 1)]


def negative_binomials(edges: Integers, means: Floats) -> Floats:
    """Chances of the bins (rows) under negative binomials from 0 on with these means (columns).

    :param edges: of the bins, from 0 or above on
    :param means: above 0
    """
    k = edges[:, None].astype(np.float64)
    p = SHAPE / (SHAPE + means)
    # The chance of k or more: fewer than SHAPE successes before k failures.
    terms = 1.0 + k * p * (1.0 + (k + 1.0) / 2.0 * p * (1.0 + (k + 2.0) / 3.0 * p))
    above = np.exp(k * np.log1p(-p)) * terms
    masses = np.maximum(-np.diff(above, axis=0), 0.0)
    # Differences lose digits where bins are narrow: there, the chance in the middle.
    width = np.diff(k, axis=0)
    middle = k[:-1] + (width - 1.0) / 2.0
    ways = (middle + 1.0) * (middle + 2.0) * (middle + 3.0) / 6.0
    single = np.exp(middle * np.log1p(-p)) * ways * p**SHAPE
    masses = np.where((width == 1.0) | (width < 1e-4 * middle), single * width, masses)
    return np.asarray(masses / masses.sum(axis=0))


def _normals(edges: Integers, means: Floats, deviations: Floats) -> Floats:
    from scipy.special import ndtr

    at = (edges[:, None] - 0.5 - means) / deviations
    masses = np.where(at[:-1] > 0, ndtr(-at[:-1]) - ndtr(-at[1:]), ndtr(at[1:]) - ndtr(at[:-1]))
    masses = np.maximum(masses, 0.0)
    return np.asarray(masses / masses.sum(axis=0))


def _point(edges: Integers, k: int) -> Floats:
    out = np.zeros((len(edges) - 1, 1))
    out[np.searchsorted(edges, k, side="right") - 1] = 1.0
    return out


def geometric_steps(low: float, high: float, ratio: float) -> Floats:
    """From low to high in equal ratios of at most ``ratio``.

    :param low: above 0
    :param high: at least low
    :param ratio: above 1
    """
    steps = math.ceil(math.log(max(high / low, 1.0)) / math.log(ratio)) + 1
    return np.geomspace(low, max(high, low), steps)


def dictionary(lattice: Lattice, edges: Integers, top: float, places: Places | None) -> Floats:
    """What a prior is mixed of: chances of the bins (rows) under each column.

    The first column is a point, for counts the lower bound; for distances it is blurred.

    :param lattice: where true values lie
    :param edges: of the bins
    :param top: the largest mean, counted from the lower bound
    :param places: around which columns are fine, for sums
    """
    first, last = int(edges[0]), int(edges[-1]) - 1
    columns = [_point(edges, first if places is None else min(max(places.point, first), last))]
    if places is not None and places.blur:
        columns = [_normals(edges, np.array([places.point]), np.array([places.blur]))]
    elif places is not None:
        columns.extend(_point(edges, end) for end in places.ends)
    if lattice.low is not None:
        means = geometric_steps(_SMALLEST, max(top, 2.0), _RATIO)
        columns.append(negative_binomials(edges - first, means))
    if places is not None:
        finest = lattice.finest
        away = max(last - places.point, places.point - first, 1)
        sides = geometric_steps(finest, max(float(away), finest), _RATIO)
        means = places.point + np.concatenate([-sides[::-1], sides])
        wide = np.maximum(finest, np.abs(means - places.point) / 2.0)
        means = np.concatenate([means, places.centres])
        wide = np.concatenate([wide, np.maximum(places.widths, finest)])
        inside = (means >= first) & (means <= last)
        columns.append(_normals(edges, means[inside], wide[inside]))
    return np.concatenate(columns, axis=1)


def fit_prior(chances: Floats, counts: Floats, *, spike: bool) -> Fit:
    """Fit the weights of a dictionary's columns.

    :param chances: of the observations (rows) under each column
    :param counts: how often each observation was made
    :param spike: whether the first column gets help: at small epsilon the data can hardly tell
        0 from 1 to 3
    """
    size = chances.shape[1]
    pseudo = np.full(size, 0.1 / size)
    if spike:
        pseudo[0] += _SPIKE * min(1.0, float(counts.sum()) / _MANY) ** 2
    return fit_weights(chances, counts, pseudo)


@dataclass(frozen=True)
class Prior:
    """A distribution of true values, in bins.

    Inside a bin every value is as likely as any other.

    :param low: the smallest value of each bin
    :param high: the largest value of each bin
    :param chances: of the bins
    """

    low: Floats
    high: Floats
    chances: Floats

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.chances @ (self.low + self.high)) / 2.0

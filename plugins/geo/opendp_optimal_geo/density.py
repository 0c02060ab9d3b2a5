"""Densities on a map, from one noisy point per user; with the noise taken out again.

Points of width ``h`` around knots, blurred by the noise, are mixed so that the released points are
likeliest. The weights have pseudo-counts, a twentieth of the points in all: what the noise has
blurred is told apart no further than the points tell. It looks only at what was released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opendp_optimal.extend import Floats, positive, whole
from opendp_optimal_geo.maps import check_corners, kept

Fit = Callable[..., Any]
"""Finds the likeliest mixture."""

WORTH = 2.0
"""Noise of fewer bandwidths is smoothed away as well as it can be taken out."""
_MOST_KNOTS = 2048
_BEYOND = 2.0
_PSEUDO = 0.05


@dataclass(frozen=True)
class DensityMap:
    """A density on a map.

    :param density: users per squared unit of distance, rows from south to north: the released
        points, smoothed
    :param bounds: (west, south, east, north)
    :param answered: users who sent a point
    :param posterior: the density with the noise of the points taken out, where it was asked for
    :param gap: how far from the best the fit behind that can be, in nats for each point
    """

    density: Floats
    bounds: tuple[float, float, float, float]
    answered: int
    posterior: Floats | None = None
    gap: float | None = None

    @property
    def best(self) -> Floats:
        """The density to draw: with the noise taken out, where that was asked for."""
        return self.density if self.posterior is None else self.posterior


def _spacing(bandwidth: float, deviation: float) -> float:
    """Between knots: details far below the noise cannot be told."""
    return max(bandwidth, deviation / 2.0)


def _knots(bounds: Floats, bandwidth: float, deviation: float) -> list[Floats]:
    margin = _BEYOND * deviation
    return _marks(bounds[:2] - margin, bounds[2:] + margin, _spacing(bandwidth, deviation))


def _marks(low: Floats, high: Floats, step: float) -> list[Floats]:
    """Numbers a step apart along each axis, from the lower end to beyond the upper one."""
    return [np.arange(a, b + step, step) for a, b in zip(low, high, strict=True)]


def check_map(bounds: Any, cells: Any, bandwidth: Any) -> tuple[Floats, int, float]:
    """Return what a map of densities is drawn on: its corners, cells along a side, bandwidth."""
    corners = check_corners(bounds)
    width = positive("bandwidth", bandwidth)
    if width > (widest := float((corners[2:] - corners[:2]).max())):
        raise ValueError(f"bandwidth ({bandwidth!r}) must be at most the map, {widest:g}")
    return corners, whole("cells", cells, most=4096), width


def check_knots(bounds: Floats, bandwidth: float, deviation: float) -> None:
    """Refuse maps that the noise is too small for; nobody was asked yet.

    :param bounds: of the map
    :param bandwidth: of the smoothing
    :param deviation: of the noise along each axis
    """
    if deviation < WORTH * bandwidth:
        return
    sides = (bounds[2:] - bounds[:2] + 2 * _BEYOND * deviation) / _spacing(bandwidth, deviation) + 2
    if float(np.prod(sides)) > _MOST_KNOTS:
        raise ValueError(
            f"bandwidth ({bandwidth:g}) must be larger, or the map smaller, for posterior=True: it "
            f"would take {float(np.prod(sides)):.3g} parts, of at most {_MOST_KNOTS}"
        )


def density_map(
    released: Floats,
    bounds: Floats,
    cells: int,
    bandwidth: float,
    deviation: float | None = None,
    fit: Fit | None = None,
) -> DensityMap:
    """Smooth a histogram of released points.

    :param released: rows of points; NaN for those who did not answer
    :param bounds: of the map
    :param cells: along each side
    :param bandwidth: of the smoothing
    :param deviation: of the noise along each axis, to take it out again
    :param fit: finds the likeliest mixture
    """
    from scipy.ndimage import gaussian_filter

    west, south, east, north = bounds.tolist()
    points = released[np.isfinite(released[:, 0])]
    counts, _, _ = np.histogram2d(
        points[:, 1], points[:, 0], bins=cells, range=[(south, north), (west, east)]
    )
    size = (north - south) / cells, (east - west) / cells
    smooth = gaussian_filter(
        counts, (bandwidth / size[0], bandwidth / size[1]), mode="constant", truncate=5.0
    )
    found = DensityMap(smooth / (size[0] * size[1]), (west, south, east, north), len(points))
    if deviation is None or fit is None:
        return found
    if deviation < WORTH * bandwidth or not len(points):
        return replace(found, posterior=found.density, gap=0.0)
    learnt = kept(lambda: _unblurred(points, bounds, cells, bandwidth, deviation, fit))
    if learnt is None:
        return found
    told, gap = learnt
    return replace(found, posterior=told * len(points) / (size[0] * size[1]), gap=gap)


def _shares(edges: Floats, knots: Floats, width: float) -> Floats:
    """The share between neighbouring edges (rows) of a Gaussian around each knot (columns)."""
    from scipy.special import ndtr

    return np.diff(ndtr((edges[:, None] - knots) / width), axis=0)


def _unblurred(
    points: Floats, bounds: Floats, cells: int, bandwidth: float, deviation: float, fit: Fit
) -> tuple[Floats, float]:
    """The share of each cell, and the gap of the fit."""
    knots = _knots(bounds, bandwidth, deviation)
    width = max(bandwidth, 0.7 * _spacing(bandwidth, deviation))
    blurred = float(np.hypot(width, deviation))
    far = 5.0 * deviation
    inside = ((points >= bounds[:2] - far) & (points <= bounds[2:] + far)).all(axis=1)
    edges = _marks(bounds[:2] - far, bounds[2:] + far, 0.75 * blurred)
    counts, _, _ = np.histogram2d(points[inside, 0], points[inside, 1], bins=edges)
    at = np.nonzero(counts)
    x, y = (_shares(e, k, blurred)[i] for e, k, i in zip(edges, knots, at, strict=True))
    chances = (x[:, :, None] * y[:, None, :]).reshape(len(x), -1)
    seen = chances.max(axis=1) > 0
    total = float(counts.sum())
    pseudo = np.full(chances.shape[1], _PSEUDO * max(total, 1.0) / chances.shape[1])
    found = fit(chances[seen], counts[at][seen], pseudo)
    grid = np.linspace(bounds[:2], bounds[2:], cells + 1).T
    weights = found.weights.reshape(len(knots[0]), len(knots[1])) * (total / len(points))
    wide, tall = (_shares(e, k, width) for e, k in zip(grid, knots, strict=True))
    return np.asarray(tall @ weights.T @ wide.T), found.gap

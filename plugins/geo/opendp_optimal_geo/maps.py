"""Maps of counts in the central model: a grid of counts with Gaussian noise, and its posterior.

Neighbours differ in one record, which is in one cell at most: two cells change by one. As a vector
the counts move by the square root of 2, so noise of variance 1 / rho costs rho. It is drawn from a
Gaussian and rounded, which is post-processing, because counts are integers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal import SolverError
from opendp_optimal.budget import BudgetError
from opendp_optimal.extend import (
    LARGEST_RATE,
    Floats,
    Integers,
    float_down,
    fraction,
    gaussian_integers,
    known,
    point,
    smallest_rate,
    whole,
)
from opendp_optimal_geo.curator import Curator, payable
from opendp_optimal_geo.region import LARGEST

_WIDE = 1000.0
_REACH = 12.0


@dataclass(frozen=True)
class CountMap:
    """Counts of the cells of a map, with noise.

    :param counts: as they were released, rows from south to north
    :param bounds: (west, south, east, north)
    :param deviation: of the noise of each cell
    :param posterior: what the true counts are likely to be, where it was asked for: a
        :class:`~opendp_optimal_bayes.Posterior`
    """

    counts: Integers
    bounds: tuple[float, float, float, float]
    deviation: float
    posterior: Any = None

    @property
    def best(self) -> Floats:
        """The best table to add up or draw: posterior means, or else what was released."""
        table = self.counts if self.posterior is None else self.posterior.mean
        return np.asarray(table, dtype=np.float64)

    @property
    def density(self) -> Floats:
        """People per squared unit of distance in each cell, from :attr:`best`."""
        west, south, east, north = self.bounds
        rows, columns = self.counts.shape
        return np.asarray(self.best / ((north - south) / rows * ((east - west) / columns)))


def check_corners(bounds: Any) -> Floats:
    """Return the corners of a map: west, south, east, north."""
    corners = point("bounds", bounds, 4)
    if corners[0] >= corners[2] or corners[1] >= corners[3]:
        raise ValueError(f"bounds ({bounds!r}) must be (west, south, east, north)")
    sides = corners[2:] / 2.0 - corners[:2] / 2.0
    if np.abs(corners).max() > LARGEST or sides.min() < 2.0**-100:
        raise ValueError(f"bounds ({bounds!r}) must be within 2^100, and 2^-99 apart")
    return corners


def find_bayes() -> Any:
    """The plugin ``bayes``; nothing was released or charged yet.

    :raises ImportError: if it is not installed
    """
    try:
        import opendp_optimal_bayes
    except ImportError:
        raise ImportError("posterior=True needs opendp-optimal-bayes") from None
    return opendp_optimal_bayes


def kept(learn: Callable[[], Any]) -> Any:
    """What is learnt from a release; None, with a warning, where that fails: it was paid for.

    :param learn: looks at what was released only
    """
    try:
        return learn()
    except (SolverError, ValueError, ArithmeticError) as error:
        warnings.warn(f"there is no posterior ({error}); what was released stays", stacklevel=4)
        return None


def noise_law(rate: float) -> known.Law:
    """The law of Gaussian noise that is rounded to integers.

    :param rate: of the noise, whose variance is 1 / (2 rate)
    """
    sigma = math.sqrt(0.5 / rate)
    if sigma > _WIDE:
        return known.DiscreteGaussian(sigma)
    radius = math.ceil(_REACH * sigma) + 1
    half = np.diff(known.Gaussian(sigma).cdf(np.arange(-radius - 1, 0) + 0.5))
    middle = 1.0 - 2.0 * float(half.sum())
    return known.Tabulated(np.concatenate([half, [middle], half[::-1]]), 1.0, sigma, integer=True)


def count_map(
    curator: Curator,
    points: Callable[[], Floats],
    bounds: Any,
    cells: int,
    budget: Any,
    posterior: bool,
) -> CountMap:
    """Charge the price, then count and add noise.

    :param curator: holds the budget
    :param points: finds the points, one row per person
    :param bounds: (west, south, east, north)
    :param cells: along each side
    :param budget: rho
    :param posterior: whether true counts are estimated, neighbours alike; it costs nothing
    """
    cells, corners = whole("cells", cells, most=4096), check_corners(bounds)
    learn = find_bayes().posterior if posterior else None
    price = payable(curator.filter, fraction("budget", budget, above=0))
    rate = float_down(price / 2)
    if not smallest_rate(pure=False) <= Fraction(rate) <= LARGEST_RATE[False]:
        raise ValueError(f"budget ({budget!r}) must be neither so small nor so large")
    if not curator.filter.charge(price, gaussian=True):
        left = float(curator.remaining)
        raise BudgetError(f"budget ({budget!r}) must be at most what is left, {left:g}")
    true = _counted(points(), corners, cells)
    counts = true + gaussian_integers(rate, cells * cells).reshape(true.shape)
    west, south, east, north = corners.tolist()
    law = noise_law(rate)
    found = None if learn is None else kept(lambda: learn(counts, law, like="neighbours"))
    deviation = math.sqrt(0.5 / rate + 1.0 / 12.0)
    return CountMap(counts, (west, south, east, north), deviation, found)


def _counted(points: Floats, bounds: Floats, cells: int) -> Integers:
    """How many points lie in each cell; what lies beyond the map is not counted."""
    west, south, east, north = bounds.tolist()
    column = np.floor((points[:, 0] - west) / (east - west) * cells)
    row = np.floor((points[:, 1] - south) / (north - south) * cells)
    inside = (column >= 0) & (column < cells) & (row >= 0) & (row < cells)
    place = row[inside].astype(np.int64) * cells + column[inside].astype(np.int64)
    return np.bincount(place, minlength=cells * cells).reshape(cells, cells).astype(np.int64)

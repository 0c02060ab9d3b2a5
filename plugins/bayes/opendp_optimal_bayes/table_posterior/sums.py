"""Sums of cells: what the release says, what the posterior says, and how far to believe it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_bayes.table_posterior.chosen import chosen_noise
from opendp_optimal_bayes.table_posterior.observed import Observed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LEAST_TILES = 8
"""Fewer do not tell how far posterior sums are off."""
CAUTION = 2.0
"""Standard errors of a squared bias, or variances of a difference: so much is not believed."""


class Sum(NamedTuple):
    """The sum of some cells.

    :param estimate: of the sum of the true values
    :param deviation: how far off it may be, as a standard deviation
    :param raw: the sum of what was released
    :param raw_deviation: its exact standard deviation; for noise that depends on the answer, the
        largest
    """

    estimate: float
    deviation: float
    raw: float
    raw_deviation: float


def chosen_cells(cells: Any, shape: tuple[int, ...]) -> Integers:
    """Positions of chosen cells in a table read row by row.

    :param cells: a mask of the table's shape, positions, or None for all
    :param shape: of the table
    """
    size = math.prod(shape)
    if cells is None:
        return np.arange(size)
    array = np.asarray(cells)
    if array.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if array.dtype == bool:
        if array.shape != shape:
            raise ValueError(f"cells (a mask of shape {array.shape}) must have the shape {shape}")
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(f"cells (of type {array.dtype}) must be a mask or a list of positions")
    if len(array) and not (array.min() >= 0 and array.max() < size):
        raise ValueError(f"cells must be positions from 0 to {size - 1}")
    if len(np.unique(array)) < len(array):
        raise ValueError("cells must not name a cell twice")
    return array.astype(np.int64)


class Bias(NamedTuple):
    """How far posterior sums are off, seen from tiles of the table.

    :param sizes: cells of a tile
    :param ratios: squared bias of its posterior sum, in variances of its raw sum
    """

    sizes: tuple[float, ...]
    ratios: tuple[float, ...]

    def at(self, count: int) -> float:
        """For sums of so many cells; infinite where too few tiles are that large.

        :param count: how many cells
        """
        if not self.sizes or count > self.sizes[-1]:
            return math.inf
        return float(np.interp(math.log(max(count, 1)), np.log(self.sizes), self.ratios))


def measured_bias(observed: Observed, means: Floats, deviations: Floats) -> Bias:
    """Compare posterior sums of tiles with raw ones.

    :param observed: what was released
    :param means: of the posteriors
    :param deviations: of the posteriors
    """
    shape = observed.shape
    away = (observed.raw - means).reshape(shape)
    noise = observed.variance.reshape(shape)
    own = (deviations**2).reshape(shape)
    sizes: list[float] = []
    ratios: list[float] = []
    for side in (2**k for k in range(1, 60)):
        sums = [_tiles(each, side) for each in (away, noise, own)]
        cells = math.prod(min(side, size) for size in shape)
        if sums[0].size < LEAST_TILES or (sizes and cells == sizes[-1]):
            break
        squares = sums[0] ** 2
        doubt = CAUTION * float(squares.std(ddof=1)) / math.sqrt(squares.size)
        excess = float(squares.mean() - (sums[1] - sums[2]).mean()) + doubt
        sizes.append(float(cells))
        ratios.append(max(excess, 0.0) / max(float(sums[1].mean()), 1e-300))
    return Bias(tuple(sizes), tuple(np.maximum.accumulate(ratios).tolist() if ratios else ()))


def add_up(
    observed: Observed,
    means: Floats,
    deviations: Floats,
    seen: Bias,
    cells: Integers,
    selected: bool,
) -> Sum:
    """Estimate a sum.

    The posterior sum of a region fixed beforehand is biased by what the prior does not know. How
    much is seen from tiles of the table: the estimate lies between the posterior sum and the raw
    one, as far as that tells. Its deviation is never said to be below that of the raw sum. Where
    noise keeps releases within bounds, the raw sum is biased: there the posterior sum stays.

    Cells that were chosen by looking have the posterior sum. If they are the largest, or the
    smallest, the noise that was looked for can be estimated without a prior. What that leaves
    takes the place of the raw sum: the estimate moves there from the posterior sum by as much as
    the squared difference is above twice its variance. What is left of the difference counts in
    the deviation, which is never said to be below that of the sum without a prior. The estimate
    stays within what the bounds leave for so many cells.

    :param observed: what was released
    :param means: of the posteriors
    :param deviations: of the posteriors
    :param seen: how far posterior sums are off
    :param cells: which cells
    :param selected: whether they were chosen by looking at the release
    """
    raw = float(observed.raw[cells].sum())
    variance = float(observed.variance[cells].sum())
    exact = math.sqrt(variance)
    believed = float(means[cells].sum())
    own = float((deviations[cells] ** 2).sum())
    if not observed.unbiased:
        return Sum(believed, math.sqrt(max(variance, own)), raw, exact)
    bias = seen.at(len(cells)) * variance if len(cells) else 0.0
    if selected:
        looked_for = chosen_noise(observed, cells)
        if looked_for is None:
            spread = max(variance, min(own + bias, 4.0 * variance))
            return Sum(believed, math.sqrt(spread), raw, exact)
        away, doubt = raw - looked_for[0] - believed, looked_for[1] ** 2
        left = min(away**2, CAUTION * doubt) / away if away else 0.0
        spread = max(variance, own, doubt) + left**2
        least, most = (len(cells) * end for end in observed.lattice.bounds)
        found = min(max(believed + away - left, least), most)
        return Sum(found, math.sqrt(spread), raw, exact)
    if math.isinf(bias):
        return Sum(raw, exact, raw, exact)
    differs = max(variance - own, 1e-12 * variance)
    weight = bias / (bias + differs) if bias + differs > 0 else 1.0
    return Sum(believed + weight * (raw - believed), exact, raw, exact)


def _tiles(table: Floats, side: int) -> Floats:
    """Sums over boxes of a side, or as long as the axis is; what does not fill one is left out."""
    for axis, size in enumerate(table.shape):
        step = min(side, size)
        kept = np.moveaxis(table, axis, 0)[: size // step * step]
        split = kept.reshape(size // step, step, *kept.shape[1:]).sum(axis=1)
        table = np.moveaxis(split, 0, axis)
    return table

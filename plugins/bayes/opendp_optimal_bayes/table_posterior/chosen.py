"""The noise of cells that were chosen because they look largest or smallest, without a prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opendp_optimal_bayes.table_posterior.observed import Observed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Kernels(NamedTuple):
    """What a cell adds, by how many lattice points it lies above an edge.

    :param noise: to the expected noise of all cells at the edge or above
    :param variance: to the variance of what that is off
    """

    noise: Floats
    variance: Floats


def chosen_noise(observed: Observed, cells: Integers) -> tuple[float, float] | None:
    """The noise of the largest cells together, or of the smallest: what choosing them adds.

    There is a function of a cell's distance from an edge whose mean is that of the cell's noise if
    it is released at the edge or above and 0 otherwise, whatever its true value is. For Laplace
    noise of scale b that is ``b exp(-|distance| / b)``.

    :param observed: what was released
    :param cells: that were chosen
    :returns: the noise, and the deviation of what it is off; None for cells that were chosen in
        another way, and for averages of several releases
    """
    inside = np.zeros(observed.size, dtype=bool)
    inside[cells] = True
    if observed.several or inside.all() or not inside.any():
        return None
    if observed.raw[inside].min() >= observed.raw[~inside].max():
        sign = 1
    elif observed.raw[inside].max() <= observed.raw[~inside].min():
        sign = -1
    else:
        return None
    seen, windows = observed.likelihood, observed.likelihood.windows
    place = sign * seen.centre[observed.index]
    kind = seen.shape[observed.index]
    noise, variance = 0.0, 0.0
    for which in np.unique(kind).tolist():
        own = kind == which
        # A window has the true values above what was seen; the noise is the other way round.
        kernels = kernels_of(windows.chances[which][::-sign], int(own.sum()))
        half = len(kernels.noise) // 2
        for share, edge in _edges(place, inside):
            at = np.clip(place[own] - edge + half, 0, 2 * half - 1)
            noise += share * float(kernels.noise[at].sum())
            variance += share * float(kernels.variance[at].sum())
    least = float(observed.variance[inside].sum())
    unit = observed.lattice.unit
    return sign * unit * noise, math.sqrt(max(unit**2 * variance, least))


def _edges(place: Integers, inside: NDArray[np.bool_]) -> list[tuple[float, int]]:
    """Lowest points of chosen cells, with weights: two, where only some at the edge are chosen."""
    last, first = int(place[inside].min()), int(place[~inside].max())
    if last > first:
        return [(1.0, (last + first + 1) // 2)]
    share = float((place[inside] == last).sum() / (place == last).sum())
    return [(share, last), (1.0 - share, last + 1)]


def kernels_of(chances: Floats, count: int) -> Kernels:
    """Find the functions of the distance that have the wanted means.

    They are divided out of the law of the noise where its transform is not below one over the
    number of cells: what is lost is of the size of the noise of one cell.

    :param chances: of the noise, at lattice points around 0
    :param count: how many cells there are
    """
    radius = len(chances) // 2
    points = np.arange(-radius, radius + 1, dtype=np.float64)
    length = 1 << (4 * radius + 8).bit_length()
    half = length // 2
    above = np.where(np.arange(-half, half) >= 0, 1.0, 0.0)

    def transformed(values: Floats, at: int) -> NDArray[np.complex128]:
        """Of values whose entry ``at`` belongs to distance 0."""
        out = np.zeros(length)
        out[: len(values)] = values
        return np.asarray(np.fft.rfft(np.roll(out, -at)))

    law = transformed(chances, radius)
    divided = law / (np.abs(law) ** 2 + float(count) ** -2)

    def solved(wanted: NDArray[np.complex128]) -> Floats:
        return np.roll(np.fft.irfft(wanted * divided, length), half)

    def means_above(values: Floats) -> NDArray[np.complex128]:
        """Of values at the edge or above, by the true value; without their limit far above."""
        tail = np.cumsum((values - values.sum() * chances)[::-1])
        return transformed(tail, radius)

    first, second = chances * points, chances * points**2
    noise = float(first.sum()) * above + solved(means_above(first))
    product = transformed(noise * above, half) * np.conj(transformed(first, radius))
    variance = float(second.sum()) * above + solved(means_above(second) - 2.0 * product) + noise**2
    return Kernels(noise, variance)

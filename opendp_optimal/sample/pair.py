"""Exact draws of noise for a mean and its count."""

from __future__ import annotations

from collections.abc import Callable

from opendp_optimal.arrays import Integers
from opendp_optimal.sample.weights import WeightedSampler, spread_over_cells
from opendp_optimal.sample.words import Source, secure_bytes


def pair_sampler(weights: Integers) -> Callable[..., tuple[Integers, Integers]]:
    """A function that draws the point (c, j) with probability weights[c + C, j + J] / 2^62.

    :param weights: of all points, an odd number in each direction
    """
    points, (rows, columns) = WeightedSampler.of(weights.ravel()), weights.shape

    def draw(count: int, steps: int, source: Source = secure_bytes) -> tuple[Integers, Integers]:
        """Noise for the sum, uniform over the ``steps`` grid points of its cell, and for the count.

        :param count: how many pairs
        :param steps: grid points in a cell, an odd number
        :param source: of random bytes
        """
        drawn = points.draw(count, source)
        cells = drawn % columns - columns // 2
        return spread_over_cells(cells, steps, source), drawn // columns - rows // 2

    return draw

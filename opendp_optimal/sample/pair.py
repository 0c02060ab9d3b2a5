"""Exact draws of noise for a mean and its count."""

from __future__ import annotations

from dataclasses import dataclass

from opendp_optimal.arrays import Integers
from opendp_optimal.sample.weights import WeightedSampler, spread_over_cells
from opendp_optimal.sample.words import Source, secure_bytes


@dataclass(frozen=True)
class PairSampler:
    """Draws the point (c, j) with probability weights[c + C, j + J] / 2^62."""

    points: WeightedSampler
    shape: tuple[int, int]

    @staticmethod
    def of(weights: Integers) -> PairSampler:
        """Prepare the cumulative weights of all points, an odd number in each direction."""
        rows, columns = weights.shape
        return PairSampler(WeightedSampler.of(weights.ravel()), (rows, columns))

    def draw(
        self, count: int, steps: int, source: Source = secure_bytes
    ) -> tuple[Integers, Integers]:
        """Noise for the sum, uniform over the ``steps`` grid points of its cell, and for the count.

        :param count: how many pairs
        :param steps: grid points in a cell, an odd number
        """
        rows, columns = self.shape
        drawn = self.points.draw(count, source)
        cells = drawn % columns - columns // 2
        return spread_over_cells(cells, steps, source), drawn // columns - rows // 2

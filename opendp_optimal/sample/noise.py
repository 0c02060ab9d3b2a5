"""Exact draws of noise on a lattice, with a point mass, a spike within a cell and endless tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.sample.weights import WeightedSampler, spread_over_cells
from opendp_optimal.sample.words import one_below, uniform_below

_LONGEST = 1 << 62


@dataclass(frozen=True)
class NoiseSampler:
    """Draws noise in grid steps.

    :param radius: lattice points are -radius..radius
    :param points: which of them; or else the point mass, the right or the left tail, the spike
    :param tail: which point of a block of a tail; or else one of those behind it
    :param width: grid steps that the spike is wide, for so many of them in a cell
    """

    radius: int
    points: WeightedSampler
    tail: WeightedSampler | None
    width: Callable[[int], int] | None

    @property
    def block(self) -> int:
        """Points in a block of a tail."""
        assert self.tail is not None
        return len(self.tail.as_list) - 1

    def draw(self, size: int, steps: int) -> Any:
        """An array of 64-bit integers, or of Python's where endless noise is longer.

        :param size: how many
        :param steps: grid points in a cell, an odd number
        """
        place = self.points.draw(size)
        atom, spike = place == 2 * self.radius + 1, place == 2 * self.radius + 4
        cells = place - self.radius
        cells[atom | spike] = 0
        if self.tail is not None:
            cells = self.follow_tails(cells)
        if steps == 1:
            return cells
        if self.tail is not None and int(np.abs(cells).max(initial=0)) >= _LONGEST // steps - 1:
            far = [c * steps + one_below(steps) - steps // 2 for c in cells.tolist()]
            out = np.array(far, dtype=object)
        else:
            out = spread_over_cells(cells, steps)
        out[atom] = 0
        if self.width is not None:
            width = self.width(steps)
            out[spike] = uniform_below(width, int(spike.sum())) - width // 2
        return out

    def draw_one(self, steps: int) -> int:
        """One of them."""
        cell = self.points.draw_one() - self.radius
        if cell == self.radius + 1:
            return 0
        if cell == self.radius + 4:
            assert self.width is not None
            width = self.width(steps)
            return one_below(width) - width // 2
        if cell > self.radius:
            assert self.tail is not None
            sign = 1 if cell == self.radius + 2 else -1
            distance = self.radius + 1
            while (place := self.tail.draw_one()) == self.block:
                distance += self.block
            cell = sign * (distance + place)
        if steps == 1:
            return cell
        return cell * steps + one_below(steps) - steps // 2

    def follow_tails(self, cells: Integers) -> Integers:
        """Replace the two tail outcomes by points beyond the radius."""
        assert self.tail is not None
        out = np.flatnonzero(cells > self.radius + 1)
        signs = np.where(cells[out] == self.radius + 2, 1, -1)
        distance = np.full(len(out), self.radius + 1, np.int64)
        going = np.arange(len(out))
        while len(going):
            place = self.tail.draw(len(going))
            distance[going] += place  # what is behind a block is drawn as a whole one
            going = going[place == self.block]
        cells[out] = signs * distance
        return cells

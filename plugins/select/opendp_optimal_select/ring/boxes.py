"""Boxes of shapes on the ring, and the proof that together they cover every shape.

A shape of ``k`` answers is its first ``k - 1`` gaps, in turns; every shape can be rotated so that
the last gap is the largest, so all gaps but the last are at most 1/2. Boxes are halved along their
longest side. A box is bounded from below by one shape in it: moving each answer by at most ``x``
changes the cost by at most ``x``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_optimal import CertificateError
from opendp_optimal.extend import float_down
from opendp_optimal_select.ring.certificate import lower_bound
from opendp_optimal_select.ring.shape import CellModel

Gaps = tuple[Fraction, ...]
_DEEPEST = 64
"""How often a box may be halved."""


@dataclass(frozen=True)
class Box:
    """A box of shapes.

    :param centre: its first ``k - 1`` gaps
    :param radius: how far a shape in the box may be from them, gap by gap
    """

    centre: Gaps
    radius: Gaps

    @staticmethod
    def of_all(k: int) -> Box:
        """Return the box of all shapes of ``k`` answers."""
        return Box((Fraction(1, 4),) * (k - 1), (Fraction(1, 4),) * (k - 1))

    def halves(self) -> list[Box]:
        """Return the two halves along the longest side, without those that no shape needs."""
        axis = self.radius.index(max(self.radius))
        half = self.radius[axis] / 2
        boxes = []
        for move in (-half, half):
            centre, radius = list(self.centre), list(self.radius)
            centre[axis] += move
            radius[axis] = half
            boxes.append(Box(tuple(centre), tuple(radius)))
        return [box for box in boxes if box.needed()]

    def needed(self) -> bool:
        """Return whether the box holds a shape whose last gap is the largest.

        Of three gaps, a reflection orders the others.
        """
        low = [c - r for c, r in zip(self.centre, self.radius, strict=True)]
        if 1 - sum(low, Fraction(0)) < max(low):
            return False
        return len(low) != 2 or low[0] <= self.centre[1] + self.radius[1]

    def shape(self) -> tuple[Gaps, Fraction]:
        """Return all gaps of one shape, and how far the answers of any other are from its own."""
        reach = max(self.radius, default=Fraction(0))
        shape = self.centre
        if sum(shape, Fraction(0)) > 1:
            shape = tuple(c - r for c, r in zip(self.centre, self.radius, strict=True))
            reach *= 2
        # Gaps off by at most `reach` move answers, after rotating half way, by half their sum.
        return (*shape, 1 - sum(shape, Fraction(0))), reach * len(shape) / 2


@dataclass(frozen=True)
class BoundedBox:
    """A box and the multipliers that bound its shapes.

    :param box: the shapes
    :param cells: cells per half gap
    :param forward: multipliers of "this mass is at most ratio times the next"
    :param backward: multipliers of "the next mass is at most ratio times this"
    """

    box: Box
    cells: int
    forward: tuple[float, ...]
    backward: tuple[float, ...]

    def bound(self, rate: Fraction) -> float:
        """Return a cost, in turns, that no private client has with any shape of the box.

        :param rate: an upper bound on the privacy loss per turn
        """
        gaps, moved = self.box.shape()
        model = CellModel(gaps, rate, self.cells)
        if not len(self.forward) == len(self.backward) == len(model.widths):
            raise CertificateError("a box must have a multiplier for each cell")
        found = lower_bound(model, np.array(self.forward), np.array(self.backward))
        return float_down(Fraction(found) - moved)


def least_bound(k: int, boxes: tuple[BoundedBox, ...], rate: Fraction) -> tuple[float, int]:
    """Return the smallest bound of boxes that cover every shape, and how many boxes were looked at.

    :param k: number of answers
    :param boxes: the boxes that were not halved
    :param rate: an upper bound on the privacy loss per turn
    :raises CertificateError: if the boxes do not cover every shape, or one of them is not needed
    """
    if any(len(entry.box.centre) != k - 1 for entry in boxes):
        raise CertificateError(f"the boxes must be of shapes of {k} answers")
    bounded = {entry.box: entry for entry in boxes}
    left, bounds, seen = [Box.of_all(k)], [], 0
    while left:
        box, seen = left.pop(), seen + 1
        entry = bounded.pop(box, None)
        if entry is not None:
            bounds.append(entry.bound(rate))
        elif k == 1 or seen > _DEEPEST * len(boxes):
            raise CertificateError("the boxes must cover every shape")
        else:
            left += box.halves()
    if bounded or len(bounds) != len(boxes):
        raise CertificateError("every box must be needed once")
    return min(bounds), seen

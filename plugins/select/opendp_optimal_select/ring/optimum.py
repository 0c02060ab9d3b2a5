"""The ring of circumference ``2 pi`` (appendix A.4): Laplace against the optimal client.

On the line Laplace noise is always optimal; on a ring it is not. :func:`optimal_ring` encloses the
optimum between two proven bounds: every shape of ``k`` answers is covered by a box of shapes, and
moving each answer by at most ``x`` changes the cost by at most ``x``.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from opendp_optimal import CertificateError
from opendp_optimal.extend import Floats, float_down, float_up, positive, whole
from opendp_optimal_select.ring.boxes import BoundedBox, Box, Gaps, least_bound
from opendp_optimal_select.ring.certificate import RingDensity, density_from, lower_bound
from opendp_optimal_select.ring.laplace import laplace_ring
from opendp_optimal_select.ring.shape import PI_LOWER, PI_UPPER, CellModel, rate_bounds

__all__ = ["MOST_EPSILON", "RingOptimum", "laplace_ring", "optimal_ring"]

_POLISH = 4
_MOST_CELLS = 1 << 11
"""Per half gap, when cells are halved: finer ones lose more to rounding than they gain."""
MOST_EPSILON = 100
"""The largest privacy loss per radian for which the optimum on the ring is enclosed."""

Progress = Callable[[float], None]
"""Told the width of the enclosure so far."""


@dataclass(frozen=True)
class RingOptimum:
    """A certified enclosure of the smallest cost on the ring, and a client within it.

    :param epsilon: privacy loss per unit of arc length
    :param k: number of answers
    :param lower: no private client and server can cost less
    :param upper: what ``density`` costs at most
    :param offsets: the answers relative to the signal, in radians, of the best shape found
    :param density: the best client found
    :param cells: cells per half gap behind ``lower``; ``density`` has some times as many
    :param discretisation: how much of ``lower`` is given away to the width of the cells, at most,
        for the best shape
    :param programmes: how many linear programmes were solved
    :param boxes: the proof of ``lower``: boxes of shapes that cover all of them
    """

    epsilon: float
    k: int
    lower: float
    upper: float
    offsets: tuple[float, ...]
    density: RingDensity
    cells: int
    discretisation: float
    programmes: int
    boxes: tuple[BoundedBox, ...] = field(default=(), repr=False)

    def verify(self) -> None:
        """Prove both bounds again, from the client and the boxes alone, without a solver.

        :raises CertificateError: if a field is not what the others prove

        >>> optimal_ring(1, epsilon=1.0, cells=8).verify()
        """
        try:
            wrong = self._wrong()
        except (ArithmeticError, AttributeError, TypeError, ValueError, IndexError) as error:
            raise CertificateError(f"the optimum is damaged: {type(error).__name__}") from None
        if wrong:
            raise CertificateError(f"{', '.join(wrong)} must be what the others prove")

    def _wrong(self) -> list[str]:
        """Return the names of the fields that the others contradict."""
        rate_lower, rate_upper = rate_bounds(positive("epsilon", self.epsilon))
        model = self.density.model
        model.__post_init__()
        least, seen = least_bound(self.k, self.boxes, rate_upper)
        private = len(self.density.logs) == len(model.widths) and self.density.keeps(rate_lower)
        proved = _proved(self.density, least, self.cells)
        right = {
            **{name: getattr(self, name) == value for name, value in proved.items()},
            "k": len(model.gaps) == self.k,
            "density": private and model.rate == rate_upper,
            "cells": all(entry.cells == self.cells for entry in self.boxes),
            # All boxes, Laplace's answers and the best shape again; one box may be done again.
            "programmes": self.programmes == seen + 2 or (self.k == 1 and self.programmes > 3),
        }
        right["lower"] = right["lower"] and self.lower <= self.upper
        return [name for name, holds in right.items() if not holds]


def _proved(density: RingDensity, least: float, cells: int) -> dict[str, Any]:
    """Return the fields, in radians, that follow from a client and the least bound of the boxes."""
    gaps, rate = density.model.gaps, density.model.rate
    positions = itertools.accumulate(gaps[:-1], initial=Fraction(0))
    widest = max(gaps) / (2 * cells)
    return {
        "lower": float_down(2 * PI_LOWER * max(Fraction(0), Fraction(least))),
        "upper": float_up(2 * PI_UPPER * density.cost_above()),
        "offsets": tuple(2.0 * math.pi * float(a) for a in positions),
        "discretisation": float(2 * PI_UPPER * rate * widest * widest / 12),
    }


def optimal_ring(
    k: int,
    *,
    epsilon: float,
    tolerance: float = 2e-3,
    cells: int = 32,
    max_programmes: int = 5000,
    progress: Progress | None = None,
) -> RingOptimum:
    """Return a certified enclosure of the smallest cost, and a client that reaches its top.

    Both bounds are proven whatever happens: running into ``max_programmes``, or for a single answer
    into the finest cells, widens the enclosure, it does not make it wrong.

    :param k: number of answers; the work grows steeply with it, 1 to 4 are sensible
    :param epsilon: privacy loss per unit of arc length on the ring of circumference ``2 pi``, at
        most 100: beyond, signals are so strong that the ring is a line, and
        :func:`~opendp_optimal_select.placing.offsets` has the optimum
    :param tolerance: width of enclosure to stop at
    :param cells: cells per half gap; the discretisation error falls with the square of it
    :param max_programmes: linear programmes to solve at most
    :param progress: called with the width of the enclosure now and then

    >>> optimum = optimal_ring(1, epsilon=1.0)
    >>> optimum.lower < optimum.upper < optimum.lower + 2e-3
    True
    """
    k = whole("k", k, most=6)
    epsilon = positive("epsilon", epsilon)
    if epsilon > MOST_EPSILON:
        raise ValueError(f"epsilon ({epsilon}) must be at most {MOST_EPSILON} on the ring")
    tolerance = positive("tolerance", tolerance)
    cells = whole("cells", cells, most=1000)
    max_programmes = whole("max_programmes", max_programmes)
    search = _Search(k, epsilon, cells)
    while search.programmes < max_programmes and search.width() > tolerance and search.coarse():
        search.refine()
        if progress is not None and search.programmes % 8 == 0:
            progress(search.width())
    return search.result()


class _Search:
    """Best-first branch and bound over the gaps of the shape, in turns."""

    def __init__(self, k: int, epsilon: float, cells: int) -> None:
        """Begin with the box of all shapes, and Laplace's own answers."""
        self.k, self.epsilon, self.cells = k, epsilon, cells
        self.rate_lower, self.rate_upper = rate_bounds(epsilon)
        self.programmes = 0
        self.best_cost = math.inf
        self.best: RingDensity | None = None
        self._order = itertools.count()
        self._boxes: list[tuple[float, int, BoundedBox]] = []
        self._push(Box.of_all(k))
        points = laplace_ring(k, epsilon=epsilon)[1]
        inner = [Fraction((b - a) / (2.0 * math.pi)) for a, b in itertools.pairwise(points)]
        self._try((*inner, 1 - sum(inner, Fraction(0))))

    def width(self) -> float:
        """Return the width of the enclosure so far, in radians."""
        return 2.0 * math.pi * (self.best_cost - self._boxes[0][0])

    def coarse(self) -> bool:
        """Say whether refining is possible."""
        return self.k > 1 or self.cells < _MOST_CELLS

    def refine(self) -> None:
        """Halve the box with the lowest bound along its longest side."""
        box = heapq.heappop(self._boxes)[2].box
        if self.k == 1:
            # Nothing to split: the one box is the one shape.
            self.cells *= 2
            self._push(box)
            return
        for half in box.halves():
            self._push(half)

    def result(self) -> RingOptimum:
        """Return the enclosure in radians, rounded outwards."""
        assert self.best is not None
        cells = self.cells
        self.cells *= _POLISH if self.coarse() else 1
        self._try(self.best.model.gaps)  # once more, on a finer grid, for a better upper bound
        return RingOptimum(
            epsilon=self.epsilon,
            k=self.k,
            density=self.best,
            cells=cells,
            programmes=self.programmes,
            boxes=tuple(entry for _, _, entry in self._boxes),
            **_proved(self.best, self._boxes[0][0], cells),
        )

    def _push(self, box: Box) -> None:
        gaps, moved = box.shape()
        bound, forward, backward = self._try(gaps)
        entry = BoundedBox(box, self.cells, tuple(forward.tolist()), tuple(backward.tolist()))
        bound = float_down(Fraction(bound) - moved)
        heapq.heappush(self._boxes, (bound, next(self._order), entry))

    def _try(self, gaps: Gaps) -> tuple[float, Floats, Floats]:
        """Solve one shape; keep it if it is the best so far; return its bound and multipliers."""
        model = CellModel(gaps, self.rate_upper, self.cells)
        masses, forward, backward = model.solve()
        self.programmes += 1
        bound = lower_bound(model, forward, backward)
        if bound < self.best_cost:
            density = density_from(model, masses, self.rate_lower)
            cost = float_up(density.cost_above())
            if cost < self.best_cost:
                self.best_cost, self.best = cost, density
        return bound, forward, backward

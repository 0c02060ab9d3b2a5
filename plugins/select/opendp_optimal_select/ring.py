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
from dataclasses import dataclass
from fractions import Fraction

from opendp_optimal_select._checks import positive_float, positive_integer
from opendp_optimal_select.ring_certificate import RingDensity, density_from, lower_bound
from opendp_optimal_select.ring_laplace import laplace_ring
from opendp_optimal_select.ring_shape import CellModel, rate_bounds
from opendp_optimal_select.rounding import PI_LOWER, PI_UPPER, float_above, float_below

__all__ = ["MOST_EPSILON", "RingOptimum", "laplace_ring", "optimal_ring"]

_POLISH = 4
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

    Both bounds are proven whatever happens: running into ``max_programmes`` widens the
    enclosure, it does not make it wrong.

    :param k: number of answers; the work grows steeply with it, 1 to 4 are sensible
    :param epsilon: privacy loss per unit of arc length on the ring of circumference ``2 pi``, at
        most 100: beyond, signals are so strong that the ring is a line, and
        :func:`~opendp_optimal_select.offsets.offsets` has the optimum
    :param tolerance: width of enclosure to stop at
    :param cells: cells per half gap; the discretisation error falls with the square of it
    :param max_programmes: linear programmes to solve at most
    :param progress: called with the width of the enclosure now and then

    >>> optimum = optimal_ring(1, epsilon=1.0)
    >>> optimum.lower < optimum.upper < optimum.lower + 2e-3
    True
    """
    k = positive_integer("k", k, at_most=6)
    epsilon = positive_float("epsilon", epsilon)
    if epsilon > MOST_EPSILON:
        raise ValueError(f"epsilon ({epsilon}) must be at most {MOST_EPSILON} on the ring")
    tolerance = positive_float("tolerance", tolerance)
    cells = positive_integer("cells", cells, at_most=1000)
    max_programmes = positive_integer("max_programmes", max_programmes)
    search = _Search(k, epsilon, cells)
    search.start()
    while search.programmes < max_programmes:
        if search.width() <= tolerance:
            break
        search.refine()
        if progress is not None and search.programmes % 8 == 0:
            progress(search.width())
    return search.result()


class _Search:
    """Best-first branch and bound over the gaps of the shape, in turns."""

    def __init__(self, k: int, epsilon: float, cells: int) -> None:
        self.k, self.epsilon, self.cells = k, epsilon, cells
        self.rate_lower, self.rate_upper = rate_bounds(epsilon)
        self.bound_cells = cells
        self.programmes = 0
        self.best_cost = math.inf
        self.best: RingDensity | None = None
        self._order = itertools.count()
        self._boxes: list[tuple[float, int, tuple[Fraction, ...], tuple[Fraction, ...]]] = []

    def start(self) -> None:
        """Put the box of all shapes, and Laplace's own answers, in the search."""
        self._push((Fraction(1, 4),) * (self.k - 1), (Fraction(1, 4),) * (self.k - 1))
        self._try(self._laplace_gaps())

    def width(self) -> float:
        """Return the width of the enclosure so far, in radians."""
        return 2.0 * math.pi * (self.best_cost - self._boxes[0][0])

    def refine(self) -> None:
        """Halve the box with the lowest bound along its longest side."""
        _, _, centre, radius = heapq.heappop(self._boxes)
        if self.k == 1:
            # Nothing to split: the one box is the one shape.
            self.cells *= 2
            self._push((), ())
            return
        axis = max(range(self.k - 1), key=lambda j: radius[j])
        half = radius[axis] / 2
        for sign in (-1, 1):
            moved = tuple(c + sign * half if j == axis else c for j, c in enumerate(centre))
            shrunk = tuple(half if j == axis else r for j, r in enumerate(radius))
            if self._needed(moved, shrunk):
                self._push(moved, shrunk)

    def result(self) -> RingOptimum:
        """Return the enclosure in radians, rounded outwards."""
        assert self.best is not None
        self.bound_cells = self.cells
        self._polish()
        model = self.best.model
        upper = float_above(2 * PI_UPPER * self.best.cost_above())
        lower = float_below(2 * PI_LOWER * max(Fraction(0), Fraction(self._boxes[0][0])))
        positions = itertools.accumulate(model.gaps[:-1], initial=Fraction(0))
        widest = max(model.gaps) / (2 * self.bound_cells)
        return RingOptimum(
            epsilon=self.epsilon,
            k=self.k,
            lower=lower,
            upper=upper,
            offsets=tuple(2.0 * math.pi * float(a) for a in positions),
            density=self.best,
            cells=self.bound_cells,
            discretisation=float(2 * PI_UPPER * self.rate_upper * widest * widest / 12),
            programmes=self.programmes,
        )

    def _polish(self) -> None:
        """Solve the best shape once more, on a finer grid, for a better upper bound."""
        assert self.best is not None
        self.cells *= _POLISH
        self._try(self.best.model.gaps)

    def _laplace_gaps(self) -> tuple[Fraction, ...]:
        points = laplace_ring(self.k, epsilon=self.epsilon)[1]
        inner = [Fraction((b - a) / (2.0 * math.pi)) for a, b in itertools.pairwise(points)]
        return (*inner, 1 - sum(inner, Fraction(0)))

    def _needed(self, centre: tuple[Fraction, ...], radius: tuple[Fraction, ...]) -> bool:
        """Return whether the box holds a shape whose last gap is the largest.

        Every shape can be rotated so that it is; of three gaps, a reflection orders the others.
        """
        low = [c - r for c, r in zip(centre, radius, strict=True)]
        if 1 - sum(low, Fraction(0)) < max(low):
            return False
        return self.k != 3 or low[0] <= centre[1] + radius[1]

    def _push(self, centre: tuple[Fraction, ...], radius: tuple[Fraction, ...]) -> None:
        widest = max(radius, default=Fraction(0))
        shape, reach = centre, widest
        if sum(shape, Fraction(0)) > 1:
            shape = tuple(c - r for c, r in zip(centre, radius, strict=True))
            reach = 2 * widest
        # Gaps off by at most `reach` move answers, after rotating half way, by half their sum.
        displacement = reach * (self.k - 1) / 2
        bound = self._try((*shape, 1 - sum(shape, Fraction(0))))
        bound = float_below(Fraction(bound) - displacement)
        heapq.heappush(self._boxes, (bound, next(self._order), centre, radius))

    def _try(self, gaps: tuple[Fraction, ...]) -> float:
        """Solve one shape; keep it if it is the best so far; return its lower bound."""
        model = CellModel(gaps, self.rate_upper, self.cells)
        masses, forward, backward = model.solve()
        self.programmes += 1
        bound = lower_bound(model, forward, backward)
        if bound < self.best_cost:
            density = density_from(model, masses, self.rate_lower)
            cost = float_above(density.cost_above())
            if cost < self.best_cost:
                self.best_cost, self.best = cost, density
        return bound

"""The cutting-plane method of Selvi, Liu, Wiesemann (2024) with its own bounds, to compare with.

Section 4 of the paper: noise that is constant on the cells of a partition is optimised under a
growing set of privacy rows (Algorithm 1), each the worst pair of shift and event for the current
noise (Algorithm 2). Two programmes are solved, P(pi, beta) for an upper and D(pi, beta) for a
lower bound on the optimum.

Bounds are in floating point. The upper bound belongs to noise that was repaired to be private
up to rounding; the lower one is re-evaluated from the multipliers on every cell, so an unfinished
or slightly inaccurate solve makes it weaker and never wrong. That matters for unequal partitions:
there D(pi, beta) averages the dual constraints over a block of cells, and its optimal value, kept
as ``dual_value``, need not be a lower bound (for the loss max(0, |x| - 1) it can exceed the
optimum). Compare at uniform partitions.

>>> result = cutting_planes(1.0, 0.2, cells=4, radius=3)
>>> result.status
'optimal'
>>> result.lower < 0.5587 < result.upper
True
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.errors import SolverError
from opendp_optimal.known import truncated_laplace_radius
from opendp_optimal.solvers.partition_cuts import TOLERANCE, Programme

__all__ = [
    "CellLoss",
    "CuttingResult",
    "Progress",
    "cutting_planes",
    "graded_partition",
    "refine",
]


class CellLoss(Protocol):
    """A loss as the method needs it; both calls are vectorised over cells [low, high)."""

    symmetric: bool

    def average(self, low: Floats, high: Floats) -> Floats:
        """Return the mean loss over each cell."""
        ...

    def infimum(self, low: Floats, high: Floats) -> Floats:
        """Return the least loss in each cell; ``high`` may be infinite, ``low`` minus infinite."""
        ...


class _L1:
    symmetric = True

    def average(self, low: Floats, high: Floats) -> Floats:
        return (high * np.abs(high) - low * np.abs(low)) / (2.0 * (high - low))

    def infimum(self, low: Floats, high: Floats) -> Floats:
        return np.maximum(np.maximum(low, -high), 0.0)


class _L2(_L1):
    def average(self, low: Floats, high: Floats) -> Floats:
        return (high * high + high * low + low * low) / 3.0

    def infimum(self, low: Floats, high: Floats) -> Floats:
        return super().infimum(low, high) ** 2


_LOSSES: Final[dict[str, CellLoss]] = {"l1": _L1(), "l2": _L2()}


class Progress(NamedTuple):
    """What a progress callback is told after each round."""

    cells: int
    iterations: int
    upper: float
    lower: float
    seconds: float


@dataclass(frozen=True)
class CuttingResult:
    """Bounds on the optimal loss and the noise that attains the upper one.

    ``status`` is "optimal" (both programmes solved), "gap" (stopped early, gap met), "time_limit",
    "stalled" (no further progress in floating point) or "infeasible" (no private noise has this
    support; then ``upper`` is infinite). ``weights[j]`` is the probability of the cell between
    ``partition[j] / cells`` and ``partition[j + 1] / cells``, empty if there is no upper bound.
    """

    upper: float
    lower: float
    weights: Floats = field(repr=False)
    partition: tuple[int, ...] = field(repr=False)
    cells: int
    iterations: int
    seconds: float
    status: str
    dual_value: float

    @property
    def gap(self) -> float:
        """Return (upper - lower) / lower, infinite if there is no positive lower bound."""
        return _gap(self.upper, self.lower)


def _gap(upper: float, lower: float) -> float:
    return (upper - lower) / lower if lower > 0.0 and upper < math.inf else math.inf


# -- the method ----------------------------------------------------------------------------------


def graded_partition(cells: int, radius: float, *, fine: float = 1.0, ratio: int = 4) -> list[int]:
    """Return symmetric edges in units of 1/cells: single cells up to ``fine``, then blocks.

    >>> graded_partition(2, 3, fine=1, ratio=2)
    [-6, -4, -2, -1, 0, 1, 2, 4, 6]
    """
    _positive("cells", cells)
    _positive("ratio", ratio)
    end, inner = math.ceil(radius * cells), min(math.ceil(fine * cells), math.ceil(radius * cells))
    right = [*range(inner), *range(inner, end, ratio), end]
    return [-edge for edge in reversed(right[1:])] + right


def cutting_planes(
    epsilon: float,
    delta: float,
    loss: str | CellLoss = "l1",
    *,
    cells: int,
    radius: float,
    partition: Sequence[int] | None = None,
    gap: float = 0.0,
    time_limit: float = 60.0,
    cuts_per_round: int = 1,
    tolerance: float = TOLERANCE,
    progress: Callable[[Progress], None] | None = None,
) -> CuttingResult:
    """Bound the least expected loss of (epsilon, delta)-private noise at sensitivity 1.

    Both programmes advance in turn, one round of Algorithm 1 each, until they are solved, the
    relative gap of their bounds is at most ``gap``, or the time is up.

    :param epsilon: privacy parameter, positive
    :param delta: privacy parameter, in (0, 1)
    :param loss: "l1", "l2" or a :class:`CellLoss`
    :param cells: cells per unit of sensitivity, 1/beta in the paper
    :param radius: half-width of the support; ignored if a partition is given
    :param partition: edges in units of 1/cells, increasing; single cells if omitted
    :param gap: stop when (upper - lower) / lower is at most this
    :param time_limit: seconds for everything
    :param cuts_per_round: rows added after each solve; the paper adds the single worst one
    :param tolerance: a row counts as satisfied within this fraction of delta
    :param progress: called after each round
    """
    began = time.perf_counter()
    if not 0.0 < epsilon < 700.0:
        raise ValueError(f"epsilon ({epsilon!r}) must be in (0, 700)")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta ({delta!r}) must be in (0, 1)")
    _positive("cells", cells)
    _positive("cuts_per_round", cuts_per_round)
    _positive("time_limit", time_limit)
    _positive("tolerance", tolerance)
    if not 0.0 <= gap < math.inf:
        raise ValueError(f"gap ({gap!r}) must be at least 0 and finite")
    cost = _loss(loss)
    edges = _edges(cells, radius, partition)
    fold = cost.symmetric and bool(np.array_equal(edges, -edges[::-1]))
    upper = Programme(epsilon, delta, cells, edges, 0, cost.average, fold)
    lower = Programme(epsilon, delta, cells, edges, cells, cost.infimum, fold)
    line = np.arange(edges[0] - cells, edges[-1] + cells + 1) / cells
    base_costs = cost.infimum(line[:-1], line[1:])
    ends = np.array([-math.inf, line[-1]]), np.array([line[0], math.inf])
    outside = float(cost.infimum(*ends).min())
    middle = (edges[:-1] + edges[1:]) / (2.0 * cells)
    spare = upper.widths * np.exp(-epsilon * np.abs(middle))
    spare /= spare.sum()
    reserve = float(upper.excess(spare).sum(axis=1).max())
    best_upper, best_lower, weights = math.inf, 0.0, np.zeros(0)
    iterations, status = 0, ""
    while not status:
        running = [p for p in (lower, upper) if not p.solved and not p.infeasible]
        for programme in running:
            left = time_limit - (time.perf_counter() - began)
            if left <= 0.0 or not programme.advance(left, cuts_per_round, tolerance):
                status = "time_limit"
                break
            iterations += 1
            if programme.infeasible:
                continue
            if programme is lower:
                best_lower = max(best_lower, _bound(lower, base_costs, outside, fold))
            else:
                loss_now, weights_now = _repaired(upper, spare, reserve)
                if loss_now < best_upper:
                    best_upper, weights = loss_now, weights_now
            if programme.stalled:
                status = "stalled"
        if progress is not None:
            elapsed = time.perf_counter() - began
            progress(Progress(cells, iterations, best_upper, best_lower, elapsed))
        if not status and lower.infeasible:
            raise SolverError(
                "the lower bounding programme cannot be infeasible, yet HiGHS says so"
            )
        if not status and upper.infeasible:
            status = "infeasible"
        if not status and upper.solved and lower.solved:
            status = "optimal"
        elif gap > 0.0 and _gap(best_upper, best_lower) <= gap:
            status = "gap"
    return CuttingResult(
        upper=best_upper,
        lower=best_lower,
        weights=weights,
        partition=tuple(int(edge) for edge in edges),
        cells=cells,
        iterations=iterations,
        seconds=time.perf_counter() - began,
        status=status,
        dual_value=lower.value if lower.solved else math.nan,
    )


def _bound(programme: Programme, base_costs: Floats, outside: float, mirrored: bool) -> float:
    """Return the lower bound that the multipliers prove, over every noise on the line."""
    used = programme.rows[: len(programme.multipliers)]
    gain = programme.multipliers @ used if len(used) else np.zeros(programme.base)
    if mirrored:  # each folded row stands for itself and its mirror image
        gain = (gain + gain[::-1]) / 2.0
    least = min(float((base_costs + gain).min()), outside)
    return least - float(programme.multipliers.sum())


def _repaired(programme: Programme, spare: Floats, reserve: float) -> tuple[float, Floats]:
    """Return loss and weights after mixing in so much of ``spare`` that all rows hold."""
    share = 1.0
    if programme.largest > programme.delta:
        if reserve >= programme.delta:
            return math.inf, np.zeros(0)
        share = (programme.delta - reserve) / (programme.largest - reserve)
    weights = share * programme.weights + (1.0 - share) * spare
    return float(programme.costs @ weights), weights


def refine(
    epsilon: float,
    delta: float,
    loss: str | CellLoss = "l1",
    *,
    gap: float,
    time_limit: float = 60.0,
    radius: float | None = None,
    start_cells: int = 2,
    max_cells: int = 4096,
    cuts_per_round: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> CuttingResult:
    """Double the cells until (upper - lower) / lower is at most ``gap`` or the time is up.

    Every level's bounds are valid, so the best of each are kept. Unless ``radius`` says otherwise,
    the support is half as wide again as that of the truncated Laplace mechanism: with its own
    support, as in the paper, the lower bound stays away from the optimum however fine the cells.

    >>> refine(1.0, 0.2, gap=0.5).status
    'gap'
    """
    _positive("gap", gap)
    _positive("time_limit", time_limit)
    _positive("start_cells", start_cells)
    if radius is None:
        radius = math.ceil(1.5 * truncated_laplace_radius(epsilon, delta)) + 1.0
    began = time.perf_counter()
    best: CuttingResult | None = None
    cells, iterations, status = start_cells, 0, ""
    while not status:
        left = time_limit - (time.perf_counter() - began)
        if left <= 0.0:
            status = "time_limit"
            break
        found = cutting_planes(
            epsilon,
            delta,
            loss,
            cells=cells,
            radius=radius,
            gap=gap,
            time_limit=left,
            cuts_per_round=cuts_per_round,
            progress=progress,
        )
        iterations += found.iterations
        best = found if best is None else _better(best, found)
        cells *= 2
        if best.gap <= gap:
            status = "gap"
        elif found.status == "time_limit":
            status = "time_limit"
        elif cells > max_cells:
            status = "max_cells"
    assert best is not None  # time_limit is positive, so the loop ran at least once
    seconds = time.perf_counter() - began
    return replace(best, iterations=iterations, seconds=seconds, status=status)


def _better(old: CuttingResult, new: CuttingResult) -> CuttingResult:
    source = new if new.upper <= old.upper else old
    return replace(
        new,
        upper=source.upper,
        lower=max(old.lower, new.lower),
        weights=source.weights,
        partition=source.partition,
        cells=source.cells,
    )


# -- arguments -----------------------------------------------------------------------------------


def _positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} ({value!r}) must be positive and finite")


def _loss(loss: str | CellLoss) -> CellLoss:
    if not isinstance(loss, str):
        return loss
    if loss not in _LOSSES:
        raise ValueError(f"loss ({loss!r}) must be 'l1', 'l2' or a CellLoss")
    return _LOSSES[loss]


def _edges(cells: int, radius: float, partition: Sequence[int] | None) -> Integers:
    if partition is None:
        _positive("radius", radius)
        half = math.ceil(radius * cells)
        return np.arange(-half, half + 1)
    edges = np.asarray(partition, dtype=np.int64)
    if edges.ndim != 1 or len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ValueError(f"partition ({partition!r}) must be at least two increasing integers")
    return edges

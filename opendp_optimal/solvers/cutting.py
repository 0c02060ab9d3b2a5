"""The cutting-plane method of Selvi, Liu, Wiesemann (2024), kept as a reference to compare with.

Section 4 of the paper: noise that is constant on the cells of a partition is optimised under a
growing set of privacy rows (Algorithm 1), each the worst pair of shift and event for the current
noise (Algorithm 2). Two programmes are solved, P(pi, beta) for an upper and D(pi, beta) for a
lower bound on the optimum.

Bounds are in floating point. The upper bound belongs to noise that was repaired to be private up
to rounding; the lower one is re-evaluated from the multipliers on every cell, so an unfinished or
slightly inaccurate solve makes it weaker and never wrong. That matters for non-uniform partitions:
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
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import highspy
import numpy as np
from numpy.typing import NDArray

from opendp_optimal.errors import SolverError
from opendp_optimal.spec.baselines import truncated_laplace_radius

__all__ = ["CellLoss", "CuttingResult", "Progress", "cutting_planes", "graded_partition", "refine"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

_DROP: Final = 1e-12  # coefficients that HiGHS would ignore with a warning
_IDLE, _PURGE_EVERY = 0.1, 50  # slack in units of delta, rounds; eager purging is fastest
_TOLERANCE: Final = 1e-9  # of HiGHS, on rows already divided by delta


class CellLoss(Protocol):
    """A loss as the method needs it; both calls are vectorised over cells [low, high)."""

    symmetric: bool

    def average(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the mean loss over each cell."""
        ...

    def infimum(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the least loss in each cell; ``high`` may be infinite, ``low`` minus infinite."""
        ...


class _L1:
    symmetric = True

    def average(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return (high * np.abs(high) - low * np.abs(low)) / (2.0 * (high - low))

    def infimum(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return np.maximum(np.maximum(low, -high), 0.0)


class _L2(_L1):
    def average(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return (high * high + high * low + low * low) / 3.0

    def infimum(self, low: FloatArray, high: FloatArray) -> FloatArray:
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
    weights: FloatArray = field(repr=False)
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


# -- one of the two programmes, with its cuts ----------------------------------------------------


class _Programme:
    """Algorithm 1 on base cells ``-half .. half - 1`` plus padding, grouped into blocks."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        cells: int,
        edges: IntArray,
        pad: int,
        costs: Callable[[FloatArray, FloatArray], FloatArray],
        fold: bool,
    ) -> None:
        self.delta, self.growth, self.cells = delta, math.exp(epsilon), cells
        first, last = int(edges[0]), int(edges[-1])
        padded = np.concatenate([np.arange(first - pad, first), edges, last + 1 + np.arange(pad)])
        self.widths = np.diff(padded)
        blocks = len(self.widths)
        self.starts = padded[:-1] - padded[0]
        self.block_of = np.repeat(np.arange(blocks), self.widths)
        self.base = len(self.block_of)
        self.inside = np.zeros(self.base, dtype=bool)
        self.inside[pad : self.base - pad] = True
        self.shifts = _worst_shifts(edges, cells, one_sided=fold)
        self.costs = costs(padded[:-1] / cells, padded[1:] / cells)
        # A symmetric problem has a symmetric optimum: a block shares its variable with its image.
        index = np.arange(blocks)
        self.column = np.minimum(index, blocks - 1 - index) if fold else index
        middle = (padded[:-1] + padded[1:]) / (2.0 * cells)
        scale = np.zeros(int(self.column[-1 if not fold else blocks // 2]) + 1)
        # The optimum decays like this until its last unit holds about delta; in these units all
        # variables are of order one.
        decay = np.maximum(np.exp(-epsilon * np.abs(middle)), max(0.1 * delta, 1e-7))
        np.maximum.at(scale, self.column, self.widths * decay)
        self.scale = scale / scale.sum()
        self.rows = np.zeros((64, self.base))  # coefficients of cuts on base cells, over delta
        self.cuts = self.rounds = 0
        self.value = -math.inf
        self.solved = self.infeasible = False
        self.largest = math.inf
        self.purged_at = -math.inf
        self.weights = np.zeros(blocks)
        self.multipliers = np.zeros(0)
        self._highs = self._start()

    def _start(self) -> highspy.Highs:
        highs = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("solver", "simplex"),
            ("small_matrix_value", _DROP),
            ("primal_feasibility_tolerance", _TOLERANCE),
            ("dual_feasibility_tolerance", _TOLERANCE),
        ):
            _check(highs.setOptionValue(option, value), f"setting {option}")
        columns = len(self.scale)
        cost = self._to_columns(self.costs)
        none = np.zeros(0)
        for j in range(columns):
            status = highs.addCol(cost[j], 0.0, highspy.kHighsInf, 0, none.astype(np.int32), none)
            _check(status, "adding a column")
        total = self._to_columns(np.ones(len(self.widths)))
        index = np.arange(columns, dtype=np.int32)
        _check(highs.addRow(1.0, 1.0, columns, index, total), "adding the mass row")
        return highs

    def _to_columns(self, per_block: FloatArray) -> FloatArray:
        totals = np.zeros(len(self.scale))
        np.add.at(totals, self.column, per_block)
        return np.asarray(totals * self.scale)

    # Solving

    def solve(self, seconds: float) -> bool:
        """Solve with the present cuts; return False when out of time."""
        highs = self._highs
        limit = highs.getRunTime() + max(seconds, 0.0)  # HiGHS counts all its runs together
        _check(highs.setOptionValue("time_limit", limit), "setting time_limit")
        answer = highs.run()
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            return False
        _check(answer, "solving")
        if status == highspy.HighsModelStatus.kInfeasible:
            self.infeasible, self.value = True, math.inf
            return True
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(f"HiGHS ended with {highs.modelStatusToString(status)}")
        solution = highs.getSolution()
        self.value = highs.getInfo().objective_function_value
        q = np.maximum(np.asarray(solution.col_value), 0.0) * self.scale
        self.weights = q[self.column] / (q[self.column]).sum()
        self.multipliers = np.maximum(-np.asarray(solution.row_dual)[1:], 0.0)
        return True

    # Algorithm 2

    def _excess(self, weights: FloatArray) -> FloatArray:
        """Return, for each candidate shift (row) and base cell, how much the cell would add."""
        density = (weights / self.widths)[self.block_of]
        padded = np.concatenate([np.zeros(self.cells), density, np.zeros(self.cells)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.base)
        excess: FloatArray = density - self.growth * windows[self.cells - self.shifts]
        excess[:, ~self.inside] = 0.0
        return np.maximum(excess, 0.0, out=excess)

    def worst(self, weights: FloatArray) -> float:
        """Return the largest probability excess over all shifts and events."""
        return float(self._excess(weights).sum(axis=1).max())

    def separate(self, limit: int, tolerance: float) -> None:
        """Add up to ``limit`` of the most violated rows, or note that there is none."""
        excess = self._excess(self.weights)
        worst = excess.sum(axis=1)
        self.largest = float(worst.max())
        allowed = (1.0 + tolerance) * self.delta
        self.solved = self.largest <= allowed
        for n in np.argsort(-worst)[:limit]:
            if worst[n] > allowed:
                # Cells without excess stay out of the event, which keeps rows sparse.
                self._add(int(self.shifts[n]), excess[n] > 0.0)

    def _add(self, shift: int, event: BoolArray) -> None:
        inside = event.astype(np.float64)
        # The mass that lands in the event after the shift comes from the event moved back.
        row = (inside - self.growth * _moved(inside, -shift)) / self.delta
        if self.cuts == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self.cuts] = row
        self.cuts += 1
        coefficients = self._to_columns(np.add.reduceat(row, self.starts) / self.widths)
        index = np.flatnonzero(np.abs(coefficients) > _DROP).astype(np.int32)
        status = self._highs.addRow(-highspy.kHighsInf, 1.0, len(index), index, coefficients[index])
        _check(status, "adding a cut")

    def purge(self) -> None:
        """Drop idle rows, which halves the time; the authors' own programme does so too.

        Only when the value has risen since the last time, so that rows cannot come and go for ever.
        """
        if self.value <= self.purged_at or self.infeasible:
            return
        self.purged_at = self.value
        slack = 1.0 - np.asarray(self._highs.getSolution().row_value)[1:]
        idle = np.flatnonzero(slack > _IDLE)
        if len(idle) == 0:
            return
        status = self._highs.deleteRows(len(idle), (idle + 1).astype(np.int32))
        _check(status, "deleting rows")
        kept = np.delete(self.rows[: len(slack)], idle, axis=0)
        self.rows[: len(kept)] = kept
        self.cuts = len(kept)
        self.multipliers = np.delete(self.multipliers, idle)

    # Bounds

    def bound(self, base_costs: FloatArray, outside: float, mirrored: bool) -> float:
        """Return the lower bound that the multipliers prove, over every noise on the line."""
        used = self.rows[: len(self.multipliers)]
        gain = self.multipliers @ used if len(used) else np.zeros(self.base)
        if mirrored:  # each folded row stands for itself and its mirror image
            gain = (gain + gain[::-1]) / 2.0
        least = min(float((base_costs + gain).min()), outside)
        return least - float(self.multipliers.sum())

    def repaired(self, spare: FloatArray, reserve: float) -> tuple[float, FloatArray]:
        """Return loss and weights after mixing in so much of ``spare`` that all rows hold."""
        share = 1.0
        if self.largest > self.delta:
            if reserve >= self.delta:
                return math.inf, np.zeros(0)
            share = (self.delta - reserve) / (self.largest - reserve)
        weights = share * self.weights + (1.0 - share) * spare
        return float(self.costs @ weights), weights


def _check(status: highspy.HighsStatus, action: str) -> None:
    # A warning is an error here: HiGHS warns when it ignores part of what it was given.
    if status != highspy.HighsStatus.kOk:
        raise SolverError(f"HiGHS answered {status.name} when {action}")


def _moved(values: FloatArray, shift: int) -> FloatArray:
    """Return w with w[i] = values[i - shift], zero from outside."""
    moved = np.zeros_like(values)
    if shift >= 0:
        moved[shift:] = values[: len(values) - shift]
    else:
        moved[:shift] = values[-shift:]
    return moved


def _worst_shifts(edges: IntArray, cells: int, *, one_sided: bool) -> IntArray:
    """Return the shifts at which the worst excess can be attained: it is affine in between."""
    differences = np.unique(edges[:, None] - edges[None, :])
    inside = differences[(np.abs(differences) <= cells) & (differences != 0)]
    shifts: IntArray = np.union1d(inside, [-cells, cells])
    return shifts[shifts > 0] if one_sided else shifts


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
    tolerance: float = 1e-7,
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
    upper = _Programme(epsilon, delta, cells, edges, 0, cost.average, fold)
    lower = _Programme(epsilon, delta, cells, edges, cells, cost.infimum, fold)
    line = np.arange(edges[0] - cells, edges[-1] + cells + 1) / cells
    base_costs = cost.infimum(line[:-1], line[1:])
    ends = np.array([-math.inf, line[-1]]), np.array([line[0], math.inf])
    outside = float(cost.infimum(*ends).min())
    middle = (edges[:-1] + edges[1:]) / (2.0 * cells)
    spare = upper.widths * np.exp(-epsilon * np.abs(middle))
    spare /= spare.sum()
    reserve = upper.worst(spare)
    best_upper, best_lower, weights = math.inf, 0.0, np.zeros(0)
    iterations, status = 0, ""
    while not status:
        running = [p for p in (lower, upper) if not p.solved and not p.infeasible]
        for programme in running:
            left = time_limit - (time.perf_counter() - began)
            if left <= 0.0 or not programme.solve(left):
                status = "time_limit"
                break
            iterations += 1
            programme.rounds += 1
            if programme.infeasible:
                continue
            if programme.rounds % _PURGE_EVERY == 0:
                programme.purge()
            cuts = programme.cuts
            programme.separate(cuts_per_round, tolerance)
            if programme is lower:
                best_lower = max(best_lower, lower.bound(base_costs, outside, fold))
            else:
                loss_now, weights_now = upper.repaired(spare, reserve)
                if loss_now < best_upper:
                    best_upper, weights = loss_now, weights_now
            if not programme.solved and _repeats(programme, cuts):
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


def _repeats(programme: _Programme, before: int) -> bool:
    """Whether the rows just added are all there already: rounding lets no progress happen."""
    new, old = programme.rows[before : programme.cuts], programme.rows[:before]
    return bool(before) and all(bool((old == row).all(axis=1).any()) for row in new)


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
    return CuttingResult(
        upper=best.upper,
        lower=best.lower,
        weights=best.weights,
        partition=best.partition,
        cells=best.cells,
        iterations=iterations,
        seconds=seconds,
        status=status,
        dual_value=best.dual_value,
    )


def _better(old: CuttingResult, new: CuttingResult) -> CuttingResult:
    source = new if new.upper <= old.upper else old
    return CuttingResult(
        upper=source.upper,
        lower=max(old.lower, new.lower),
        weights=source.weights,
        partition=source.partition,
        cells=source.cells,
        iterations=new.iterations,
        seconds=new.seconds,
        status=new.status,
        dual_value=new.dual_value,
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


def _edges(cells: int, radius: float, partition: Sequence[int] | None) -> IntArray:
    if partition is None:
        _positive("radius", radius)
        half = math.ceil(radius * cells)
        return np.arange(-half, half + 1)
    edges = np.asarray(partition, dtype=np.int64)
    if edges.ndim != 1 or len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ValueError(f"partition ({partition!r}) must be at least two increasing integers")
    return edges

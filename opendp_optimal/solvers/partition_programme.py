"""One of the two programmes of the cutting-plane method, with its cuts: Algorithms 1 and 2."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import highspy
import numpy as np

from opendp_optimal.arrays import Booleans, Floats, Integers
from opendp_optimal.errors import SolverError
from opendp_optimal.solvers.highs import add_columns, checked, quiet_highs

_DROP: Final = 1e-12  # coefficients that HiGHS would ignore with a warning
_IDLE: Final = 0.1  # slack in units of delta; eager purging is fastest


class Programme:
    """Algorithm 1 on base cells ``-half .. half - 1`` plus padding, grouped into blocks."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        cells: int,
        edges: Integers,
        pad: int,
        costs: Callable[[Floats, Floats], Floats],
        fold: bool,
    ) -> None:
        """Start without cuts; ``costs`` takes the ends of blocks, ``fold`` asks for symmetry."""
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
        self.events: list[tuple[int, Booleans]] = []  # the shift and the event of each cut
        self.cuts = self.rounds = 0
        self.value = -math.inf
        self.solved = self.infeasible = False
        self.largest = math.inf
        self.purged_at = -math.inf
        self.weights = np.zeros(blocks)
        self.multipliers = np.zeros(0)
        self._highs = self._start()

    def _start(self) -> highspy.Highs:
        highs = quiet_highs(solver="simplex", small_matrix_value=_DROP)
        add_columns(highs, self._to_columns(self.costs))
        total = self._to_columns(np.ones(len(self.widths)))
        index = np.arange(len(total), dtype=np.int32)
        checked(highs.addRow(1.0, 1.0, len(total), index, total), "add the mass row")
        return highs

    def _to_columns(self, per_block: Floats) -> Floats:
        totals = np.zeros(len(self.scale))
        np.add.at(totals, self.column, per_block)
        return np.asarray(totals * self.scale)

    # Solving

    def solve(self, seconds: float) -> bool:
        """Solve with the present cuts; return False when out of time."""
        highs = self._highs
        limit = highs.getRunTime() + max(seconds, 0.0)  # HiGHS counts all its runs together
        checked(highs.setOptionValue("time_limit", limit), "set time_limit")
        answer = highs.run()
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            return False
        checked(answer, "solve")
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

    def _excess(self, weights: Floats) -> Floats:
        """Return, for each candidate shift (row) and base cell, how much the cell would add."""
        density = (weights / self.widths)[self.block_of]
        padded = np.concatenate([np.zeros(self.cells), density, np.zeros(self.cells)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.base)
        excess: Floats = density - self.growth * windows[self.cells - self.shifts]
        excess[:, ~self.inside] = 0.0
        return np.maximum(excess, 0.0, out=excess)

    def worst(self, weights: Floats) -> float:
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

    def _add(self, shift: int, event: Booleans) -> None:
        inside = event.astype(np.float64)
        # The mass that lands in the event after the shift comes from the event moved back.
        row = (inside - self.growth * _moved(inside, -shift)) / self.delta
        if self.cuts == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self.cuts] = row
        self.events.append((shift, event))
        self.cuts += 1
        coefficients = self._to_columns(np.add.reduceat(row, self.starts) / self.widths)
        index = np.flatnonzero(np.abs(coefficients) > _DROP).astype(np.int32)
        status = self._highs.addRow(-highspy.kHighsInf, 1.0, len(index), index, coefficients[index])
        checked(status, "add a row")

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
        checked(status, "delete rows")
        kept = np.delete(self.rows[: len(slack)], idle, axis=0)
        self.rows[: len(kept)] = kept
        self.cuts = len(kept)
        dropped = set(idle.tolist())
        self.events = [event for n, event in enumerate(self.events) if n not in dropped]
        self.multipliers = np.delete(self.multipliers, idle)

    # Bounds

    def bound(self, base_costs: Floats, outside: float, mirrored: bool) -> float:
        """Return the lower bound that the multipliers prove, over every noise on the line."""
        used = self.rows[: len(self.multipliers)]
        gain = self.multipliers @ used if len(used) else np.zeros(self.base)
        if mirrored:  # each folded row stands for itself and its mirror image
            gain = (gain + gain[::-1]) / 2.0
        least = min(float((base_costs + gain).min()), outside)
        return least - float(self.multipliers.sum())

    def repaired(self, spare: Floats, reserve: float) -> tuple[float, Floats]:
        """Return loss and weights after mixing in so much of ``spare`` that all rows hold."""
        share = 1.0
        if self.largest > self.delta:
            if reserve >= self.delta:
                return math.inf, np.zeros(0)
            share = (self.delta - reserve) / (self.largest - reserve)
        weights = share * self.weights + (1.0 - share) * spare
        return float(self.costs @ weights), weights


def _moved(values: Floats, shift: int) -> Floats:
    """Return w with w[i] = values[i - shift], zero from outside."""
    moved = np.zeros_like(values)
    if shift >= 0:
        moved[shift:] = values[: len(values) - shift]
    else:
        moved[:shift] = values[-shift:]
    return moved


def _worst_shifts(edges: Integers, cells: int, *, one_sided: bool) -> Integers:
    """Return the shifts at which the worst excess can be attained: it is affine in between."""
    differences = np.unique(edges[:, None] - edges[None, :])
    inside = differences[(np.abs(differences) <= cells) & (differences != 0)]
    shifts: Integers = np.union1d(inside, [-cells, cells])
    return shifts[shifts > 0] if one_sided else shifts

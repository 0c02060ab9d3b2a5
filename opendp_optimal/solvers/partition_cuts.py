"""The cutting-plane method of Selvi, Liu, Wiesemann (2024), on the programmes of a lattice.

Section 4 of the paper: noise that is constant on the cells of a partition is optimised under a
growing set of privacy rows (Algorithm 1), each the worst pair of shift and event for the current
noise (Algorithm 2). Cells may be grouped into unequal blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import highspy
import numpy as np

from opendp_optimal.arrays import Booleans, Floats, Integers
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.highs import add_columns, add_row, checked, quiet_highs, run_within

_DROP: Final = 1e-12  # coefficients that HiGHS would ignore with a warning
_IDLE: Final = 0.1  # slack in units of delta; eager purging is fastest
_MOST_ROUNDS: Final = 4_000
_CELL: Final = 4e-8  # work for each cell of a shift or a row, in looking for the worst event
_PURGE_EVERY: Final = 50  # rounds
_MOST_CELLS: Final = 40_000_000  # of all shifts together: some hundred megabytes
TOLERANCE: Final = 1e-7
"""A row counts as satisfied within this fraction of delta."""


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
        scale = np.zeros(int(self.column.max()) + 1)
        # The optimum decays like this until its last unit holds about delta; in these units all
        # variables are of order one.
        decay = np.maximum(np.exp(-epsilon * np.abs(middle)), max(0.1 * delta, 1e-7))
        np.maximum.at(scale, self.column, self.widths * decay)
        self.scale = scale / scale.sum()
        self.rows = np.zeros((64, self.base))  # coefficients of cuts on base cells, over delta
        self.events: list[tuple[int, Booleans]] = []  # the shift and the event of each cut
        self.rounds = 0
        self.value = -math.inf
        self.solved = self.infeasible = self.stalled = False
        self.largest = math.inf
        self.purged_at = -math.inf
        self.weights = np.zeros(blocks)
        self.multipliers = np.zeros(0)
        self._highs = quiet_highs(solver="simplex", small_matrix_value=_DROP)
        add_columns(self._highs, self._to_columns(self.costs))
        add_row(self._highs, self._to_columns(np.ones(blocks)), 1.0, low=1.0, least=_DROP)

    def _to_columns(self, per_block: Floats) -> Floats:
        return np.asarray(np.bincount(self.column, per_block) * self.scale)

    def advance(
        self,
        seconds: float = math.inf,
        limit: int = 1,
        tolerance: float = TOLERANCE,
        work: Work | None = None,
    ) -> bool:
        """One round: solve, drop idle rows, add the most violated ones; False when out of time.

        Raises when out of work.
        """
        if not self._solve(seconds, work):
            return False
        if work is not None:
            work.spend(_CELL * self.base * (len(self.shifts) + len(self.events)))
        self.rounds += 1
        if not self.infeasible:
            if self.rounds % _PURGE_EVERY == 0:
                self._purge()
            before = len(self.events)
            self._separate(limit, tolerance)
            # Where the rows just added were all there already, rounding lets no progress happen.
            new, old = self.rows[before : len(self.events)], self.rows[:before]
            again = [bool((old == row).all(axis=1).any()) for row in new]
            self.stalled = not self.solved and bool(before) and all(again)
        return True

    def _solve(self, seconds: float, work: Work | None) -> bool:
        highs = self._highs
        limit = highs.getRunTime() + max(seconds, 0.0)  # HiGHS counts all its runs together
        checked(highs.setOptionValue("time_limit", limit), "set time_limit")
        answer = run_within(highs, work)
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

    def excess(self, weights: Floats) -> Floats:
        """Return, for each candidate shift (row) and base cell, how much the cell would add."""
        density = (weights / self.widths)[self.block_of]
        padded = np.concatenate([np.zeros(self.cells), density, np.zeros(self.cells)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.base)
        excess: Floats = density - self.growth * windows[self.cells - self.shifts]
        excess[:, ~self.inside] = 0.0
        return np.maximum(excess, 0.0, out=excess)

    def _separate(self, limit: int, tolerance: float) -> None:
        """Add up to ``limit`` of the most violated rows, or note that there is none."""
        excess = self.excess(self.weights)
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
        back = np.pad(inside, self.cells)[self.cells + shift :][: self.base]
        row = (inside - self.growth * back) / self.delta
        if len(self.events) == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[len(self.events)] = row
        self.events.append((shift, event))
        coefficients = self._to_columns(np.add.reduceat(row, self.starts) / self.widths)
        add_row(self._highs, coefficients, 1.0, least=_DROP)

    def _purge(self) -> None:
        """Drop idle rows, which halves the time; the authors' own programme does so too.

        Only when the value has risen since the last time, so that rows cannot come and go for ever.
        """
        if self.value <= self.purged_at:
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
        dropped = set(idle.tolist())
        self.events = [event for n, event in enumerate(self.events) if n not in dropped]
        self.multipliers = np.delete(self.multipliers, idle)


def _worst_shifts(edges: Integers, cells: int, *, one_sided: bool) -> Integers:
    """Return the shifts at which the worst excess can be attained: it is affine in between."""
    ends = np.zeros(int(edges[-1] - edges[0]) + 1, dtype=bool)
    ends[edges - edges[0]] = True
    apart = [m for m in range(1, cells) if m < len(ends) and (ends[m:] & ends[:-m]).any()]
    shifts: Integers = np.array([*apart, cells])
    return shifts if one_sided else np.concatenate([-shifts[::-1], shifts])


def solve_lattice(program: LatticeProgram, *, work: Work | None = None) -> LatticeSolution:
    """The method on a lattice programme, whose answer is rounded and certified like any other.

    One row for the worst pair of shift and event at a time, as in the paper; idle rows are dropped.

    :param program: what to solve; order and tail rows are no part of the method, nor is the atom
    :param work: what may be done, no limit if None
    """
    if program.cells * (2 * program.radius + 1) > _MOST_CELLS:
        raise SolverError(f"{program.cells} shifts of {2 * program.radius + 1} cells are too many")
    inner = program.radius - program.pad
    edges = np.arange(-inner, inner + 2)
    method = Programme(
        *(program.epsilon, program.delta, program.cells, edges, program.pad),
        lambda low, high: program.cost,
        program.folded,
    )
    while not (method.solved or method.stalled):
        method.advance(work=work)
        if method.infeasible or method.rounds > _MOST_ROUNDS:
            raise SolverError(f"no private noise was found in {method.rounds} rounds")
    rows = {m: r for r, m in enumerate(program.shifts.tolist())}
    budget = np.zeros(len(rows))
    slack = np.zeros((len(rows), 2 * inner + 1))
    for (shift, event), multiplier in zip(method.events, method.multipliers, strict=False):
        price = float(multiplier) / program.delta
        budget[rows[shift]] += price
        slack[rows[shift]] += price * event[method.inside]
    return LatticeSolution(
        weights=method.weights,
        atom=0.0,
        shifts=program.shifts,
        budget_price=budget,
        slack_price=slack,
        primal=method.value,
        dual=method.value,
        status="optimal" if method.solved else "stalled",
    )

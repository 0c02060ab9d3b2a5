"""Cutting planes on the lattice programme: rows for events, added as they are violated.

The same relaxation as in :mod:`opendp_optimal.solvers.partition_cuts`, one row

    atom + sum over i in A of (p_i - e^epsilon p_(i-m)) <= delta

for each pair of a shift m and an event A that was the worst for some earlier answer, but on the
lattice of the other solvers, so that its answer is rounded and certified like theirs. The price of
a row is a price of its shift's budget and of every term of its event.
"""

from __future__ import annotations

import highspy
import numpy as np

from opendp_optimal.arrays import Floats, Indices
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution
from opendp_optimal.model.work import Work
from opendp_optimal.solvers.highs import (
    SMALLEST,
    add_columns,
    checked,
    optimum,
    quiet_highs,
    weight_scale,
)

_ROUNDS = 400
_TOLERANCE = 1e-6
_TERM = 5e-8
"""Work for each term, in looking for the worst events."""


def solve_events(program: LatticeProgram, *, work: Work | None = None) -> LatticeSolution:
    """Solve by adding, after each solve, the worst event of every violated shift.

    :param program: what to solve; order and tail rows are not part of this method
    :param work: what may be done, no limit if None
    """
    n, delta = program.points, program.delta
    growth = float(np.exp(program.epsilon))
    pairs = program.pairs(outward_only=False)
    unit = weight_scale(program, 0.1 * delta)
    atoms = 0 if program.atom_cost is None else 1
    highs = _start(program, unit, atoms)
    cuts: list[tuple[int, Indices]] = []
    for rounds in range(1, _ROUNDS + 1):
        values, row_prices, value = optimum(highs, work)
        if work is not None:
            work.spend(_TERM * len(pairs.row))
        p, atom = values[:n] * unit, float(values[n]) if atoms else 0.0
        padded = np.append(p, 0.0)
        terms = padded[pairs.first] - growth * padded[pairs.second]
        use = np.bincount(pairs.row, np.maximum(terms, 0.0), len(program.shifts)) + atom
        violated = np.flatnonzero(use > delta * (1 + _TOLERANCE))
        if len(violated) == 0:
            prices = np.maximum(0.0, -row_prices[1:]) / delta
            return _solution(program, cuts, prices, p, atom, value, rounds)
        for r in violated.tolist():
            event = (pairs.row == r) & (terms > 0)
            row = np.bincount(pairs.first[event], minlength=n + 1).astype(float)
            row -= growth * np.bincount(pairs.second[event], minlength=n + 1)
            coefficients = np.concatenate([row[:n] * unit, np.ones(atoms)]) / delta
            index = np.flatnonzero(np.abs(coefficients) > SMALLEST).astype(np.int32)
            checked(
                highs.addRow(-highspy.kHighsInf, 1.0, len(index), index, coefficients[index]),
                "add a row",
            )
            cuts.append((r, pairs.place[event] - program.pad))
    raise SolverError(f"events were still violated after {_ROUNDS} rounds")


def _start(program: LatticeProgram, unit: Floats, atoms: int) -> highspy.Highs:
    """The programme with its mass row alone."""
    highs = quiet_highs()
    add_columns(highs, np.concatenate([program.variable_cost * unit, program.columns.cost]))
    mass = np.concatenate([program.multiplicity * unit, np.ones(atoms)])
    index = np.flatnonzero(mass > SMALLEST).astype(np.int32)
    checked(highs.addRow(1.0, 1.0, len(index), index, mass[index]), "add the mass row")
    return highs


def _solution(
    program: LatticeProgram,
    cuts: list[tuple[int, Indices]],
    prices: Floats,
    p: Floats,
    atom: float,
    value: float,
    rounds: int,
) -> LatticeSolution:
    inner = program.radius - program.pad
    budget = np.zeros(len(program.shifts))
    slack = np.zeros((len(program.shifts), 2 * inner + 1))
    for (r, places), price in zip(cuts, prices, strict=True):
        budget[r] += price
        slack[r, places] += price
    return LatticeSolution(
        weights=program.unfold(p),
        atom=atom,
        shifts=program.shifts,
        budget_price=budget,
        slack_price=slack,
        primal=value,
        dual=value,
        iterations=rounds,
    )

"""What the solvers on HiGHS share: a quiet instance, checked answers, and a scale for weights."""

from __future__ import annotations

import highspy
import numpy as np
from scipy import sparse

from opendp_optimal.arrays import Floats
from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram
from opendp_optimal.model.work import Work, simplex_iterations, simplex_seconds

TOLERANCE = 1e-9
SMALLEST = 1e-9
"""Coefficients that HiGHS would leave out with a warning; proofs do not rest on them."""


def checked(status: highspy.HighsStatus, what: str) -> None:
    """Raise unless HiGHS did what it was asked; a warning means that it ignored a part."""
    if status != highspy.HighsStatus.kOk:
        raise SolverError(f"HiGHS answered {status.name} when asked to {what}")


def quiet_highs(**options: str | float) -> highspy.Highs:
    """A silent instance on one thread with tight tolerances.

    :param options: more of HiGHS's own, by name
    """
    highs = highspy.Highs()
    for option, value in {
        "output_flag": False,
        "threads": 1,
        "primal_feasibility_tolerance": TOLERANCE,
        "dual_feasibility_tolerance": TOLERANCE,
        **options,
    }.items():
        checked(highs.setOptionValue(option, value), f"set {option}")
    return highs


def add_columns(highs: highspy.Highs, cost: Floats) -> None:
    """Add non-negative variables with these costs."""
    count = len(cost)
    none = np.zeros(0, np.int32)
    status = highs.addCols(
        count, cost, np.zeros(count), np.full(count, np.inf), 0, none, none, np.zeros(0)
    )
    checked(status, "add columns")


def add_rows(
    highs: highspy.Highs, matrix: sparse.csr_array, low: Floats | float, high: Floats | float
) -> None:
    """Add rows with these bounds, converted once."""
    count = matrix.shape[0]
    status = highs.addRows(
        count,
        np.full(count, low),
        np.full(count, high),
        matrix.nnz,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float64),
    )
    checked(status, "add rows")


def add_row(
    highs: highspy.Highs,
    coefficients: Floats,
    high: float,
    low: float = -highspy.kHighsInf,
    least: float = SMALLEST,
) -> None:
    """Add one row, without coefficients that are too small."""
    index = np.flatnonzero(np.abs(coefficients) > least).astype(np.int32)
    checked(highs.addRow(low, high, len(index), index, coefficients[index]), "add a row")


def run_within(highs: highspy.Highs, work: Work | None) -> highspy.HighsStatus:
    """Run HiGHS within a limit of work; raises if that is not enough.

    :param work: what the simplex method may do, no limit if None
    """
    if work is None:
        return highs.run()
    entries = int(highs.getNumRow() + highs.getNumCol() + highs.getNumNz())
    most = simplex_iterations(entries, work.left)
    limited = highs.setOptionValue("simplex_iteration_limit", max(1, most))
    checked(limited, "limit its work")
    ended = highs.run()
    work.spend(simplex_seconds(entries, highs.getInfo().simplex_iteration_count))
    if highs.getModelStatus() == highspy.HighsModelStatus.kIterationLimit or work.left <= 0:
        raise SolverError("HiGHS needs more work than a request may take")
    return ended


def optimum(highs: highspy.Highs, work: Work | None = None) -> tuple[Floats, Floats, float]:
    """Solve; variables, row prices and value. Raises unless HiGHS calls it optimal.

    :param work: what the simplex method may do, no limit if None
    """
    ended = run_within(highs, work)
    status = highs.getModelStatus()
    checked(ended, "solve")
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended with {highs.modelStatusToString(status)}")
    solution = highs.getSolution()
    value = float(highs.getInfo().objective_function_value)
    return np.asarray(solution.col_value), np.asarray(solution.row_dual), value


class LatticeModel:
    """A lattice programme with its mass row alone; columns are weights, and the atom."""

    def __init__(self, program: LatticeProgram, least: float, work: Work | None) -> None:
        """Weights are in units of their expected sizes, at least so much of the largest."""
        self.program, self.work = program, work
        self.pairs = program.pairs(outward_only=False)
        self.growth = float(np.exp(program.epsilon))
        centre = 0 if program.folded else program.radius
        distance = np.abs(np.arange(program.points) - centre)
        decay = np.maximum(np.exp(-program.epsilon * distance / program.cells), least)
        self.unit: Floats = decay / (program.multiplicity @ decay)
        self.atom = np.ones(len(program.atom_cost))
        self.highs = quiet_highs()
        cost = program.variable_cost * self.unit
        add_columns(self.highs, np.concatenate([cost, program.atom_cost]))
        add_row(self.highs, self.weighed(program.multiplicity), 1.0, low=1.0)

    def weighed(self, row: Floats) -> Floats:
        """The coefficients of a row in which the atom counts in full."""
        return np.concatenate([row * self.unit, self.atom])

    def solve(self) -> tuple[Floats, float, Floats, float]:
        """Weights, atom, row prices and value; raises unless HiGHS calls it optimal."""
        values, prices, value = optimum(self.highs, self.work)
        n = self.program.points
        return values[:n] * self.unit, float(values[n : n + len(self.atom)].sum()), prices, value

    def terms(self, p: Floats) -> Floats:
        """The terms p_first - e^epsilon p_second."""
        padded = np.append(p, 0.0)
        return np.asarray(padded[self.pairs.first] - self.growth * padded[self.pairs.second])

    def used(self, terms: Floats) -> Floats:
        """What terms use of each shift's budget."""
        rows = np.bincount(self.pairs.row, np.maximum(terms, 0.0), len(self.program.shifts))
        return np.asarray(rows, dtype=float)

    def no_prices(self) -> tuple[Floats, Floats]:
        """Prices of budgets and terms, all 0."""
        shifts, inner = len(self.program.shifts), self.program.radius - self.program.pad
        return np.zeros(shifts), np.zeros((shifts, 2 * inner + 1))

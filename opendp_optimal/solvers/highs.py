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


def add_rows(highs: highspy.Highs, matrix: sparse.csr_array, low: Floats, high: Floats) -> None:
    """Add rows with these bounds, converted once."""
    status = highs.addRows(
        matrix.shape[0],
        low,
        high,
        matrix.nnz,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float64),
    )
    checked(status, "add rows")


def size(highs: highspy.Highs) -> int:
    """Rows, columns and coefficients of a programme."""
    return int(highs.getNumRow() + highs.getNumCol() + highs.getNumNz())


def run_within(highs: highspy.Highs, work: Work | None) -> highspy.HighsStatus:
    """Run HiGHS within a limit of work; raises if that is not enough.

    :param work: what the simplex method may do, no limit if None
    """
    if work is None:
        return highs.run()
    entries = size(highs)
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


def weight_scale(program: LatticeProgram, least: float) -> Floats:
    """The expected size of each weight, so that what HiGHS sees is of order one.

    :param least: a floor, relative to the largest weight
    """
    centre = 0 if program.folded else program.radius
    distance = np.abs(np.arange(program.points) - centre)
    decay = np.maximum(np.exp(-program.epsilon * distance / program.cells), least)
    return np.asarray(decay / (program.multiplicity @ decay))

"""What the fields of a bounded table have to do with each other, apart from the two proofs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from opendp_optimal.errors import CertificateError

if TYPE_CHECKING:
    from opendp_optimal.table.bounded import BoundedTable


def check_fields(table: BoundedTable) -> None:
    """Raise unless every field is of its kind and they belong together."""
    try:
        replace(table.problem)  # checks its arguments
    except ValueError as error:
        raise CertificateError(f"the problem is none: {error}") from None
    counts = (table.bins, table.cells, table.dual_bins, table.dual_cells, *table.levels)
    if any(type(n) is not int or n < 0 for n in counts):
        raise CertificateError("numbers of bins and cells are no whole numbers")
    problem, dual = table.problem, table.dual
    equal = not problem.integer and problem.edges is None
    if table.noise is not None:
        used = (table.bins, table.cells, table.weights.size)
        if used != (0, 0, 0):
            raise CertificateError("a table has both bins and noise that is alike for all")
    elif equal and not (1 <= table.cells <= table.bins):
        raise CertificateError("the sensitivity has more cells than the range, or none")
    elif problem.edges is not None and table.cells != 0:
        raise CertificateError("unequal bins have no number of cells")
    elif problem.integer and table.cells != math.floor(problem.reach):
        raise CertificateError("an integer table has other cells than the integers")
    if problem.integer:
        if table.dual_cells != math.floor(problem.reach):
            raise CertificateError("an integer table has other cells than the integers")
    elif not 1 <= table.dual_cells <= table.dual_bins:
        raise CertificateError("the sensitivity has more cells than the range, or none")
    tried = {table.dual_bins} | ({table.bins} if equal else set())
    if table.levels and (
        list(table.levels) != sorted(set(table.levels)) or not tried <= set(table.levels)
    ):
        raise CertificateError("levels are not the numbers of bins that were tried")
    arrays = (dual.pairs, dual.budget, dual.caps)
    if any(a.dtype != np.int64 or a.ndim != 1 for a in arrays) or dual.slack.ndim != 2:
        raise CertificateError("prices are no lists of integers")
    if problem.delta == 0 and dual.budget.any():
        raise CertificateError("there is a price of delta where delta is 0")

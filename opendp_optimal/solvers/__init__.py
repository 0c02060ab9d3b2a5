"""Solvers: a lattice programme in, floats out. The only place that imports highspy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from opendp_optimal.errors import SolverError
from opendp_optimal.model.noise import LatticeProgram, LatticeSolution

_LEAST_COST, _MOST_COST = 1e-6, 1e15
_SMALL = 20_000
"""Up to so many terms the simplex method is a good second."""


def run(program: LatticeProgram, *, method: str, outward_only: bool, gap: float) -> LatticeSolution:
    """Solve a lattice programme, with costs of any size.

    :param program: what to solve
    :param method: see :func:`run_scaled`
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    :param gap: the relative gap that is wanted in the end
    """
    largest = float(np.abs(program.cost).max())
    if _LEAST_COST <= largest <= _MOST_COST or largest == 0:
        return run_scaled(program, method=method, outward_only=outward_only, gap=gap)
    unit = 2.0 ** math.frexp(largest)[1]
    atom = None if program.atom_cost is None else program.atom_cost / unit
    scaled = replace(program, cost=program.cost / unit, atom_cost=atom)
    found = run_scaled(scaled, method=method, outward_only=outward_only, gap=gap)
    return replace(
        found,
        budget_price=found.budget_price * unit,
        slack_price=found.slack_price * unit,
        order_price=found.order_price * unit,
        tail_price=found.tail_price * unit,
        primal=found.primal * unit,
        dual=found.dual * unit,
    )


def run_scaled(
    program: LatticeProgram, *, method: str, outward_only: bool, gap: float
) -> LatticeSolution:
    """Solve a lattice programme whose costs are of a size that suits solvers.

    :param method: "interior", "highs", "cutting-planes", or "auto": the interior-point method,
        and HiGHS where that finds no start
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    :param gap: the relative gap that is wanted in the end
    """
    if method == "highs":
        from opendp_optimal.solvers.noise_highs import solve_highs

        return solve_highs(program)
    if method == "cutting-planes":
        from opendp_optimal.solvers.noise_cuts import solve_events

        return solve_events(program)
    from opendp_optimal.solvers.noise_interior import solve_interior

    solution: LatticeSolution | None = None
    try:
        solution = solve_interior(program, outward_only=outward_only, tolerance=min(5e-3, gap / 20))
        if solution.status == "optimal" or method == "interior":
            return solution
    except SolverError:
        if method == "interior":
            raise
    if solution is None and len(program.shifts) * program.points <= _SMALL:
        from opendp_optimal.solvers.noise_highs import solve_highs

        return solve_highs(program)
    if solution is None:
        raise SolverError("the interior-point method found no start on this support")
    return solution

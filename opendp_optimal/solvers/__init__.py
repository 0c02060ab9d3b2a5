"""Solvers: a lattice programme in, floats out. The only place that imports highspy."""

from __future__ import annotations

from opendp_optimal.errors import SolverError
from opendp_optimal.model.lattice import LatticeProgram, LatticeSolution

_SMALL = 20_000
"""Up to so many terms the simplex method is a good second."""


def run(program: LatticeProgram, *, method: str, outward_only: bool, gap: float) -> LatticeSolution:
    """Solve a lattice programme.

    :param method: "interior", "highs", "cutting-planes", or "auto": the interior-point method,
        and HiGHS where that finds no start
    :param outward_only: leave out terms that cannot bind for noise that falls outwards
    :param gap: the relative gap that is wanted in the end
    """
    if method == "highs":
        from opendp_optimal.solvers.highs import solve_highs

        return solve_highs(program)
    if method == "cutting-planes":
        from opendp_optimal.solvers.events import solve_events

        return solve_events(program)
    from opendp_optimal.solvers.interior import solve_interior

    solution: LatticeSolution | None = None
    try:
        solution = solve_interior(program, outward_only=outward_only, tolerance=min(5e-3, gap / 20))
        if solution.status == "optimal" or method == "interior":
            return solution
    except SolverError:
        if method == "interior":
            raise
    if solution is None and len(program.shifts) * program.points <= _SMALL:
        from opendp_optimal.solvers.highs import solve_highs

        return solve_highs(program)
    if solution is None:
        raise SolverError("the interior-point method found no start on this support")
    return solution

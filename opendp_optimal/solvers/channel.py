"""Solvers for the channel programme: structured methods (with delta, on a line), or HiGHS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opendp_optimal.errors import SolverError
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution, on_a_line

METHODS = ("auto", "interior", "highs")
_PENALTIES = (1e2, 1e4)
"""What raising the caps costs, in units of the largest cost: first, and where caps are raised."""
_RAISED = 1e-6
_SMALL = 400
"""Weights up to which HiGHS, which finds vertices, is as fast on a line."""
_CLOSE, _NEAR = 1e-9, 1e-6
"""The gap at which the method on a line stops, and the one with which it is content."""

Progress = Callable[[str], None]


def run(
    program: ChannelProgram,
    *,
    method: str = "auto",
    tolerance: float = 1e-5,
    progress: Progress | None = None,
) -> ChannelSolution:
    """Solve a channel programme.

    :param program: what to solve
    :param method: "interior" (delta > 0, or inputs on a line), "highs", or "auto": the first,
        and HiGHS where it fails
    :param tolerance: relative duality gap at which the interior-point method stops
    :param progress: called with a line of text at every step
    """
    # Rows add up to one, so that taking a constant from a row's costs changes nothing else.
    least = program.cost.min(axis=1, keepdims=True)
    lifted = replace(program, cost=program.cost - least)
    solution = _run(lifted, method, tolerance, _PENALTIES[0], progress)
    if solution.excess > _RAISED * max(program.cap, 1e-300):
        solution = _run(lifted, method, tolerance, _PENALTIES[1], progress)
    base = float(least.sum())
    return replace(solution, primal=solution.primal + base, dual=solution.dual + base)


def _run(
    program: ChannelProgram,
    method: str,
    tolerance: float,
    penalty: float,
    progress: Progress | None,
) -> ChannelSolution:
    if method != "highs" and program.delta > 0:
        from opendp_optimal.solvers.channel_interior import solve_interior

        solution = solve_interior(program, tolerance=tolerance, penalty=penalty, progress=progress)
        if solution.status == "optimal" or method == "interior":
            return solution
        # A breakdown near the optimum still leaves a feasible channel and a bound.
        if solution.primal - solution.dual < 1e-2 * abs(solution.primal):
            return solution
    elif method != "highs" and on_a_line(program):
        if method == "interior" or program.cost.size >= _SMALL:
            from opendp_optimal.solvers.channel_line import solve_line

            solution = solve_line(program, tolerance=_CLOSE, progress=progress)
            apart = abs(solution.primal - solution.dual)
            if method == "interior" or apart <= _NEAR * abs(solution.primal):
                return solution
    elif method == "interior":
        raise SolverError("the interior-point method needs a positive delta, or inputs on a line")
    from opendp_optimal.solvers.channel_highs import solve_highs

    return solve_highs(program, penalty=penalty, progress=progress)

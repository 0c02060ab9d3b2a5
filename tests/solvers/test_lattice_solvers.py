"""Three solvers of one programme: feasibility, complementarity and agreement."""

import numpy as np
import pytest

from opendp_optimal.errors import SolverError
from opendp_optimal.losses.base import loss_of
from opendp_optimal.model.noise import program_above, program_below
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.solvers import run_noise
from opendp_optimal.solvers.noise_cuts import solve_events
from opendp_optimal.solvers.noise_highs import solve_highs
from opendp_optimal.solvers.noise_interior import solve_interior
from opendp_optimal.solvers.partition_cuts import solve_lattice

CASES = [
    {"epsilon": 1.0, "delta": 0.2},
    {"epsilon": 1.0, "delta": 1e-4},
    {"epsilon": 0.2, "delta": 0.05},
    {"epsilon": 0.05, "delta": 0.5},
    {"epsilon": 3.0, "delta": 0.3},
    {"epsilon": 1.0, "delta": 0.1, "loss": loss_of("l2")},
    {"epsilon": 1.0, "delta": 0.1, "loss": loss_of("pinball:0.8")},
    {"epsilon": 1.0, "delta": 0.1, "integer_sensitivity": 4},
]
RESTRICTED = [
    {"epsilon": 1.0, "delta": 0.1, "monotone": True},
    {"epsilon": 3.0, "delta": 0.3, "monotone": True},
    {"epsilon": 1.0, "delta": 0.1, "support": 3.2},
    {"epsilon": 1.0, "delta": 0.1, "impossible": 0.05},
]


def programs(asked, cells=4):
    problem = NoiseProblem(**asked)
    cells = problem.integer_sensitivity or cells
    return [program_above(problem, cells), program_below(problem, cells)]


def check(program, solution, slack):
    """Primal and dual feasibility, no gap, complementary slackness: all from scratch."""
    growth = np.exp(program.epsilon)
    p = solution.weights
    assert p.min() >= -slack
    assert p.sum() + solution.atom == pytest.approx(1.0, abs=slack)
    inner = program.radius - program.pad
    gain = np.zeros_like(p)
    scale = 0.5 if program.folded else 1.0
    for m, budget, row in zip(
        solution.shifts, solution.budget_price, solution.slack_price, strict=True
    ):
        assert np.all(row >= 0)
        assert np.all(row <= budget + 1e-9)
        use = 0.0
        for j, price in enumerate(row):
            i = j + program.pad
            other = p[i - m] if 0 <= i - m < len(p) else 0.0
            term = p[i] - growth * other
            use += max(0.0, term)
            # A term above 0 has the full price, a term below has none.
            assert min(abs(term), budget - price if term > 0 else price) <= 20 * slack
            gain[i] += scale * price
            if 0 <= i - m < len(p):
                gain[i - m] -= scale * growth * price
        assert use + solution.atom <= program.delta * (1 + 1e-3) + slack
        assert min(budget, program.delta - use - solution.atom) <= 20 * slack
        assert inner * 2 + 1 == len(row)
    if program.folded:
        gain = gain + gain[::-1]
    level = float((program.cost + gain).min())
    if len(program.atom_cost):
        level = min(level, float(program.atom_cost[0]) + float(solution.budget_price.sum()))
    bound = level - program.delta * float(solution.budget_price.sum())
    assert bound == pytest.approx(solution.primal, rel=1e-3, abs=slack)


@pytest.mark.parametrize("asked", CASES, ids=str)
@pytest.mark.parametrize("solver", [solve_interior, solve_highs, solve_events, solve_lattice])
def test_optimality_conditions(asked, solver):
    for program in programs(asked):
        if solver is solve_lattice and len(program.atom_cost):
            continue  # the paper's method has no atom
        options = {"outward_only": False, "tolerance": 1e-7} if solver is solve_interior else {}
        solution = solver(program, **options)
        assert solution.status == "optimal"
        check(program, solution, 1e-4)


@pytest.mark.parametrize("asked", CASES + RESTRICTED, ids=str)
def test_solvers_agree(asked):
    for program in programs(asked):
        interior = solve_interior(program, outward_only=False, tolerance=1e-6)
        highs = solve_highs(program)
        assert interior.primal == pytest.approx(highs.primal, rel=1e-4)
        assert interior.dual <= highs.primal * (1 + 1e-6)


def test_lazy_shifts_reach_the_same_answer():
    program = programs({"epsilon": 1.0, "delta": 0.2}, cells=40)[0]
    assert solve_highs(program).primal == pytest.approx(solve_interior(program).primal, rel=1e-4)


def test_refusals_are_errors():
    monotone = programs(RESTRICTED[0])[0]
    with pytest.raises(SolverError, match="monotone"):
        run_noise(monotone, method="cutting-planes", outward_only=True, gap=1e-3)
    tight = programs({"epsilon": 1.0, "delta": 0.1, "support": 2.0})[0]
    with pytest.raises(SolverError):
        solve_interior(tight)
    with pytest.raises(SolverError, match="HiGHS ended with"):
        solve_highs(tight)
    with pytest.raises(SolverError):
        run_noise(tight, method="auto", outward_only=True, gap=1e-3)


def test_an_early_stop_still_gives_a_feasible_pair():
    program = programs({"epsilon": 1.0, "delta": 0.2}, cells=8)[0]
    rough = solve_interior(program, tolerance=0.5)
    assert rough.dual <= solve_interior(program).primal <= rough.primal

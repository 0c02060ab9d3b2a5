"""The two solvers of channel programmes against a plain formulation, and each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from opendp_optimal.errors import SolverError
from opendp_optimal.model import bounded as model
from opendp_optimal.model.channel import ChannelProgram
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.problem.channel import ChannelProblem
from opendp_optimal.solvers import run_channel


def random_problem(seed, inputs=4, outputs=5, delta=0.1, epsilon=1.0, revealing=()):
    """A problem without symmetry."""
    draw = np.random.default_rng(seed)
    cost = draw.integers(0, 100, (inputs, outputs)).tolist()
    apart = np.argwhere(~np.eye(inputs, dtype=bool))
    pairs = apart[np.sort(draw.permutation(len(apart))[: max(2, len(apart) * 2 // 3)])]
    exponents = np.full(len(pairs), epsilon) * (draw.integers(1, 3, len(pairs)) if not delta else 1)
    return ChannelProblem(
        cost, 100 * inputs, pairs, exponents, exponents, delta, revealing=revealing
    )


def plainly(problem):
    """The optimum by the definition: one inequality for every pair and event."""
    inputs, outputs = problem.inputs, problem.outputs
    cost = np.array(problem.cost, float).ravel() / problem.denominator
    rows = []
    for (x, z), epsilon in zip(problem.pairs.tolist(), problem.high, strict=True):
        for event in range(1, 2**outputs):
            row = np.zeros((inputs, outputs))
            for y in range(outputs):
                if event >> y & 1:
                    row[x, y] = 1.0
                    row[z, y] = 0.0 if y in problem.revealing else -np.exp(epsilon)
            rows.append(row.ravel())
    mass = np.kron(np.eye(inputs), np.ones(outputs))
    found = linprog(cost, np.array(rows), np.full(len(rows), problem.delta), mass, np.ones(inputs))
    assert found.status == 0
    return found.fun


def check(problem, solution, tolerance):
    """Primal and dual feasible, prices within bounds, complementary."""
    program = ChannelProgram.of(problem)
    p = solution.weights
    assert p.min() >= -1e-9
    assert p.sum(axis=1) == pytest.approx(np.ones(len(p)), abs=1e-6)
    assert program.shortfalls(p).max() <= problem.delta + 1e-6
    assert solution.slack_price.min() >= -1e-9
    assert solution.primal == pytest.approx(solution.dual, abs=tolerance)
    if problem.delta:
        assert np.all(solution.slack_price <= solution.budget_price[:, None] + 1e-9)
        unused = problem.delta - program.shortfalls(p)
        assert np.max(solution.budget_price * unused) < 10 * tolerance


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from([0.3, 0.01]), st.floats(0.1, 3.0))
def test_both_methods_find_the_optimum(seed, delta, epsilon):
    problem = random_problem(seed, delta=delta, epsilon=epsilon)
    value = plainly(problem)
    for method, tolerance in (("interior", 1e-5), ("highs", 1e-6)):
        solution = run_channel(ChannelProgram.of(problem), method=method, tolerance=1e-7)
        assert solution.primal == pytest.approx(value, abs=tolerance)
        check(problem, solution, tolerance)


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_revealing_outputs_count_in_full(seed):
    problem = random_problem(seed, revealing=(0, 4))
    value = plainly(problem)
    for method in ("interior", "highs"):
        solution = run_channel(ChannelProgram.of(problem), method=method, tolerance=1e-7)
        assert solution.primal == pytest.approx(value, abs=1e-5)


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.floats(0.05, 4.0))
def test_pure_privacy(seed, epsilon):
    problem = random_problem(seed, delta=0.0, epsilon=epsilon)
    solution = run_channel(ChannelProgram.of(problem))
    assert solution.primal == pytest.approx(plainly(problem), abs=1e-6)
    check(problem, solution, 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.2), (0.2, 0.05), (5.0, 0.25), (1.0, 1e-6)])
@pytest.mark.parametrize("cap", [None, 1.3])
@pytest.mark.parametrize("bins", [4, 5])
def test_folding_changes_nothing(epsilon, delta, cap, bins):
    asked = BoundedProblem(
        epsilon=epsilon, delta=delta, sensitivity=2.0, low=0.0, high=4.0, cap=cap
    )
    problem = model.above(asked, model.lattice_above(asked, -(-bins // 2), bins))
    assert problem.mirrored
    whole = ChannelProgram.of(problem)
    object.__setattr__(problem, "mirrored", False)
    flat = ChannelProgram.of(problem)
    assert whole.folded
    assert not flat.folded
    values = [
        run_channel(p, method=m, tolerance=1e-7)
        for p in (whole, flat)
        for m in ("interior", "highs")
    ]
    assert [v.primal for v in values] == pytest.approx([values[0].primal] * 4, abs=1e-4)
    assert [v.excess for v in values] == pytest.approx([values[0].excess] * 4, abs=1e-4)
    unfolded = whole.unfold(values[0].weights)
    assert flat.shortfalls(unfolded).max() <= delta + 1e-9


def test_the_interior_point_method_needs_a_delta():
    with pytest.raises(SolverError, match="positive delta"):
        run_channel(ChannelProgram.of(random_problem(0, delta=0.0)), method="interior")


def line_problem(seed, inputs, outputs, epsilon):
    """Pure privacy along a line, with steps of different lengths, some of them one way only."""
    draw = np.random.default_rng(seed)
    cost = draw.integers(0, 100, (inputs, outputs)).tolist()
    pairs = [(x, x + 1) for x in range(inputs - 1)]
    pairs += [(x + 1, x) for x in range(inputs - 1) if draw.random() < 0.9]
    exponents = epsilon * draw.choice([0.25, 1.0, 3.0], len(pairs))
    return ChannelProblem(cost, 100, np.array(pairs), exponents, exponents, 0.0)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(2, 12), st.floats(1e-3, 8.0))
def test_the_method_on_a_line_finds_the_optimum(seed, inputs, outputs, epsilon):
    problem = line_problem(seed, inputs, outputs, epsilon)
    program = ChannelProgram.of(problem, fold=False)
    found = run_channel(program, method="interior")
    best = run_channel(program, method="highs")
    scale = max(1e-3, best.primal)
    check(problem, found, 1e-5 * scale)
    assert found.primal == pytest.approx(best.primal, abs=1e-5 * scale)


def test_long_lines_are_not_left_to_highs():
    said = []
    problem = line_problem(3, 25, 25, 0.5)
    found = run_channel(ChannelProgram.of(problem, fold=False), progress=said.append)
    assert said[0].startswith("step 0: gap")
    assert found.primal - found.dual < 1e-7 * found.primal


def test_progress_is_reported():
    said = []
    run_channel(ChannelProgram.of(random_problem(1)), progress=said.append)
    run_channel(ChannelProgram.of(random_problem(1, delta=0.0)), progress=said.append)
    assert any("gap" in line for line in said)
    assert any("constraints added" in line for line in said)

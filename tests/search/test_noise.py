"""Laws of the whole engine, its options, its errors, and the ways it can be asked."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import GapWarning, SolverError, known, solve
from opendp_optimal.losses.base import loss_of
from opendp_optimal.model.noise import program_above
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.search.options import METHODS
from opendp_optimal.solvers import SOLVERS, run_noise
from tests.strategies import deltas, epsilons, examples

GAP = 0.01


@pytest.mark.slow
@given(epsilons, deltas, st.floats(1.05, 2.0))
@settings(max_examples=examples(20))
def test_loss_does_not_rise_with_epsilon_or_delta(epsilon, delta, factor):
    base = solve(epsilon, delta, gap=GAP, cache=False)
    more = solve(epsilon * factor, delta, gap=GAP, cache=False)
    looser = solve(epsilon, min(0.9, delta * factor), gap=GAP, cache=False)
    assert more.lower <= base.upper
    assert looser.lower <= base.upper


@pytest.mark.slow
@given(epsilons, deltas, st.sampled_from(["l1", "l2"]))
@settings(max_examples=examples(25))
def test_no_closed_form_is_better(epsilon, delta, loss):
    table = solve(epsilon, delta, loss=loss, gap=1e-3, cache=False)
    for name in known.REAL_NAMES:
        closed = known.expected_loss(name, epsilon, delta, loss)
        assert table.lower <= closed * (1 + 1e-9)
        assert table.upper <= closed * (1 + 1e-3)


@given(st.floats(0.3, 2.0), st.floats(-4.0, -0.7).map(lambda x: 10.0**x), st.floats(0.6, 0.9))
@settings(max_examples=examples(8))
def test_a_mirrored_loss_has_a_mirrored_table(epsilon, delta, level):
    one = solve(epsilon, delta, loss=f"pinball:{level!r}", cells=4, gap=10.0, cache=False)
    other = solve(epsilon, delta, loss=f"pinball:{1 - level!r}", cells=4, gap=10.0, cache=False)
    assert other.lower <= one.upper
    assert one.lower <= other.upper
    assert one.upper == pytest.approx(other.upper, rel=1e-3)
    p, q = one.weights / one.total, other.weights[::-1] / other.total
    assert float(np.abs(p - q).sum()) < 0.05


def test_symmetric_losses_have_symmetric_tables():
    for loss in ("l1", "l2", lambda x: abs(x) ** 1.5):
        table = solve(1.0, 0.05, loss=loss, gap=0.05, cache=False)
        assert np.array_equal(table.weights, table.weights[::-1])


@pytest.mark.parametrize("method", ["interior", "highs", "cutting-planes", "partition-cuts"])
@pytest.mark.parametrize("asked", [(1.0, 0.1), (0.5, 0.05), (2.0, 0.3)])
def test_every_method_gives_a_certified_table(method, asked):
    table = solve(*asked, method=method, cells=4, gap=0.2, cache=False)
    other = solve(*asked, gap=GAP, cache=False)
    table.verify()
    assert table.lower <= other.upper
    assert other.lower <= table.upper


def test_options_only_make_it_worse_and_are_kept():
    free = solve(1.0, 0.1, gap=GAP, cache=False)
    for option in ({"monotone": True}, {"support": 2.6}, {"impossible": 0.02}, {"symmetric": True}):
        table = solve(1.0, 0.1, gap=GAP, cache=False, **option)
        table.verify()
        assert table.upper >= free.lower
        assert table.gap <= GAP
    narrow = solve(1.0, 0.1, support=2.6, gap=GAP, cache=False)
    assert np.abs(narrow.draw(10_000, steps=11)).max() <= 2.6 * narrow.cells * 11


def test_forced_symmetry_of_an_uneven_loss_costs():
    free = solve(1.0, 0.1, loss="pinball:0.9", gap=GAP, cache=False)
    forced = solve(1.0, 0.1, loss="pinball:0.9", symmetric=True, gap=GAP, cache=False)
    assert forced.lower > free.upper
    assert np.array_equal(forced.weights, forced.weights[::-1])


def test_a_bound_on_impossible_outputs_limits_the_atom():
    free = solve(5.0, 0.5, gap=0.05, cache=False)
    tied = solve(5.0, 0.5, impossible=0.1, gap=0.5, cache=False)
    assert free.atom / free.total > 0.3
    assert tied.atom / tied.total <= 0.1
    tied.verify()


def test_a_users_loss_agrees_with_the_built_in():
    built_in = solve(1.0, 0.05, gap=GAP, cache=False)
    own = solve(1.0, 0.05, loss=lambda x: abs(x), gap=GAP, cache=False)
    assert own.lower <= built_in.upper
    assert built_in.lower <= own.upper
    assert own.gap <= GAP


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.001, 1e-12), (0.001, 0.99), (20.0, 1e-12), (20.0, 0.9), (8.0, 1e-3), (0.02, 1e-4)],
)
def test_the_corners_give_verified_tables(epsilon, delta):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        table = solve(epsilon, delta, gap=0.05, cells=24 if epsilon > 5 else None, cache=False)
    table.verify()
    assert table.delta_at(epsilon) <= delta


def test_an_unreached_gap_is_said():
    with pytest.warns(GapWarning, match="certified gap"):
        table = solve(1.0, 0.1, cells=2, gap=1e-6, cache=False)
    assert table.gap > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"gap": 0}, r"gap \(0\)"),
        ({"gap": -1.0}, r"gap \(-1.0\)"),
        ({"gap": math.nan}, r"gap \(nan\)"),
        ({"gap": "small"}, r"gap \('small'\)"),
        ({"method": "magic"}, r"method \('magic'\)"),
        ({"cells": 0}, r"cells \(0\)"),
        ({"cells": 2.5}, r"cells \(2.5\)"),
        ({"loss": "l7"}, r"loss \('l7'\)"),
        ({"loss": math.tanh}, "loss must"),
        ({"epsilon": -1}, r"epsilon \(-1"),
        ({"delta": 2}, r"delta \(2"),
        ({"support": 1.0}, r"support \(1.0\)"),
        ({"support": 2.0}, r"support \(2.0\)"),
        ({"delta": 0.0, "loss": "pinball:0.9"}, "delta = 0"),
    ],
)
def test_bad_arguments(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        solve(**{"epsilon": 1.0, "delta": 0.1, "cache": False, **change})


def test_an_interrupted_solve_leaves_the_next_one_alone(monkeypatch):
    from opendp_optimal.solvers import interior
    from opendp_optimal.table import store as cache

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(interior, "follow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            solve(0.83, 0.04)
    assert not cache.cache_directory().exists() or not list(cache.cache_directory().iterdir())
    assert solve(0.83, 0.04).gap <= 1e-3


def test_a_solver_that_lies_makes_no_table(monkeypatch):
    """Weights that break privacy and prices that break their bounds do not get through."""
    from dataclasses import replace

    from opendp_optimal import solvers

    honest = solvers.run_noise

    def liar(program, **options):
        solution = honest(program, **options)
        peak = np.zeros_like(solution.weights)
        peak[len(peak) // 2] = 1.0
        return replace(
            solution,
            weights=0.5 * solution.weights + 0.5 * peak,
            slack_price=solution.slack_price * 3.0,
        )

    fair = solve(1.0, 0.01, gap=0.01, cache=False)
    monkeypatch.setattr(solvers, "run_noise", liar)
    with pytest.warns(GapWarning):
        table = solve(1.0, 0.01, cells=4, cache=False)
    # Nothing of it was used: this is the closed form, with the prices of one shift.
    table.verify()
    assert table.lower <= fair.lower
    assert table.dual.shifts.tolist() == [1]
    with pytest.warns(GapWarning):
        table = solve(1.0, 0.01, cells=4, support=6.0, cache=False)
    table.verify()


def test_a_solver_that_inflates_prices_only_weakens_the_bound(monkeypatch):
    from dataclasses import replace

    from opendp_optimal import solvers

    honest = solvers.run_noise

    def boaster(program, **options):
        solution = honest(program, **options)
        return replace(solution, budget_price=solution.budget_price * 2, dual=solution.dual * 9)

    fair = solve(1.0, 0.1, cells=6, gap=10.0, cache=False)
    monkeypatch.setattr(solvers, "run_noise", boaster)
    boasted = solve(1.0, 0.1, cells=6, gap=100.0, cache=False)
    assert boasted.lower <= fair.upper


def test_every_method_of_the_table_can_be_asked_for():
    for kind, methods in METHODS.items():
        assert set(methods) == {"auto", *(s.method for s in SOLVERS if s.kind == kind)}


def test_methods_that_do_not_serve_say_when_they_do():
    falling = program_above(
        NoiseProblem(epsilon=1.0, delta=0.1, loss=loss_of("l1"), monotone=True), 4
    )
    for method in ("cutting-planes", "partition-cuts"):
        with pytest.raises(SolverError, match=f"'{method}' serves only"):
            run_noise(falling, method=method, outward_only=True, gap=0.1)

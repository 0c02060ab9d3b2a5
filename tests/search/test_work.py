"""Requests whose work is bounded: they are answered, with a warning where the gap is not met."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from opendp_optimal import GapWarning, NoiseTable, solve, solve_bounded
from opendp_optimal.model.noise import program_below
from opendp_optimal.model.work import Work
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.search.sizing import MOST_SECONDS, most_cells, seconds
from opendp_optimal.search.stairs import staircase, truncation_radius
from opendp_optimal.solvers import run_noise


def answered(**asked: Any) -> NoiseTable:
    """The table of a request, proved again; warnings other than of its gap are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", GapWarning)
        table = solve(**asked, cache=False)
    table.verify()
    return table


@pytest.fixture
def programmes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of terms of all programmes that are solved."""
    sizes: list[int] = []

    def counted(program: Any, **options: Any) -> Any:
        sizes.append(len(program.shifts) * program.points)
        return run_noise(program, **options)

    monkeypatch.setattr("opendp_optimal.solvers.run_noise", counted)
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.9, 0.01])
def test_monotone_noise_for_an_uneven_loss_jumps_at_zero(
    level: float, programmes: list[int]
) -> None:
    table = answered(epsilon=1.0, delta=1e-6, loss=f"pinball:{level}", monotone=True)
    assert table.gap < 1e-3
    assert sum(programmes) < 50_000  # without cells that end at 0: more than a million


def test_gaps_of_a_few_millionths_are_solved_for() -> None:
    program = program_below(NoiseProblem(epsilon=1.0, delta=0.1), 40)
    found = run_noise(program, method="interior", outward_only=True, gap=1e-6)
    assert found.status == "optimal"
    assert found.primal - found.dual < 1e-7 * found.primal


def test_long_integer_noise_has_a_closed_form(programmes: list[int]) -> None:
    table = answered(epsilon=0.0182, delta=2.1e-8, integer_sensitivity=46, gap=0.044)
    assert table.gap < 0.001
    assert programmes == []


def test_closed_forms_keep_to_what_is_impossible() -> None:
    table = answered(
        epsilon=0.01, delta=1e-6, integer_sensitivity=60, impossible=1e-8, gap=0.05, loss="l2"
    )
    assert table.gap < 0.05


def test_integers_too_many_for_a_table_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^integer_sensitivity \(4096\) must be smaller"):
        solve(1e-3, 1e-12, integer_sensitivity=4096, cache=False)


@pytest.mark.slow
def test_pure_noise_of_the_largest_sensitivity() -> None:
    table = answered(epsilon=1e-3, delta=0.0, integer_sensitivity=400)
    assert 0 < table.lower <= table.upper


@pytest.mark.parametrize("method", ["interior", "highs", "cutting-planes", "partition-cuts"])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_every_method_ends_with_its_work(
    delta: float, method: str, programmes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[float] = []

    def little(program: Any, **options: Any) -> Any:
        work = Work(0.002)
        try:
            return run_noise(program, **options | {"work": work})
        finally:
            spent.append(0.002 - work.left)

    monkeypatch.setattr("opendp_optimal.solvers.run_noise", little)
    table = answered(epsilon=0.5, delta=delta, method=method, gap=0.01)
    assert 0 < max(spent) < 0.02
    assert 0 <= table.lower <= table.upper


@pytest.mark.parametrize("option", [{"monotone": True}, {"impossible": 1e-9}])
def test_methods_that_do_not_serve_leave_a_closed_form(option: dict[str, Any]) -> None:
    table = answered(epsilon=0.5, delta=1e-8, method="cutting-planes", gap=0.5, **option)
    assert 0 < table.lower <= table.upper


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("epsilon", [0.001, 0.1, 1.0, 6.0, 12.0])
def test_the_finest_lattice_stays_within_bounds(epsilon: float, delta: float) -> None:
    problem = NoiseProblem(epsilon=epsilon, delta=delta)
    cells = most_cells(problem)
    assert cells == 1 or seconds(problem, cells)[0] <= MOST_SECONDS


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3])
@pytest.mark.parametrize(("epsilon", "cells"), [(0.1, 3), (1.0, 7), (5.0, 20)])
def test_truncation_is_at_the_first_step_that_may(epsilon: float, delta: float, cells: int) -> None:
    top = cells // 2
    radius = truncation_radius(epsilon, delta, cells, top)

    def end(r: int) -> float:
        return float(staircase(epsilon, cells, r, top)[:cells].sum())

    assert end(radius) <= delta
    assert (radius - top) % cells == 0
    assert radius == top + cells or end(radius - cells) > delta * (1 - 1e-9)


def test_threads_keep_their_own_warnings() -> None:
    solve(1.0, 0.1, cells=3, gap=0.5, cache=False)  # what is imported on the way has filters too
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        tables = list(
            pool.map(lambda n: solve(1.0, 0.1, cells=n, gap=0.5, cache=False), [3, 4, 5, 6] * 3)
        )
    assert list(warnings.filters) == before
    assert all(
        np.array_equal(a.weights, b.weights) for a, b in zip(tables, tables[4:], strict=False)
    )


@pytest.mark.slow
def test_order_prices_of_any_size_are_integers() -> None:
    table = answered(epsilon=21.5, delta=3.8e-6, loss=lambda x: abs(x), monotone=True, gap=0.5)
    assert table.lower <= table.upper


@pytest.mark.slow
def test_nothing_shared_and_nothing_to_mix_in() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", GapWarning)
        table = solve_bounded(
            0.028, 1 - 2.0**-53, range=(-8.0, 0.0), sensitivity=1.0, bins=8, cache=False
        )
    table.verify()

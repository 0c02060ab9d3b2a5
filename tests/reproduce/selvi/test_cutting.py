"""The reference method: known optima, honest bounds, honest endings."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from docs.reproduce.selvi.cutting import (
    CuttingResult,
    Progress,
    cutting_planes,
    graded_partition,
    refine,
)
from opendp_optimal.known import expected_loss

FloatArray = NDArray[np.float64]

# Optimal l1 loss, bracketed by the lattice prototype (l2 for the last).
BRACKETS = [
    (1.0, 0.2, "l1", 8, 3, (0.558508, 0.558909)),
    (0.2, 0.05, "l1", 2, 8, (2.353094, 2.355590)),
    (1.0, 1e-6, "l1", 2, 15, (0.958961, 0.960004)),
    (5.0, 0.25, "l1", 8, 2, (0.061867, 0.062535)),
    (1.0, 0.2, "l2", 8, 3, (0.512173, 0.512345)),
]


def shortfall(result: CuttingResult, epsilon: float) -> float:
    """Return the worst excess at every lattice shift, by a separate, plain computation."""
    widths = np.diff(result.partition)
    density = np.repeat(result.weights / widths, widths)
    worst = 0.0
    for m in range(1, result.cells + 1):
        left = np.append(density, np.zeros(m))
        right = np.append(np.zeros(m), density)
        for one, other in ((left, right), (right, left)):
            worst = max(worst, float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum()))
    return worst


@pytest.mark.parametrize(("epsilon", "delta", "loss", "cells", "radius", "bracket"), BRACKETS)
def test_bounds_contain_the_optimum(
    epsilon: float,
    delta: float,
    loss: str,
    cells: int,
    radius: int,
    bracket: tuple[float, float],
) -> None:
    found = cutting_planes(epsilon, delta, loss, cells=cells, radius=radius, time_limit=20)
    assert found.status == "optimal"
    assert found.lower <= bracket[1]
    assert found.upper >= bracket[0]
    assert found.lower == pytest.approx(found.dual_value, rel=1e-7)
    assert shortfall(found, epsilon) <= delta * (1 + 1e-9)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (found.weights >= 0.0).all()
    if loss == "l1":  # with 0 on an edge the two programmes differ by half a cell
        assert found.upper - found.lower == pytest.approx(0.5 / cells, rel=0.2)


def test_same_as_the_full_linear_programme() -> None:
    """With 2 cells a sensitivity and a tiny support, every event can be listed."""
    epsilon, delta, cells, half = 1.0, 0.25, 2, 3
    n = 2 * half
    rows = []
    for m in (-2, -1, 1, 2):
        for event in itertools.product((0.0, 1.0), repeat=n):
            moved = [event[i + m] if 0 <= i + m < n else 0.0 for i in range(n)]
            rows.append(np.array(event) - math.exp(epsilon) * np.array(moved))
    costs = [(abs(i + 0.5)) / cells for i in range(-half, half)]
    full = linprog(costs, np.array(rows), np.full(len(rows), delta), [np.ones(n)], [1.0])
    found = cutting_planes(epsilon, delta, cells=cells, radius=half / cells)
    assert found.upper == pytest.approx(full.fun, rel=1e-7)


def test_many_cuts_a_round_reach_the_same_bounds() -> None:
    one = cutting_planes(1.0, 0.2, cells=8, radius=3)
    many = cutting_planes(1.0, 0.2, cells=8, radius=3, cuts_per_round=8)
    assert many.upper == pytest.approx(one.upper, rel=1e-6)
    assert many.lower == pytest.approx(one.lower, rel=1e-6)
    assert many.iterations < one.iterations


def test_shifted_support_need_not_be_symmetric() -> None:
    whole = cutting_planes(1.0, 0.2, cells=4, radius=3)
    skew = cutting_planes(1.0, 0.2, cells=4, radius=3, partition=range(-12, 14))
    assert skew.upper == pytest.approx(whole.upper, rel=1e-4)
    assert skew.lower == pytest.approx(whole.lower, rel=1e-4)


def test_graded_partition_keeps_most_of_the_accuracy() -> None:
    partition = graded_partition(8, 3, fine=1, ratio=2)
    assert len(partition) == 33
    found = cutting_planes(1.0, 0.2, cells=8, radius=3, partition=partition)
    whole = cutting_planes(1.0, 0.2, cells=8, radius=3)
    assert whole.upper <= found.upper <= 1.02 * whole.upper
    assert found.lower <= whole.upper
    assert shortfall(found, 1.0) <= 0.2 * (1 + 1e-9)


class Plateau:
    """max(0, |x| - 1): continuous, unbounded, and free of charge near 0."""

    symmetric = True

    def average(self, low: FloatArray, high: FloatArray) -> FloatArray:
        def integral(x: FloatArray) -> FloatArray:
            return np.sign(x) * np.maximum(np.abs(x) - 1.0, 0.0) ** 2 / 2.0

        return (integral(high) - integral(low)) / (high - low)

    def infimum(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return np.maximum(np.maximum(low, -high) - 1.0, 0.0)


def test_dual_value_of_a_nonuniform_partition_is_not_a_bound() -> None:
    """A counterexample to the lower half of Corollary 1: hence ``lower`` is computed apart."""
    options = {"cells": 8, "radius": 4, "cuts_per_round": 4}
    fine = cutting_planes(1.0, 0.2, Plateau(), **options)
    one_block = [*range(-32, -7), *range(8, 33)]
    coarse = cutting_planes(1.0, 0.2, Plateau(), partition=one_block, **options)
    assert coarse.dual_value > 1.2 * fine.upper
    assert coarse.lower <= fine.upper <= coarse.upper


class Tilted:
    """Pinball loss at level 0.8."""

    symmetric = False

    def average(self, low: FloatArray, high: FloatArray) -> FloatArray:
        def integral(x: FloatArray) -> FloatArray:
            return np.where(x > 0, 0.4, -0.1) * x * np.abs(x) * np.sign(x)

        return (integral(high) - integral(low)) / (high - low)

    def infimum(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return np.maximum(np.maximum(0.8 * low, -0.2 * high), 0.0)


def test_asymmetric_loss() -> None:
    """Pinball loss puts the noise off centre, which a symmetric optimum would not do."""
    found = cutting_planes(1.0, 0.2, Tilted(), cells=4, radius=3, cuts_per_round=4)
    assert found.status == "optimal"
    middles = (np.array(found.partition)[:-1] + 0.5) / 4
    assert found.lower < found.upper < 0.5 * expected_loss("truncated_laplace", 1.0, 0.2)
    assert float(found.weights @ middles) < -0.05


def test_time_limit_leaves_valid_bounds() -> None:
    seen: list[Progress] = []
    found = cutting_planes(
        1.0, 0.2, cells=64, radius=3, time_limit=0.5, cuts_per_round=4, progress=seen.append
    )
    assert found.status == "time_limit"
    assert found.seconds < 3.0
    assert found.lower <= 0.558909
    assert found.upper >= 0.558508
    assert math.isnan(found.dual_value)
    assert [p.upper for p in seen] == sorted((p.upper for p in seen), reverse=True)
    assert [p.lower for p in seen] == sorted(p.lower for p in seen)


def test_too_small_support_is_infeasible() -> None:
    found = cutting_planes(0.2, 0.05, cells=2, radius=1)
    assert found.status == "infeasible"
    assert found.upper == found.gap == math.inf
    assert len(found.weights) == 0
    assert 0.0 <= found.lower <= 2.355590


def test_refine_meets_the_gap() -> None:
    found = refine(1.0, 0.2, gap=0.1, time_limit=20)
    assert found.status == "gap"
    assert found.gap <= 0.1
    assert found.lower <= 0.558909
    assert found.upper >= 0.558508
    assert shortfall(found, 1.0) <= 0.2 * (1 + 1e-9)


def test_refine_says_when_it_does_not() -> None:
    late = refine(1.0, 0.2, gap=1e-4, time_limit=0.4)
    assert late.status == "time_limit"
    assert late.gap > 1e-4
    coarse = refine(1.0, 0.2, gap=1e-4, time_limit=20, max_cells=4)
    assert coarse.status == "max_cells"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "epsilon (0.0)"),
        ({"epsilon": math.nan}, "epsilon (nan)"),
        ({"delta": 0.0}, "delta (0.0)"),
        ({"delta": 1.0}, "delta (1.0)"),
        ({"loss": "l3"}, "loss ('l3')"),
        ({"cells": 0}, "cells (0)"),
        ({"radius": -1}, "radius (-1)"),
        ({"partition": [0, 0, 1]}, "partition ([0, 0, 1])"),
        ({"gap": -0.1}, "gap (-0.1)"),
        ({"time_limit": 0}, "time_limit (0)"),
        ({"cuts_per_round": 0}, "cuts_per_round (0)"),
        ({"tolerance": 0.0}, "tolerance (0.0)"),
    ],
)
def test_bad_arguments(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"epsilon": 1.0, "delta": 0.2, "cells": 2, "radius": 2}
    with pytest.raises(ValueError, match="must be") as caught:
        cutting_planes(**(arguments | change))  # type: ignore[arg-type]
    assert words in str(caught.value)

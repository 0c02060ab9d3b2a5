"""Numbers printed in papers, and facts known from theory."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from opendp_optimal import known, solve

pytestmark = pytest.mark.slow

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "seed_tables.json").read_text())


def test_example_1():
    """At (1, 0.2), squared loss, sensitivity 0.36k: a standard deviation of 257.68."""
    table = solve(1.0, 0.2, loss="l2", gap=2e-4, cache=False)
    assert table.gap <= 2e-4
    assert f"{math.sqrt(table.upper) * 360:.2f}" in ("257.68", "257.69")
    middle = math.sqrt((table.upper + table.lower) / 2) * 360
    assert abs(middle - 257.68) < 0.05
    printed = GOLDEN["example_1"]["standard_deviation"]
    assert "257.68" in str(printed)


@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize(
    ("row", "column"), [(0, 0), (0, 9), (2, 7), (4, 5), (6, 3), (7, 0), (7, 6), (8, 1), (8, 9)]
)
def test_a_tenth_of_a_per_cent_on_the_papers_grid(loss, row, column):
    epsilon, delta = GOLDEN["epsilon"][row], GOLDEN["delta"][column]
    table = solve(epsilon, delta, loss=loss, cache=False)
    assert table.gap <= 1e-3


@pytest.mark.parametrize("row", range(10))
def test_upper_bound_suboptimality_of_truncated_laplace(row):
    """Table 4: (truncated Laplace - optimum) / max(optimum, 1), the optimum known to 1 % there."""
    epsilon = GOLDEN["epsilon"][row]
    for column in (0, 4, 6):
        delta = GOLDEN["delta"][column]
        table = solve(epsilon, delta, gap=0.01, cache=False)
        optimum = (table.upper + table.lower) / 2
        other = known.expected_loss("truncated_laplace", epsilon, delta, "l1")
        ours = 100 * (other - optimum) / max(optimum, 1.0)
        printed = float(np.array(GOLDEN["tables"]["4"]["rows"])[row, column])
        assert abs(ours - printed) < 1.6


def test_monotone_noise_can_be_strictly_worse():
    """Section 4 of the seed, at (3, 0.3), with proofs on both sides."""
    free = solve(3.0, 0.3, gap=2e-3, cache=False)
    monotone = solve(3.0, 0.3, monotone=True, gap=2e-3, cache=False)
    assert monotone.lower > free.upper


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.1])
@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_integer_noise_is_the_discrete_canonical_noise(epsilon, delta, loss):
    """Known to be stochastically smallest at sensitivity 1, so optimal for both losses."""
    table = solve(epsilon, delta, loss=loss, integer_sensitivity=1, gap=1e-4, cache=False)
    canonical = known.Canonical(epsilon, delta)
    pmf = canonical.pmf(canonical.reach)
    radius = len(pmf) // 2
    points = np.abs(np.arange(-radius, radius + 1))
    exact = float((points ** (1 if loss == "l1" else 2) * pmf).sum())
    assert table.lower <= exact * (1 + 1e-9)
    assert exact <= table.upper * (1 + 1e-9)
    assert table.gap <= 1e-4


@pytest.mark.parametrize(
    ("epsilon", "delta", "optimum", "digits"),
    [(1, 0.2, 0.5587, 4), (1, 0.1, 0.6908, 4), (5, 0.25, 0.0620, 4), (1, 1e-6, 0.9595, 4),
     (3, 1e-5, 0.2348, 4), (0.2, 0.05, 2.354, 3)],
)  # fmt: skip
def test_known_optima(epsilon, delta, optimum, digits):
    table = solve(epsilon, delta, gap=5e-4, cache=False)
    half = 0.5 * 10.0**-digits
    assert table.lower <= optimum + half
    assert table.upper >= optimum - half


@pytest.mark.parametrize("asked", [(1.0, 1e-3, 1), (0.5, 0.05, 3), (2.0, 1e-6, 2)])
def test_an_independent_accountant_agrees(asked):
    """dp-accounting's privacy loss distribution of the same weights, built from their ratios."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld

    epsilon, delta, sensitivity = asked
    table = solve(epsilon, delta, integer_sensitivity=sensitivity, gap=0.01, cache=False)
    chance = table.weights / table.total
    n = len(chance)
    for at in (0.0, epsilon / 2, epsilon, 1.5 * epsilon):
        worst = 0.0
        for m in range(1, sensitivity + 1):
            log_first = {i: math.log(p) for i, p in enumerate(chance) if p > 0}
            log_second = {i + m: math.log(p) for i, p in enumerate(chance) if p > 0}
            distribution = pld.from_two_probability_mass_functions(
                log_first, log_second, pessimistic_estimate=True,
                value_discretization_interval=1e-5,
            )  # fmt: skip
            worst = max(worst, distribution.get_delta_for_epsilon(at))
        ours = table.delta_at(at)
        assert ours <= worst + 1e-12
        assert worst <= ours + 2e-5 * (1 + n * 1e-9)

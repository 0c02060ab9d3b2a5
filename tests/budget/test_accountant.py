"""Events added up: never below the truth, and close to it where the truth is known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import solve
from opendp_optimal.budget import gaussian_delta
from opendp_optimal.budget.accountant import total_delta, total_epsilon
from opendp_optimal.budget.events import Approximate, Concentrated, Event, Gaussian, Pure, of_table
from opendp_optimal.budget.theorems import composed_delta, concentrated_delta, gaussian_delta_above


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 2.0), st.integers(1, 40), st.floats(0.01, 8.0))
def test_gaussian_releases_are_one_of_less_noise(rho: float, count: int, epsilon: float) -> None:
    truth = gaussian_delta(epsilon, count * rho, distance=1.0)
    found = total_delta([Gaussian(rho)] * count, epsilon)
    assert truth <= found <= truth * (1 + 1e-5) + 1e-12
    back = total_epsilon([Gaussian(rho)] * count, found)
    assert back <= epsilon * (1 + 1e-9)


def test_gaussian_noise_beside_other_noise() -> None:
    table = of_table(solve(0.5, 1e-6))
    both = total_epsilon([Gaussian(0.02), table], 1e-5)
    assert both >= total_epsilon([Gaussian(0.02)], 1e-5)
    assert both <= total_epsilon([Gaussian(0.02)], 5e-6) + total_epsilon([table], 5e-6)
    more = total_epsilon([Gaussian(0.02), table, Concentrated(0.01, 1e-9)], 1e-5)
    assert more > both


def test_concentrated_releases_add_up() -> None:
    assert total_delta([Concentrated(0.125)] * 4, 4.0) == concentrated_delta(0.5, 4.0)
    gaussian = gaussian_delta_above(1.0, 4.0)
    assert gaussian <= total_delta([Concentrated(0.5)], 4.0) <= 20 * gaussian
    assert total_delta([Concentrated(0.0)], 1.0) == 0.0
    assert total_epsilon([Concentrated(math.inf)], 1e-6) == math.inf
    assert total_epsilon([Concentrated(0.1, 1e-3)], 1e-4) == math.inf


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 1.0), st.integers(2, 30), st.floats(0.1, 4.0))
def test_pure_releases_as_the_theorem_says(each: float, count: int, epsilon: float) -> None:
    truth = composed_delta(epsilon, each, 0.0, count)
    found = total_delta([Pure(each)] * count, epsilon)
    assert truth * (1 - 1e-7) <= found <= truth * 1.1 + 1e-3


def test_no_event_costs_nothing_and_a_stranger_has_no_price() -> None:
    assert total_epsilon([], 0.0) == total_delta([], 0.0) == 0.0
    with pytest.raises(ValueError, match="cannot price"):
        total_delta([Event()], 1.0)
    for wrong in ((-1.0, 0.0), (1.0, 2.0), (math.nan, 0.0)):
        with pytest.raises(ValueError, match="states the price"):
            Approximate(*wrong)

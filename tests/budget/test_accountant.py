"""Events added up: never below the truth, and close to it where the truth is known."""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import solve
from opendp_optimal.budget import accountant, gaussian_delta
from opendp_optimal.budget.accountant import total_delta, total_epsilon
from opendp_optimal.budget.events import (
    Approximate,
    Concentrated,
    Event,
    Gaussian,
    Profile,
    of_table,
)
from opendp_optimal.budget.theorems import composed_delta, concentrated_delta, gaussian_delta_above
from opendp_optimal.exact.numbers import float_up


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
    found = total_delta([Approximate(each)] * count, epsilon)
    assert truth * (1 - 1e-7) <= found <= truth * 1.1 + 1e-3


def test_no_event_costs_nothing_and_a_stranger_has_no_price() -> None:
    assert total_epsilon([], 0.0) == total_delta([], 0.0) == 0.0
    with pytest.raises(ValueError, match="cannot price"):
        total_delta([Event()], 1.0)
    for wrong in ((-1.0, 0.0), (1.0, 2.0), (math.nan, 0.0)):
        with pytest.raises(ValueError, match="states the price"):
            Approximate(*wrong)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 0.1)), min_size=1, max_size=4))
def test_never_worse_than_adding_up(pairs: list[tuple[float, float]]) -> None:
    events = [Approximate(*pair) for pair in pairs] * 2
    epsilon = float_up(sum((2 * Fraction(e) for e, _ in pairs), Fraction(0)))
    delta = float_up(sum((2 * Fraction(d) for _, d in pairs), Fraction(0)))
    assert total_delta(events, epsilon) <= delta
    assert total_epsilon(events, delta) <= epsilon


def test_without_epsilon_only_deltas_add_up() -> None:
    both = total_delta([Approximate(0.0, 0.125), Approximate(1.0)], 1.01)
    assert 0.125 <= both <= 0.126
    assert 1 - 0.875**2 <= total_delta([Approximate(0.0, 0.125)] * 2, 0.01) <= 0.25


def test_below_zero_a_profile_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def curve(epsilon: float) -> float:
        return math.exp(-epsilon) / 4

    points: list[Any] = []
    monkeypatch.setattr(accountant, "from_profile", lambda *given: points.append(given))
    accountant._pessimistic(Profile(1.0, 1.0, "mine", None, curve))
    step, places, deltas = points[0]
    with localcontext(prec=60):
        for place, delta in zip(places, deltas, strict=True):
            if place < 0:
                epsilon = -place * step
                exact = 1 - (-Decimal(epsilon)).exp() * (1 - Decimal(curve(epsilon)))
                assert exact <= Decimal(delta) <= exact * (1 + Decimal("3e-15"))


def test_lower_hulls_by_the_definition() -> None:
    rng = random.Random(4)
    for count in (1, 2, 3, 5, 8) * 12:
        x = sorted(rng.sample(range(1, 40), count))
        y = [rng.randrange(-20, 2) for _ in x]
        found = accountant._lower_hull(np.array(x, float), np.array(y, float))
        points = [(0, 1), *zip(x, y, strict=True)]
        expected = []
        for i in range(1, len(points)):
            between = itertools.product(points[:i], points[i + 1 :])
            px, py = points[i]
            above = any(
                (py - ly) * (rx - lx) >= (ry - ly) * (px - lx) for (lx, ly), (rx, ry) in between
            )
            if not above:
                expected.append(i - 1)
        assert found == expected

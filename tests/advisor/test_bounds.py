"""What the advisor prints as a bound is one; what it could not compute, it says."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import advise
from opendp_optimal.advisor import additive as noise
from opendp_optimal.advisor.request import Bound, Remark, Request
from opendp_optimal.budget import shares as accounting
from opendp_optimal.cli.terminal import figure_down
from opendp_optimal.losses.base import loss_of
from opendp_optimal.search import noise as engine


@given(st.floats(1e-300, 1e300), st.integers(1, 12))
def test_printed_bounds_are_nowhere_above(value, digits):
    shown = figure_down(value, digits)
    assert Decimal(shown) <= Decimal(value)
    assert Decimal(shown) >= Decimal(value) * (1 - Decimal(10) ** (1 - digits))


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-6, 1e6), st.sampled_from(["l1", "l2", "pinball:0.9"]))
def test_bounds_are_scaled_downwards(sensitivity, loss):
    request = Request(epsilon=1.0, delta=1e-6, sensitivity=sensitivity, loss=loss_of(loss))
    table = engine.solve(1.0, 1e-6, loss=loss) if loss != "pinball:0.9" else engine.solve(1.0, 1e-6)
    (bound,) = noise._bound(table, request)
    power = 2 if loss == "l2" else 1
    exact = Fraction(table.lower) * Fraction(sensitivity) ** power
    assert exact * (1 - Fraction(1, 10**15)) <= Fraction(bound.value) <= exact


def test_what_cannot_be_solved_is_said(monkeypatch):
    solve = engine.solve

    def fails(epsilon, delta, **options):
        if delta > 0:
            raise ValueError("negative shift count")
        return solve(epsilon, delta, **options)

    noise._solved_once.cache_clear()
    monkeypatch.setattr(engine, "solve", fails)
    advice = advise(1.0, 1e-6)
    assert "optimal table" not in [c.name for c in advice.ranking]
    assert [r.text for r in advice.remarks] == [
        "optimal table was not computed: negative shift count"
    ]
    assert not [b for b in advice.bounds if b.additive]
    noise._solved_once.cache_clear()


def test_a_share_that_is_too_small_is_said():
    found = list(noise.additive_candidates(Request(epsilon=0.01, delta=0.0, releases=900)))
    (remark,) = [item for item in found if isinstance(item, Remark)]
    assert remark.text.startswith("staircase was not computed: epsilon")


def test_a_million_releases():
    found = list(noise.additive_candidates(Request(epsilon=1.0, delta=1e-6, releases=1_000_000)))
    losses = {item.name: item.loss for item in found if hasattr(item, "loss")}
    assert min(losses, key=losses.get) == "gaussian"
    assert {"laplace", "staircase", "canonical"} < set(losses)
    assert [item.text for item in found if isinstance(item, Remark)]
    assert [item for item in found if isinstance(item, Bound)]
    # The sum of all terms, without leaving any out.
    each = accounting.epsilon_share(1.0, 1e-6, 1_000_000)
    assert full(each, 1_000_000, 1.0) <= 1e-6 <= full(each * 1.001, 1_000_000, 1.0)


def full(each, count, epsilon):
    from scipy.special import gammaln

    at = np.arange(math.floor((count - epsilon / each) / 2) + 1.0)
    choose = gammaln(count + 1) - gammaln(at + 1) - gammaln(count - at + 1)
    first = choose + (count - at) * each - count * np.logaddexp(0.0, each)
    second = choose + epsilon + at * each - count * np.logaddexp(0.0, each)
    return float((np.exp(first) - np.exp(np.minimum(first, second))).sum())


@pytest.mark.parametrize("name", ["l1", "l2", "mine"])
def test_a_loss_is_known_by_its_function(name):
    def loss(x):
        return 100 * abs(x)

    loss.__name__ = name
    plain, own = advise(1.0, 1e-3), advise(1.0, 1e-3, loss=loss)
    for candidate in plain.ranking:
        if candidate.name != "optimal table":
            assert own.candidate(candidate.name).loss == pytest.approx(
                100 * candidate.loss, rel=1e-2
            )
    assert own.candidate("optimal table").loss == pytest.approx(
        100 * plain.candidate("optimal table").loss, rel=0.05
    )

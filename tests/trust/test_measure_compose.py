"""Composition with a scripted accountant: what is asked of it, and what is made of its answers."""

from __future__ import annotations

import importlib
import math
from decimal import Decimal, localcontext
from types import SimpleNamespace

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import compose, make_optimal_noise

dp.enable_features("contrib")
module = importlib.import_module("opendp_optimal.measure.compose")  # not the function


@pytest.fixture
def says(monkeypatch):
    """Answers of the accountant, to be set; releases are priced as they stand."""
    out = SimpleNamespace(epsilon=0.0, delta=0.0)
    total = SimpleNamespace(
        epsilon_at=lambda delta: out.epsilon,
        delta_at=lambda epsilon: min(1.0, out.delta),
    )
    monkeypatch.setattr(module, "_price", lambda release, d_in: release)
    monkeypatch.setattr(module, "_together", lambda counted: total)
    return out


def releases(*pairs):
    return [module._Priced(*pair) for pair in pairs]


def test_targets_at_their_ends():
    assert compose([], delta=0.0) == (0.0, 0.0)
    assert compose([], delta=1.0) == (0.0, 1.0)
    assert compose([], epsilon=0.0) == (0.0, 0.0)
    for asked in (
        {"delta": -1e-9},
        {"delta": 1.0 + 1e-9},
        {"delta": 1.5},
        {"delta": math.nan},
        {"epsilon": -1e-9},
        {"epsilon": -math.inf},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 0.5},
        {},
    ):
        with pytest.raises(ValueError, match=r"delta|epsilon"):
            compose([], **asked)


def test_never_worse_than_adding_up(says):
    two = releases((0.5, 0.125), (0.25, 0.125))
    says.delta = 0.375
    assert compose(two, epsilon=0.75) == (0.75, 0.25)  # exactly the sum of the epsilons
    assert compose(two, epsilon=1.0) == (1.0, 0.25)
    assert compose(two, epsilon=0.7) == (0.7, 0.375)  # adding up says nothing of less
    says.delta = 0.125
    assert compose(two, epsilon=0.75) == (0.75, 0.125)
    assert compose(two, epsilon=0.7) == (0.7, 0.125)
    says.delta = 1.0 + 1e-9
    assert compose(two, epsilon=0.1) == (0.1, 1.0)
    says.epsilon = 2.0
    assert compose(two, delta=0.25) == (0.75, 0.25)
    assert compose(two, delta=0.2) == (2.0, 0.2)
    says.epsilon = 0.5
    assert compose(two, delta=0.25) == (0.5, 0.25)
    assert compose(two, delta=0.2) == (0.5, 0.2)


def test_the_same_release_counts_each_time(says):
    (one,) = releases((0.5, 0.125))
    says.delta, says.epsilon = 0.9, 9.0
    assert compose([one] * 3, epsilon=1.5) == (1.5, 0.375)
    assert compose([one] * 3, delta=0.375) == (1.5, 0.375)


def test_a_chain_needs_the_distance_of_its_data():
    domain = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    count = domain >> dp.t.then_count()
    noise = make_optimal_noise(*count.output_space, 1, (1.0, 0.5), gap=10.0)
    with pytest.raises(ValueError, match="d_in must be given: a measurement is chained"):
        compose([count >> noise], delta=0.5)


@pytest.mark.parametrize(
    ("epsilon", "step"), [(1.0, 2**-8), (0.5, 2**-9), (0.3, 2**-10), (300.0, 1.0)]
)
def test_the_grid_is_as_fine_as_epsilon_asks(epsilon, step):
    one = module._Priced(epsilon, 0.1, curve=lambda x: 0.1)
    assert module._pessimistic(one).step == step
    assert module._losses(module._Priced(epsilon, 0.1), 1).step == step


@pytest.fixture
def joined(monkeypatch):
    """The points of a profile that are joined by chords: places in steps, and deltas."""
    monkeypatch.setattr(module, "from_profile", lambda step, places, deltas: (places, deltas))
    return lambda epsilon, work=0: module._pessimistic(
        module._Priced(epsilon, 1.0, curve=curve, work=work)
    )


def curve(epsilon):
    """A profile that is strictly convex in exp(epsilon), so that every point of it counts."""
    return math.exp(-epsilon) / 4


@pytest.mark.parametrize(
    ("epsilon", "work", "last", "count", "furthest"),
    [
        (1.0, 0, 256, 256, 8.0),
        (2.0, 0, 256, 256, 6.0),
        (1.5, 0, 384, 256, 4.0 + 4.0 / 1.5),
        (0.05, 0, 410, 256, 44.0),
        (1.0, 1 << 15, 256, 64, 8.0),
        (1.0, 1 << 20, 256, 32, 8.0),
    ],
)
def test_where_a_profile_is_looked_at(joined, epsilon, work, last, count, furthest):
    places, deltas = joined(epsilon, work)
    step = 2.0 ** math.floor(math.log2(epsilon / 256))
    near = {round(k * last / count) for k in range(count + 1)}
    far = {math.ceil(last * place) for place in np.geomspace(1.0, furthest, count // 4)}
    positive = sorted(near | far)
    assert places == [*(-place for place in positive[:0:-1]), *positive]
    at = dict(zip(places, deltas, strict=True))
    assert all(at[place] == curve(place * step) for place in positive)


def test_below_zero_a_profile_is_rounded_up(joined):
    places, deltas = joined(1.0)
    with localcontext(prec=60):
        for place, delta in zip(places, deltas, strict=True):
            if place < 0:
                epsilon = -place / 256
                exact = 1 - (-Decimal(epsilon)).exp() * (1 - Decimal(curve(epsilon)))
                assert exact <= Decimal(delta) <= exact * (1 + Decimal("3e-15"))

"""Selecting quantiles: what a record moves, what a selection costs, that trees stay in order."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.sample import quantiles as own

SHARES = st.integers(1, (1 << 32) - 1)


def ranks(bins, edges):
    found = np.searchsorted(np.sort(bins), edges)
    return found[:-1], found[1:]


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 9), SHARES, st.booleans())
def test_a_record_moves_every_score_by_no_more_than_stated(bins, other, share, full):
    edges = np.arange(11)
    short = [
        own.scores(*ranks(np.array(rows, np.int64), edges), share, full=full)
        for rows in (bins, [*bins, other])
    ]
    assert np.abs(short[1] - short[0]).max() <= own.sensitivity(share)


def chances(short, rate):
    """The exact law of the selection, up to the noise that is left out: below 1e-12."""
    reach = math.ceil(30 / rate) + int(np.max(short))
    values = np.arange(-reach, reach + 1)
    each, below = [], []
    for s in short:
        noise = values + s
        each.append(
            np.where(noise >= 0, -np.expm1(-rate) * np.exp(-rate * np.maximum(noise, 0)), 0)
        )
        below.append(np.cumsum(each[-1]))
    out = []
    for i in range(len(short)):
        law = each[i].copy()
        for j in range(len(short)):  # the first of several equal ones wins
            if j != i:
                law *= below[j] if j > i else below[j] - each[j]
        out.append(law.sum())
    return np.array(out)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("share", [1 << 31, 1 << 29, (1 << 32) // 3])
def test_a_selection_costs_its_epsilon_and_hardly_less(share, full):
    epsilon = Fraction(2)
    rate = float(epsilon / (2 * own.sensitivity(share)))
    edges, worst = np.arange(6), 0.0
    rng = np.random.default_rng(0)
    for _ in range(30):
        bins = rng.integers(0, 5, rng.integers(0, 6))
        laws = [
            chances(own.scores(*ranks(rows, edges), share, full=full), rate)
            for rows in (bins, np.append(bins, rng.integers(0, 5)))
        ]
        worst = max(worst, float(np.abs(np.log(laws[0] / laws[1])).max()))
    assert worst <= float(epsilon) * (1 + 1e-9)
    assert worst > float(epsilon) / 4


def test_draws_of_a_selection_follow_its_law():
    from tests.tails import surprising

    short, share = np.array([40, 0, 10, 64]), 1 << 31
    law = chances(short, 1 / (2 * own.sensitivity(share)))
    draws = [own.noisy_best(short, share, Fraction(1)) for _ in range(2000)]
    for at, chance in enumerate(law):
        assert not surprising(draws.count(at), len(draws), float(chance))
    assert surprising(draws.count(1), len(draws), float(law[0]))


@given(
    st.sets(st.integers(1, 99), min_size=1, max_size=20),
    st.lists(st.integers(0, own.MOST_BINS - 1), max_size=50),
)
@settings(max_examples=15, deadline=None)
def test_quantiles_are_in_order_and_all_is_spent_once(percents, bins):
    wanted = [p / 100 for p in sorted(percents)]
    steps = own.steps_of(wanted)
    assert own.depth(steps) == math.ceil(math.log2(len(wanted) + 1))
    for path in paths(steps, Fraction(1)):
        assert sum(path) <= 1
    found = own.release_bins(
        np.array(bins, np.int64), own.MOST_BINS, steps, len(wanted), Fraction(1), full=False
    )
    assert np.all(np.diff(found) >= 0)
    assert np.all((found >= 0) & (found < own.MOST_BINS))


def paths(step, left):
    """Everything that one record can pay, on each way through the tree."""
    spent = own.shares(step, left)
    ways = [way for way in (step.below, step.above) if way is not None]
    if not ways:
        yield spent
    for way in ways:
        for rest in paths(way, left - sum(spent)):
            yield (*spent, *rest)


@given(st.fractions(-1000, 1000), st.fractions(Fraction(1, 1000), 50))
def test_the_roundest_number_is_inside(low, width):
    found = own.roundest(low, low + width)
    assert low <= found < low + width

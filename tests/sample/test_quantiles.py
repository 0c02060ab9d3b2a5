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


CANDIDATES = np.array([1, 3, 4, 8])


def scores(values, share):
    """Of each candidate."""
    cells = np.sort(own.cells_of(np.array(values, np.int64), CANDIDATES))
    at = 2 * np.arange(len(CANDIDATES)) + 1
    ranks = (np.searchsorted(cells, edge) for edge in (at, at + 1))
    return own.scores(*ranks, len(cells), share)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 9), SHARES)
def test_a_record_moves_every_score_by_no_more_than_stated(values, other, share):
    short = [scores(rows, share) for rows in (values, [*values, other])]
    assert np.abs(short[1] - short[0]).max() <= own.sensitivity(share)


def test_a_candidate_that_has_the_wanted_rank_is_the_best():
    half = 1 << 31
    assert scores([1, 3, 3, 3, 3, 4], half).tolist() == [
        2 * own._UNIT,
        -2 * own._UNIT,
        2 * own._UNIT,
        3 * own._UNIT,
    ]
    assert scores([1, 1, 2, 2], half).tolist() == [0, 2 * own._UNIT, 2 * own._UNIT, 2 * own._UNIT]


def chances(short, step, rate):
    """The exact law of the selection, up to the noise that is left out: below 1e-12."""
    steps = np.arange(math.ceil(30 / rate))
    each = -np.expm1(-rate) * np.exp(-rate * steps)
    out = []
    for i, s in enumerate(short.tolist()):
        law = each.copy()
        for j, other in enumerate(short.tolist()):
            if j != i:  # the first of several equal ones wins
                ahead = steps * step - s + other + (j > i)
                law *= -np.expm1(-rate * np.maximum(-(-ahead // step), 0))
        out.append(law.sum())
    return np.array(out)


@pytest.mark.parametrize("share", [1 << 31, 1 << 29, (1 << 32) // 3])
def test_a_selection_costs_its_epsilon_and_hardly_less(share):
    epsilon = Fraction(2)
    rate, step = float(epsilon / own._STEPS), own.noise_step(share)
    worst = 0.0
    rng = np.random.default_rng(0)
    for _ in range(30):
        values = rng.integers(0, 10, rng.integers(0, 6)).tolist()
        both = [scores(rows, share) for rows in (values, [*values, int(rng.integers(0, 10))])]
        laws = [chances(short, step, rate) for short in both]
        worst = max(worst, float(np.abs(np.log(laws[0] / laws[1])).max()))
    assert worst <= float(epsilon) * (1 + 1e-9)
    assert worst > float(epsilon) / 4


def test_draws_of_a_selection_follow_its_law():
    from tests.tails import surprising

    short, share = np.array([40, 0, 10, 64]) * (own._UNIT // 64), 1 << 31
    law = chances(short, own.noise_step(share), 1 / own._STEPS)
    draws = [own.noisy_best(short, share, Fraction(1)) for _ in range(2000)]
    for at, chance in enumerate(law):
        assert not surprising(draws.count(at), len(draws), float(chance))
    assert surprising(draws.count(1), len(draws), float(law[0]))


@given(
    st.sets(st.integers(1, 99), min_size=1, max_size=20),
    st.lists(st.integers(0, 2000), max_size=50),
    st.sampled_from([1, 2, 1000]),
)
@settings(max_examples=15, deadline=None)
def test_quantiles_are_in_order_and_all_is_spent_once(percents, cells, candidates):
    wanted = [p / 100 for p in sorted(percents)]
    steps = own.steps_of(wanted)
    assert own.depth(steps) == math.ceil(math.log2(len(wanted) + 1))
    for path in paths(steps, Fraction(1)):
        assert sum(path) <= 1
    inside = np.minimum(np.array(cells, np.int64), 2 * candidates)
    found = own.released_candidates(
        inside, np.ones(len(inside), np.int64), candidates, steps, len(wanted), Fraction(1)
    )
    assert np.all(np.diff(found) >= 0)
    assert np.all((found >= 0) & (found < candidates))


@pytest.mark.parametrize("many", [50_000, 3 << 19])
def test_cells_are_split_by_digits_that_are_drawn_once(many):
    """Few records have sorted digits, many a histogram of them: one order, and a fair one."""
    cells, numbers = np.array([3, 8, 3, 5]), np.array([many - 7, 2, 7, 1])
    records, half = own._Records(cells, numbers), 1 << (own.ORDER_BITS - 1)
    first = 3 << own.ORDER_BITS
    places = np.arange(first - 5, first + 2 * half + 5)
    ranks = records.before(places)
    assert np.array_equal(ranks, records.before(places))
    assert np.all(np.diff(ranks) >= 0)
    assert ranks[0] == ranks[5] == 0
    assert ranks[-1] == many
    assert abs(int(ranks[5 + half]) - many / 2) < 6 * math.sqrt(many / 4)
    assert records.before(np.array([6, 8, 9]) << own.ORDER_BITS).tolist() == [
        many + 1,
        many + 1,
        many + 3,
    ]
    each = np.diff(ranks[5:-4])  # records of each of the digits: variance and mean are equal
    assert abs(each.var() / each.mean() - 1) < 0.1


def test_a_histogram_stands_for_its_records():
    steps = own.steps_of([0.25, 0.5, 0.75])
    cells, numbers = np.arange(0, 201, 2) + 1, np.full(101, 10**6)
    found = own.released_candidates(cells, numbers, 101, steps, 3, Fraction(1))
    assert found.tolist() == [25, 50, 75]


def paths(step, left):
    """Everything that one record can pay, on each way through the tree."""
    spent = own.shares(step, left)
    ways = [way for way in (step.below, step.above) if way is not None]
    if not ways:
        yield spent
    for way in ways:
        for rest in paths(way, left - sum(spent)):
            yield (*spent, *rest)


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=20, unique=True).map(sorted),
    st.sampled_from([1e-300, 1e-9, 1.0, 1e8]),
)
def test_round_numbers_are_inside(ends, unit):
    edges = np.unique(np.array(ends) * unit)
    found = own.round_numbers(edges[:-1], edges[1:])
    assert np.all((edges[:-1] <= found) & (found < edges[1:]))


def test_round_numbers_have_few_digits():
    edges = np.array([-0.3, 0.011, 0.0123, 49_997.1, 50_004.7, 99_999.9, 100_000.3])
    found = own.round_numbers(edges[:-1], edges[1:])
    assert found.tolist() == [0.0, 0.011, 10_000.0, 50_000.0, 60_000.0, 100_000.0]

"""Trees of quantiles, noise aside: every number against the definition."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.sample import integers
from opendp_optimal.sample import quantiles as own

DIGITS = 1 << 32
UNIT = 1 << 24


def listed(step):
    """All steps of a tree."""
    if step is None:
        return []
    return [*listed(step.below), step, *listed(step.above)]


@given(st.sets(st.integers(1, 999), min_size=1, max_size=20))
@settings(max_examples=20, deadline=None)
def test_each_step_takes_the_middle_of_what_is_left(wanted):
    probabilities = [w / 1000 for w in sorted(wanted)]

    def check(step, first, last, low, high, level):
        if first == last:
            assert step is None
            return
        assert step.level == level
        assert step.leaf is (last - first == 1)
        # As many on each side as can be; of two in the middle the one nearer to half.
        sides = step.at - first, last - step.at - 1
        assert abs(sides[0] - sides[1]) <= 1
        other = step.at + sides[1] - sides[0]
        half = (low + high) / 2
        here = probabilities[step.at]
        assert abs(here - half) <= abs(probabilities[other] - half)
        assert step.share == pytest.approx((here - low) / (high - low) * DIGITS, abs=0.51)
        check(step.below, first, step.at, low, here, level + 1)
        check(step.above, step.at + 1, last, here, high, level + 1)

    tree = own.steps_of(probabilities)
    check(tree, 0, len(probabilities), 0.0, 1.0, 0)
    assert own.depth(tree) == max(step.level for step in listed(tree)) + 1


def test_a_share_is_never_nothing_nor_all():
    assert own.steps_of([1e-12]).share == 1
    assert own.steps_of([1 - 1e-12]).share == DIGITS - 1


def test_what_is_left_is_shared_by_the_levels():
    tree = own.steps_of([0.1, 0.3, 0.5, 0.7, 0.9])
    select, split = own.shares(tree, Fraction(3))
    assert select + split == 1
    assert split == Fraction(0.05)
    assert own.shares(own.steps_of([0.5]), Fraction(3)) == (3, 0)
    one_sided = own.steps_of([0.4, 0.5])
    assert own.shares(one_sided, Fraction(2))[1] == Fraction(0.05)


@pytest.mark.parametrize(
    ("share", "moves"),
    [(1 << 31, 0.5), (1 << 30, 0.75), (3 << 30, 0.75), (1, 1.0), (DIGITS - 1, 1.0)],
)
def test_what_a_record_moves(share, moves):
    assert own.sensitivity(share) == moves * UNIT
    assert own.sensitivity((1 << 31) + 1) == UNIT // 2 + 1  # between two units: both roundings
    step = own.noise_step(share + 5)
    assert 128 * (step - 1) < 2 * own.sensitivity(share + 5) <= 128 * step


def test_geometric_noise_is_folded(monkeypatch):
    asked = []

    def laplace(rate, count, *, source):
        asked.append((rate, count))
        return np.array([0, 1, 5, -1, -2, -6])

    monkeypatch.setattr(integers, "laplace_integers", laplace)
    assert own.geometric(0.25, 6).tolist() == [0, 1, 5, 0, 1, 5]
    assert asked == [(0.25, 6)]


def test_a_selection_has_the_rate_of_its_epsilon(monkeypatch):
    asked = []
    noise = np.array([0, 30, 0, 9])

    def geometric(rate, count):
        asked.append((rate, count))
        return noise

    monkeypatch.setattr(own, "geometric", geometric)
    short = np.array([10, 41, 12, 20]) << 17  # steps of the noise where a record moves half a rank
    assert own.noisy_best(short, 1 << 31, Fraction(1)) == 0
    noise[1] = 32
    assert own.noisy_best(short, 1 << 30, Fraction(7, 3)) == 1
    own.noisy_best(short, 1 << 31, Fraction(1000))
    rates = [rate for rate, _ in asked]
    assert rates[0] == 1 / 128
    assert rates[1] <= Fraction(7, 3) / 128 < math.nextafter(rates[1], 1)
    assert rates[2] == 1.0
    assert [count for _, count in asked] == [4, 4, 4]


def orders(count):
    """Digits of the records of a cell."""
    return (np.arange(count) * 40_503 % 65_536).astype(np.uint16)


def quantiles(cells, step, left, found, spent, bounds):
    """The tree of quantiles without noise, by plain lists of records."""
    if step is None:
        return
    first, last, low, high = bounds
    unit = UNIT
    wanted = step.share * len(cells) // (DIGITS // unit)
    scores = []
    for i in range(first, last + 1):
        before = sum(c < min(max((2 * i + 1) << 16, low), high) for c in cells)
        until = sum(c < min(max((2 * i + 2) << 16, low), high) for c in cells)
        scores.append(max(before * unit - wanted, wanted - until * unit))
    select, split = own.shares(step, left)
    spent.append((step.share, select, tuple(scores)))
    at = first + scores.index(min(scores))
    found[step.at] = at
    if step.leaf:
        return
    ends = [min(max((2 * at + k) << 16, low), high) for k in (0, 3)]
    inside = sorted({int(ends[0] + (ends[1] - ends[0]) * k / 1024) for k in range(1025)})
    off = [abs(sum(c < place for c in cells) * unit - wanted) for place in inside]
    spent.append((step.share, split, tuple(off)))
    place = inside[off.index(min(off))]
    rest = left - select - split
    lower, upper = [c for c in cells if c < place], [c for c in cells if c >= place]
    quantiles(lower, step.below, rest, found, spent, (first, at, low, place))
    quantiles(upper, step.above, rest, found, spent, (at, last, place, high))


@given(
    st.lists(st.integers(0, 12), max_size=14),
    st.sets(st.integers(1, 99), min_size=1, max_size=6),
)
@settings(max_examples=12, deadline=None)
def test_the_tree_without_noise(cells, percents):
    tree = own.steps_of([p / 100 for p in sorted(percents)])
    numbers = [1 + c % 3 for c in cells]
    spent = []

    def best(short, share, epsilon):
        spent.append((share, epsilon, tuple(short.tolist())))
        return int(np.argmin(short))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "noisy_best", best)
        patch.setattr(own, "_orders", orders)
        found = own.released_candidates(
            np.array(cells, np.int64), np.array(numbers), 6, tree, len(percents), Fraction(2)
        )
    expected, wanted = [None] * len(percents), []
    places = []
    for cell in set(cells):
        here = sum(n for c, n in zip(cells, numbers, strict=True) if c == cell)
        places += [(cell << 16) + int(order) for order in orders(here)]
    quantiles(places, tree, Fraction(2), expected, wanted, (0, 5, 0, 13 << 16))
    assert found.tolist() == expected
    assert spent == wanted


def test_spreads_of_ranks():
    """Own noise of two geometric scales, and what a part inherits from its ends."""
    epsilon = Fraction(3, 2)
    tree = own.steps_of([0.25, 0.5, 0.75])
    select, split = own.shares(tree, epsilon)
    scale = 2 * 0.5 / float(select)
    middle = 2 * scale**2
    leaf = own.shares(tree.below, epsilon - select - split)[0]
    side = 2 * (2 * 0.5 / float(leaf)) ** 2 + 0.25 * middle
    expected = [2.1 * math.sqrt(v) for v in (side, middle, side)]
    assert own.rank_spread(tree, 3, epsilon).tolist() == pytest.approx(expected)
    uneven = own.rank_spread(own.steps_of([0.5, 0.6]), 2, epsilon)
    top = own.steps_of([0.5, 0.6])
    assert top.at == 0
    select, split = own.shares(top, epsilon)
    first = 2 * (2 * 0.5 / float(select)) ** 2
    own_share = top.above.share / DIGITS
    moved = own.sensitivity(top.above.share) / UNIT
    second = 2 * (2 * moved / float(epsilon - select - split)) ** 2 + (1 - own_share) ** 2 * first
    assert uneven.tolist() == pytest.approx([2.1 * math.sqrt(v) for v in (first, second)])
    left = own.steps_of([0.4, 0.5])
    lower = own.rank_spread(left, 2, epsilon)
    share = left.below.share / DIGITS
    moved = own.sensitivity(left.below.share) / UNIT
    second = 2 * (2 * moved / float(epsilon - select - split)) ** 2 + share**2 * first
    assert lower.tolist() == pytest.approx([2.1 * math.sqrt(v) for v in (second, first)])


def fewest(low, high):
    """The largest power of ten of which a multiple lies in a range."""
    for digit in range(40, -340, -1):
        step = Decimal(10) ** digit
        if (Decimal(low) / step).to_integral_value("ROUND_CEILING") * step < Decimal(high):
            return step
    raise AssertionError


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_with_the_fewest_digits(sign):
    rng = np.random.default_rng(4)
    for _ in range(60):
        ends = sorted(
            sign * 10 ** rng.uniform(-12, 12) * np.array([1, 1 + 10 ** rng.uniform(-5, 0)])
        )
        low, high = map(float, ends)
        found = own.round_numbers(np.array([low]), np.array([high])).item()
        assert low <= found < high
        times = Decimal(found) / fewest(low, high)
        assert float(times) == pytest.approx(round(times), rel=1e-12)


def test_round_numbers_of_any_size():
    for unit in (1e-60, 1e-300, 1e60):
        low, high = np.array([1.23, -4.56]) * unit, np.array([1.31, -4.48]) * unit
        assert own.round_numbers(low, high) / unit == pytest.approx([1.3, -4.5], rel=1e-12)
    # A range without numbers is none for the others.
    found = own.round_numbers(np.array([1.0, 498.8]), np.array([1.0, 501.3]))
    assert found.tolist() == [1.0, 500.0]


@pytest.mark.parametrize("number", [3, (1 << 16) - 1, 1 << 16, 1 << 17])
def test_records_of_a_cell_by_their_digits(number, monkeypatch):
    """All have the same digit, the first or another one: before it none is, behind it all are."""
    for digit in (0, 1, 40_000, (1 << own.ORDER_BITS) - 1):
        monkeypatch.setattr(own, "_orders", lambda count, digit=digit: np.full(count, digit))
        records = own._Records(np.array([2]), np.array([number]))
        ends = np.array([0, 1, 2, digit, digit + 1, 1 << own.ORDER_BITS])
        found = records.before((2 << own.ORDER_BITS) + ends)
        assert found.tolist() == [number * int(end > digit) for end in ends]


def test_round_numbers_at_the_ends():
    assert own.round_numbers(np.array([]), np.array([])).tolist() == []
    assert own.round_numbers(np.array([0.0]), np.array([0.0])).tolist() == [0.0]
    low, high = np.array([-9e307, 5e-324, 1e-320]), np.array([1e308, 1e-323, 1.0])
    found = own.round_numbers(low, high)
    assert np.all((low <= found) & (found < high))
    assert found[0] == 0.0
    assert math.copysign(1, found[0]) == 1
    both = own.round_numbers(np.array([9e307, 3.7]), np.array([1.7e308, 3.70001]))
    assert both.tolist() == [1e308, 3.7]
    # A wide range beside a narrow one does not cost the narrow one its digits.
    pair = own.round_numbers(np.array([0.0, 0.1234561]), np.array([1e6, 0.1234579]))
    assert pair.tolist() == [0.0, 0.123457]

"""From floats to integers, number by number: nothing here is a proof, but nothing is left to luck.

Solutions and shortfalls are written by hand, so that every step is taken.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import noise as bound
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.losses.base import LatticeCost
from opendp_optimal.model.noise import LatticeSolution
from opendp_optimal.round import noise as rounding


def test_weights_are_never_above_their_share():
    weights = np.array([0.75, 0.0625, 0.0625, 1e-25, -0.3])
    atom = 0.125
    integers, whole = rounding.round_weights(weights, atom)
    found = integers.tolist()
    given = [Fraction(w) if w > 0 else Fraction(0) for w in weights.tolist()]
    every = sum(given) + Fraction(atom)
    assert sum(found) + whole == TOTAL
    shares = [w / every * TOTAL for w in given]
    for place in (0, 1, 3, 4):  # all but the middle
        assert shares[place] * (1 - Fraction(1, 2**49)) - 1 < found[place] <= shares[place]
    assert 0 <= Fraction(atom) / every * TOTAL - whole < 2**12
    # What is held back is a part in 2^50 of everything.
    assert abs(shares[0] - found[0] - Fraction(0.75) * 2**12) < 1000
    assert found[2] > shares[2]
    none, nothing = rounding.round_weights(weights, -1.0)
    assert nothing == 0
    assert sum(none.tolist()) == TOTAL
    # Less than half a unit is nothing.
    tiny, whole = rounding.round_weights(np.array([0.0, 1.0, 0.0]), 1e-19)
    assert (whole, tiny.tolist()) == (0, [0, TOTAL, 0])


WEIGHTS = np.array([0.1, 0.2, 0.3, 0.2, 0.1])
REFERENCE = np.array([0.15, 0.2, 0.3, 0.2, 0.15])
ATOM = 0.1


def script(monkeypatch, shortfalls, allowed, laid):
    """Shortfalls that are said in turn (parts of TOTAL); what was asked about is kept."""
    asked = []

    def say(weights, atom, cells, epsilon, shift):
        assert (cells, epsilon, shift) == (2, 1.0, 2)
        if atom == 0 and np.array_equal(weights, rounding.round_weights(REFERENCE, 0.0)[0]):
            return Fraction(laid) * TOTAL
        asked.append((weights.tolist(), atom))
        return Fraction(allowed) * TOTAL + shortfalls[len(asked) - 1] * TOTAL

    monkeypatch.setattr(rounding, "delta_units", say)
    return asked


def private(delta, **options):
    return rounding.private_weights(
        WEIGHTS, ATOM, REFERENCE, cells=2, epsilon=1.0, delta=delta, **options
    )


def mixed(mix):
    integers, atom = rounding.round_weights(
        (1 - mix) * WEIGHTS + mix * REFERENCE * (1 - ATOM), (1 - mix) * ATOM
    )
    return integers.tolist(), atom


def test_what_is_private_is_only_rounded(monkeypatch):
    asked = script(monkeypatch, [Fraction(0)], 0.25, 0.0)
    integers, atom = private(0.25)
    assert (integers.tolist(), atom) == mixed(0.0)
    assert len(asked) == 1


def test_one_unit_too_much_is_too_much(monkeypatch):
    asked = script(monkeypatch, [Fraction(1, TOTAL), Fraction(0)], 0.25, 0.0)
    private(0.25)
    assert len(asked) == 2


def test_mixtures_grow_as_needed(monkeypatch):
    over = [Fraction(1, 10**5), Fraction(1, 10**6), Fraction(3, 10**7), Fraction(0)]
    asked = script(monkeypatch, over, 0.25, 0.125)
    integers, atom = private(0.25)
    spare = Fraction(1, 8)
    mix, expected = 0.0, [mixed(0.0)]
    for attempt, o in enumerate(over[:3]):
        mix = mix + float(o / spare) * (1 + 0.01 * 2**attempt) + 1e-15
        expected.append(mixed(mix))
    assert asked == expected
    assert (integers.tolist(), atom) == expected[-1]


@pytest.mark.parametrize("laid", [0.25, 0.25 + 2.0**-50, 0.3])
def test_a_reference_without_room_is_of_no_use(monkeypatch, laid):
    script(monkeypatch, [Fraction(1, 10**9)] * 20, 0.25, laid)
    with pytest.raises(CertificateError, match="too far"):
        private(0.25)


def test_a_reference_with_little_room_is_used(monkeypatch):
    # The room is one unit, and less than one unit is missing.
    room = Fraction(1, TOTAL)
    script(monkeypatch, [room / 10**5, Fraction(0)], 0.25, Fraction(1, 4) - room)
    integers, _ = private(0.25)
    assert integers.tolist() == mixed(1.01e-5 + 1e-15)[0]


def test_twelve_attempts_and_no_more(monkeypatch):
    asked = script(monkeypatch, [Fraction(1, 10**9)] * 20, 0.25, 0.0)
    with pytest.raises(CertificateError, match="too far"):
        private(0.25)
    assert len(asked) == 12
    enough = [Fraction(1, 10**9)] * 11 + [Fraction(0)]
    script(monkeypatch, enough, 0.25, 0.0)
    private(0.25)


def test_the_largest_mixture(monkeypatch):
    # A hundredth would be needed; a thousandth is allowed unless more is.
    over = [Fraction(1, 400), Fraction(0)]
    script(monkeypatch, over, 0.25, 0.0)
    with pytest.raises(CertificateError, match="too far"):
        private(0.25)
    script(monkeypatch, over, 0.25, 0.0)
    private(0.25, largest_mix=0.02)
    exact = 0.0 + float(Fraction(1, 400) / Fraction(1, 4)) * 1.01 + 1e-15
    script(monkeypatch, over, 0.25, 0.0)
    private(0.25, largest_mix=exact)
    script(monkeypatch, over, 0.25, 0.0)
    with pytest.raises(CertificateError, match="too far"):
        private(0.25, largest_mix=math.nextafter(exact, 0.0))


# --- prices ---------------------------------------------------------------------------------------


def solution(slack, budget, *, shifts=None, order=(), tail=(), dual=1.0):
    slack = np.array(slack, float)
    return LatticeSolution(
        weights=np.zeros(1),
        atom=0.0,
        shifts=np.array(shifts or [1] * len(slack), np.intp),
        budget_price=np.array(budget, float),
        slack_price=slack,
        order_price=np.array(order, float),
        tail_price=np.array(tail, float),
        primal=dual,
        dual=dual,
        status="optimal",
        iterations=0,
    )


def costs(reach, denominator=4):
    values = [abs(i) for i in range(-reach, reach + 1)]
    return LatticeCost(upper=values, lower=values, atom=0, denominator=denominator)


def rounded(given, *, cells=1, epsilon=1.0, mirrored=False, temper=False, cost=None):
    reach = given.slack_price.shape[1] // 2 + cells + 1
    return rounding.round_prices(
        given,
        cost or costs(reach),
        cells=cells,
        epsilon=epsilon,
        delta=0.125,
        mirrored=mirrored,
        temper=temper,
    )


SLACK = [[0, 0, 0.3, 0.7, -0.4, 0, 0], [0, 0, 0.31, 0.9, 0.2, 0, 0]]
BUDGET = [0.7, 0.6]


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 80.0])
@pytest.mark.parametrize("value", [0.7, 1.9, -3.1, 0.0])
def test_the_unit_is_the_largest_that_is_fine_enough(epsilon, value):
    found = rounded(solution(SLACK, BUDGET, dual=value), epsilon=epsilon)
    wish = 2.0**17 * (1 + math.exp(min(epsilon, 64.0))) * 4 / max(abs(value), 1e-12)
    fitting = 50  # prices below 1 fit 50 bits
    assert found.scale == min(math.ceil(math.log2(wish)), fitting)
    unit = 2.0**found.scale
    budget = np.ceil(np.array(BUDGET) * unit)
    assert np.array_equal(found.budget, budget)
    clipped = np.rint(np.clip(SLACK, 0.0, np.array(BUDGET)[:, None]) * unit)
    assert np.array_equal(found.slack, np.minimum(clipped, budget[:, None])[:, 2:5])
    found.check()


def test_more_rows_need_a_finer_unit():
    for rows in (1, 4, 5, 9):
        found = rounded(solution([SLACK[0]] * rows, [0.7] * rows), epsilon=0.5)
        wish = 2.0**17 * (1 + math.exp(0.5)) * max(4, rows)
        assert found.scale == math.ceil(math.log2(wish))


@pytest.mark.parametrize("largest", [3.0e7, 1.0, 2.0**-20, 2.0**-45])
def test_no_price_is_wider_than_fifty_bits(largest):
    found = rounded(solution([[0.0, largest, 0.0]], [largest], dual=1e-12), epsilon=60.0)
    assert found.scale == 50 - math.ceil(math.log2(max(largest, 2.0**-40)))
    # The budget of a row without prices counts too.
    found = rounded(solution([[0.0, 0.0, 0.0]] * 2, [0.0, largest], dual=1e-12), epsilon=60.0)
    assert found.scale == 50 - math.ceil(math.log2(max(largest, 2.0**-40)))


def test_no_rows_at_all():
    found = rounded(solution(np.zeros((0, 3)), [], dual=1e-12), epsilon=60.0)
    assert found.scale == 50 + 40
    assert found.slack.shape == (0, 3)


def test_columns_without_prices_are_dropped():
    wide = np.zeros((2, 11))
    for used, cells, kept in ((3, 1, 3), (-4, 1, 4), (0, 1, 1), (0, 3, 3), (1, 9, 5), (5, 1, 5)):
        slack = wide.copy()
        slack[1, 5 + used] = 0.5
        found = rounded(solution(slack, [0.5, 0.5]), cells=cells)
        assert found.radius == kept
        assert (found.slack[1] > 0).sum() == 1
        assert found.slack[1, kept + used] == found.budget[1]
    assert rounded(solution(wide, [0.5, 0.5]), cells=2).radius == 2


def test_prices_of_ends_and_orders():
    found = rounded(solution(SLACK, BUDGET, tail=[0.25, -1.0]))
    unit = 2**found.scale
    assert found.tail.tolist() == [unit // 4, 0]
    order = [0.5, 0.25, -0.125, 0.0625]
    mirrored = rounded(solution(SLACK, BUDGET, order=order), mirrored=True)
    assert mirrored.mirrored
    assert mirrored.radius == 3  # order prices reach to the ends
    row = [unit // 2, unit // 4, 0, unit // 16]
    assert mirrored.order.tolist() == [row, row]
    mirrored.check()


@pytest.mark.parametrize("reach", [2, 3, 9])
def test_order_prices_of_both_sides(reach):
    # Right: 0, 1, 2 (the first of p_0, at its price), left: 1, 2 (each side at half its price).
    prices = np.array([0.5, 0.25, 0.75, 0.125, -1.0])
    found = rounding._order_integers(prices, 8.0, False, reach)
    wanted = [[4, 4, 12], [0, 2, 0]]
    assert found.tolist() == [row[:reach] for row in wanted]
    even = rounding._order_integers(prices[:4], 8.0, False, 9)
    assert even.tolist() == [[4, 4], [0, 12]]
    assert rounding._order_integers(prices, 8.0, True, reach).shape == (2, min(5, reach))
    assert rounding._order_integers(np.zeros(0), 8.0, False, 9).shape == (0, 0)


def test_orders_reach_as_far_as_the_certificate():
    prices = np.arange(1.0, 31.0) / 64
    for cells in (1, 3):
        found = rounded(solution(SLACK, BUDGET, order=prices), mirrored=True, cells=cells)
        assert found.order.shape == (2, found.reach)
        assert found.reach == 3 + cells + 1


# --- tempering ------------------------------------------------------------------------------------

PARTS = [1.0, *(1 - 10 ** (k / 10) for k in range(-90, 1))]


def proved(part, given, cost, cells, epsilon, mirrored):
    """The bound that a part of all prices proves, by the formula, in floats."""
    slack = np.clip(given.slack_price, 0.0, given.budget_price[:, None]) * part
    radius, reach = slack.shape[1] // 2, slack.shape[1] // 2 + cells + 1

    def gain(i):
        total = 0.0
        for m, row in zip(given.shifts.tolist(), slack, strict=True):
            total += row[i + radius] if abs(i) <= radius else 0.0
            total -= math.exp(epsilon) * row[i + m + radius] if abs(i + m) <= radius else 0.0
        return total

    values = []
    for i in range(-reach, reach + 1):
        here = (gain(i) + gain(-i)) / 2 if mirrored else gain(i)
        values.append(cost.lower[i + reach] / cost.denominator + here)
    return min(values) - 0.125 * part * float(given.budget_price.sum())


@pytest.mark.parametrize("mirrored", [False, True])
def test_tempering_finds_the_best_part(mirrored):
    rng = np.random.default_rng(11)
    seen = set()
    for trial in range(60):
        cells, rows = 1 + trial % 3, 1 + trial % 2
        size = 10.0 ** rng.uniform(-9, 2)
        slack = rng.uniform(0, size, (rows, 7))
        given = solution(slack, np.full(rows, size), shifts=(1, -1)[:rows])
        cost = costs(3 + cells + 1)
        part = rounding._tempered(slack, given, cost, cells, 0.7, 0.125, mirrored)
        values = [proved(p, given, cost, cells, 0.7, mirrored) for p in PARTS]
        assert min(abs(part - p) for p in PARTS) < 1e-14
        best = proved(part, given, cost, cells, 0.7, mirrored)
        assert best >= max(values) - 1e-12 * max(1.0, abs(max(values)))
        seen.add(round(part, 3))
    assert len(seen) > 1


def test_a_slight_miss_is_tempered_slightly():
    # At the far point the prices exceed the cost by a millionth of it.
    slack = np.zeros((1, 5))
    slack[0, 2] = 1.0
    given = solution(slack, [1.0])
    values = [9.0, 9.0, 9.0, 2.0, 9.0, 9.0, 9.0, 9.0, 9.0]
    for miss in (1e-8, 1e-6, 1e-4):
        values[3] = math.exp(0.5) * (1 - miss)
        values[4] = 1.0
        numbers = [round(v * 10**15) for v in values]
        cost = LatticeCost(upper=numbers, lower=numbers, atom=0, denominator=10**15)
        part = rounding._tempered(slack, given, cost, 1, 0.5, 0.0, False)
        best = max(PARTS, key=lambda p: proved_free(p, numbers, given))
        assert part == pytest.approx(best, abs=1e-15)
    tempered = rounded(given, epsilon=0.5, temper=True, cost=cost)
    plain = rounded(given, epsilon=0.5, temper=False, cost=cost)
    assert tempered.budget[0] < plain.budget[0]
    assert int(tempered.slack.max()) < int(plain.slack.max())
    near = LatticeCost(upper=numbers[1:-1], lower=numbers[1:-1], atom=0, denominator=10**15)
    bounds = [bound.prove_bound(d, near, epsilon=0.5, delta=0.0) for d in (tempered, plain)]
    assert bounds[0] >= bounds[1]


def proved_free(part, numbers, given):
    """The bound without a budget to pay."""
    values = [n / 10**15 for n in numbers]
    values[4] += part
    values[3] -= math.exp(0.5) * part
    return min(values)

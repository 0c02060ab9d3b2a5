"""From floats to integers: what rounding promises, whatever its heuristics do."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.certify.noise import TOTAL, delta_units, prove_bound
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses.base import LatticeCost
from opendp_optimal.model.noise import LatticeSolution
from opendp_optimal.round import noise as rounding
from opendp_optimal.round.noise import decaying, falling, private_weights, round_weights


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=31).filter(lambda v: sum(v) > 1e-6),
    st.floats(0, 0.5),
)
def test_rounded_weights_add_up(values, atom):
    values = values if len(values) % 2 else [*values, 0.0]
    weights, whole = round_weights(np.array(values), atom)
    assert sum(weights.tolist()) + whole == TOTAL
    scale = sum(values) + atom
    off = np.abs(weights / TOTAL - np.array(values) / scale)
    assert off.max() < 1e-12
    assert weights.min() >= 0


def test_a_slight_violation_is_repaired_and_a_large_one_refused():
    reference = decaying(1.0, 4, 40)
    slightly = reference.copy()
    slightly[20] *= 1.0 + 1e-7
    slightly[60] *= 1.0 + 1e-7
    slightly[:4] = slightly[-4:] = 0.01 / 8 / (1 - 0.01)
    slightly /= slightly.sum()
    delta = 0.0101
    weights, atom = private_weights(slightly, 0.0, reference, cells=4, epsilon=1.0, delta=delta)
    assert delta_units(weights, atom, 4, 1.0, Fraction(4)) <= Fraction(delta) * TOTAL
    spiky = np.zeros(81)
    spiky[40] = 1.0
    with pytest.raises(CertificateError, match="too far"):
        private_weights(spiky, 0.0, reference, cells=4, epsilon=1.0, delta=delta)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=21))
def test_falling(values):
    values = np.array(values if len(values) % 2 else values[:-1])
    out = falling(values)
    middle = len(values) // 2
    assert np.all(np.diff(out[middle:]) <= 0)
    assert np.all(np.diff(out[: middle + 1]) >= 0)
    assert np.all(out <= values)


def test_weights_are_never_above_their_share():
    weights = np.array([0.75, 0.0625, 0.0625, 1e-25, -0.3])
    atom = 0.125
    integers, whole = rounding.round_weights(weights, atom)
    found = integers.tolist()
    given = [Fraction(w) if w > 0 else Fraction(0) for w in weights.tolist()]
    every = sum(given) + Fraction(atom)
    assert sum(found) + whole == TOTAL
    shares = [w / every * TOTAL for w in given]
    for place in (1, 2, 3, 4):  # all but the largest
        assert shares[place] * (1 - Fraction(1, 2**49)) - 1 < found[place] <= shares[place]
    assert 0 <= Fraction(atom) / every * TOTAL - whole < 2**12


@given(st.floats(1e-9, 1e-4), st.floats(0.5, 2.0))
def test_what_is_returned_is_private_or_refused(part, epsilon):
    """A law that misses its delta by a part is mixed with one that has room, or refused."""
    reference = decaying(epsilon, 3, 30)
    law = decaying(epsilon, 3, 15)
    allowed = delta_units(round_weights(law, 0.0)[0], 0, 3, epsilon, Fraction(3)) / TOTAL
    delta = float(allowed) * (1 - part)
    wide = np.pad(law, 15)
    weights, atom = private_weights(wide, 0.0, reference, cells=3, epsilon=epsilon, delta=delta)
    assert delta_units(weights, atom, 3, epsilon, Fraction(3)) <= Fraction(delta) * TOTAL
    assert float(np.abs(weights / TOTAL - wide).sum()) <= 2 * 1e-3
    with pytest.raises(CertificateError, match="too far"):
        private_weights(wide, 0.0, law_without_room(wide), cells=3, epsilon=epsilon, delta=delta)


def law_without_room(law):
    """All in one place: it has no part of delta to spare."""
    out = np.zeros_like(law)
    out[len(out) // 2] = 1.0
    return out


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


@given(
    st.integers(1, 9),
    st.floats(0.01, 80.0),
    st.floats(-30, 8).map(lambda x: 10.0**x),
    st.floats(-12, 6).map(lambda x: 10.0**x),
)
def test_rounded_prices_are_within_their_bounds(rows, epsilon, size, value):
    draw = np.random.default_rng(rows)
    slack, budget = draw.uniform(-0.2, 1.2, (rows, 7)) * size, draw.uniform(0.5, 1, rows) * size
    found = rounded(solution(slack, budget, dual=value), epsilon=epsilon)
    found.check()
    clipped = np.clip(slack, 0.0, budget[:, None]) * 2.0**found.scale
    inner = slice(3 - found.radius, 4 + found.radius)
    assert np.abs(found.slack - clipped[:, inner]).max() <= 1
    assert np.all(found.budget >= np.floor(budget * 2.0**found.scale))
    assert not np.rint(np.delete(clipped, np.arange(7)[inner], axis=1)).any()


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


@given(st.integers(0, 10**6), st.booleans())
def test_tempering_never_proves_less(seed, mirrored):
    draw = np.random.default_rng(seed)
    cells, rows, size = 1 + seed % 3, 1 + seed % 2, 10.0 ** draw.uniform(-3, 2)
    given = solution(draw.uniform(0, size, (rows, 7)), np.full(rows, size), shifts=[1, -1][:rows])
    cost = costs(3 + cells + 1)
    bounds = []
    for temper in (False, True):
        dual = rounded(given, cells=cells, mirrored=mirrored, temper=temper, cost=cost)
        reach = costs(dual.reach)
        bounds.append(prove_bound(dual, reach, epsilon=1.0, delta=0.125))
    assert bounds[1] >= bounds[0] - Fraction(1, 10**4)  # of the value 1, for rounding

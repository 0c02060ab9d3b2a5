"""Proofs about pairs on small cases, number by number against the definitions."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import pair
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import exp_bounds
from opendp_optimal.losses.pairs import PairCost
from tests.certify.small_laws import ONE


def weights_of(rng, rows, columns):
    """Weights of a quarter that add up to TOTAL with their mirror images."""
    raw = np.array([[rng.randrange(1, 1000) for _ in range(columns)] for _ in range(rows)])
    images = np.full((rows, columns), 4)
    images[0, :] = 2
    images[:, 0] = 2
    images[0, 0] = 1
    weights = raw * (TOTAL // (2 * int((raw * images).sum())))
    weights[0, 0] += TOTAL - int((weights * images).sum())
    return weights


def plain_shortfall(weights, cells, epsilon):
    """Over all whole moves, in both directions of both numbers."""
    rows, columns = weights.shape
    at = {
        (c, j): int(weights[abs(c), abs(j)])
        for c in range(1 - rows, rows)
        for j in range(1 - columns, columns)
    }
    low = exp_bounds(min(epsilon, 64.0))[0]
    worst = 0
    for step in (1, -1):
        for i in range(-(cells // 2), cells // 2 + 1):
            grown = {z: min(TOTAL, w * low // ONE) for z, w in at.items()}
            total = sum(max(0, w - grown.get((c + step, j + i), 0)) for (c, j), w in at.items())
            worst = max(worst, total)
    return worst


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (3, 1), (3, 4), (2, 9)])
@pytest.mark.parametrize("cells", [2, 6, 20])
def test_shortfalls_to_the_last_unit(shape, cells):
    rng = random.Random(f"{shape} {cells}")
    for epsilon in (0.0, 0.7, 3.0, 90.0):
        weights = weights_of(rng, *shape)
        assert int(pair.unfolded(weights).sum()) == TOTAL
        found = pair.shortfall(weights, cells, epsilon)
        assert found == plain_shortfall(weights, cells, epsilon)
        pair.prove_pairs_private(
            weights, cells, epsilon, min(1.0, found / TOTAL * (1 + 1e-15) + 1e-18)
        )
        if found:
            with pytest.raises(CertificateError, match="exceeds delta"):
                pair.prove_pairs_private(weights, cells, epsilon, found / TOTAL * (1 - 1e-12))


def test_what_loses_nothing_has_no_shortfall():
    for shape in ((1, 1), (2, 3)):
        assert pair.shortfall(np.zeros(shape, np.int64), 4, 1.0) == 0


def test_one_unit_too_much_is_not_private(monkeypatch):
    weights = weights_of(random.Random(1), 2, 2)
    for units in (0, 1):
        monkeypatch.setattr(pair, "shortfall", lambda *_, units=units: units)
        if units == 0:
            pair.prove_pairs_private(weights, 2, 1.0, 0.0)
        else:
            with pytest.raises(CertificateError, match="exceeds delta"):
                pair.prove_pairs_private(weights, 2, 1.0, 0.0)


def test_weights_that_are_no_law():
    good = weights_of(random.Random(1), 3, 4)
    pair.check_pairs(good, 4)
    negative, less = good.copy(), good.copy()
    negative[1, 1] = -1
    negative[0, 0] += 4 * (int(good[1, 1]) + 1)
    less[0, 0] -= 1
    large = np.zeros((2, 2), np.int64)
    large[0, 0], large[0, 1] = TOTAL + 2, -1
    for weights, cells in (
        (negative, 4), (less, 4), (large, 4), (good.astype(np.int32), 4), (good.ravel(), 4),
        (good.tolist(), 4), (np.zeros((0, 3), np.int64), 4), (np.zeros((3, 0), np.int64), 4),
        (good, 3), (good, 0), (good, -2), (good, 4.0), (good, (1 << 14) + 2), (good, True),
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            pair.check_pairs(weights, cells)
    some = np.zeros((2, 3), np.int64)
    some[0, 0] = TOTAL
    pair.check_pairs(some, 4)
    pair.check_pairs(good, 1 << 14)
    pair.check_pairs(good, 2)
    one = np.full((1, 1), TOTAL)
    pair.check_pairs(one, 2)
    wide = np.zeros((1, pair.MOST_POINTS // 4 + 1), np.int64)
    with pytest.raises(CertificateError, match="rows"):
        pair.check_pairs(wide, 2)


def random_dual(rng, rows=3):
    cells, reach, most = rng.choice((2, 4)), rng.randrange(0, 3), rng.randrange(0, 4)
    budget = np.array([rng.randrange(0, 40) for _ in range(rows)], np.int64)
    width = (2 * reach + 2) * (2 * most + 1)
    slack = [[rng.randrange(0, int(b) + 1) for _ in range(width)] for b in budget]
    moves = [
        [rng.randrange(-(cells // 2), cells // 2 + 1), rng.choice((-1, 1))] for _ in range(rows)
    ]
    return pair.PairDual(
        cells,
        reach,
        np.array(moves, np.int64),
        budget,
        np.array(slack, np.int64),
        rng.randrange(-3, 4),
    )


def any_cost(rng, dual, whole=False):
    shape = len(dual.counts) + 2 + whole, dual.most + dual.cells // 2 + 1
    values = np.array([[rng.randrange(500) for _ in range(shape[1])] for _ in range(shape[0])])
    return PairCost(values, rng.randrange(-300, 700), rng.randrange(1, 9))


def plain_bound(dual, cost, epsilon, delta, whole=False):
    """By the formula in the module's words: each row at half its price, and its mirror image.

    For whole count noise all is the mean of itself and its mirror image in c.
    """
    unit = Fraction(2) ** -dual.scale
    growth = Fraction(exp_bounds(min(epsilon, 64.0))[1], ONE)
    counts = range(-dual.reach - 1, dual.reach + 1)
    most, margin = dual.most, dual.cells // 2
    rows = []
    for (i, step), prices in zip(dual.moves.tolist(), dual.slack.tolist(), strict=True):
        at = {}
        for n, c in enumerate(counts):
            for j in range(-most, most + 1):
                at[c, j] = Fraction(prices[n * (2 * most + 1) + j + most], 2) * unit
        rows.append((i, step, at))
        rows.append((-i, step, {(c, -j): p for (c, j), p in at.items()}))
    best = Fraction(cost.beyond, cost.denominator)
    values = {}
    for n, c in enumerate(range(-dual.reach - 2, dual.reach + 2 + whole)):
        for j in range(-most - margin, most + margin + 1):
            value = Fraction(int(cost.values[n, abs(j)]), cost.denominator)
            for i, step, at in rows:
                value += at.get((c, j), 0) - growth * at.get((c - step, j - i), 0)
            values[c, j] = value
    if whole:
        values = {(c, j): (v + values[-c, j]) / 2 for (c, j), v in values.items()}
    best = min(best, *values.values())
    return best - Fraction(delta) * sum(dual.budget.tolist()) * unit


def test_bounds_by_the_formula():
    rng = random.Random(5)
    for number in range(80):
        dual, whole = random_dual(rng), number % 2 == 1
        cost = any_cost(rng, dual, whole)
        epsilon, delta = rng.choice((0.1, 1.0, 70.0)), rng.choice((0.0, 0.1))
        found = pair.prove_pair_bound(dual, cost, epsilon=epsilon, delta=delta, whole=whole)
        assert found == plain_bound(dual, cost, epsilon, delta, whole)


def changed(array, place, value):
    out = array.copy()
    out[place] = value
    return out


def test_prices_out_of_bounds_prove_nothing():
    rng = random.Random(6)
    dual = random_dual(rng)
    while dual.most < 1 or dual.cells != 4:
        dual = random_dual(rng)
    dual.check()
    assert dual.counts.tolist() == list(range(-dual.reach - 1, dual.reach + 1))
    for change in (
        {"slack": changed(dual.slack, (0, 0), int(dual.budget[0]) + 1)},
        {"slack": changed(dual.slack, (0, 0), -1)},
        {"moves": changed(dual.moves, (0, 1), 2)},
        {"moves": changed(dual.moves, (0, 1), 0)},
        {"moves": changed(dual.moves, (0, 0), 3)},
        {"moves": changed(dual.moves, (0, 0), -3)},
        {"moves": dual.moves[:, :1]},
        {"moves": dual.moves[:-1]},
        {"moves": dual.moves.ravel()},
        {"budget": dual.budget[:-1]},
        {"budget": dual.budget[:, None]},
        {"budget": dual.budget.astype(float)},
        {"slack": dual.slack[:, :-1]},
        {"slack": dual.slack[:-1]},
        {"slack": dual.slack.ravel()},
        {"slack": dual.slack.astype(np.int32)},
        {"moves": dual.moves.tolist()},
        {"cells": 3}, {"cells": 0}, {"cells": 4.0}, {"cells": (1 << 14) + 2},
        {"reach": -1}, {"reach": dual.reach + 1}, {"reach": 1.0}, {"reach": (1 << 20) + 1},
        {"scale": 4097}, {"scale": -4097}, {"scale": 0.0},
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            replace(dual, **change).check()
    for scale in (4096, -4096):
        replace(dual, scale=scale).check()
    replace(dual, moves=changed(dual.moves, (0, 0), 2)).check()
    replace(dual, moves=changed(dual.moves, (0, 0), -2)).check()
    replace(dual, cells=1 << 14).check()
    big = replace(dual, budget=np.full(3, 1 << 57), slack=np.zeros_like(dual.slack))
    big.check()
    with pytest.raises(CertificateError, match="large"):
        replace(big, budget=np.full(3, 1 << 58)).check()
    none = np.zeros((0, 2), np.int64)
    empty = replace(dual, moves=none, budget=none[:, 0], slack=dual.slack[:0])
    empty.check()
    cost = any_cost(rng, dual)
    least = min(int(cost.values.min()), cost.beyond)
    assert pair.prove_pair_bound(empty, cost, epsilon=1.0, delta=0.1) == Fraction(
        least, cost.denominator
    )
    for wrong in (cost.values[:-1], cost.values[:, :-1]):
        with pytest.raises(CertificateError, match="cover"):
            pair.prove_pair_bound(dual, replace(cost, values=wrong), epsilon=1.0, delta=0.1)


def test_the_limits_of_pairs():
    assert pair.MOST_POINTS == 1 << 24
    most = np.zeros((1, 1 << 22), np.int64)
    most[0, 0] = TOTAL
    pair.check_pairs(most, 2)
    with pytest.raises(CertificateError, match="rows"):
        pair.check_pairs(np.append(most, [[0]], axis=1), 2)
    much = np.zeros((1, 3), np.int64)
    much[0] = TOTAL + 2, -1, 0
    with pytest.raises(CertificateError, match="negative or too large"):
        pair.check_pairs(much, 2)
    # All of delta, to the last unit.
    one = np.full((1, 1), TOTAL)
    pair.prove_pairs_private(one, 2, 1.0, 1.0)
    two = np.array([[TOTAL // 4, TOTAL // 8], [TOTAL // 8, TOTAL // 16]])
    delta = pair.shortfall(two, 2, 0.0) / TOTAL
    assert delta == plain_shortfall(two, 2, 0.0) / TOTAL < 1
    pair.prove_pairs_private(two, 2, 0.0, delta)
    with pytest.raises(CertificateError, match="exceeds delta"):
        pair.prove_pairs_private(two, 2, 0.0, float(np.nextafter(delta, 0)))


def test_the_limits_of_prices():
    rng = random.Random(6)
    dual = random_dual(rng)
    while dual.cells != 2:
        dual = random_dual(rng)
    reach = 1 << 20
    far = replace(dual, reach=reach, slack=np.zeros((3, 2 * reach + 2), np.int64))
    far.check()
    with pytest.raises(CertificateError, match="range"):
        replace(far, reach=reach + 1, slack=np.zeros((3, 2 * reach + 4), np.int64)).check()
    none = replace(dual, moves=np.zeros((0, 2), np.int64), budget=np.zeros(0, np.int64))
    wide = (1 << 24) // 2 - 1  # two rows of counts, each with an odd number of cells
    replace(none, reach=0, slack=np.zeros((0, 2 * wide), np.int64)).check()
    with pytest.raises(CertificateError, match="shape"):
        replace(none, reach=0, slack=np.zeros((0, 2 * wide + 4), np.int64)).check()
    # One price may be larger than each of three.
    single = replace(dual, moves=dual.moves[:1], slack=np.zeros_like(dual.slack[:1]))
    replace(single, budget=np.array([(1 << 59) - 1])).check()
    with pytest.raises(CertificateError, match="large"):
        replace(single, budget=np.array([1 << 59])).check()

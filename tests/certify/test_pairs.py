"""Proofs about pairs, against plain enumeration in fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.pair import (
    PairDual,
    prove_pair_bound,
    prove_pairs_private,
    shortfall,
    unfolded,
)
from opendp_optimal.exact.numbers import exp_down, exp_up
from opendp_optimal.losses.base import loss_of
from opendp_optimal.losses.pairs import AbsolutePairs, PairLoss, SquaredPairs
from opendp_optimal.search.pair import solve_pair
from opendp_optimal.table.pair import PairTable


@lru_cache
def solved(epsilon: float = 2.0, delta: float = 1e-2, loss: str = "l2") -> PairTable:
    return solve_pair(epsilon, delta, loss=loss, gap=0.02, cache=False)


def lost(table: PairTable, growth: Fraction, steps: int, move: int, step: int) -> Fraction:
    """The shortfall of a move by so many grid points, with so many of them in a cell."""
    every = np.repeat(unfolded(table.weights), steps, axis=1).astype(object)
    rows, columns = every.shape
    moved = np.zeros((rows + 2, columns + 2 * abs(move)), object)
    moved[1:-1, abs(move) : abs(move) + columns] = every
    other = moved[1 + step : 1 + step + rows, abs(move) + move : abs(move) + move + columns]
    short = every * growth.denominator - other * growth.numerator
    return Fraction(int(short[short > 0].sum()), growth.denominator * TOTAL * steps)


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_every_fractional_move_is_hidden(loss: str) -> None:
    table, steps = solved(loss=loss), 3
    growth = exp_down(Fraction(table.epsilon))
    reach = table.cells * steps // 2
    for step in (1, -1):
        for move in range(-reach, reach + 1):
            assert lost(table, growth, steps, move, step) <= Fraction(table.delta)


def test_the_worst_whole_move_is_what_is_counted() -> None:
    table = solved()
    growth = exp_up(Fraction(table.epsilon))
    worst = max(lost(table, growth, 1, i, 1) for i in range(table.cells // 2 + 1))
    counted = Fraction(shortfall(table.weights, table.cells, table.epsilon), TOTAL)
    assert worst <= counted <= worst + Fraction(1, 10**15)


def test_a_little_more_in_one_place_is_found() -> None:
    table = solved()
    weights = table.weights.copy()
    weights[-1, -1] += TOTAL // 100
    weights[0, 0] -= 4 * (TOTAL // 100)
    with pytest.raises(CertificateError, match="shortfall"):
        prove_pairs_private(weights, table.cells, table.epsilon, table.delta)


def cost_at(loss: str, a: float, c: float) -> float:
    """The loss of a - (mu - 1/2) c on average over mu."""
    mu = (np.arange(2_001) + 0.5) / 2_001 - 0.5
    error = a - mu * c
    return float(np.mean(error**2 if loss == "l2" else np.abs(error)))


def test_a_weight_says_how_much_the_count_counts() -> None:
    counts = np.arange(-3, 4)
    plain, heavy = SquaredPairs(), SquaredPairs(Fraction(8, 75))
    for one, other in ((plain.upper, heavy.upper), (plain.lower, heavy.lower)):
        light, more = one(4, 9, counts), other(4, 9, counts)
        turn = counts**2 if one == plain.upper else counts * (counts + 1)
        extra = more.values / more.denominator - light.values / light.denominator
        assert extra == pytest.approx(
            np.broadcast_to(turn[:, None], extra.shape) * (8 / 75 - 1 / 12)
        )


@pytest.mark.parametrize(("loss", "costs"), [("l1", AbsolutePairs()), ("l2", SquaredPairs())])
@pytest.mark.parametrize("cells", [2, 6])
def test_costs(loss: str, costs: PairLoss, cells: int) -> None:
    counts = np.arange(-4, 5)
    above, below = costs.upper(cells, 3 * cells, counts), costs.lower(cells, 3 * cells, counts)
    assert loss_of(loss).pairs is not None
    upper, lower = above.values / above.denominator, below.values / below.denominator
    for row, c in enumerate(counts.tolist()):
        for j in range(3 * cells):
            inside = (j - 0.5 + (np.arange(20) + 0.5) / 20) / cells
            average = float(np.mean([cost_at(loss, a, c) for a in inside]))
            assert upper[row, j] == pytest.approx(average, rel=4e-3)
            for part in (0.0, 0.5, 0.9):
                a = (j + part) / cells
                here, mirror = (
                    (1 - part) * lower[r, j] + part * lower[r, j + 1] for r in (row, -1 - row)
                )
                for t in (-0.5, -0.1, 0.3, 0.5):
                    tangent = (0.5 + t) * here + (0.5 - t) * mirror
                    assert tangent <= cost_at(loss, a, c + t) + 1e-6
    wide = costs.lower(cells, 9 * cells, np.arange(-12, 13))
    outside = np.ones(wide.values.shape, bool)
    outside[8:17, : 3 * cells + 1] = False
    assert int(wide.values[outside].min()) >= below.beyond


@pytest.mark.parametrize("loss", ["l1", "l2"])
@pytest.mark.parametrize("t", [0.0, 0.25, 0.5])
def test_no_private_noise_is_below_the_bound(loss: str, t: float) -> None:
    """Also where noise on the count has a fractional part: geometric noise in a box, moved."""
    table = solved(loss=loss)
    wide, fine = 12, 8
    counts, sums = np.arange(-wide, wide + 1), np.arange(-wide * fine, wide * fine + 1) / (2 * fine)
    radius = np.maximum(np.abs(counts)[:, None], 2 * np.abs(sums))
    law = np.exp(-table.epsilon * radius)
    law /= law.sum()
    paid = sum(
        law[i, j] * cost_at(loss, sums[j], counts[i] + t)
        for i in range(len(counts))
        for j in range(0, len(sums))
        if law[i, j] > 1e-9
    )
    assert paid >= table.lower


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_the_bound_over_whole_noise_is_what_mirrored_prices_prove(loss: str) -> None:
    """In fractions, point by point; it lies between the bound over all noise and the optimum."""
    table = solved(loss=loss)
    dual, unit = table.dual, Fraction(1, 2) ** table.dual.scale
    growth, least = exp_up(Fraction(table.epsilon)), Fraction(10**9)
    places = {
        (c, j): at
        for at, (c, j) in enumerate(
            (c, j) for c in dual.counts.tolist() for j in range(-dual.most, dual.most + 1)
        )
    }
    images = [(one, two) for one in (1, -1) for two in (1, -1)]
    wide, high = dual.most + dual.cells // 2, dual.reach + 2
    both = np.arange(-high, high + 1)
    cost = AbsolutePairs() if loss == "l1" else SquaredPairs()
    tangents = cost.lower(dual.cells, wide, both)
    slack = dual.slack.tolist()
    for c in range(0, high + 1, 2):
        for j in range(0, wide + 1, 5):
            tangent = int(tangents.values[high + c, j]) + int(tangents.values[high - c, j])
            here = Fraction(tangent, 2 * tangents.denominator)
            for row, (i, step) in enumerate(dual.moves.tolist()):
                for one, two in images:
                    at, back = (one * c, two * j), (one * c - step, two * j - i)
                    paid = slack[row][places[at]] if at in places else 0
                    due = slack[row][places[back]] if back in places else 0
                    here += (paid - growth * due) * unit / 4
            least = min(least, here)
    stated = Fraction(table.delta) * sum(dual.budget.tolist()) * unit
    assert table.lower <= table.whole_lower <= table.upper
    assert table.whole_lower <= least - stated


def tampered(dual: PairDual) -> list[PairDual]:
    more = dual.slack.copy()
    more[0] += 1
    twice = dual.moves.copy()
    twice[:, 1] = 2
    far = dual.moves.copy()
    far[0, 0] = dual.cells
    return [
        replace(dual, slack=more + dual.budget.max()),
        replace(dual, slack=-more),
        replace(dual, moves=twice),
        replace(dual, moves=far),
        replace(dual, budget=dual.budget[:-1]),
        replace(dual, slack=dual.slack[:, :-1]),
        replace(dual, cells=dual.cells + 1),
        replace(dual, reach=dual.reach + 1),
        replace(dual, budget=dual.budget.astype(float)),
        replace(dual, scale=10**9),
    ]


def test_prices_that_break_a_rule_prove_nothing() -> None:
    table = solved()
    for dual in tampered(table.dual):
        with pytest.raises(CertificateError):
            replace(table, dual=dual).verify()


def test_bounds_that_are_not_proved_are_refused() -> None:
    table = solved()
    table.verify()
    for field in ("upper", "lower"):
        for value in (getattr(table, field) * 1.001, getattr(table, field) * 0.999, 1, np.nan):
            with pytest.raises(CertificateError):
                replace(table, **{field: value}).verify()
    with pytest.raises(CertificateError):
        replace(table, cells=table.cells + 2).verify()
    with pytest.raises(CertificateError):
        replace(table, problem=replace(table.problem, delta=table.delta / 2)).verify()


def test_costs_must_cover_what_prices_reach() -> None:
    table = solved()
    dual = table.dual
    narrow = SquaredPairs().lower(dual.cells, dual.most, dual.counts)
    with pytest.raises(CertificateError, match="cover"):
        prove_pair_bound(dual, narrow, epsilon=2.0, delta=1e-2)

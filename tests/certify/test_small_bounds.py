"""Proofs of lower bounds on small duals, number by number against the formula."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import noise as bound
from opendp_optimal.exact.numbers import exp_bounds
from opendp_optimal.losses.base import LatticeCost
from tests.certify.small_laws import ONE


def plain_bound(dual, cost, epsilon, delta, support=None, impossible=None):
    """The bound by the formula in the module's words, in fractions."""
    unit = Fraction(2) ** -dual.scale
    growth = Fraction(exp_bounds(min(epsilon, 64.0))[1], ONE)
    rows = []
    for m, b, s in zip(
        dual.shifts.tolist(), dual.budget.tolist(), dual.slack.tolist(), strict=True
    ):
        if dual.mirrored:
            rows.append((m, Fraction(b, 2), [Fraction(v, 2) for v in s]))
            rows.append((-m, Fraction(b, 2), [Fraction(v, 2) for v in s[::-1]]))
        else:
            rows.append((m, Fraction(b), [Fraction(v) for v in s]))
    radius, reach = dual.radius, dual.reach
    best = None
    order = dual.order.tolist()
    for i in range(-reach, reach + 1):
        if support is not None and abs(i) > support:
            continue
        value = Fraction(cost.lower[i + reach], cost.denominator)
        for m, _, s in rows:
            if abs(i) <= radius:
                value += s[i + radius] * unit
            if abs(i + m) <= radius:
                value -= growth * s[i + m + radius] * unit
        for sign, side in zip((1, -1), order, strict=False):
            for j in range(1, len(side)):
                value -= Fraction(side[j], 2) * unit * ((sign * i == j) - (sign * i == j + 1))
        if order:
            value -= order[0][0] * unit * ((i == 0) - Fraction(abs(i) == 1, 2))
        if dual.tail.size and support is not None:
            for sign, price in ((1, dual.tail[0]), (-1, dual.tail[-1])):
                if max(1, support - dual.cells + 1) <= sign * i <= support:
                    value += int(price) * unit * (Fraction(1, 2) if dual.mirrored else 1)
        best = value if best is None else min(best, value)
    paid = Fraction(delta) * sum(dual.budget.tolist()) * unit
    if dual.tail.size:
        paid += Fraction(impossible) * sum(dual.tail.tolist()) * unit
    return best - paid


def random_dual(rng, *, mirrored, order, tails):
    cells, radius = rng.randrange(1, 4), rng.randrange(1, 5)
    count = rng.randrange(1, 4)
    budget = np.array([rng.randrange(0, 40) for _ in range(count)], np.int64)
    slack = np.array(
        [[rng.randrange(0, int(b) + 1) for _ in range(2 * radius + 1)] for b in budget], np.int64
    )
    shifts = [rng.choice((-1, 1)) * rng.randrange(1, cells + 1) for _ in range(count)]
    reach = radius + cells + 1
    width = rng.randrange(1, reach + 1)
    orders = np.array([[rng.randrange(9) for _ in range(width)] for _ in range(2)], np.int64)
    orders[1, 0] = 0
    return bound.DualCertificate(
        cells,
        np.array(shifts, np.int64),
        budget,
        slack,
        mirrored,
        orders if order else np.zeros((0, 0), np.int64),
        np.array([rng.randrange(1, 9) for _ in range(tails)], np.int64),
        rng.randrange(-4, 6),
    )


def any_cost(rng, reach):
    values = [rng.randrange(50) for _ in range(2 * reach + 1)]
    return LatticeCost(upper=values, lower=values, atom=0, denominator=rng.randrange(1, 9))


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_bounds_by_the_formula(mirrored, order, ends):
    rng = random.Random(f"{mirrored}{order}{ends}")
    for _ in range(60):
        tails = (1 if mirrored else 2) if ends else 0
        dual = random_dual(rng, mirrored=mirrored, order=order, tails=tails)
        cost = any_cost(rng, dual.reach)
        support = rng.randrange(1, dual.reach + 3) if ends or rng.random() < 0.5 else None
        asked = {"epsilon": rng.choice((0.1, 1.0, 7.0, 70.0)), "delta": rng.choice((0.0, 0.1))}
        limit = 0.05 if ends else None
        found = bound.prove_bound(dual, cost, **asked, support=support, impossible=limit)
        assert found == plain_bound(dual, cost, **asked, support=support, impossible=limit)


def test_prices_out_of_bounds_prove_nothing():
    rng = random.Random(3)
    dual = random_dual(rng, mirrored=False, order=True, tails=0)
    cost = any_cost(rng, dual.reach)
    asked = {"epsilon": 1.0, "delta": 0.1}
    bound.prove_bound(dual, cost, **asked)
    high = dual.slack.copy()
    high[0, 0] = dual.budget[0] + 1
    low = dual.slack.copy()
    low[0, 0] = -1
    shifts = dual.shifts.copy()
    shifts[0] = dual.cells + 1
    none = dual.shifts.copy()
    none[0] = 0
    width = dual.slack.shape[1]
    for change in (
        {"slack": high},
        {"slack": low},
        {"budget": -dual.budget - 1},
        {"order": dual.order - 10},
        {"shifts": shifts},
        {"shifts": -shifts},
        {"shifts": none},
        {"slack": dual.slack[:, : width - 1]},
        {"slack": dual.slack[:-1]},
        {"budget": dual.budget[:-1]},
        {"tail": np.array([-1, -1], np.int64)},
        {"tail": np.array([1], np.int64)},
        {"tail": np.array([[1, 1]], np.int64)},
        *({name: getattr(dual, name).astype(float)} for name in ("shifts", "budget", "slack")),
        *({name: getattr(dual, name).astype(float)} for name in ("order", "tail")),
        {"shifts": dual.shifts[:, None]},
        {"budget": dual.budget[:, None]},
        {"slack": dual.slack[0]},
        {"order": dual.order[0]},
        {"order": dual.order[:1]},
        {"order": np.ones((2, dual.reach + 1), np.int64)},
    ):
        with pytest.raises(CertificateError):
            bound.prove_bound(replace(dual, **change), cost, **asked)
    with pytest.raises(CertificateError, match="cover"):
        bound.prove_bound(dual, any_cost(rng, dual.reach + 1), **asked)
    tails = replace(dual, tail=np.array([1, 1], np.int64))
    for missing in ({}, {"support": 2}, {"impossible": 0.1}):
        with pytest.raises(CertificateError, match="support"):
            bound.prove_bound(tails, cost, **asked, **missing)
    bound.prove_bound(tails, cost, **asked, support=2, impossible=0.1)
    edge = replace(dual, shifts=np.where(dual.shifts > 0, dual.cells, -dual.cells))
    edge.check()


@pytest.mark.parametrize("name", ["budget", "order", "tail"])
def test_prices_that_do_not_fit_64_bits(name):
    rows, largest = 3, 1 << 57
    base = bound.DualCertificate(
        1,
        np.ones(rows, np.int64),
        np.ones(rows, np.int64),
        np.zeros((rows, 3), np.int64),
        True,
        np.zeros((2, 1), np.int64),
        np.zeros(1, np.int64),
        0,
    )
    base.check()
    fits = {name: np.full_like(getattr(base, name), largest)}
    replace(base, **fits).check()
    wide = {name: np.full_like(getattr(base, name), 2 * largest)}
    with pytest.raises(CertificateError, match="large"):
        replace(base, **wide).check()


def test_one_row_may_have_larger_prices():
    one = bound.no_prices(1)
    replace(one, budget=np.array([1 << 58], np.int64)).check()
    with pytest.raises(CertificateError, match="large"):
        replace(one, budget=np.array([1 << 59], np.int64)).check()


def test_no_prices_prove_the_least_cost():
    dual = bound.no_prices(2)
    assert dual.radius == 1
    assert dual.reach == 4
    assert (dual.mirrored, dual.order.shape, dual.tail.shape, dual.scale) == (
        False,
        (0, 0),
        (0,),
        0,
    )
    cost = LatticeCost(upper=[9] * 9, lower=[9, 8, 7, 6, 5, 6, 7, 8, 9], atom=0, denominator=2)
    assert bound.prove_bound(dual, cost, epsilon=1.0, delta=0.1) == Fraction(5, 2)

"""The certifier on small cases, number by number against the definition."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError, solve
from opendp_optimal.certify import bound, privacy, pure
from opendp_optimal.certify.privacy import TOTAL
from opendp_optimal.spec.exact import BITS, exp_bounds
from opendp_optimal.spec.loss import LatticeCost, parse

ONE = 1 << BITS


def law(rng: random.Random, count: int, zeros: bool = True) -> np.ndarray:
    """Integer weights with sum TOTAL, some of them 0, some tiny."""
    parts = [
        rng.choice((0, 1, 1, 5, 50, 500, 10**6)) if zeros else rng.randrange(1, 99)
        for _ in range(count)
    ]
    parts[count // 2] += 1
    whole = sum(parts)
    weights = [TOTAL * p // whole for p in parts]
    weights[count // 2] += TOTAL - sum(weights)
    return np.array(weights, np.int64)


def plain(weights: list[int], shift: int, growth: Fraction) -> int:
    """The shortfall with growth times the weight rounded down, term by term."""
    out = 0
    for i, w in enumerate(weights):
        j = i - shift
        other = weights[j] if 0 <= j < len(weights) else 0
        out += max(0, w - min(TOTAL, math.floor(growth * other)))
    return out


def laws() -> list[np.ndarray]:
    rng = random.Random(5)
    return [law(rng, n) for n in (1, 3, 3, 5, 7, 9, 11, 5, 7) for _ in range(4)]


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 3.0, 50.0, 64.0, 90.0])
def test_shortfalls_term_by_term(epsilon):
    growth = Fraction(exp_bounds(min(epsilon, 64.0))[0], ONE)
    for weights in laws():
        plainly = weights.tolist()
        most = len(plainly) + 2
        found = privacy.shortfalls(weights, epsilon, most).tolist()
        expected = [
            max(plain(plainly, m, growth), plain(plainly, -m, growth)) for m in range(most + 1)
        ]
        assert found == expected
        few = privacy.shortfalls(weights, epsilon, 1).tolist()
        assert few == expected[:2]


def test_symmetric_laws_too():
    rng = random.Random(6)
    for n in (1, 2, 3, 4):
        half = law(rng, 2 * n + 1).tolist()[:n]
        weights = [*half, 0, *half[::-1]]
        weights[n] = TOTAL - sum(weights)
        if weights[n] < 0:
            continue
        growth = Fraction(exp_bounds(0.5)[0], ONE)
        found = privacy.shortfalls(np.array(weights, np.int64), 0.5, 4).tolist()
        assert found == [plain(weights, m, growth) for m in range(5)]


@pytest.mark.parametrize("part", [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10)])
def test_delta_units_between_whole_shifts(part):
    growth = Fraction(exp_bounds(0.4)[0], ONE)
    for weights, whole in itertools.product(laws(), (0, 1, 2)):
        shift = whole + part
        if not shift > 0:
            continue
        plainly = weights.tolist()
        falls = [max(plain(plainly, m, growth), plain(plainly, -m, growth)) for m in range(5)]
        worst = Fraction(max(falls[: whole + 1]))
        if part:
            worst = max(worst, (1 - part) * falls[whole] + part * falls[whole + 1])
        assert privacy.delta_units(weights, 7, 3, 0.4, shift) == worst + 7


def test_delta_units_refuses_other_shifts():
    weights = laws()[4]
    for shift in (Fraction(0), Fraction(-1), Fraction(3) + Fraction(1, 10**9)):
        with pytest.raises(ValueError, match="shift"):
            privacy.delta_units(weights, 0, 3, 0.4, shift)
    privacy.delta_units(weights, 0, 3, 0.4, Fraction(3))


def test_check_weights():
    good = laws()[8]
    privacy.check_weights(good, 0)
    moved = good.copy()
    moved[len(good) // 2] -= 5
    privacy.check_weights(moved, 5)
    negative = good.copy()
    negative[0] = -1
    negative[1] += good[0] + 1
    for weights, atom in (
        (good, 1),
        (good, -1),
        (moved, 4),
        (good.astype(np.int32), 0),
        (good.astype(float), 0),
        (good[None, :], 0),
        (np.array([TOTAL, 0], np.int64), 0),
        (negative, 0),
    ):
        with pytest.raises(CertificateError):
            privacy.check_weights(weights, atom)
    bigger = good.copy()
    bigger[len(good) // 2] += 5
    with pytest.raises(CertificateError, match="negative"):
        privacy.check_weights(bigger, -5)
    with pytest.raises(CertificateError, match="negative"):
        privacy.check_weights(negative, 0)


def test_prove_private_to_the_last_unit():
    weights = laws()[16]
    used = privacy.delta_units(weights, 0, 2, 1.0, Fraction(2))
    exact = Fraction(used) / TOTAL
    enough = float(exact)
    while Fraction(enough) < exact:
        enough = math.nextafter(enough, 2)
    rest = privacy.prove_private(weights, 0, 2, 1.0, enough)
    assert rest == Fraction(enough) * TOTAL - used
    assert rest >= 0
    less = math.nextafter(enough, 0)
    while Fraction(less) >= exact:
        less = math.nextafter(less, 0)
    with pytest.raises(CertificateError, match="privacy"):
        privacy.prove_private(weights, 0, 2, 1.0, less)
    with pytest.raises(CertificateError, match="add up"):
        privacy.prove_private(weights, 1, 2, 1.0, 0.9)
    # Exactly as much as allowed is allowed: all of a law that is one point.
    point = np.array([0, TOTAL, 0], np.int64)
    assert privacy.prove_private(point, 0, 1, 1.0, 1.0) == 0


def impossible(weights: list[int], atom: int, cells: int) -> int:
    """What a neighbour could never give, by the definition."""
    worst = 0
    for m in [*range(-cells, 0), *range(1, cells + 1)]:
        lost = atom
        for i, w in enumerate(weights):
            j = i - m
            if not (0 <= j < len(weights)) or weights[j] == 0:
                lost += w
        worst = max(worst, lost)
    return worst


def test_prove_impossible_to_the_last_unit():
    for weights in laws():
        for cells, atom in ((1, 0), (2, 0), (2, 3)):
            if len(weights) <= cells:
                continue
            worst = Fraction(impossible(weights.tolist(), atom, cells), TOTAL)
            enough = float(worst)
            while Fraction(enough) < worst:
                enough = math.nextafter(enough, 2)
            privacy.prove_impossible(weights, atom, cells, enough)
            less = enough
            while Fraction(less) >= worst and less > 0:
                less = math.nextafter(less, 0)
            if worst > 0:
                with pytest.raises(CertificateError, match="impossible"):
                    privacy.prove_impossible(weights, atom, cells, less)


def test_prove_shape():
    def shape(values, **asked):
        wanted = {"symmetric": False, "monotone": False, **asked}
        privacy.prove_shape(np.array(values, np.int64), **wanted)

    shape([1, 2, 5])
    shape([1, 5, 1], symmetric=True, monotone=True)
    shape([1, 1, 5, 5, 2], monotone=True)
    shape([3, 1, 3], symmetric=True)
    for values, asked in (
        ([1, 5, 2], {"symmetric": True}),
        ([1, 2, 3], {"monotone": True}),
        ([3, 2, 1], {"monotone": True}),
        ([1, 3, 2, 3, 1], {"monotone": True}),
        ([1, 0, 2, 1, 0], {"monotone": True}),
    ):
        with pytest.raises(CertificateError):
            shape(values, **asked)


# --- noise without end ----------------------------------------------------------------------------


def pure_table(**change):
    return solve(**{"epsilon": 1.0, "delta": 0.0, "cache": False, **change})


def tail(weight, block, again):
    return pure.PureTail(weight, np.array(block, np.int64), again)


def endless(head, period_law, again, weight):
    """A law from fractions of TOTAL, with what is missing in the middle and in ``again``."""
    side = list(head)
    middle = TOTAL - 2 * weight - 2 * sum(side)
    weights = np.array([*side, middle, *side[::-1]], np.int64)
    return weights, tail(weight, period_law, again)


def half_law(weights, end, blocks):
    """Probabilities of 0, 1, 2, ... by the definition."""
    out = [Fraction(w, TOTAL) for w in weights[len(weights) // 2 :].tolist()]
    factor = Fraction(end.weight, TOTAL)
    for _ in range(blocks):
        out += [factor * Fraction(t, TOTAL) for t in end.weights.tolist()]
        factor *= Fraction(end.again, TOTAL)
    return out


def examples():
    q = TOTAL // 8
    yield endless([q // 2], [TOTAL // 2], TOTAL // 2, q // 2)
    yield endless([q // 3, q // 2], [TOTAL // 4, TOTAL // 4], TOTAL // 2, q)
    yield endless([], [TOTAL // 2, TOTAL // 4], TOTAL // 4, q)
    yield endless([q // 4, q // 2, q], [TOTAL - TOTAL // 8], TOTAL // 8, q // 8)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_largest_ratio(step):
    for weights, end in examples():
        right = half_law(weights, end, 12)
        assert all(a >= b for a, b in itertools.pairwise(right))
        expected = max(a / b for a, b in zip(right, right[step:], strict=False))
        assert pure._largest_ratio(weights, end, step) == expected
        assert pure._right_half(weights, end, 3) == [
            v * TOTAL**5 for v in half_law(weights, end, 3)
        ]


def test_prove_pure_to_the_last_digit():
    for weights, end in examples():
        ratio = pure._largest_ratio(weights, end, 2)
        epsilon = pure.pure_epsilon(weights, end, Fraction(2), 99.0)
        assert Fraction(exp_bounds(epsilon)[0], ONE) >= ratio
        pure.prove_pure(weights, end, 2, epsilon)
        less = epsilon * (1 - 1e-12)
        assert Fraction(exp_bounds(less)[1], ONE) < ratio
        with pytest.raises(CertificateError, match="ratio"):
            pure.prove_pure(weights, end, 2, less)
        assert pure.pure_epsilon(weights, end, Fraction(3, 2), 99.0) == epsilon
        assert pure.pure_epsilon(weights, end, Fraction(2), 0.125) == 0.125


def test_pure_laws_that_are_none():
    weights, end = next(examples())
    pure._check(weights, end)
    skew = weights.copy()
    skew[0] += 1
    skew[1] -= 1
    rising = np.array([weights[1] // 8, 0, weights[1] // 8], np.int64)
    rising[1] = TOTAL - 2 * end.weight - 2 * rising[0]
    rising_only = np.array([rising[1] // 2, 0, rising[1] // 2], np.int64)
    rising_only[1] = TOTAL - 2 * end.weight - 2 * rising_only[0]
    for bad_weights, bad_end in (
        (skew, end),
        (rising_only, end),
        (weights, replace(end, weight=end.weight + 1)),
        (weights, replace(end, again=end.again + 1)),
        (weights, replace(end, again=0, weights=np.array([TOTAL], np.int64))),
        (weights, tail(end.weight, [TOTAL // 2 + 1, -1], TOTAL // 2)),
        (weights.astype(np.int32), end),
        (weights[None, :], end),
        (weights, replace(end, weights=end.weights.astype(float))),
        (weights, replace(end, weights=end.weights[None, :])),
        (weights, replace(end, weights=np.zeros(0, np.int64), again=TOTAL)),
    ):
        with pytest.raises(CertificateError):
            pure._largest_ratio(bad_weights, bad_end, 1)
    no_tail = np.array([0, TOTAL, 0], np.int64)
    with pytest.raises(CertificateError):
        pure._largest_ratio(no_tail, replace(end, weight=0), 1)
    even = np.array([weights[1] // 2, weights[1] // 2], np.int64)
    even[0] = even[1] = (TOTAL - 2 * end.weight) // 2
    with pytest.raises(CertificateError, match="middle"):
        pure._check(even, end)
    for equal in (end, tail(end.weight, end.weights, end.again)):
        assert equal == end
    for other in (
        replace(end, weight=1),
        replace(end, again=1),
        replace(end, weights=end.weights + 1),
        3,
    ):
        assert other != end


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
@pytest.mark.parametrize("shift", [Fraction(1), Fraction(2), Fraction(1, 2), Fraction(5, 3)])
def test_pure_profile(epsilon, shift):
    growth = Fraction(exp_bounds(epsilon)[0], ONE)
    for weights, end in examples():
        right = half_law(weights, end, 90)
        both = right[:0:-1] + right

        def fall(m, both=both):
            total = Fraction(0)
            for i, v in enumerate(both):
                other = both[i - m] if i - m >= 0 else Fraction(0)
                total += max(Fraction(0), v - growth * other)
            return total if m else Fraction(0)

        whole, part = math.floor(shift), shift - math.floor(shift)
        worst = max(fall(m) for m in range(whole + 1))
        if part:
            worst = max(worst, (1 - part) * fall(whole) + part * fall(whole + 1))
        found = pure.pure_delta(weights, end, shift, epsilon)
        # Everything is rounded against the claim, by units of 2^-62.
        assert worst <= found <= worst + Fraction(4000, TOTAL)


def test_pure_profile_at_its_ends():
    weights, end = next(examples())
    assert pure.pure_delta(weights, end, Fraction(1), 40.0) == 0
    assert pure.pure_delta(weights, end, Fraction(1), 90.0) == 0
    assert pure._profile(weights, end, Fraction(10**6), 0.0) == 1
    ratio = pure._largest_ratio(weights, end, 1)
    enough = pure.pure_epsilon(weights, end, Fraction(1), 99.0)
    assert Fraction(exp_bounds(enough)[0], ONE) >= ratio
    assert pure.pure_delta(weights, end, Fraction(1), enough) == 0
    assert pure.pure_delta(weights, end, Fraction(1), enough - 1e-6) > 0


@pytest.mark.parametrize("kind", ["integer", "real"])
@pytest.mark.parametrize("name", ["l1", "l2"])
def test_tail_moments(name, kind):
    for weights, end in examples():
        radius, cells = len(weights) // 2, 3
        right = half_law(weights, end, 400)[radius + 1 :]
        exact = Fraction(0)
        unit = 1 if kind == "integer" else cells
        for j, v in enumerate(right):
            place = radius + 1 + j
            loss = Fraction(place, unit) if name == "l1" else Fraction(place, unit) ** 2
            if kind == "real" and name == "l2":
                loss += Fraction(1, 12 * cells * cells)
            exact += 2 * v * loss
        found = pure.tail_moments(weights, end, parse(name), cells, kind)
        assert abs(found - exact) < Fraction(1, 10**15)
    with pytest.raises(ValueError, match="l1 or l2"):
        pure.tail_moments(weights, end, parse("pinball:0.5"), 3, "real")


# --- lower bounds ---------------------------------------------------------------------------------


def plain_bound(dual, cost, epsilon, delta, support=None, impossible=None):
    """The bound by the formula in the module's words, in fractions."""
    unit = Fraction(1, 2**dual.scale)
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
        rng.randrange(0, 6),
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


def test_no_prices_prove_the_least_cost():
    dual = bound.no_prices(2)
    assert dual.radius == 1
    assert dual.reach == 4
    cost = LatticeCost(upper=[9] * 9, lower=[9, 8, 7, 6, 5, 6, 7, 8, 9], atom=0, denominator=2)
    assert bound.prove_bound(dual, cost, epsilon=1.0, delta=0.1) == Fraction(5, 2)

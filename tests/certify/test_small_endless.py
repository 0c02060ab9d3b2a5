"""Proofs for noise without end, number by number against the definition."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import endless as pure
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import exp_bounds
from opendp_optimal.losses.base import loss_of
from tests.certify.small_laws import ONE


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
        found = pure.tail_moments(weights, end, loss_of(name), cells, kind)
        assert abs(found - exact) < Fraction(1, 10**15)
    with pytest.raises(ValueError, match="l1 or l2"):
        pure.tail_moments(weights, end, loss_of("pinball:0.5"), 3, "real")


def test_what_is_not_endless_is_named():
    weights, end = next(examples())
    no_weight = np.array([0, TOTAL, 0], np.int64)
    with pytest.raises(CertificateError, match="endless"):
        pure._check(no_weight, replace(end, weight=0))
    with pytest.raises(CertificateError, match="endless"):
        pure._check(weights, tail(end.weight, [TOTAL], 0))
    least = np.array([0, TOTAL - 2, 0], np.int64)
    pure._check(least, tail(1, [TOTAL - 1], 1))
    # All of the tail goes on for ever: nothing is ever drawn from it.
    with pytest.raises(CertificateError, match="fall outwards"):
        pure._largest_ratio(weights, tail(end.weight, [0], TOTAL), 1)


def test_exactly_the_ratio_is_enough(monkeypatch):
    weights, end = next(examples())
    ratio = pure._largest_ratio(weights, end, 1)
    exact = ratio * ONE
    assert exact.denominator == 1

    def bounds(low, high):
        monkeypatch.setattr(pure, "exp_bounds", lambda epsilon: (low, high))

    bounds(int(exact), int(exact))
    pure.prove_pure(weights, end, 1, 1.0)
    assert pure.pure_delta(weights, end, Fraction(1), 1.0) == 0
    assert pure.pure_epsilon(weights, end, Fraction(1), 99.0) == math.log(ratio)
    # An upper bound of the exponential proves nothing.
    bounds(int(exact) - 1, int(exact) + 1)
    with pytest.raises(CertificateError, match="ratio"):
        pure.prove_pure(weights, end, 1, 1.0)
    assert pure.pure_delta(weights, end, Fraction(1), 1.0) > 0
    assert pure.pure_epsilon(weights, end, Fraction(1), 99.0) == 99.0


def test_small_epsilons_are_proved_too():
    for part in range(30, 40):
        # Between e^0.8 and e^1 a cell, then ever the same.
        weights, end = endless([], [TOTAL // 2], TOTAL // 2, TOTAL * part // 100)
        epsilon = pure.pure_epsilon(weights, end, Fraction(1), 99.0)
        ratio = pure._largest_ratio(weights, end, 1)
        assert Fraction(exp_bounds(epsilon)[0], ONE) >= ratio
        assert epsilon == pytest.approx(math.log(ratio), rel=1e-12)
        assert epsilon < 1
    for part in range(1, 12):
        again = TOTAL - (TOTAL >> 20) * part
        block = (TOTAL - again) // 2
        weight = (TOTAL - block // 2) // 2
        weights, end = endless([], [block, block], again, weight)
        ratio = pure._largest_ratio(weights, end, 1)
        epsilon = pure.pure_epsilon(weights, end, Fraction(1), 99.0)
        assert Fraction(exp_bounds(epsilon)[0], ONE) >= ratio
        assert epsilon < 1.01 * float(ratio - 1) + 1e-15


def written_out(weights, end, shift, epsilon):
    """The profile in units, each term rounded against the claim, by the words of the module."""
    again = Fraction(end.again, TOTAL)
    blocks = 1 + math.ceil(70 / -math.log2(again))
    half = [Fraction(w) for w in weights[len(weights) // 2 :].tolist()]
    half += [
        Fraction(end.weight * t, TOTAL) * again**q
        for q in range(blocks)
        for t in end.weights.tolist()
    ]
    growth = Fraction(exp_bounds(min(epsilon, 64.0))[0], ONE)
    high = [math.ceil(v) for v in half]
    low = [min(TOTAL, math.floor(growth * math.floor(v))) for v in half]
    high, low = high[:0:-1] + high, low[:0:-1] + low
    beyond = math.ceil(2 * end.weight * again**blocks)

    def fall(m):
        if m == 0:
            return 0
        if m >= len(high):
            return TOTAL
        short = sum(max(0, p - low[i - m]) for i, p in enumerate(high) if i >= m)
        return short + sum(high[:m]) + beyond

    whole, part = math.floor(shift), shift - math.floor(shift)
    worst = Fraction(max(fall(m) for m in range(whole + 1)))
    if part:
        worst = max(worst, (1 - part) * fall(whole) + part * fall(whole + 1))
    return min(Fraction(1), worst / TOTAL), len(high)


def test_the_profile_to_the_last_unit():
    q = TOTAL // 8
    slow = endless([q // 2], [TOTAL // 4], TOTAL - TOTAL // 4, q + 3)
    odd = endless([q // 5], [TOTAL // 3 + 1], TOTAL - TOTAL // 3 - 1, q // 3)
    rare = endless([q // 2], [TOTAL // 2], TOTAL // 2, TOTAL >> 20)
    for weights, end in [*examples(), slow, odd, rare]:
        for shift in (Fraction(1, 3), Fraction(1), Fraction(7, 4), Fraction(2)):
            for epsilon in (0.0, 0.05, 0.6, 70.0):
                expected, _ = written_out(weights, end, shift, epsilon)
                assert pure._profile(weights, end, shift, epsilon) == expected
    # As long as the law itself, and longer.
    weights, end = endless([], [TOTAL - 1], 1, q)
    _, length = written_out(weights, end, Fraction(1), 0.1)
    for shift in (length - 1, length, length + 1):
        expected, _ = written_out(weights, end, Fraction(shift), 0.1)
        assert pure._profile(weights, end, Fraction(shift), 0.1) == expected

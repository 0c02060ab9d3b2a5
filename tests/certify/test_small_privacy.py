"""Proofs of privacy on small laws, number by number against the definition."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify import noise as privacy
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import exp_bounds
from tests.certify.small_laws import ONE, law, laws, plain


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
        ([1, 2, 5, 3, 4], {"monotone": True}),
        ([4, 3, 5, 2, 1], {"monotone": True}),
        ([1, 0, 2, 1, 0], {"monotone": True}),
    ):
        with pytest.raises(CertificateError):
            shape(values, **asked)

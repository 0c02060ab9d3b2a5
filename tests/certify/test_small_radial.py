"""Staircases, decays and keys: refusals, and what is proved against sums and integrals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate

from opendp_optimal.certify import keys
from opendp_optimal.certify.decay import Decay, decay_delta_up, decay_loss_up, prove_decay
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.radial import (
    MOST_SIZE,
    Staircase,
    factor,
    prove_staircase,
    staircase_loss_up,
)
from opendp_optimal.errors import CertificateError
from tests.certify.radial_integrals import plain_delta


def staircase(weights, tail, again, first=3, step=8, start=1):
    weights = np.array(weights, np.int64)
    weights[0] += TOTAL - tail - int(weights.sum())
    return Staircase(first, step, start, weights, tail, again)


LAWS = [
    staircase([0, TOTAL // 4, TOTAL // 8], TOTAL // 4, TOTAL // 2),  # the first step is steepest
    staircase([0, TOTAL // 2 - TOTAL // 8], TOTAL // 8, TOTAL // 2),  # the step into the tail
    staircase([0, TOTAL // 3], TOTAL // 2, TOTAL // 16, start=4),  # the tail
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_staircases_to_the_last_digit(law, size):
    radii = [law.first + (law.start + j) * law.step for j in range(400)]
    again = law.again / TOTAL
    weights = [*law.weights.tolist(), *(law.tail * (1 - again) * again**j for j in range(5))]
    falls = [
        math.log(a / b) + size * math.log(s / r)
        for a, b, r, s in zip(weights, weights[1:], radii, radii[1:], strict=False)
    ]
    epsilon = max(*falls, 1e-9)
    prove_staircase(law, size, epsilon * (1 + 1e-12))
    if max(falls) > 0:
        with pytest.raises(CertificateError, match="falls by more"):
            prove_staircase(law, size, epsilon * (1 - 1e-12))


@pytest.mark.parametrize("law", LAWS)
def test_losses_of_staircases_are_sums(law):
    again = law.again / TOTAL
    chances = [w / TOTAL for w in law.weights.tolist()]
    chances += [law.tail / TOTAL * (1 - again) * again**j for j in range(200)]
    radii = [law.first + (law.start + j) * law.step for j in range(len(chances))]
    for power in (1, 2):
        for norm, size in (("l1", 4), ("l2", 3), ("linf", 5)):
            mean = sum(p * (r / law.step) ** power for p, r in zip(chances, radii, strict=True))
            exact = mean * size / (size + power) * float(factor(norm, size, power))
            found = float(staircase_loss_up(law, norm, size, power, whole=False))
            # Each coordinate may move by a grid step, of which 1024 make a lattice unit.
            move = size / (law.step * 1024)
            more = (
                move
                if power == 1
                else 2 * math.sqrt(exact * size) / (law.step * 1024) + move**2 / size
            )
            assert found == pytest.approx(exact + more, rel=1e-12)
        found = float(staircase_loss_up(law, "linf", 2, power, whole=True))
        halves = [(r - 1) // 2 for r in radii]
        each = [sum(abs(z) ** power for z in range(-t, t + 1)) / (2 * t + 1) for t in halves]
        exact = 2 * sum(p * e for p, e in zip(chances, each, strict=True))
        assert exact <= found * (1 + 1e-12)
        assert found <= exact * (1 + (1e-9 if power == 2 else 1e-3))


def test_integers_that_hardly_move_lose_hardly_anything():
    never = replace(LAWS[0], first=1, start=0)  # the first box holds only 0
    size, stay = 3, 1 - never.weights[0] / TOTAL
    found = float(staircase_loss_up(never, "linf", size, 1, whole=True))
    assert 0 < found < size * stay * (never.first + 300 * never.step) / 4
    exact = 0.0
    chances = [w / TOTAL for w in never.weights.tolist()]
    again = never.again / TOTAL
    chances += [never.tail / TOTAL * (1 - again) * again**j for j in range(400)]
    for j, chance in enumerate(chances):
        half = j * never.step // 2
        exact += size * chance * half * (half + 1) / (2 * half + 1)
    assert exact <= found * (1 + 1e-12)
    assert found <= exact * (1 + 1e-4)


@pytest.mark.parametrize("power", [1, 2])
def test_losses_of_boxes_are_those_of_their_sides(power):
    law = replace(LAWS[0], offsets=(0, 2, 6))
    alone = [
        staircase_loss_up(replace(law, offsets=(offset,)), "linf", 1, power, whole=True)
        for offset in law.offsets
    ]
    asked = {"norm": "linf", "size": 3, "power": power, "whole": True}
    assert staircase_loss_up(law, **asked) == sum(alone)
    weights = (3.0, 0.5, 1.0)
    weighed = sum(w * a for w, a in zip((3, Fraction(1, 2), 1), alone, strict=True))
    assert staircase_loss_up(law, **asked, weights=weights) == weighed
    same = replace(law, offsets=())
    each = staircase_loss_up(same, "linf", 1, power, whole=True)
    assert staircase_loss_up(same, **asked, weights=weights) == each * Fraction(9, 2)


def test_the_least_and_the_largest_staircases():
    small = Staircase(1, 1, 0, np.array([TOTAL - 1]), 1, 1)
    top = (1 << 40) - 1
    many = np.ones(1 << 15, np.int64)
    many[0] = TOTAL // 2
    for law, size in (
        (small, 1),
        (small, MOST_SIZE),
        (replace(small, again=TOTAL - 1), 1),
        (replace(small, first=top, step=top, start=1 << 40), 1),
        (replace(small, offsets=(top,)), 1),
        (replace(small, weights=many, tail=TOTAL - int(many.sum())), 1),
    ):
        prove_staircase(law, size, 1e6)
    more = np.append(many, 1)
    for law, size, said in (
        (replace(small, first=0), 1, "radii"),
        (replace(small, first=2), 1, "radii"),
        (replace(small, step=1 << 40), 1, "radii"),
        (replace(small, start=-1), 1, "radii"),
        (replace(small, start=(1 << 40) + 1), 1, "radii"),
        (replace(small, offsets=(0, 0)), 1, "offset for each"),
        (replace(small, offsets=(0,)), 2, "offset for each"),
        (replace(small, offsets=(1 << 40,)), 1, "offsets"),
        (replace(small, offsets=(-1,)), 1, "offsets"),
        (replace(small, offsets=(1.0,)), 1, "integers"),
        (replace(small, tail=1.0), 1, "integers"),
        (replace(small, weights=small.weights[:0]), 1, "too long"),
        (replace(small, weights=more, tail=TOTAL - int(more.sum())), 1, "too long"),
        (small, 0, "too long"),
        (small, MOST_SIZE + 1, "too long"),
        (replace(small, weights=np.array([TOTAL - 1, 0])), 1, "endless"),
        (replace(small, weights=np.array([TOTAL]), tail=0), 1, "endless"),
        (replace(small, again=0), 1, "endless"),
        (replace(small, again=TOTAL), 1, "endless"),
        (replace(small, tail=2), 1, "add up"),
    ):
        with pytest.raises(CertificateError, match=said):
            prove_staircase(law, size, 1e6)


def test_lengths_of_coordinates():
    for size in (1, 2, 3, 9):
        assert float(factor("l1", size, 1)) == 1
        assert float(factor("l1", size, 2)) == pytest.approx(2 / (size + 1))
        # One coordinate of a cube's surface is at the end, the others are uniform.
        assert float(factor("linf", size, 1)) == pytest.approx(1 + (size - 1) / 2)
        assert float(factor("linf", size, 2)) == pytest.approx(1 + (size - 1) / 3)
        mean = math.gamma(size / 2) / math.gamma((size + 1) / 2) / math.sqrt(math.pi)
        assert float(factor("l2", size, 1)) == pytest.approx(size * mean)
        assert float(factor("l2", size, 2)) == 1


def test_staircases_that_are_none():
    law = LAWS[0]
    prove_staircase(law, 1, 9.0)
    zero, minus = law.weights.copy(), law.weights.copy()
    zero[0] += zero[1]
    zero[1] = 0
    minus[0] += minus[1] + 1
    minus[1] = -1
    for change in (
        {"weights": zero}, {"weights": minus}, {"weights": law.weights.astype(np.int32)},
        {"weights": law.weights[None]}, {"weights": law.weights[:0]},
        {"first": 0}, {"first": 9}, {"first": 3.0}, {"step": 1 << 40}, {"step": 8.0},
        {"start": -1}, {"start": (1 << 40) + 1}, {"start": 1.0}, {"tail": law.tail + 1},
        {"tail": float(law.tail)}, {"again": 0}, {"again": TOTAL}, {"again": 0.5},
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            prove_staircase(replace(law, **change), 1, 40.0)
    for size in (0, MOST_SIZE + 1, 1.0):
        with pytest.raises(CertificateError):
            prove_staircase(law, size, 40.0)
    assert law == replace(law)
    assert hash(law) == hash(replace(law))
    assert law != replace(law, again=law.again + 1)
    assert law != 3


# --- decays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("c", "k", "size", "epsilon"),
    [(1.3, 0.0, 3, 1.0), (1.1, 0.02, 4, 1.0), (0.4, 0.2, 2, 0.5), (2.2, 0.1, 5, 2.0)],
)
def test_delta_of_a_decay_is_its_integral(c, k, size, epsilon):
    found = float(decay_delta_up(Decay(c, k, 1 << 30), size, epsilon))
    exact = plain_delta(c, k, size, epsilon)
    assert exact * (1 - 1e-6) <= found <= exact * (1.012 if k else 1 + 1e-6)


@pytest.mark.parametrize(("c", "k", "size"), [(1.3, 0.0, 1), (0.7, 0.05, 3), (0.0, 2.0, 4)])
@pytest.mark.parametrize("power", [1, 2])
def test_losses_of_decays_are_integrals(c, k, size, power):
    def mass(more):
        at = lambda r: r ** (size - 1 + more) * math.exp(-c * r - k * r * r)  # noqa: E731
        return integrate.quad(at, 0, 4)[0] + integrate.quad(at, 4, 80)[0]

    for norm in ("l1", "l2", "linf") if c else ("l2",):  # Gaussian noise has one norm
        exact = mass(power) / mass(0) * float(factor(norm, size, power))
        found = float(decay_loss_up(Decay(c, k, 1 << 34), norm, size, power))
        assert exact * (1 - 1e-8) <= found <= exact * (1 + 1e-7)


def test_decays_that_are_none():
    good = Decay(1.0, 0.1, 1 << 20)
    for law in (
        replace(good, c=1), replace(good, k=1), replace(good, fine=1e6), replace(good, c=-0.1),
        replace(good, k=-0.1), replace(good, c=1e6), replace(good, k=1e12),
        replace(good, c=0.0, k=0.0), replace(good, fine=255), replace(good, fine=1 << 40),
    ):  # fmt: skip
        with pytest.raises(CertificateError, match="decay"):
            decay_delta_up(law, 3, 1.0)
        with pytest.raises(CertificateError, match="decay"):
            decay_loss_up(law, "l2", 3, 1)
    for size in (0, MOST_SIZE + 1, 1):
        with pytest.raises(CertificateError, match="length"):
            decay_delta_up(good, size, 1.0)
    for epsilon in (0.0, 64.0):
        with pytest.raises(CertificateError, match="epsilon"):
            decay_delta_up(good, 3, epsilon)
    with pytest.raises(CertificateError, match="coarse"):
        decay_delta_up(Decay(200.0, 0.1, 256), 3, 0.5)
    spent = decay_delta_up(good, 3, 1.0)
    prove_decay(good, 3, 1.0, float(spent) * (1 + 1e-12))
    with pytest.raises(CertificateError, match="spends more"):
        prove_decay(good, 3, 1.0, float(spent) * (1 - 1e-12))
    prove_decay(Decay(1.0, 0.0, 256), 3, 1.0, 0.0)


# --- keys -----------------------------------------------------------------------------------------


def key_case():
    """Noise -2..2, threshold 4, a move of 1; nothing is held back beyond what noise decides."""
    weights = np.array([1, 2, 2, 2, 1], np.int64) * (TOTAL // 8)
    count = keys.rows(weights, 4, 1)
    below = keys.below_threshold(weights, 4, count)
    nothing = below.copy()
    nothing[0] = TOTAL
    return weights, nothing, below


def test_what_noise_has_below_the_threshold():
    weights, _, below = key_case()
    at = dict(zip(range(-2, 3), weights.tolist(), strict=True))
    expected = [sum(w for z, w in at.items() if n + z < 4) for n in range(len(below))]
    assert below.tolist() == expected
    assert len(below) == 4 + 2 + 1 + 1
    assert below[-2] == 0


def plain_keys(nothing, rescued, move, epsilon):
    low = math.exp(epsilon)
    return max(
        max(0, rescued[n] - low * rescued[m]) + max(0, nothing[n] - low * nothing[m])
        for n in range(1, len(nothing))
        for m in range(1, len(nothing))
        if 0 < abs(n - m) <= move and (rescued[n] or rescued[m])
    )


@pytest.mark.parametrize("move", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_shortfalls_of_keys_by_enumeration(move, epsilon):
    rng = np.random.default_rng(move)
    for _ in range(20):
        held, rescued = rng.integers(0, 1 << 60, (2, 8))
        rescued[rng.integers(0, 8, 4)] = 0
        if not rescued[1:].any():
            continue
        found = keys._shortfall(held[1:], rescued[1:], move, epsilon)
        exact = plain_keys(held.tolist(), rescued.tolist(), move, epsilon)
        assert found == pytest.approx(exact, rel=1e-9)


def test_keys_that_are_not_proved():
    weights, nothing, _ = key_case()
    asked = {"threshold": 4, "move": 1, "epsilon": 1.0, "delta": 0.125}
    keys.prove_keys(weights, nothing, **asked)
    for change in (
        {"threshold": 0}, {"threshold": 4.0}, {"move": 0}, {"move": 1.0}, {"threshold": 3},
        {"delta": 0.12}, {"epsilon": 0.5}, {"move": 2}, {"threshold": keys.MOST_COUNTS},
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            keys.prove_keys(weights, nothing, **{**asked, **change})
    for at, value in ((3, -1), (3, nothing[3] + 1), (0, TOTAL - 1)):
        one = nothing.copy()
        one[at] = value
        with pytest.raises(CertificateError, match="within its bounds"):
            keys.prove_keys(weights, one, **asked)
    for wrong in (
        nothing.tolist(), nothing.astype(float), nothing[None], nothing[:0],
        np.append(nothing, 0), nothing[:1],
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            keys.prove_keys(weights, wrong, **asked)
    for at, value in ((0, TOTAL - 1), (1, nothing[1] + 1), (3, nothing[3] + 1), (3, -1), (5, 0)):
        changed = nothing.copy()
        changed[at] = value
        if at == 5:
            changed[4:] = 0  # rescued always: counts beside it are told apart
        with pytest.raises(CertificateError):
            keys.prove_keys(weights, changed, **asked)
    more = nothing.copy()
    more[1] -= TOTAL // 8 + 1
    with pytest.raises(CertificateError, match="too often"):
        keys.prove_keys(weights, more, **asked)


def whole_keys(nothing):
    """Noise -1..1 and threshold 2: count 1 is released with 1/4, 2 with 3/4."""
    weights = np.array([1, 2, 1], np.int64) * (TOTAL // 4)
    return weights, np.array(nothing, np.int64)


def test_keys_are_proved_to_the_last_unit():
    asked = {"threshold": 2, "move": 1, "epsilon": 40.0}
    weights, nothing = whole_keys([TOTAL, TOTAL // 4 * 3, TOTAL // 4])
    # Count 1 is released with a quarter, and as much of the noise has nothing beside it.
    keys.prove_keys(weights, nothing, **asked, delta=0.25)
    with pytest.raises(CertificateError):
        keys.prove_keys(weights, nothing, **asked, delta=math.nextafter(0.25, 0))
    more = nothing.copy()
    more[1] -= 1
    with pytest.raises(CertificateError, match="too often"):
        keys.prove_keys(weights, more, **asked, delta=0.25)
    for wrong in ([TOTAL - 1, *nothing[1:]], [TOTAL, nothing[1] + 1, nothing[2]],
                  [TOTAL, nothing[1], nothing[2] + 1]):  # fmt: skip
        with pytest.raises(CertificateError, match="within its bounds"):
            keys.prove_keys(weights, np.array(wrong, np.int64), **asked, delta=0.25)


def test_a_threshold_may_be_one():
    weights, nothing = whole_keys([TOTAL, TOTAL // 4])
    keys.prove_keys(weights, nothing, threshold=1, move=1, epsilon=40.0, delta=0.75)


def test_every_count_within_a_move_is_rarely_released():
    # With a move of 2, count 2 is beside 0 too.
    weights, nothing = whole_keys([TOTAL, TOTAL // 4 * 3, TOTAL // 4])
    for move, delta in ((1, 0.5), (2, 0.75)):
        if move == 1:
            keys.prove_keys(weights, nothing, threshold=2, move=1, epsilon=40.0, delta=delta)
        with pytest.raises(CertificateError):
            keys.prove_keys(weights, nothing, threshold=2, move=2, epsilon=40.0, delta=0.7)


def test_the_largest_move_from_a_key_that_is_not_there_decides():
    weights = np.full(11, TOTAL // 11)
    weights[5] += TOTAL - int(weights.sum())
    asked = {"threshold": 6, "move": 2, "epsilon": 40.0, "delta": 0.2}
    nothing = keys.below_threshold(weights, 6, keys.rows(weights, 6, 2))
    keys.prove_keys(weights, nothing, **asked)
    nothing[2] -= TOTAL // 11  # count 2 is released with 3 / 11, count 1 with 1 / 11
    for rarely in (nothing, nothing[:1]):
        with pytest.raises(CertificateError, match="too often"):
            keys.prove_keys(weights, rarely, **asked)


def test_moves_reach_no_further_than_there_are_counts():
    rng = np.random.default_rng(4)
    held, rescued = rng.integers(1, 1 << 60, (2, 4))
    for move in (3, 4, 9):
        found = keys._shortfall(held, rescued, move, 0.2)
        exact = plain_keys([0, *held.tolist()], [0, *rescued.tolist()], move, 0.2)
        assert found == pytest.approx(exact, rel=1e-9)
    assert keys._shortfall(held[:1], rescued[:1], 3, 0.2) == 0
    # Where nothing is rescued on either side, the noise alone decides; and no shortfall is none.
    assert keys._shortfall(held, np.zeros(4, np.int64), 3, 0.0) == 0
    level = np.full(4, 1 << 40)
    assert keys._shortfall(level, level, 3, 0.2) == 0
    one = np.array([0, 0, 5, 0])
    assert keys._shortfall(level, one, 1, 0.2) == 5
    assert keys._shortfall(level, np.array([1, 0, 0, 0]), 1, 0.2) == 1

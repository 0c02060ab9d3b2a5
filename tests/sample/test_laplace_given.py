"""Noise that is made of Laplace noise, word by word, against its law in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal.sample import integers as noise
from opendp_optimal.sample.digits import Digits, settled
from tests.sample.given import Given, exp_minus


def kept(proposals, words, draw, monkeypatch, name, then=2):
    """What becomes noise of these proposals, and of ``then`` without end, under these words."""
    waiting = list(proposals)

    def laplace(*arguments, **named):
        count = arguments[-2] if name == "_draw" else arguments[-1]
        laplace.rate = arguments[-3] if name == "_draw" else arguments[0]
        taken = [waiting.pop(0) if waiting else then for _ in range(count)]
        return np.array(taken, np.int64)

    monkeypatch.setattr(noise, name, laplace)
    return draw(Given(words)), laplace


@pytest.mark.parametrize("sigma", [0.4, 1.0, 7.3, 2500.0])
def test_discrete_gaussians_are_kept_as_their_law_says(sigma, monkeypatch):
    rate = 0.5 / sigma**2
    for size in (0, 1, -1, round(-2 * sigma), round(3 * sigma) + 1):
        for off in (-1, 1, -(1 << 48), 1 << 48):
            kept(
                [0],
                [0],
                lambda s: noise.discrete_gaussian_integers(rate, 1, source=s),
                monkeypatch,
                "laplace_integers",
            )
            slow = 1 / (math.floor(sigma * (1 + 1e-12)) + 1)
            exact, t = Fraction(rate), Fraction(slow)
            # exp(-rate z^2) over exp(-slow |z|), as much as makes it 1 at most.
            x = exact * (abs(size) - t / (2 * exact)) ** 2
            word = math.floor(exp_minus(x) * 2**64) + off
            if not 0 <= word < 1 << 64:
                continue
            found, laplace = kept(
                [size],
                [word, 0, 0, 0],
                lambda s: noise.discrete_gaussian_integers(rate, 1, source=s),
                monkeypatch,
                "laplace_integers",
            )
            assert laplace.rate == slow
            assert found.tolist() == [size if off < 0 else 2]


def test_discrete_gaussians_fill_all_places(monkeypatch):
    monkeypatch.setattr(noise, "CHUNK", 4)
    always = [0] * 30
    found, _ = kept(
        range(10),
        always,
        lambda s: noise.discrete_gaussian_integers(0.02, 10, source=s),
        monkeypatch,
        "laplace_integers",
    )
    assert found.tolist() == list(range(10))
    # In the second chunk (4..7) two are refused: what is drawn next takes their places.
    words = [0] * 4 + [0, 2**64 - 1, 0, 2**64 - 1] + [0] * 20
    proposals = [*range(4), 4, 90, 6, 91, 5, 7, 8, 9]
    found, _ = kept(
        proposals,
        words,
        lambda s: noise.discrete_gaussian_integers(0.02, 10, source=s),
        monkeypatch,
        "laplace_integers",
    )
    assert found.tolist() == list(range(10))


def test_floors_are_folded_and_sent_to_both_sides(monkeypatch):
    found, _ = kept(
        [0, 0, 5, 5, -1, -1, -6, -6],
        [0, 1] * 4,
        lambda s: noise.laplace_floors(0.1, 8, source=s),
        monkeypatch,
        "laplace_integers",
    )
    assert found.tolist() == [0, -1, 5, -6, 0, -1, 5, -6]
    found, _ = kept(
        [3, 3],
        [6, 7],
        lambda s: noise.laplace_floors(0.1, 2, source=s),
        monkeypatch,
        "laplace_integers",
    )
    assert found.tolist() == [3, -4]


@pytest.mark.parametrize("dimension", [2, 3, 16])
def test_vectors_are_kept_as_their_law_says(dimension, monkeypatch):
    rate = 0.37
    for z in ([3, -4, 1] * 6, [10] * 16, [0, 7] + [0] * 14, [-1] * 16):
        z = z[:dimension]
        slow = Fraction(rate * (math.sqrt(1 / dimension) * (1 - 2.0**-48)))
        square = sum(x * x for x in z)
        length = Fraction(math.isqrt(square << 400), 1 << 200)
        chance = exp_minus(max(Fraction(rate) * length - slow * sum(map(abs, z)), Fraction(0)))
        for off in (-1, 1, -(1 << 50), 1 << 50):
            word = math.floor(chance * 2**64) + off
            if not 0 <= word < 1 << 64:
                continue
            found, laplace = kept(
                z,
                [word],
                lambda s: noise.laplace_vectors(rate, 1, dimension, source=s),
                monkeypatch,
                "_draw",
            )
            assert found.tolist() == [z if off < 0 else [2] * dimension]
            assert laplace.rate.tolist() == [float(slow)] * dimension


def test_vectors_fill_all_places(monkeypatch):
    monkeypatch.setattr(noise, "CHUNK", 3)
    rates = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    words = [0, 2**64 - 1, 0, 0] + [0] * 9
    proposals = [1, 1, 90, -99, 3, 3, 2, 2, 4, 4, 5, 5]
    found, _ = kept(
        proposals, words, lambda s: noise.laplace_vectors(rates, 5, source=s), monkeypatch, "_draw"
    )
    assert found.tolist() == [[k, k] for k in range(1, 6)]
    assert noise.laplace_vectors(0.5, 3, 1, source=Given([0, 0, 0])).shape == (3, 1)
    for dimension in (0, 17):
        with pytest.raises(ValueError, match="dimension"):
            noise.laplace_vectors(1.0, 1, dimension)


def test_lengths_that_are_integers_are_exact():
    """[3, 4] has length 5: what is kept is decided without a bound on a root."""
    v = Digits(math.floor(exp_minus(Fraction(1)) * 2**64), 64, Given(then=255))
    # 5 (3/5) - 7 (2/7) = 1
    assert noise._keep_vector([3, -4], Fraction(3, 5), Fraction(2, 7), v) is False
    v = Digits(math.floor(exp_minus(Fraction(1)) * 2**64) - 1, 64, Given(then=255))
    assert noise._keep_vector([3, -4], Fraction(3, 5), Fraction(2, 7), v) is True
    assert v.bits == 64
    # A bound on the root, however close, would not decide here.
    rate = next(
        r
        for r in (Fraction(1, 11) + Fraction(k, 10**6) for k in range(1000))
        if (exp_minus(5 * r) * 2**64) % 1 < r * exp_minus(5 * r) / 2
    )
    v = Digits(math.floor(exp_minus(5 * rate) * 2**64) - 1, 64, Given(then=255))
    assert noise._keep_vector([3, -4], rate, Fraction(0), v) is True
    assert v.bits == 64
    # An exponent that is not negative by rounding only counts as 0: all are kept.
    full = Digits((1 << 64) - 2, 64, Given(then=255))
    assert noise._keep_vector([1, 1], Fraction(1, 10**9), Fraction(1), full) is True


def test_a_root_is_known_to_as_many_digits_as_decide():
    # sqrt(5) to 8 digits leaves exponents of 0.3375..0.728; the exact one is near 0.507.
    rate, slow = Fraction(100), Fraction(2231, 30)
    for v, kept_ in ((0.65, False), (0.55, True), (0.40, True), (0.75, False)):
        digit = Digits(int(v * 256), 8, Given())
        assert noise._keep_vector([1, -2], rate, slow, digit) is kept_
        assert (digit.bits > 8) is (v in (0.65, 0.55))


def test_digits_are_extended_until_they_decide():
    """A tie of 64 digits is settled by the next ones."""
    x = Fraction(1, 3)
    tie = math.floor(exp_minus(x) * 2**64)
    for then, expected in ((0, True), (255, False)):
        assert settled(Digits(tie, 64, Given(then=then)), x) is expected

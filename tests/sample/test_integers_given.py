"""Noise in integers, word by word, against the law in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal.exact.exponentials import exp_bounds
from opendp_optimal.sample import integers as noise
from opendp_optimal.sample import strips
from opendp_optimal.sample.digits import Digits, below, settle, settle_beyond
from opendp_optimal.sample.strips import FIRST_BEYOND, SLOTS, envelope
from tests.sample.given import Given, exp_minus

SHAPES = ["gaussian", "laplace"]
RATES = {
    "gaussian": [0.5 / s**2 for s in (0.7, 11.3, 5000.0, 4e8)],
    "laplace": [1.0 / s for s in (0.7, 11.3, 5000.0, 1e8)],
}


def strip_of(shape, slot):
    """The strip of a slot, from the weights alone."""
    weights = list(itertools.accumulate(envelope(shape).weights))
    if slot < weights[-1]:
        return bisect_right(weights, slot)
    return -bisect_right(weights, slot - weights[-1]) - 1


def place_of(shape, unit, strip, u):
    y = unit * (strip + u)
    return math.floor(y + Fraction(1, 2)) if shape == "gaussian" else math.floor(y)


def chance_of(shape, rate, unit, strip, u, weight):
    """How likely a place is kept."""
    y = unit * (strip + u)
    x = Fraction(rate) * (y * y if shape == "gaussian" else abs(math.floor(y)))
    return envelope(shape).factor * exp_minus(x) / weight


def unit_of(shape, rate):
    return int(noise._units(shape, np.asarray(rate))[0])


def split(shape, word, bits):
    """Strip, weight and place of a word."""
    strip = strip_of(shape, word & 0xFFFF)
    return (
        strip,
        envelope(shape).weights[max(strip, -strip - 1)],
        Fraction(word >> 64 - bits, 2**bits),
    )


def proposed(shape, rates, words, more, stretch=math.inf):
    """What becomes of each word and of the one that tells its further digits; None if dropped."""
    rates = np.asarray(rates)
    z = np.empty(len(words), np.int64)
    units = noise._units(shape, rates)[0]
    parts = iter([words, more])

    def source(count):  # as many of each as are asked for, then zeros
        return Given(next(parts, []))(count)

    left = noise._propose(shape, z, units, rates, stretch, source)
    out = z.tolist()
    for i in left.tolist():
        out[i] = None
    return out


def on_the_edge(shape, rate, count, off, rng):
    """Words that are kept, by so little, for ``off`` below 0, and dropped above it."""
    unit = unit_of(shape, rate)
    bits = 40 if unit < 1 << 24 else 36
    words, more, expected = [], [], []
    while len(words) < count:
        word = int(rng.integers(0, FIRST_BEYOND)) | int(rng.integers(0, 1 << 40)) << 24
        strip, weight, u = split(shape, word, bits)
        chance = chance_of(shape, rate, unit, strip, u, weight)
        assert chance <= 1
        v = math.floor(chance * 2**72) + int(off * 2**72) + (off > 0)
        if 0 <= v < 1 << 72:
            words.append(word & ~0xFF0000 | v >> 64 << 16)
            more.append(v & (1 << 64) - 1)
            expected.append(place_of(shape, unit, strip, u) if v < chance * 2**72 else None)
    return words, more, expected


CASES = [(shape, rate) for shape in SHAPES for rate in RATES[shape]]


@pytest.mark.parametrize(("shape", "rate"), CASES)
@pytest.mark.parametrize("off", [2.0**-70, 2.0**-17, 2.0**-9])
def test_a_place_is_kept_exactly_as_often_as_its_density_says(shape, rate, off):
    rng = np.random.default_rng(7)
    for side in (-off, off):
        words, more, expected = on_the_edge(shape, rate, 40, side, rng)
        assert any(z is None for z in expected) is (side > 0)
        assert proposed(shape, rate, words, more) == expected
        assert proposed(shape, np.full(40, rate), words, more) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_exact_arithmetic_decides_as_floats_do(shape, monkeypatch):
    rng = np.random.default_rng(8)
    rates = np.repeat(RATES[shape][:3], 60)
    words, more = rng.integers(0, 2**64, (2, len(rates)), np.uint64).tolist()
    words[0] |= 0xFFFF  # beyond
    more[0] |= 1 << 63
    first = proposed(shape, rates, words, more)
    assert 0 < sum(z is None for z in first) < len(first)
    monkeypatch.setattr(noise, "TOLERANCE", 2.0**60)
    assert proposed(shape, rates, words, more) == first


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [0.7, 11.3, 64.0, 5e5, 1.5e9])
def test_what_is_sure_needs_no_closer_look(shape, scale):
    rate = 0.5 / scale**2 if shape == "gaussian" else 4.0 / scale
    rng = np.random.default_rng(9)
    words = rng.integers(0, 2**64, 3000, np.uint64).tolist()
    width = noise._units(shape, np.asarray(rate))[1]
    stretch = next(s for s in (*noise._STRETCHES, math.inf) if width * (1 + 2**-40) <= s)
    for digits_of_all in (0, 1 << 63, (1 << 64) - 1):
        more = [digits_of_all] * len(words)
        slow = proposed(shape, rate, words, more)
        assert proposed(shape, rate, words, more, stretch) == slow


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("extra", [0, 1, (1 << 64) - 1])
def test_digits_that_carry_are_drawn(shape, extra):
    """At the end of an integer's part of a strip further digits decide which integer it is."""
    rate = RATES[shape][2]
    unit = unit_of(shape, rate)
    half = Fraction(1, 2) if shape == "gaussian" else 0
    edge = math.ceil((3 - half) / unit * 2**40) - 1  # of places: the last that may be below 3
    u = edge << 24  # digits 0: kept, in the first strip
    seen = []

    def source(count):
        seen.append(count)
        return (
            (u if len(seen) == 1 else 0).to_bytes(8, "little")
            if len(seen) < 3
            else (extra.to_bytes(8, "little") if len(seen) == 3 else bytes(count))
        )

    z = np.empty(1, np.int64)
    units = noise._units(shape, np.asarray(rate))[0]
    left = noise._propose(shape, z, units, np.asarray(rate), 2.0, source)
    y = unit * Fraction((edge << 64) + extra, 2**104)
    assert len(left) == 0
    assert z[0] == math.floor(y + half)
    assert len(seen) >= 3
    assert seen[2] == 8


@pytest.mark.parametrize("shape", SHAPES)
def test_places_beyond_the_strips(shape):
    """Their weights fall by 2^-15 a turn; what is kept is as likely as the density says."""
    rate = Fraction(RATES[shape][1])
    unit, env = unit_of(shape, float(rate)), envelope(shape)
    for turns, slot in itertools.product((1, 2), (0, 700, SLOTS // 2 - 1, FIRST_BEYOND - 1)):
        script = [SLOTS - 1] * (turns - 1) + [slot]
        start = b"".join(s.to_bytes(2, "little") for s in script)
        for u in (0, 1 << 61, (1 << 64) - 1):
            near = strip_of(shape, slot)
            strip = near + (env.strips if near >= 0 else -env.strips) * turns
            weight = Fraction(env.weights[max(near, -near - 1)], 2 ** (15 * turns))
            chance = chance_of(shape, rate, unit, strip, Fraction(u, 2**64), weight)
            assert chance < 2**-24
            bits = 200
            for v in (math.floor(chance * 2**bits), math.floor(chance * 2**bits) + 1):
                source = Given([])
                source.data = start + u.to_bytes(8, "little")
                found = settle_beyond(shape, rate, unit, Digits(v, bits, source), source)
                kept = v < chance * 2**bits
                assert found == (place_of(shape, unit, strip, Fraction(u, 2**64)) if kept else None)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("slot", [FIRST_BEYOND, SLOTS - 1])
def test_only_the_first_digits_lead_beyond_the_strips(shape, slot):
    rate = RATES[shape][1]
    unit = unit_of(shape, rate)
    for more in (1 << 40, (1 << 40) - 1, 0):
        found = proposed(shape, rate, [slot], [more])
        first = unit * envelope(shape).strips
        assert found == [first if more == 0 else None]


@pytest.mark.parametrize("value", [0, 5, 1 << 63, (1 << 64) - 1])
def test_digits_hold_a_number(value):
    digit = Digits(value, 64, Given([3, 9]))
    assert digit.high - digit.low == Fraction(1, 2**64)
    assert digit.low == Fraction(value, 2**64)
    digit.extend()
    digit.extend()
    assert (digit.value, digit.bits) == (((value << 64) + 3 << 64) + 9, 192)


def test_a_number_is_compared_with_an_exponential():
    for x, factor in ((Fraction(0), Fraction(1, 3)), (Fraction(7, 3), Fraction(5, 4))):
        exact = factor * exp_minus(x) * 2**64
        told = [below(Digits(math.floor(exact) + k, 64, Given()), x, x, factor) for k in (-1, 0, 1)]
        assert told == [True, None, False]
    # Where the end is between both bounds of the exponential, nothing is said.
    v, x = Digits(1 << 62, 64, Given()), Fraction(1, 3)
    upper = Fraction(exp_bounds(x, 128)[1], 1 << 128)
    assert below(v, x, x, v.high / upper) is None
    third = Digits(math.floor(exp_minus(Fraction(1, 2)) * 256), 8, Given())
    near, far, one = Fraction(1, 4), Fraction(1), Fraction(1)
    assert below(third, near, near, one) is True
    assert below(third, near, far, one) is None
    assert below(third, far, far, one) is False


def test_integers_of_places_are_settled_by_their_digits():
    # 4 (2 + u) up to 1/16: the integer is known as soon as no digit can change it.
    for u, extra, expected in ((3, 0, 8), (4, 0, 9), (15, 255, 11), (0, 0, 8)):
        source = Given([extra])
        found = settle(
            "laplace",
            Fraction(1, 10**6),
            4,
            2,
            Fraction(1, 2),
            Digits(u, 4, source),
            Digits(0, 64, source),
        )
        assert found == expected
        assert source.asked == 0
    source = Given([1 << 63, 0])
    digit = Digits(1, 2, source)  # [1/4, 1/2) of 3 integers: 0 or 1, decided by more digits
    assert (
        settle("laplace", Fraction(1, 10**6), 3, 0, Fraction(1), digit, Digits(0, 8, source)) == 1
    )
    assert digit.bits == 66


@pytest.mark.parametrize("shape", SHAPES)
def test_the_envelope_is_the_closest(shape):
    env = envelope(shape)
    width, strips_ = (0.0625, 128) if shape == "gaussian" else (0.25, 128)
    heights = [
        exp_minus(Fraction((width * a) ** 2) / 2 if shape == "gaussian" else Fraction(width * a))
        for a in range(strips_)
    ]
    half = (SLOTS - 2) // 2
    assert (env.width, env.strips, len(env.weights)) == (width, strips_, strips_)
    assert sum(math.ceil(env.factor * h) for h in heights) <= half
    assert sum(math.ceil((env.factor + 1) * h) for h in heights) > half
    assert list(env.weights[1:]) == [math.ceil(env.factor * h) for h in heights[1:]]
    assert sum(env.weights) == half
    for a in (0, 3, 127):
        assert math.exp(-env.exponent(a)) == pytest.approx(float(heights[a]), rel=1e-12)
    assert strips.keep_factors(shape).tolist() == [env.factor / w for w in env.weights]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stretch", [1.0, 1.25, 16.0, math.inf])
def test_sure_digits_are_as_many_as_can_be(shape, stretch):
    env, found = envelope(shape), strips.sure(shape, stretch)
    for slot in [*range(0, FIRST_BEYOND, 199), 0, FIRST_BEYOND - 1]:
        strip = strip_of(shape, slot)
        a = max(strip, -strip - 1)
        lowest = 0.0
        if stretch < math.inf:
            lowest = 256 * math.exp(-env.exponent((a + 1) * stretch)) * env.factor / env.weights[a]
        assert found[slot] <= lowest
        assert found[slot] > min(lowest, 256) - 1.0001 or lowest == 0.0
        assert strips.packed(shape, stretch)[slot] == (strip & 0xFF) | int(found[slot]) << 8
    assert found[FIRST_BEYOND:].tolist() == [0, 0]


# --- units and chunks -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_strips_are_as_narrow_as_can_be(shape):
    rates = np.array([0.3, 1.0, 2.0**-20, 1e-9])
    units, stretch = noise._units(shape, rates)
    scales = [math.sqrt(0.5 / r) if shape == "gaussian" else 1 / r for r in rates]
    ideal = [envelope(shape).width * s for s in scales]
    for unit, least in zip(units.tolist(), ideal, strict=True):
        assert least <= unit <= math.floor(least * (1 + 2**-39)) + 1
    assert stretch == pytest.approx(max(u / i for u, i in zip(units, ideal, strict=True)))
    assert noise._units(shape, np.zeros(0))[1] == 1.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("unit", [3, 100, 12345])
def test_rounding_never_makes_a_strip_too_narrow(shape, unit):
    """The largest rate for which so many integers are not quite enough takes one more."""
    width = Fraction(envelope(shape).width)
    least = width * width / (2 * unit * unit) if shape == "gaussian" else width / unit
    rate = float(least)
    while rate >= least:
        rate = math.nextafter(rate, 0)
    assert unit_of(shape, rate) == unit + 1


def test_the_longest_strip():
    width = envelope("laplace").width
    noise._units("laplace", np.array([1.0, width / (noise.LARGEST_UNIT - 1.25)]))
    with pytest.raises(ValueError, match="coarser grid"):
        noise._units("laplace", np.array([1.0, width / (noise.LARGEST_UNIT - 0.75)]))


@pytest.mark.parametrize("shape", SHAPES)
def test_short_and_long_strips_together(shape):
    """Where one of them is long, places have 36 digits."""
    words, more, expected = on_the_edge(
        shape, RATES[shape][3], 20, -(2.0**-20), np.random.default_rng(1)
    )
    near, unit = 1 << 59 | 3, unit_of(shape, RATES[shape][1])
    rates = [RATES[shape][1], *[RATES[shape][3]] * 20]
    first = place_of(shape, unit, strip_of(shape, 3), Fraction(1, 32))
    assert proposed(shape, rates, [near, *words], [0, *more]) == [first, *expected]


@pytest.mark.parametrize("pure", [False, True])
def test_the_widest_noise(pure):
    draw = noise.laplace_integers if pure else noise.gaussian_integers
    rate = noise.smallest_rate(pure=pure)
    widest = (1 << 28) - 1  # integers of a strip: 36 digits of a place times it fit one word
    assert widest == noise.LARGEST_UNIT
    assert noise.LARGEST_RATE[pure] == (1.0 if pure else 0.5)  # of scale 1
    assert unit_of("laplace" if pure else "gaussian", rate) >= widest - 2
    assert len(draw(rate, 3)) == 3
    with pytest.raises(ValueError, match="coarser grid"):
        draw(rate * (1 - 1e-7), 3)


@pytest.mark.parametrize("each", [False, True])
def test_chunks_and_what_is_drawn_again(each, monkeypatch):
    rates = np.arange(1.0, 12.0) / 50 if each else np.asarray(0.02)
    calls = []

    def propose(shape, z, units, rate, stretch, source):
        assert np.array_equal(units, noise._units(shape, rate)[0])
        number = np.round(rate * 50).astype(int) * 100 + len(calls)
        z[:] = number
        calls.append(len(z))
        return np.arange(len(z))[::2] if len(z) > 1 else np.arange(0)

    monkeypatch.setattr(noise, "_propose", propose)
    monkeypatch.setattr(noise, "CHUNK", 5)
    drawn = noise._draw("laplace", rates, 11, Given())
    # Of five, the first, third and fifth are drawn again; of these, the first and third; ...
    assert calls == [5, 3, 2, 1, 5, 3, 2, 1, 1]
    again = [3, 0, 1, 0, 2, 7, 4, 5, 4, 6, 8]
    assert (drawn % 100).tolist() == again
    assert (drawn // 100).tolist() == (list(range(1, 12)) if each else [1] * 11)


@pytest.mark.parametrize("rate", [0.3, 2.0**-8, 1e-7])
def test_tables_are_for_strips_at_least_as_wide(rate, monkeypatch):
    asked = []
    taken = strips.packed
    monkeypatch.setattr(noise, "packed", lambda shape, s: asked.append(s) or taken(shape, s))
    noise.gaussian_integers(rate, 2)
    width = noise._units("gaussian", np.asarray(rate))[1]
    assert min(s for s in (*noise._STRETCHES, math.inf) if s > width) == asked[0]


@pytest.mark.parametrize(
    "wrong", [np.array([0.1, -0.1]), np.array([0.1, math.inf]), np.array([[0.1]])]
)
def test_wrong_rates(wrong):
    with pytest.raises(ValueError, match="rate"):
        noise.gaussian_integers(wrong, 2)

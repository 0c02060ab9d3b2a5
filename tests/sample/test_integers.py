import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from opendp_optimal.exact.exponentials import exp_bounds
from opendp_optimal.sample import integers as noise
from opendp_optimal.sample.digits import Digits, settle_beyond
from opendp_optimal.sample.integers import gaussian_integers, laplace_integers, laplace_vectors
from opendp_optimal.sample.strips import (
    BEYOND_SHIFT,
    FIRST_BEYOND,
    SLOTS,
    TAIL_BITS,
    envelope,
    slots,
    sure,
)
from tests.tails import surprising

SHAPES = ["gaussian", "laplace"]


def gaussian_law(sigma):
    edges = np.arange(-math.ceil(6 * sigma), math.ceil(6 * sigma) + 1)
    return {
        int(z): float(ndtr((z + 0.5) / sigma) - ndtr((z - 0.5) / sigma)) for z in edges.tolist()
    }


def laplace_law(rate):
    q = math.exp(-rate)
    reach = math.ceil(15 / rate)
    return {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-reach, reach + 1)}


def refuted(drawn, law):
    """Say whether some value comes up too often or too seldom; false alarms below 1e-7."""
    share = 1e-7 / len(law)
    values, counts = np.unique(drawn, return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return any(surprising(seen.get(z, 0), len(drawn), p, share) for z, p in law.items())


@pytest.mark.parametrize("sigma", [0.4, 2.0, 11.0])
def test_gaussian_has_its_law(sigma):
    rate = 0.5 / sigma**2
    assert not refuted(gaussian_integers(rate, 60_000), gaussian_law(sigma))


@pytest.mark.parametrize("rate", [2.0, 0.3, 0.02])
def test_laplace_has_its_law(rate):
    assert not refuted(laplace_integers(rate, 60_000), laplace_law(rate))


def test_a_slightly_wrong_scale_is_noticed():
    """Zeros alone are off by 11 and 12 standard deviations; from 6 on they are refuted."""
    assert refuted(gaussian_integers(0.5 / 2.06**2, 600_000), gaussian_law(2.0))
    assert refuted(laplace_integers(0.32, 200_000), laplace_law(0.3))


def test_a_scale_for_each_draw():
    sigmas = np.tile([2.0, 5000.0, 11.0, 0.7], 30_000)
    drawn = gaussian_integers(0.5 / sigmas**2, len(sigmas))
    for place, sigma in enumerate((2.0, 5000.0, 11.0, 0.7)):
        mine = drawn[place::4]
        if sigma < 100:
            assert not refuted(mine, gaussian_law(sigma))
        else:
            within = int((np.abs(mine) <= sigma).sum())
            assert not surprising(within, len(mine), 2 * ndtr(1.0 + 0.5 / sigma) - 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_path_has_the_same_law(shape, monkeypatch):
    """With a huge tolerance every closer look is settled in exact arithmetic."""
    monkeypatch.setattr(noise, "TOLERANCE", 1e9)
    monkeypatch.setattr(noise, "_STRETCHES", ())
    if shape == "gaussian":
        assert not refuted(gaussian_integers(0.5 / 9.0, 1500), gaussian_law(3.0))
    else:
        assert not refuted(laplace_integers(0.3, 1500), laplace_law(0.3))


@pytest.mark.parametrize("scale", [1e3, 1e6, 3e7, 6e8])
def test_large_scales(scale):
    drawn = gaussian_integers(0.5 / scale**2, 50_000)
    for t in (0.25, 1.0, 2.5):
        within = int((np.abs(drawn) <= t * scale).sum())
        assert not surprising(within, len(drawn), 2 * ndtr(t) - 1)
    drawn = laplace_integers(1.0 / scale, 50_000)
    for t in (0.25, 1.0, 4.0):
        within = int((np.abs(drawn) <= t * scale).sum())
        assert not surprising(within, len(drawn), 1 - math.exp(-t - 0.5 / scale))


@pytest.mark.parametrize("dimension", [2, 3])
def test_planar_laplace_has_its_law(dimension):
    rate = 0.7
    side = np.arange(-45, 46)
    grid = np.stack(np.meshgrid(*[side] * dimension, indexing="ij"), axis=-1)
    weights = np.exp(-rate * np.sqrt((grid.astype(float) ** 2).sum(axis=-1)))
    total = float(weights.sum())
    drawn = laplace_vectors(rate, 40_000, dimension)
    assert drawn.shape == (40_000, dimension)
    for z in (
        [0] * dimension,
        [1] + [0] * (dimension - 1),
        [-1] * dimension,
        [2, -3, 1][:dimension],
    ):
        hits = int((drawn == np.array(z)).all(axis=1).sum())
        chance = math.exp(-rate * math.sqrt(sum(x * x for x in z))) / total
        assert not surprising(hits, len(drawn), chance)
    far = int((np.sqrt((drawn.astype(float) ** 2).sum(axis=1)) > 5.0).sum())
    length = np.sqrt((grid.astype(float) ** 2).sum(axis=-1))
    assert not surprising(far, len(drawn), float(weights[length > 5.0].sum()) / total)


def test_planar_exact_path(monkeypatch):
    monkeypatch.setattr(noise, "TOLERANCE", 2.0)
    drawn = laplace_vectors(0.7, 1000)
    assert drawn.shape == (1000, 2)


@pytest.mark.parametrize("shape", SHAPES)
def test_envelope_lies_above_the_density(shape):
    env = envelope(shape)
    assert 2 * sum(env.weights) + SLOTS - FIRST_BEYOND == SLOTS
    for a, weight in enumerate(env.weights):
        t = Fraction(env.width) * a
        x = t * t / 2 if shape == "gaussian" else t
        assert env.factor * exp_bounds(x, 100)[1] <= weight << 100
    table = slots(shape).astype(int)[:FIRST_BEYOND]
    values, counts = np.unique(table, return_counts=True)
    for strip, slots_of_it in zip(values.tolist(), counts.tolist(), strict=True):
        assert slots_of_it == env.weights[strip if strip >= 0 else -strip - 1]
    # One turn farther out the density falls by exp(-32) at least, the weights by 2**-15.
    turn = env.exponent(env.strips)
    assert turn >= 32.0
    assert math.exp(-turn) * 2**BEYOND_SHIFT < 2**-TAIL_BITS


@pytest.mark.parametrize("shape", SHAPES)
def test_sure_digits_are_sure(shape):
    env, counts = envelope(shape), sure(shape, 1.25)
    strips = slots(shape).astype(int)
    for slot in range(0, FIRST_BEYOND, 97):
        a = strips[slot] if strips[slot] >= 0 else -strips[slot] - 1
        lowest = math.exp(-env.exponent(1.25 * (a + 1))) * env.factor / env.weights[a]
        assert counts[slot] / 256 <= lowest
    assert not counts[FIRST_BEYOND:].any()


@given(st.floats(1e-16, 10.0))
def test_strips_are_never_too_narrow(rate):
    for shape in SHAPES:
        scale = math.sqrt(0.5 / rate) if shape == "gaussian" else 1.0 / rate
        if scale * envelope(shape).width >= noise.LARGEST_UNIT - 2:
            continue
        unit = int(noise._units(shape, np.asarray(rate))[0])
        width, exact = Fraction(envelope(shape).width), Fraction(rate)
        if shape == "gaussian":
            assert 2 * exact * unit * unit >= width * width
        else:
            assert exact * unit >= width


def test_the_tail_beyond_the_strips_can_be_reached():
    def zeros(count):
        return bytes(count)

    # The first digits of the decision are all 0: the place is kept, however far out.
    for shape, rate in (("gaussian", Fraction(1, 2 * 10**4)), ("laplace", Fraction(1, 100))):
        unit = int(noise._units(shape, np.asarray(float(rate)))[0])
        found = settle_beyond(shape, rate, unit, Digits(0, 64, zeros), zeros)
        assert found is not None
        assert found >= envelope(shape).strips * unit


def test_bad_arguments():
    with pytest.raises(ValueError, match="rate"):
        gaussian_integers(0.0, 3)
    with pytest.raises(ValueError, match="rate"):
        gaussian_integers(float("nan"), 3)
    with pytest.raises(ValueError, match="coarser grid"):
        gaussian_integers(1e-30, 3)
    with pytest.raises(ValueError, match="one for each draw"):
        gaussian_integers(np.ones(2), 3)
    with pytest.raises(ValueError, match="dimension"):
        laplace_vectors(1.0, 3, 17)
    assert len(gaussian_integers(1.0, 0)) == 0


def test_a_failing_source_is_an_error():
    with pytest.raises(OSError, match="random source"):
        gaussian_integers(1e-6, 10, source=lambda n: b"")

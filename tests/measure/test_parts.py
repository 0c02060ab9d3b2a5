"""Measurements, number by number: a table with scripted draws in place of the real one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opendp_optimal import solve
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.measure import release as module
from opendp_optimal.measure.guarantee import (
    Design,
    Guarantee,
    coordinates,
    design_for,
)
from opendp_optimal.measure.release import Grid, grid_for, releaser
from opendp_optimal.measure.space import INTEGER_RANGES, Space

TOP = 1.7976931348623157e308


@dataclass
class Scripted:
    """A table that draws what it is told."""

    noise: Any
    kind: str = "real"
    cells: int = 4
    radius: int = 8
    spike: None = None

    def draw(self, size=None, steps=1):
        self.steps = steps
        return self.noise if size is None else np.resize(np.asarray(self.noise, np.int64), size)


def released(space, noise, value, bits=0, steps=3):
    table = Scripted(noise)
    out = releaser(space, table.draw, Grid(bits, 1, steps, 12))(value)
    assert table.steps == steps
    return out


F64, VECTOR = Space("f64", "absolute"), Space("f64", "l1", 2)


@pytest.mark.parametrize("bits", [0, 3, 40, -5])
@pytest.mark.parametrize("value", [0.0, 1.0, -2.7, 1e6 + 0.3, -1e-9, 2.0**60])
@pytest.mark.parametrize("noise", [0, 1, -7, 12345])
def test_a_float_is_the_rounded_value_plus_noise(value, noise, bits):
    exact = (round(Fraction(value) * Fraction(2) ** bits) + noise) / Fraction(2) ** bits
    assert released(F64, noise, value, bits) == float(exact)
    assert released(VECTOR, [noise, -noise], [value, value], bits).tolist()[0] == float(exact)


def test_large_noise_goes_through_integers():
    noise = module.EXACT
    for sign in (1, -1):
        exact = Fraction(round(0.3 * 8) + sign * noise, 8)
        assert released(VECTOR, [sign * noise, 0], [0.3, 0.3], 3).tolist() == [float(exact), 0.25]
    huge = (1 << 62) + 1
    assert released(VECTOR, [huge], [1.0, 1.0], 0).tolist() == [float(huge + 1)] * 2
    assert module._slowly(np.array([0.5, -3.3]), [3, 5], 2).tolist() == [1.25, -2.0]
    # As a float this noise would be rounded, and the sum once more.
    odd = 2**53 + 1
    for sign in (1, -1):
        noisy = released(VECTOR, [sign * odd, 0], [sign * 1.0, 3.0], 0).tolist()
        assert noisy == [sign * (odd + 1), 3.0]


def test_floats_at_the_ends():
    for value, expected in ((math.nan, 5.0), (math.inf, TOP), (-math.inf, -TOP), (TOP, TOP)):
        assert released(F64, 5, value, 0) == expected
        assert released(VECTOR, [5], [value, value], 0).tolist() == [expected] * 2
    # On a fine grid, huge values have no digit that noise could change.
    for value in (1e307, -1e307, 2.0**1000):
        assert released(F64, 5, value, 100) == value
        assert released(VECTOR, [5], [value, value], 100).tolist() == [value] * 2
    for bits in (0, 1, 2):
        assert released(F64, 5, TOP, bits) == TOP
        assert released(F64, 5, -TOP, bits) == -TOP
    edge = math.ldexp(1.0, 1023 - 100)
    assert released(F64, 5, edge, 100) == edge
    assert released(F64, 5, -edge, 100) == -edge
    small = Space("f32", "l1", 2)
    top = float(np.finfo(np.float32).max)
    out = released(small, [0], [1e300, -1e300], 0)
    assert out.dtype == np.float32
    assert out.tolist() == [top, -top]
    assert released(F64, 1, TOP, -1023) == TOP
    assert released(F64, -3, -TOP, -1023) == -TOP
    assert module._ldexp(1 << 2000, 0) == math.inf
    assert module._ldexp(-(1 << 2000), 0) == -math.inf


@pytest.mark.parametrize("carrier", INTEGER_RANGES)
def test_integers_saturate(carrier):
    low, high = INTEGER_RANGES[carrier]
    scalar, vector = Space(carrier, "absolute"), Space(carrier, "l1", 2)
    for value in {low, low + 1, high - 1, high, 5}:
        for noise in (0, 1, -1, 3, -3, 2**40, -(2**40)):
            expected = min(max(value + noise, low), high)
            assert released(scalar, noise, value) == expected
            assert released(vector, [noise], [value, value]).tolist() == [expected] * 2


@pytest.mark.parametrize("bits", [1, 4])
def test_integers_on_a_finer_grid_are_rounded_after_the_noise(bits):
    for noise in range(-40, 40):
        expected = 7 + math.floor(Fraction(noise, 2**bits) + Fraction(1, 2))
        assert released(Space("i32", "absolute"), noise, 7, bits) == expected
        vector = released(Space("i64", "l1", 2), [noise], [7, 7], bits)
        assert vector.tolist() == [expected] * 2


@pytest.mark.parametrize(
    "sensitivity", [Fraction(1), Fraction(3), Fraction(1, 10), Fraction(1, 7), Fraction(10**9)]
)
@pytest.mark.parametrize("cells", [1, 4, 13])
def test_the_grid_hides_what_it_must(sensitivity, cells):
    table = Scripted(0, cells=cells)
    for space in (F64, Space("i64", "absolute")):
        if space.integer and sensitivity < 1:
            continue
        grid = grid_for(space, table, sensitivity)
        step = Fraction(2) ** -grid.bits
        assert grid.slack == (0 if space.integer else 1)
        assert grid.steps % 2 == 1
        assert grid.reach == cells * grid.steps
        moved = math.floor(sensitivity / step) + grid.slack
        # The least odd number of steps in a cell that is enough.
        assert grid.reach - 2 * cells < moved <= grid.reach
        assert grid.shift(sensitivity) == Fraction(moved, grid.reach) <= 1
        if not (space.integer and grid.bits == 0):
            # The coarsest power of two with so many steps in a cell.
            assert step * cells * module.RESOLUTION <= sensitivity
            assert 2 * step * cells * module.RESOLUTION > sensitivity or grid.bits == 0
        assert grid.bits >= 0 or not space.integer


def test_grids_at_the_ends():
    whole = Scripted(0, kind="integer", cells=3)
    assert grid_for(Space("i32", "absolute"), whole, Fraction(3)) == Grid(0, 0, 1, 3)
    finest = grid_for(F64, Scripted(0), Fraction(5e-324))
    assert finest.bits >= 1074
    assert finest.slack == 0
    exact = 1074 - 16 - 2  # the last digit of the smallest float, at 4 cells of 2^16 steps
    assert grid_for(F64, Scripted(0), Fraction(1, 2**exact)).slack == 0
    assert grid_for(F64, Scripted(0), Fraction(1, 2 ** (exact - 1))).slack == 1


@pytest.mark.parametrize("carrier", ["i64", "u64", "usize"])
def test_noise_too_long_for_whole_steps_has_a_coarser_grid(carrier):
    low, high = INTEGER_RANGES[carrier]
    long = Scripted(3, cells=4, radius=2**20)
    edge = Fraction(module.LONGEST_NOISE, long.radius + 1) * long.cells - 2 * long.cells
    assert grid_for(Space(carrier, "absolute"), long, Fraction(math.ceil(edge) - 1)).bits == 0
    for sensitivity in (Fraction(math.ceil(edge)), Fraction(2**44), Fraction(2**63 - 1)):
        grid = grid_for(Space(carrier, "absolute"), long, sensitivity)
        step = 2**-grid.bits
        assert step > 1
        assert grid.slack == 1
        assert grid.steps * (long.radius + 1) < 2**60
        assert math.floor(sensitivity / step) + 1 <= grid.reach
        assert grid.reach * step < sensitivity * Fraction(10001, 10000)
        one = releaser(Space(carrier, "absolute"), long.draw, grid)
        many = releaser(Space(carrier, "l1", 5), Scripted([3], cells=4).draw, grid)
        values = [low, low + 1, high // 2 + 12345, high - 1, high]
        # The rounded value, the noise and half a step, in the integers, within the type.
        whole = [v // step * step + 3 * step + step // 2 for v in values]
        expected = [min(max(v, low), high) for v in whole]
        assert [one(v) for v in values] == expected
        assert many(values).tolist() == expected


# --- the four arguments ---------------------------------------------------------------------------


def geometric(epsilon, count):
    return sum(math.exp(i * epsilon) for i in range(count))


def test_designs():
    def of(*space, d_in=1, changed=None):
        return design_for(Space(*space), d_in, 1.0, 1e-3, changed)

    wide = 1 + Fraction(1, 2**16)
    assert of("f64", "absolute", d_in=0.5) == Design("scalar", 1.0, 1e-3, wide / 2)
    assert of("i32", "absolute", d_in=2.9) == Design("scalar", 1.0, 1e-3, Fraction(2))
    assert of("i32", "l1").argument == "single"
    assert of("f64", "l1", d_in=0.5, changed=1).argument == "single"
    assert of("f64", "l2", 1, d_in=0.5).argument == "single"
    steps = of("i32", "l1", d_in=3)
    assert (steps.argument, steps.copies, steps.sensitivity) == ("steps", 3, 1)
    assert 3 * Fraction(steps.epsilon) <= 1 < 3 * Fraction(math.nextafter(steps.epsilon, 1))
    assert steps.delta * geometric(steps.epsilon, 3) == pytest.approx(1e-3, rel=1e-12)
    assert of("i32", "l2", d_in=2).copies == 4
    together = of("f64", "linf", 5, d_in=0.5, changed=3)
    assert (together.argument, together.copies) == ("composition", 3)
    assert together.sensitivity == wide / 2
    assert 3 * Fraction(together.epsilon) <= 1
    assert 3 * Fraction(together.delta) <= Fraction(1e-3)
    assert 3 * Fraction(math.nextafter(together.delta, 1)) > Fraction(1e-3)
    assert of("i32", "linf", 4, d_in=2).argument == "composition"
    for space, asked, words in (
        (("f64", "absolute"), {"d_in": 0}, "greater than 0"),
        (("i32", "absolute"), {"d_in": 0.5}, "at least 1"),
        (("i32", "absolute"), {"changed": 1}, "scalar"),
        (("f64", "l1"), {}, "changed="),
        (("f64", "l1"), {"changed": 0}, "at least 1"),
        (("f64", "l1"), {"changed": True}, "integer"),
        (("f64", "l1"), {"changed": 1.5}, "integer"),
        (("f64", "absolute"), {"d_in": -1}, "negative"),
        (("f64", "absolute"), {"d_in": math.inf}, "finite"),
        (("f64", "absolute"), {"d_in": math.nan}, "finite"),
        (("f64", "absolute"), {"d_in": True}, "number"),
        (("f64", "absolute"), {"d_in": "1"}, "number"),
    ):
        with pytest.raises(ValueError, match=words):
            of(*space, **asked)


def test_totals():
    steps = Design("steps", 0.5, 1e-4, Fraction(1), 3)
    epsilon, delta = steps.total(0.5, 1e-4, 3)
    assert epsilon == 1.5
    assert delta == pytest.approx(1e-4 * geometric(0.5, 3), rel=1e-12)
    low, _ = exp_bounds(0.5)
    assert Fraction(delta) >= Fraction(1e-4) * (1 + Fraction(low, 1 << BITS))
    assert steps.total(0.1, 0.2, 1) == (0.1, 0.2)
    assert steps.total(0.0, 0.01, 3)[1] == pytest.approx(0.03)
    assert steps.total(3.0, 0.9, 3)[1] == 1.0
    both = Design("composition", 0.1, 1e-4, Fraction(1), 3)
    epsilon, delta = both.total(0.1, 1e-4, 3)
    assert Fraction(epsilon) >= 3 * Fraction(0.1) > Fraction(math.nextafter(epsilon, 0))
    assert Fraction(delta) >= 3 * Fraction(1e-4) > Fraction(math.nextafter(delta, 0))


def test_coordinates():
    assert coordinates(Space("f64", "l1", 4), 1.0, None) == 4
    assert coordinates(Space("f64", "l1"), 1.0, None) is None
    assert coordinates(Space("f64", "l1", 4), 1.0, 2) == 2
    assert coordinates(Space("i32", "l1", 9), 3, None) == 3
    assert coordinates(Space("i32", "l2", 9), 2, None) == 4
    assert coordinates(Space("i32", "linf", 9), 3, None) == 9
    assert coordinates(Space("i32", "l1", 2), 3, 5) == 2
    assert coordinates(Space("f64", "l1", 0), 1.0, None) == 1
    assert design_for(Space("f64", "linf", 0), 1.0, 1.0, 1e-3) == Design(
        "single", 1.0, 1e-3, 1 + Fraction(1, 2**16)
    )


# --- maps -----------------------------------------------------------------------------------------

INTEGER = solve(1.0, 1e-2, integer_sensitivity=3, gap=0.5, cache=False)
REAL = solve(1.0, 1e-2, gap=0.5, cache=False)


def guarantee(space, table, d_in, design, changed=None):
    grid = grid_for(space, table, design.sensitivity)
    return Guarantee(space, design, table, grid, d_in, 1.0, 1e-2, changed)


def test_the_map_of_an_integer():
    space = Space("i32", "absolute")
    mine = guarantee(space, INTEGER, 3, Design("scalar", 1.0, 1e-2, Fraction(3)))
    assert mine.pair(3) == (1.0, 1e-2)
    assert mine.pair(0) == mine.pair(0.5) == (0.0, 0.0)
    for d in (1, 2, 2.5):
        epsilon, delta = mine.pair(d)
        assert epsilon == min(1.0, INTEGER.epsilon_at(1e-2, int(d)))
        assert delta == 1e-2
        assert epsilon < 1
    assert mine.pair(3.5) == (1.0, 1e-2)
    assert mine.pair(6) == (2.0, pytest.approx(1e-2 * geometric(1.0, 2)))
    assert mine.pair(7)[0] == 3.0
    assert mine.pair(10**30) == (pytest.approx(10**30 / 3), 1.0)
    assert mine.curve(0)(0.3) == 0.0
    assert mine.curve(2)(0.3) == INTEGER.delta_at(0.3, 2)
    assert mine.curve(3)(1e9) == INTEGER.delta_at(60.0, 3)
    for distance in (0, 3):
        for epsilon in (-0.1, math.nan):
            with pytest.raises(ValueError, match="epsilon"):
                mine.curve(distance)(epsilon)


def test_profiles_are_asked_up_to_an_epsilon_of_60():
    table = SimpleNamespace(kind="integer", cells=3, delta_at=lambda epsilon, shift: epsilon / 100)
    mine = guarantee(
        Space("i32", "absolute"), table, 3, Design("scalar", 1.0, 1e-2, Fraction(3))
    ).curve(3)
    assert [mine(epsilon) for epsilon in (0.0, 59.0, 60.0, 60.5, 1e9)] == [0.0, 0.59, 0.6, 0.6, 0.6]


def test_the_map_of_a_float():
    mine = guarantee(F64, REAL, 1.0, Design("scalar", 1.0, 1e-2, Fraction(1)))
    assert mine.pair(1.0) == (1.0, 1e-2)
    epsilon, delta = mine.pair(0.25)
    assert (epsilon, delta) == (REAL.epsilon_at(1e-2, mine.grid.shift(Fraction(1, 4))), 1e-2)
    tiny = mine.pair(1e-9)
    shift = mine.grid.shift(Fraction(1e-9))
    assert tiny == (0.0, min(1e-2, REAL.delta_at(0.0, shift)))
    assert tiny[1] < 1e-2


def test_the_map_of_vectors():
    steps = Space("i32", "l1", 5)
    mine = guarantee(steps, INTEGER, 2, Design("steps", 0.5, 1e-3, Fraction(1), 2))
    assert mine.pair(2) == (1.0, 1e-2)
    assert mine._moved(1) == (1, 1, 1)
    assert mine._moved(2) == (1, 2, 1)
    several = Space("f64", "l1", 5)
    design = Design("composition", 0.5, 5e-3, Fraction(1), 2)
    mine = guarantee(several, REAL, 1.0, design, changed=2)
    assert mine._moved(1.0)[1] == 2
    assert mine.pair(1.0) == (1.0, 1e-2)
    epsilon, delta = mine.pair(0.5)
    each = REAL.epsilon_at(5e-3, mine.grid.shift(Fraction(1, 2)))
    assert epsilon == min(1.0, float(2 * Fraction(each)))
    assert delta == 1e-2
    assert mine.curve(0.5)(1.0) == pytest.approx(
        2 * REAL.delta_at(0.5, mine.grid.shift(Fraction(1, 2)))
    )


def test_spaces():
    assert Space("i32", "absolute").distance(2.7) == 2
    assert Space("f64", "absolute").distance(0.1) == Fraction(0.1)
    assert Space("i32", "l2").unit_steps(1.5) == 2
    assert Space("i32", "l1").unit_steps(2.9) == 2
    assert Space("i32", "l1").output_type == "Vec<i32>"
    assert Space("f32", "absolute").output_type == "f32"
    assert not Space("f32", "absolute").integer
    assert Space("u8", "linf").vector

"""Attacks on floats: each works against a textbook implementation and fails against ours."""

import math
import warnings
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise
from opendp_optimal.testing import audit
from tests.attacks.mechanisms import LARGEST, REAL, Case, cases, naive

ALARM = 1e-7
DRAWS = 1200


def attack(release, x, x_prime, epsilon, delta, draws=DRAWS):
    return audit(release, x, x_prime, epsilon, delta, draws=draws, alarm=ALARM, fork=False)


# Two values at distance 1 (or their multiples) that betray the hole of each naive mechanism.
PAIRS = {
    "porous": (0.0, 1.0),  # low bits of x + noise (Mironov 2012)
    "coarse": (2.0**30 - 0.5, 2.0**30 + 0.5),  # precision that depends on the value
    "infinite": (LARGEST, LARGEST * 0.75),  # what is done about an overflow tells the value
    "flushed": (0.0, 5e-324),  # noise that vanishes below the smallest float
}


@pytest.mark.parametrize("kind", PAIRS)
def test_the_attack_works_on_a_textbook_implementation(kind):
    # Twice as many draws as below: an attack that works must not fail by chance.
    found = attack(naive(kind), *PAIRS[kind], 1.0, 1e-6, draws=2 * DRAWS)
    assert found.violated, found


WITHIN = ((0.0, 1.0), (1.0 - 2**-40, 2.0 - 2**-40), (2.5, 3.5))
"""For answers within a range: its end, a number of many bits, the middle of two cells."""
TOP = 2**31 - 1


def pairs(case: Case) -> list[tuple[Any, Any]]:
    """Neighbours that betray a hole, for any kind of data."""
    everywhere = [PAIRS["porous"], PAIRS["coarse"]]
    if isinstance(case.x, float):
        return list(WITHIN) if "bounded" in case.name else everywhere
    if isinstance(case.x, int):
        return [(case.x, case.x_prime), (TOP - 1, TOP), (-TOP, 1 - TOP)]
    if len(case.x) != len(case.x_prime):
        return [(case.x, case.x_prime), ([type(case.x[0])(0), *case.x[1:]], case.x[1:])]
    first = everywhere if isinstance(case.x[0], float) else [(TOP - 1, TOP), (0, 1)]
    return [([a, *case.x[1:]], [b, *case.x[1:]]) for a, b in first]


def attempts() -> list[Case]:
    return list(cases())


@pytest.mark.parametrize("case", attempts(), ids=lambda c: c.name)
def test_the_attack_fails_on_ours(case):
    for pair in pairs(case):
        found = attack(case.release, *pair, case.epsilon, case.delta, draws=600)
        assert not found.violated, (pair, found)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 2.0**-1000, 1e-3, 1e10, 1e300])
def test_every_scale_of_values(scale):
    measurement = make_optimal_noise(*REAL, scale, (1.0, 1e-3))
    for x in (0.0, scale, -scale, 2.0**40 * scale):
        near = x + scale
        if not 0 < near - x <= scale:
            continue
        found = attack(measurement, x, near, 1.0, 1e-3, draws=4000)
        assert not found.violated, (x, found)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.name)
def test_extreme_inputs_are_released_like_any_other(case):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for value in case.extremes:
            released = np.asarray(case.release(value), dtype=float)
            assert np.isfinite(released).all(), value
    assert said == []


@pytest.mark.parametrize("carrier", ["f32", "f64"])
def test_overflow_is_not_an_event(carrier):
    space = dp.atom_domain(T=carrier, nan=False), dp.absolute_distance(T=carrier)
    top = float(np.finfo({"f32": np.float32, "f64": np.float64}[carrier]).max)
    measurement = make_optimal_noise(*space, top / 4, (1.0, 1e-3))
    found = attack(measurement, top, top * 0.75, 1.0, 1e-3, draws=1000)
    assert not found.violated, found


def test_released_floats_lie_on_one_grid_whatever_the_value():
    measurement = make_optimal_noise(*REAL, 1.0, (1.0, 1e-3))
    bits = measurement.guarantee.grid.bits
    for x in (0.0, 1 / 3, math.pi, 1e-9, 12345.678):
        for _ in range(300):
            scaled = math.ldexp(measurement(x), bits)
            assert scaled == round(scaled)


def test_neighbours_are_never_further_apart_on_the_grid_than_the_map_says():
    measurement = make_optimal_noise(*REAL, 0.1, (1.0, 1e-3))
    grid = measurement.guarantee.grid
    limit = grid.reach
    rng = np.random.default_rng(5)  # inputs, not noise
    for x in np.concatenate([rng.normal(size=200), [0.05, 0.15, 1e15, 2.0**52]]).tolist():
        for other in (x + 0.1, x - 0.1, math.nextafter(x + 0.1, x)):
            if abs(other - x) <= 0.1:
                moved = round(math.ldexp(x, grid.bits)) - round(math.ldexp(other, grid.bits))
                assert abs(moved) <= limit

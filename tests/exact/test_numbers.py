from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.exact.numbers import BITS, exp_bounds, float_down, float_up


def series(x: Fraction, terms: int) -> Fraction:
    total = term = Fraction(1)
    for n in range(1, terms):
        term *= x / n
        total += term
    return total


@given(st.floats(0, 4))
@settings(deadline=None)
def test_bounds_enclose_the_series(x):
    low, high = exp_bounds(x)
    exact = Fraction(x)
    partial = series(exact, 60)
    rest = 2 * exact**60 / Fraction(1 << 250)  # far above the remainder of 60 terms
    assert Fraction(low, 1 << BITS) <= partial + rest
    assert partial <= Fraction(high, 1 << BITS)


@given(st.floats(0, 64))
@settings(deadline=None)
def test_bounds_are_tight_and_multiply(x):
    low, high = exp_bounds(x)
    assert 0 <= high - low <= 4
    half_low, half_high = exp_bounds(x / 2)
    assert half_low * half_low <= high << BITS
    assert half_high * half_high >= low << BITS


@pytest.mark.parametrize("x", [-1e-9, 64.1, float("nan")])
def test_out_of_range(x):
    with pytest.raises(ValueError, match=r"x \("):
        exp_bounds(x)


@given(st.fractions(-1000, 1000, max_denominator=10**12))
def test_directed_rounding(value):
    assert Fraction(float_down(value)) <= value <= Fraction(float_up(value))

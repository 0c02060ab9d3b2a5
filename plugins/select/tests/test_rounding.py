from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal_select.rounding import (
    PI_LOWER,
    PI_UPPER,
    exp_lower,
    exp_upper,
    float_above,
    float_below,
)

numbers = st.fractions(-30, 30, max_denominator=10**12)


@given(numbers, numbers)
def test_exponentials_are_enclosed(x, y):
    assert exp_lower(x) * exp_lower(-x) < 1 < exp_upper(x) * exp_upper(-x)
    assert exp_lower(x) * exp_lower(y) < exp_upper(x + y)
    assert exp_lower(x + y) < exp_upper(x) * exp_upper(y)
    assert exp_upper(x) - exp_lower(x) > exp_lower(x) / 10**40


@given(st.integers(2, 40))
def test_e_is_enclosed_by_its_series(terms):
    total, term = Fraction(1), Fraction(1)
    for n in range(1, terms + 1):
        term /= n
        total += term
    assert total < exp_upper(Fraction(1))
    assert exp_lower(Fraction(1)) < total + 2 * term


def test_pi_is_enclosed():
    """Machin's formula, with alternating series stopped on either side."""

    def arctan(x, terms):
        return sum((-1) ** n * Fraction(1, (2 * n + 1) * x ** (2 * n + 1)) for n in range(terms))

    low = 16 * arctan(5, 60) - 4 * arctan(239, 61)
    high = 16 * arctan(5, 61) - 4 * arctan(239, 60)
    assert PI_LOWER < low < high < PI_UPPER


@given(numbers)
def test_floats_are_rounded_outwards(x):
    assert Fraction(float_below(x)) <= x <= Fraction(float_above(x))

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.exact.exponentials import EXP_ERROR, FARTHEST, exp_bounds, exp_many


def exact(x: Fraction, bits: int) -> Fraction:
    with localcontext() as context:
        context.prec = 120
        return Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp()) * 2**bits


@given(st.fractions(0, 200, max_denominator=10**9), st.integers(8, 200))
def test_bounds_enclose_and_are_close(x, bits):
    low, high = exp_bounds(x, bits)
    assert low <= exact(x, bits) <= high
    assert high - low <= 4


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50))
def test_many_are_within_their_error(values):
    for x, found in zip(values, exp_many(np.array(values)).tolist(), strict=True):
        truth = exact(Fraction(x), 0) if x < FARTHEST else Fraction(0)
        assert abs(Fraction(found) - truth) <= EXP_ERROR

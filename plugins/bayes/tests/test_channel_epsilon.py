"""The epsilon of a channel: never below the truth, whatever the metric and the entries."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.exact.logarithms import exp_reaches, log_up
from opendp_optimal.exact.numbers import exp_down
from opendp_optimal_bayes import Channel


@st.composite
def channels_and_metrics(draw):
    inputs, outputs = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    sizes = st.integers(0, 12).flatmap(lambda k: st.integers(1, 10**k))
    rows = []
    for _ in range(inputs):
        parts = draw(st.lists(sizes, min_size=outputs, max_size=outputs))
        rows.append([Fraction(p, sum(parts)) for p in parts])
    unit = Fraction(10) ** draw(st.integers(-320, 320))
    return Channel(rows), [[unit * abs(x - z) for z in range(inputs)] for x in range(inputs)]


def truth(channel, metric):
    """The least epsilon in 60 digits, over all pairs and observations."""
    with localcontext() as context:
        context.prec = 60
        context.Emin, context.Emax = -10_000, 10_000
        return max(
            (Decimal(r.numerator) / r.denominator).ln() * d.denominator / d.numerator
            for x, row in enumerate(channel.rows)
            for z, other in enumerate(channel.rows)
            if (d := metric[x][z]) > 0
            for r in (u / v for u, v in zip(row, other, strict=True))
        )


@given(channels_and_metrics())
def test_epsilon_is_the_least_float_above_the_truth(asked):
    channel, metric = asked
    found, least = channel.epsilon(metric), truth(channel, metric)
    assert Decimal(found) >= least
    if 0 < found < math.inf:
        below = Decimal(math.nextafter(found, 0.0))
        assert below <= least * (1 + Decimal(2) ** -54)


def test_fine_metrics():
    # Metres in degrees: a flip of a coin that is told apart within 1e-8 of a degree.
    flip = Channel([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]])
    fine = flip.epsilon([[0, 1e-8], [1e-8, 0]])
    assert fine == pytest.approx(math.log(3) * 1e8, rel=1e-15)
    assert flip.epsilon([[0, 5e-324], [5e-324, 0]]) == math.inf  # no float is large enough


def test_rows_that_hardly_differ_are_not_called_equal():
    hair = Fraction(1, 10**40)
    channel = Channel([[Fraction(1, 2) + hair, Fraction(1, 2) - hair], [Fraction(1, 2)] * 2])
    assert channel.epsilon() == pytest.approx(2e-40, rel=1e-15)
    tiny = Channel([[Fraction(1, 10**400), 1 - Fraction(1, 10**400)], [Fraction(1, 2)] * 2])
    assert tiny.epsilon() == pytest.approx(math.log(10) * 400 - math.log(2), rel=1e-15)


@given(
    st.integers(0, 300).flatmap(lambda k: st.fractions(0, Fraction(1, 10**k))),
    st.fractions(Fraction(1, 10**9), 10**9),
)
def test_logarithms_of_ratios_near_one(excess, distance):
    epsilon = log_up(1 + excess, distance)
    assert exp_reaches(Fraction(epsilon) * distance, 1 + excess)
    if epsilon > 0:
        assert not exp_reaches(Fraction(math.nextafter(epsilon, 0.0)) * distance, 1 + excess)


def test_long_exponents_need_no_long_powers():
    assert exp_reaches(Fraction(10**30), Fraction(10**300))
    assert not exp_reaches(Fraction(690), Fraction(10**300))
    assert exp_down(Fraction(1, 10**50)) > 1

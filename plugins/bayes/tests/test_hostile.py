"""No value of the data raises, is rounded before noise, or leaves the bounds."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal.measure.space import INTEGER_RANGES
from opendp_optimal_bayes import (
    clamp,
    geometric_channel,
    loss_matrix,
    make_bounded_geometric,
    make_bounded_laplace,
    make_optimal_channel,
    optimal_channel,
    pixelated_laplace_channel,
    pixelated_prior,
    remap,
    step_geometric_channel,
)

HOSTILE = [0.0, -0.0, math.inf, -math.inf, 1.7e308, -1.7e308, 5e-324, -5e-324, 3.5e38, 1e-46]


def integers_of(carrier):
    metric = carrier if carrier not in ("i8", "i16", "u8") else "u32"
    return dp.atom_domain(T=carrier), dp.absolute_distance(T=metric)


def ends_of(carrier):
    """Both ends of a type, their neighbours, and the middle, where the sign changes."""
    least, most = INTEGER_RANGES[carrier]
    middle = (least + most) // 2
    return [least, least + 1, middle, middle + 1, most - 1, most]


@pytest.mark.parametrize("carrier", sorted(INTEGER_RANGES))
def test_every_integer_of_every_type(carrier):
    space, (least, most) = integers_of(carrier), INTEGER_RANGES[carrier]
    noisy = make_bounded_geometric(*space, lo=least, hi=most, epsilon=0.1)
    high = make_bounded_geometric(*space, lo=most - 20, hi=most, epsilon=0.1)
    decided = high >> remap()
    best = optimal_channel(prior=[0.5, 0.5], loss=loss_matrix("l1", range(2)), epsilon=1.0)
    chosen = make_optimal_channel(*space, best, lo=most - 1)
    for x in ends_of(carrier):
        assert least <= noisy(x) <= most
        assert most - 20 <= high(x) <= most
        assert most - 20 <= decided(x) <= most
        assert chosen(x) in (most - 1, most)


@pytest.mark.parametrize("carrier", ["i32", "i64", "u32", "u64"])
@pytest.mark.parametrize("ends", [(0, 2**64 - 1), (-5, 2**63), (-(2**70), 2**70)])
def test_clamps_that_are_wider_than_the_type(carrier, ends):
    least, most = INTEGER_RANGES[carrier]
    meas = dp.m.make_laplace(*integers_of(carrier), scale=1.0) >> clamp(*ends)
    for x in ends_of(carrier):
        assert max(least, ends[0]) <= meas(x) <= min(most, ends[1])


def test_clamps_beyond_the_type_are_refused():
    noisy = dp.m.make_laplace(*integers_of("u64"), scale=1.0)
    with pytest.raises(ValueError, match="must leave u64 between"):
        noisy >> clamp(-10, -5)
    with pytest.raises(ValueError, match="hi must be at most"):
        clamp(0, 10**400)


@pytest.mark.parametrize("carrier", ["f64", "f32"])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.1, 0.3), (-1e300, 1e300), (5e-324, 1.0)])
def test_every_float_of_every_type(carrier, ends):
    space = dp.atom_domain(T=carrier, nan=False), dp.absolute_distance(T=carrier)
    noisy = make_bounded_laplace(*space, lo=ends[0], hi=ends[1], epsilon=1.0)
    decided = noisy >> remap()
    clamped = dp.m.make_laplace(*space, scale=1.0) >> clamp(*ends)
    for x in HOSTILE:
        assert ends[0] <= noisy(x) <= ends[1]
        assert ends[0] <= decided(x) <= ends[1]
        assert ends[0] <= clamped(x) <= ends[1]


def test_floats_that_leave_no_room():
    space = dp.atom_domain(T="f32", nan=False), dp.absolute_distance(T="f32")
    with pytest.raises(ValueError, match="must leave f32 between"):
        make_bounded_laplace(*space, lo=1e300, hi=1e301, epsilon=1.0)
    wide = make_bounded_laplace(
        dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), -1.7e308, 1.7e308, 1.0
    )
    with pytest.raises(ValueError, match="hi - lo must be at most"):
        wide >> remap()


@pytest.mark.parametrize("lo", [2**60 + 1, 2**63 - 20, 2**64 - 12])
@pytest.mark.parametrize("loss", ["l1", "l2", lambda w, x: abs(w - x)])
def test_decisions_about_large_integers_are_those_about_small_ones(lo, loss):
    space = integers_of("u64")
    prior = [Fraction(k + 1, 66) for k in range(11)]
    small = make_bounded_geometric(*space, lo=0, hi=10, epsilon=0.3) >> remap(prior, loss)
    large = make_bounded_geometric(*space, lo=lo, hi=lo + 10, epsilon=0.3) >> remap(prior, loss)
    assert [d - lo for d in large.rule.decisions] == list(small.rule.decisions)
    assert (large.rule.before, large.rule.after) == (small.rule.before, small.rule.after)


@pytest.mark.parametrize("unit", [Fraction(10) ** 400, Fraction(1, 10**400), Fraction(1)])
def test_losses_of_any_size(unit):
    channel = geometric_channel(3, decay=Fraction(1, 2))
    prior = [Fraction(1, 10), Fraction(2, 10), Fraction(3, 10), Fraction(4, 10)]
    plain = loss_matrix("l1", range(4))
    loss = [[unit * v for v in row] for row in plain]
    assert channel.exact_loss(prior, loss) == unit * channel.exact_loss(prior, plain)
    assert channel.decisions(prior, loss) == channel.decisions(prior, plain)
    if unit > 1:
        with pytest.raises(ValueError, match="loss is too large"):
            channel.expected_loss(prior, loss)
    else:
        assert channel.expected_loss(prior, loss) == pytest.approx(
            float(unit) * channel.expected_loss(prior, plain)
        )


def test_numpy_numbers(integers):
    meas = make_bounded_geometric(*integers, lo=np.int64(0), hi=np.int64(9), epsilon=np.float64(1))
    assert 0 <= meas(3) <= 9


@pytest.mark.parametrize("n", [4097, 2**62, 2**200])
def test_channels_of_any_size_are_refused_before_they_are_built(n):
    for build in (geometric_channel, step_geometric_channel):
        with pytest.raises(ValueError, match=rf"n \({n}\) must be in \[1, 4096\]"):
            build(n, epsilon=1.0)
    with pytest.raises(ValueError, match=r"must be in \[1, 4096\]"):
        pixelated_laplace_channel(1, n, epsilon=1.0)
    with pytest.raises(ValueError, match=r"must be in \[1, 4096\]"):
        pixelated_prior(lambda x: x, n)

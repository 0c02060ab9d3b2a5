"""Bounded noise through OpenDP: types, privacy map, distribution, Context."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import opendp_optimal_bayes as bayes
from opendp_optimal.exact.numbers import laplace_scale_up as laplace_scale

FALSE_ALARM = 1e-6


def metric_for(carrier):
    own = carrier in ("i32", "i64", "u32", "u64", "usize")
    return dp.absolute_distance(T=carrier if own else "i32")


def fits(counts, expected):
    """Whether counts fit a distribution; false alarms have the chance FALSE_ALARM."""
    expected = np.asarray(expected, float) * sum(counts)
    rare = expected < 5
    pooled = [[*v[~rare], v[rare].sum()] for v in (np.asarray(counts, float), expected)]
    if pooled[1][-1] == 0:
        pooled = [v[:-1] for v in pooled]
    return stats.chisquare(*pooled).pvalue > FALSE_ALARM


@pytest.mark.parametrize("carrier", ["i8", "i16", "i32", "i64", "u8", "u32", "u64", "usize"])
def test_every_integer_type(carrier):
    space = dp.atom_domain(T=carrier), metric_for(carrier)
    meas = bayes.make_bounded_geometric(*space, 3, 9, 0.5)
    assert meas.map(2) == 1.0
    assert {meas(x) for x in (0, 5, 100) for _ in range(20)} <= set(range(3, 10))


@pytest.mark.parametrize("carrier", ["i32", "u8"])
@pytest.mark.slow
def test_releases_follow_the_channel(carrier):
    space = dp.atom_domain(T=carrier), metric_for(carrier)
    meas = bayes.make_bounded_geometric(*space, 0, 6, 0.7)
    row = bayes.geometric_channel(6, epsilon=0.7).rows[2]
    counted = Counter(meas(2) for _ in range(4000))
    counts = [counted[y] for y in range(7)]
    assert fits(counts, [float(v) for v in row])
    # A slightly wrong sampler is found out.
    assert not fits(counts, [float(v) for v in bayes.geometric_channel(6, epsilon=0.9).rows[2]])


@pytest.mark.slow
def test_real_releases_follow_the_law(line):
    meas = bayes.make_bounded_laplace(*line, 0.0, 1.0, 2.0)
    released = np.array([meas(0.25) for _ in range(3000)])
    counts = [
        (released == 0.0).sum(),
        ((released > 0) & (released < 0.5)).sum(),
        ((released >= 0.5) & (released < 1)).sum(),
        (released == 1.0).sum(),
    ]
    low, half = math.exp(-0.5) / 2, 1 - math.exp(-0.5) / 2
    high = math.exp(-1.5) / 2
    assert sum(counts) == 3000
    assert fits(counts, [low, half - low, 1 - half - high, high])


@given(st.floats(1e-3, 50.0), st.integers(1, 40))
def test_privacy_maps_never_promise_less(epsilon, d_in):
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    meas = bayes.make_bounded_geometric(*space, 0, 10, epsilon)
    assert meas.map(d_in) <= math.nextafter(epsilon * d_in, math.inf)
    assert meas.map(1) >= 1 / laplace_scale(epsilon)
    assert meas.map(1) <= epsilon


def test_coarse_grids_cost_what_opendp_says(line):
    meas = bayes.make_bounded_laplace(*line, 0.0, 1.0, 1.0, k=-8)
    assert 0.5 < meas.map(0.5) < 0.51
    assert (meas(0.3) * 2**8).is_integer()


@pytest.mark.parametrize("carrier", ["f32", "f64"])
def test_floats(carrier):
    space = dp.atom_domain(T=carrier, nan=False), dp.absolute_distance(T=carrier)
    meas = space >> bayes.then_bounded_laplace(-1.0, 1.0, 0.5)
    assert all(-1 <= meas(0.5) <= 1 for _ in range(50))


def test_chaining_after_a_count():
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    meas = space >> dp.t.then_count() >> bayes.then_bounded_geometric(0, 20, 0.25)
    assert meas.map(1) == 0.25
    assert 0 <= meas(["a", "b"]) <= 20


@pytest.mark.slow
def test_context():
    context = dp.Context.compositor(
        data=["a"] * 7,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=str)),
    )
    assert 0 <= context.query().count().bounded_geometric(0, 10).release() <= 10
    context = dp.Context.compositor(
        data=[1.0, 2.0],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    query = context.query().clamp((0.0, 10.0)).sum().bounded_laplace(0.0, 100.0)
    assert 0.0 <= query.release() <= 100.0


def test_clamp(line, integers):
    meas = dp.m.make_gaussian(*line, scale=5.0) >> bayes.clamp(0.0, 1.0)
    assert {0.0, 1.0} <= {meas(0.5) for _ in range(100)}
    with pytest.raises(ValueError, match="must be integers"):
        dp.m.make_laplace(*integers, scale=1.0) >> bayes.clamp(0.5, 2)
    for noise in (dp.m.make_laplace, dp.m.make_gaussian):
        with pytest.raises(ValueError, match=r"lo \(1/2\) and hi \(16/5\) must be integers"):
            noise(*integers, scale=1.0) >> bayes.remap(bounds=(0.5, Fraction(16, 5)))
    with pytest.raises(ValueError, match=r"lo \(2\) must be below hi \(1\)"):
        bayes.clamp(2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 5, 1.0), r"lo \(5\) must be below hi \(5\)"),
        ((6, 5, 1.0), r"lo \(6\) must be below hi \(5\)"),
        ((0.5, 5, 1.0), r"lo \(1/2\) must be an integer"),
        ((0, 2**40, 1.0), "must be an integer of the type i32"),
        ((0, 5, 0.0), r"epsilon \(0.0\) must be positive"),
        ((0, 5, math.inf), r"epsilon \(inf\) must be finite"),
        ((0, 5, "1"), r"epsilon \('1'\) must be a number"),
        ((0, 5, 1e-320), "must have a finite reciprocal"),
    ],
)
def test_bad_geometric(integers, arguments, message):
    with pytest.raises(ValueError, match=message):
        bayes.make_bounded_geometric(*integers, *arguments)


def test_bad_spaces(integers, line):
    with pytest.raises(ValueError, match="must hold integers"):
        bayes.make_bounded_geometric(*line, 0, 1, 1.0)
    with pytest.raises(ValueError, match="must hold floats"):
        bayes.make_bounded_laplace(*integers, 0, 1, 1.0)
    vector = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    with pytest.raises(ValueError, match="must hold single numbers"):
        bayes.make_bounded_geometric(*vector, 0, 1, 1.0)
    with pytest.raises(ValueError, match="may hold NaN"):
        bayes.make_bounded_laplace(dp.atom_domain(T=float), line[1], 0.0, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"lo \(1.0\) must be below hi \(0.0\)"):
        bayes.make_bounded_laplace(*line, 1.0, 0.0, 1.0)
    for k in ([], "a", 0.5, True, 1024, -1075):
        with pytest.raises(ValueError, match=r"^k \("):
            bayes.make_bounded_laplace(*line, 0.0, 1.0, 1.0, k=k)


def test_scales_are_rounded_up():
    for epsilon in (0.1, 0.3, 1 / 3, 7.1):
        assert Fraction(laplace_scale(epsilon)) * Fraction(epsilon) >= 1

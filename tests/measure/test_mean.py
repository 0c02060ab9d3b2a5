"""Means, moments and their count: what moves, what it costs, what comes out."""

from __future__ import annotations

import itertools
import math

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import opendp_optimal as oo
from opendp_optimal.certify.pair import unfolded
from opendp_optimal.losses.base import loss_of
from opendp_optimal.measure import mean as measure
from tests.tails import squares_off

L1, L2 = map(loss_of, ("l1", "l2"))
COLUMN = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
RANGES = [(0.0, 1.0), (-1.5e308, 1.5e308), (1e-320, 1e-310), (18.0, 90.0), (1.0, 1 + 2**-52)]
ANY = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@pytest.fixture(autouse=True)
def contrib():
    dp.enable_features("contrib")


def table(columns: int):
    return dp.numpy.array2_domain(num_columns=columns, T=float, nan=False), dp.symmetric_distance()


@given(
    st.lists(ANY, max_size=30),
    ANY,
    st.sampled_from(RANGES),
    st.sampled_from([2, 10 * (2**20 + 1), 2**26]),
)
def test_a_record_moves_the_sum_by_half_a_range(rows, other, bounds, units):
    values = np.array([*rows, other])
    whole = measure._whole(values, bounds, units)
    assert np.abs(whole).max() <= units // 2
    # Each by itself: a record's number depends on the record alone.
    alone = [measure._whole(values[i : i + 1], bounds, units).item() for i in range(len(values))]
    assert alone == whole.tolist()
    moved = measure._exact_sum(whole) - measure._exact_sum(whole[:-1])
    assert 2 * abs(moved) <= units


@given(arrays(np.float64, (6, 3), elements=st.floats(-1e3, 1e3)), st.integers(0, 5))
def test_removing_a_person_stays_in_the_box(data, row):
    noise = measure._noise(measure._means(3, L2), 1, 1.0, 0.0, L2)
    ranges = [(0.0, 1.0), (-5.0, 500.0), (18.0, 90.0)]

    def vector(rows):
        sums = [measure._whole(rows[:, j], ranges[j], noise.units).sum() for j in range(3)]
        return np.array([len(rows) * noise.units, *(2 * s for s in sums)])

    moved = vector(data) - vector(np.delete(data, row, axis=0))
    assert np.abs(moved).max() <= noise.units


@pytest.mark.slow
def test_prices():
    pair = oo.make_optimal_mean(*COLUMN, (0.0, 1.0), 1, (2.0, 1e-3))
    assert isinstance(pair.table, oo.PairTable)
    assert pair.map(0) == (0.0, 0.0)
    assert pair.map(1) == (2.0, 1e-3)
    assert pair.map(2) == (4.0, pytest.approx(1e-3 * (1 + math.exp(2)), rel=1e-9))
    pure = oo.make_optimal_mean(*COLUMN, (0.0, 1.0), 3, 2.0)
    assert [pure.map(d) for d in (0, 1, 3, 4, 7)] == [0.0, 2.0, 2.0, 4.0, 6.0]
    together, _ = oo.compose([pair, pair], delta=1e-2, d_in=1)
    assert 2.0 < together < 4.0


@pytest.mark.parametrize("target", [(2.0, 1e-3), 2.0])
def test_variance_is_what_is_promised(target):
    """The squared error times the count, on average over all means."""
    measurement = oo.make_optimal_mean(*COLUMN, (0.0, 1.0), 1, target)
    delta = target[1] if isinstance(target, tuple) else 0.0
    noise = measure._noise(measure._means(1, L2), 1, 2.0, delta, L2)
    place, count = _draws(noise, 200_000)
    promised = noise.loss / 4
    assert np.mean(place**2 + count**2 / 12) == pytest.approx(promised, rel=0.03)
    assert promised < (32 / 3 / 4) / 8  # OpenDP's mean: half of epsilon for each of sum and count
    size, mu = 100, 0.5
    data = np.full(size, mu).tolist()
    seen = np.array([(measurement(data)[0] - mu) * size for _ in range(900)])
    assert not squares_off(seen**2, np.mean(place**2))


def _draws(noise, count):
    if isinstance(noise.table, oo.PairTable):
        place, more = noise.table.draw(count, steps=measure._STEPS)
        return place / noise.units, more
    drawn = noise.table.draw(count, noise.reach) / noise.scale[0]
    return drawn[:, 1] / 2, drawn[:, 0]


def test_several_means_and_moments():
    rng = np.random.default_rng(5)
    data = np.column_stack([rng.uniform(0, 1, 20_000), rng.normal(50, 10, 20_000)])
    made = oo.make_optimal_means(*table(2), [(0.0, 1.0), (0.0, 100.0)], 1, 1.0)
    means, count = made(data)
    assert means == pytest.approx([0.5, 50.0], abs=0.5)
    assert count == pytest.approx(20_000, abs=200)
    count, mean, variance = oo.make_optimal_moments(*COLUMN, (0.0, 100.0), 1, 1.0)(
        data[:, 1].tolist()
    )
    assert (mean, variance) == (pytest.approx(50, abs=1), pytest.approx(100, abs=20))


@pytest.mark.parametrize("rows", [1, 7, 1024])
@pytest.mark.parametrize(
    ("weights", "target"),
    [
        (measure._means(60, L2), (1.0, 1e-6)),
        (measure._means(50, L1), (2.0, 1e-6)),
        (measure._means(2, L2), (0.1, 0.1)),
        (measure._MOMENTS[2], (0.1, 0.3)),
    ],
)
def test_many_columns_or_a_large_delta_take_noise_in_the_l2_norm(weights, target, rows):
    noise = measure._noise(weights, rows, *target, L1 if weights[0] == 25 else L2)
    box = measure._noise(weights, rows, target[0], 0.0, L1 if weights[0] == 25 else L2)
    assert noise.table.problem.norm == "l2"
    assert noise.loss < 0.97 * box.loss
    # The count moves by a record, a doubled sum by the whole range, for each row of a person.
    farthest = [noise.scale[0], *(k * noise.units for k in noise.scale[1:])]
    assert rows**2 * sum(k * k for k in farthest) <= noise.reach**2
    assert noise.reach <= 1.01 * rows * math.hypot(*farthest)
    count = 4_000 if len(weights) > 9 else 60_000
    drawn = noise.table.draw(count, noise.reach) / np.array(farthest)
    power = noise.table.problem.power
    assert weights @ np.mean(np.abs(drawn) ** power, 0) == pytest.approx(noise.loss, rel=0.05)


@pytest.mark.slow
def test_sixty_columns_are_released_together():
    data = np.tile(np.linspace(0, 1, 60), (4000, 1))
    made = oo.make_optimal_means(*table(60), [(0.0, 1.0)] * 60, 1, (1.0, 1e-6))
    means, count = made(data)
    assert made.table.problem.norm == "l2"
    assert made.map(1) == (1.0, 1e-6)
    assert np.abs(means - data[0]).max() < 0.05
    assert count == pytest.approx(4000, abs=200)
    together, _ = oo.compose([made, made], delta=1e-5, d_in=1)
    assert 1.0 < together < 2.0


@pytest.mark.parametrize("data", [[], [1e308], [-math.inf, math.inf], [5.0] * 3])
def test_answers_are_within_bounds_whatever_the_count(data):
    mean = oo.make_optimal_mean(*COLUMN, (2.0, 3.0), 1, (1.0, 1e-3))
    moments = oo.make_optimal_moments(*COLUMN, (2.0, 3.0), 1, 0.1)
    for _ in range(20):
        assert 2.0 <= mean(data)[0] <= 3.0
        _, middle, variance = moments(data)
        assert 2.0 <= middle <= 3.0
        assert 0.0 <= variance <= 0.25


def test_several_records_of_a_person_are_so_many_steps_of_a_pair():
    one = oo.make_optimal_mean(*COLUMN, (0.0, 1.0), 1, (1.0, 1e-2))
    two = oo.make_optimal_mean(*COLUMN, (0.0, 1.0), 2, (1.0, 1e-2))
    assert type(two.table) is type(one.table) is oo.PairTable
    assert two.map(2) == (1.0, 1e-2)
    assert two.map(1) == (1.0, 1e-2)
    assert two.map(4)[0] == 2.0
    assert two.table.upper < 0.98 * measure._noise(measure._means(1, L2), 2, 1.0, 0.0, L2).loss / 4
    # Two records come, go, or one of each: by whole cells, each at most half of them.
    every = unfolded(two.table.weights) / 2.0**62
    cells = two.table.cells
    wide = np.pad(every, ((2, 2), (cells, cells)))
    for m, i in itertools.product((-2, 0, 2), range(-cells, cells + 1)):
        moved = np.roll(wide, (m, i), axis=(0, 1))
        assert np.maximum(wide - math.e * moved, 0).sum() <= 1e-2 * (1 + 1e-9)
    assert two(np.linspace(0, 1, 4001).tolist())[0] == pytest.approx(0.5, abs=0.02)
    together, _ = oo.compose([two, two], delta=2e-2, d_in=2)
    assert together <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize("target", [(30.0, 1e-12), (40.0, 1e-300), 1e-4, (1e-4, 1e-12)])
@pytest.mark.parametrize("rows", [1, 1023])
def test_odd_parameters_are_answered(target, rows):
    bounds = (-1.7e308, 1.7e308)
    mean, count = oo.make_optimal_mean(*COLUMN, bounds, rows, target)([1.0, 2.0, 1.7e308])
    assert bounds[0] <= mean <= bounds[1]
    assert math.isfinite(count)
    _, mean, variance = oo.make_optimal_moments(*COLUMN, bounds, rows, target)([1.0, 1.7e308])
    assert bounds[0] <= mean <= bounds[1]
    assert 0 <= variance < math.inf


def test_in_a_context():
    context = dp.Context.compositor(
        data=[20.0, 35.0, 50.0] * 2000,
        privacy_unit=dp.unit_of(contributions=2),
        privacy_loss=dp.loss_of(epsilon=2.0, delta=1e-6),
        split_evenly_over=2,
        domain=COLUMN[0],
    )
    mean, count = context.query().optimal_mean((0.0, 100.0)).release()
    assert mean == pytest.approx(35, abs=3)
    assert count == pytest.approx(6000, abs=300)
    _, mean, _ = context.query().optimal_moments(bounds=(0.0, 100.0)).release()
    assert mean == pytest.approx(35, abs=3)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"bounds": (1.0, 1.0)}, "bounds"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"bounds": 3.0}, "bounds"),
        ({"bounds": (0.0, math.nan)}, "bounds"),
        ({"d_in": 0}, "d_in"),
        ({"d_in": 1.5}, "d_in"),
        ({"d_in": True}, "d_in"),
        ({"d_out": (1.0, 2.0)}, "d_out"),
        ({"d_out": 0.0}, "d_out"),
        ({"loss": "pinball:0.5"}, "loss"),
        ({"loss": abs}, "loss"),
        ({"loss": None}, "loss"),
        ({"input_metric": dp.l1_distance(T=float)}, "input_metric"),
        ({"input_domain": dp.vector_domain(dp.atom_domain(T=float))}, "input_domain"),
        ({"input_domain": dp.vector_domain(dp.atom_domain(T=int))}, "input_domain"),
    ],
)
def test_bad_input_is_named(change, named):
    good = {
        "input_domain": COLUMN[0],
        "input_metric": COLUMN[1],
        "bounds": (0.0, 1.0),
        "d_in": 1,
        "d_out": 1.0,
    }
    for make in (oo.make_optimal_mean, oo.make_optimal_moments):
        with pytest.raises((ValueError, TypeError), match=f"^{named}"):
            make(**{**good, **change})


def test_columns_and_bounds_go_together():
    with pytest.raises(ValueError, match=r"^bounds"):
        oo.make_optimal_means(*table(2), [(0.0, 1.0)], 1, 1.0)
    with pytest.raises(ValueError, match=r"^input_domain"):
        oo.make_optimal_means(*COLUMN, [(0.0, 1.0)], 1, 1.0)
    with pytest.raises(ValueError, match=r"^bounds\[1\]"):
        oo.make_optimal_means(*table(2), [(0.0, 1.0), (2.0, 1.0)], 1, 1.0)
    with pytest.raises(ValueError, match=r"^degree"):
        oo.make_optimal_moments(*COLUMN, (0.0, 1.0), 1, 1.0, degree=3)

"""Quantiles through OpenDP: close, in order, within bounds, whatever the data are."""

from __future__ import annotations

import math

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opendp_optimal as oo
from opendp_optimal.measure import quantiles as measure

NINE = [i / 10 for i in range(1, 10)]


@pytest.fixture(autouse=True)
def contrib():
    dp.enable_features("contrib")


def space(kind=float):
    atom = dp.atom_domain(T=float, nan=False) if kind is float else dp.atom_domain(T=kind)
    return dp.vector_domain(atom), dp.symmetric_distance()


def rank_error(data, value, probability):
    ordered, wanted = np.sort(data), probability * len(data)
    below, until = (np.searchsorted(ordered, value, side) for side in ("left", "right"))
    return max(0.0, below - wanted, wanted - until)


INCOMES = np.rint(np.random.default_rng(1).lognormal(10.5, 0.9, 5000) / 100) * 100


def test_nine_quantiles_are_near_their_ranks():
    made = oo.make_optimal_quantiles(*space(), (0.0, 5e5), NINE, d_in=1, d_out=1.0)
    errors = []
    inside = 0
    for _ in range(8):
        told = made(INCOMES.tolist())
        assert list(told.values) == sorted(told.values)
        assert abs(told.count - len(INCOMES)) < 1000
        errors += [rank_error(INCOMES, v, p) for v, p in zip(told, NINE, strict=True)]
        true = np.quantile(INCOMES, NINE)
        inside += int(np.sum((told.low <= true) & (true <= told.high)))
    # Nine exponential mechanisms with a ninth of epsilon each: 9 for the median, 16 for the tails.
    assert np.mean(errors) < 12
    assert inside > 0.7 * 72


def test_bounds_are_found_and_stated():
    made = oo.make_optimal_quantiles(*space(), None, [0.5], d_in=1, d_out=4.0)
    told = made(INCOMES.tolist())
    low, high = told.bounds
    assert math.log2(high) == int(math.log2(high))
    assert 2**17 <= high <= 2**21
    assert 0 <= low <= 2**13
    assert rank_error(INCOMES, told.values[0], 0.5) < 100
    both = made((-INCOMES).tolist() + INCOMES.tolist())
    assert both.bounds[0] < -(2**15) < 2**15 < both.bounds[1]
    for nothing in ([], [0.0], [math.inf, -math.inf]):
        low, high = made(nothing).bounds
        assert low < high


def test_every_power_of_two_makes_bounds():
    for power in range(-2099, 2100):
        low, high = (measure._power_end(power, upper=upper) for upper in (False, True))
        assert low < high or power == 0
    for value in (5e-324, 1.0, 0.75, 1.7e308, -3.0, -5e-324):
        (power,) = measure._power_bins(np.array([value]), False).tolist()
        low, high = (measure._power_end(power, upper=upper) for upper in (False, True))
        assert low <= value <= high
        found = measure._private_bounds(np.full(100_000, value), False, measure.Fraction(1))
        assert found[0] < found[1]
        assert found[0] <= value <= found[1]


def test_a_distribution_function_between_quantiles():
    made = oo.make_optimal_quantiles(*space(int), (0, 99), [i / 16 for i in range(1, 16)], 1, 2.0)
    told = made(list(range(100)) * 200)
    for value in (10, 33, 50, 80):
        assert told.cdf(value) == pytest.approx((value + 0.5) / 100, abs=0.03)
    assert told.cdf(-1) == 0.0
    assert told.cdf(1000) == 1.0
    assert told.quantile(0.33) == pytest.approx(33, abs=3)
    assert all(isinstance(value, int) for value in told)
    with pytest.raises(ValueError, match="probability"):
        told.quantile(1.5)


@pytest.mark.parametrize("kind", ["i32", "i64", "u32", "u64"])
def test_any_integers_at_the_ends_of_their_types(kind):
    least, most = measure.INTEGER_RANGES[kind]
    made = oo.make_optimal_quantiles(*space(kind), (least, most), [0.25, 0.75], 1, 2.0)
    told = made([least] * 500 + [most] * 500)
    assert least <= told.values[0] <= told.values[1] <= most
    narrow = oo.make_optimal_quantiles(*space(kind), (most - 10, most), [0.5], 1, 2.0)
    assert narrow([most - 3] * 2000).values == (most - 3,)  # beyond 2^53, too


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40),
    st.sampled_from([(0.0, 1.0), (-1.7e308, 1.7e308), (0.0, 5e-324), (1.0, 1 + 2**-52)]),
)
@settings(max_examples=25, deadline=None)
def test_each_value_has_its_cell_whatever_the_others_are(values, bounds):
    line = measure.Line(*bounds, False)
    array = np.array(values, np.float64)
    found = line.cells(array)
    assert [line.cells(array[i : i + 1]).item() for i in range(len(array))] == found.tolist()
    assert np.all((found >= 1) & (found < 2 * len(line.numbers)))
    assert np.all(np.diff(line.numbers) > 0)
    assert (line.numbers[0], line.numbers[-1]) == bounds
    powers = measure._power_bins(array, False)
    assert [measure._power_bins(array[i : i + 1], False).item() for i in range(len(array))] == (
        powers.tolist()
    )


def test_the_price_is_that_of_all_records_of_a_person():
    made = oo.make_optimal_quantiles(*space(), (0.0, 1.0), NINE, d_in=3, d_out=(1.5, 1e-6))
    assert made.map(3) == (1.5, 0.0)
    assert made.map(6) == (3.0, 0.0)
    assert made.map(0) == (0.0, 0.0)
    context = dp.Context.compositor(
        data=INCOMES.tolist(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=space()[0],
    )
    (median,) = context.query().optimal_quantiles((0.0, 5e5), [0.5]).release()
    assert rank_error(INCOMES, median, 0.5) < 60


def test_equal_values_are_split_fairly():
    data = [0.0] * 3000 + [50_000.0] * 4000 + [100.0 * i for i in range(3000)]
    made = oo.make_optimal_quantiles(*space(), (0.0, 5e5), NINE, d_in=1, d_out=4.0)
    told = made(data)
    errors = [rank_error(data, v, p) for v, p in zip(told, NINE, strict=True)]
    assert max(errors) < 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"bounds": (1.0, 0.0)},
        {"bounds": (0.0, math.inf)},
        {"bounds": 3},
        {"probabilities": []},
        {"probabilities": [0.5, 0.5]},
        {"probabilities": [0.0]},
        {"probabilities": [math.nan]},
        {"probabilities": "a"},
        {"probabilities": 0.5},
        {"d_in": 0},
        {"d_in": True},
        {"d_out": 1e-6},
        {"d_out": (0.0, 0.1)},
        {"share": 0},
        {"bins": 1},
        {"bins": 2.5},
        {"input_domain": dp.vector_domain(dp.atom_domain(T=float))},
        {"input_domain": dp.vector_domain(dp.atom_domain(T=str))},
        {"input_metric": dp.l1_distance(T=float)},
    ],
)
def test_wrong_arguments_are_named(wrong):
    domain, metric = space()
    good = {
        "input_domain": domain,
        "input_metric": metric,
        "bounds": (0.0, 1.0),
        "probabilities": [0.5],
        "d_in": 1,
        "d_out": 1.0,
    }
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        oo.make_optimal_quantiles(**{**good, **wrong})


def test_a_share_of_the_budget_that_ends_on_the_limit_is_no_refusal():
    """1e-4 for each record, which floats that are divided just miss."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    for rows, epsilon in ((1, 1e-4), (1000, 1.0), (10_000, 1.0), (3_000, 0.3), (7_000, 0.7)):
        made = oo.make_optimal_quantiles(*space, (0, 100), [0.5], rows, epsilon)
        assert made.map(rows) == epsilon
        assert 0 <= next(iter(made([50] * 10))) <= 100
    with pytest.raises(ValueError, match="d_out"):
        oo.make_optimal_quantiles(*space, (0, 100), [0.5], 10_000, 0.999)


def test_the_interval_of_a_median_of_a_thousand_says_something():
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    made = oo.make_optimal_quantiles(*space, (0, 999), [0.5], 1, 1.0)
    told = [made(list(range(1000))) for _ in range(20)]
    assert sum(one.low[0] > 400 and one.high[0] < 600 for one in told) > 10

"""Noise for tables of integers: what it hides, what it says of itself."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import PairTable, RadialTable
from opendp_optimal.extend import Moves, Number, Price, noisy_frame, table_noise

PRICES = [Price(1.0), Price(1.0, 1e-6), Price(0.5, concentrated=True)]


@st.composite
def moves(draw: st.DrawFn) -> Moves:
    row = tuple(draw(st.lists(st.sampled_from([1, 100, 1 << 20]), min_size=1, max_size=4)))
    each, groups = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return Moves(row, tuple(each * r for r in row), rows=each * groups, groups=groups)


@settings(max_examples=3, deadline=None)
@given(moves(), st.sampled_from(PRICES))
def test_noise_has_the_spread_that_it_states(one: Moves, price: Price) -> None:
    noise = table_noise(one, price, keys=5)
    # The variance of a variance of so many draws; false alarms are far beyond 6 of these.
    assert noise.sample.var(0) == pytest.approx(np.array(noise.variance), rel=0.12)


@settings(max_examples=5, deadline=None)
@given(moves())
def test_a_move_is_within_what_the_box_hides(one: Moves) -> None:
    noise = table_noise(one, Price(1.0))
    table = noise.table
    if isinstance(table, RadialTable):
        rows = one.rows * table.epsilon <= 1.0
        reach = one.row if rows else one.person
        steps = max(k * r for k, r in zip(noise.scale, reach, strict=True))
        assert steps <= noise.scale[0] * reach[0] + max(reach)
        assert (one.rows if rows else one.groups) * table.epsilon <= 1.0


@pytest.mark.parametrize("price", [Price(0.1, 0.1), Price(0.5, concentrated=True)])
@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (6, 2)])
def test_noise_in_the_l2_norm_has_units_of_each_column(
    price: Price, rows: int, groups: int
) -> None:
    row, weights = (1, 100, 1 << 20), (9.0, 1.0, 0.01)
    one = Moves(row, tuple(3 * r for r in row), rows=rows, groups=groups, weights=weights)
    noise = table_noise(one, price, keys=1)
    scale = np.array(noise.scale, float)
    moved = scale * row
    assert moved[0] / moved[2] == pytest.approx((9 / 0.01) ** 0.25, rel=1e-2)
    # A person moves so far in all groups, one row after the other or groups side by side.
    far = min(rows**2, 9 * groups)
    units = np.array(noise.variance) * scale**2 / (far * (moved @ moved))
    assert units == pytest.approx([units[0]] * 3)
    unit = units[0]
    if price.concentrated:
        assert unit == pytest.approx(0.5 / price.main, rel=1e-3)
        assert unit >= 0.5 / price.main
    assert noise.cost == pytest.approx((3 + 1 + 0.1) ** 2 * far * unit, rel=1e-2)
    assert noise.sample.var(0) == pytest.approx(np.array(noise.variance), rel=0.12)


def test_a_pair_table_serves_a_count_and_a_sum() -> None:
    pair = table_noise(Moves((1, 100), (1, 100), pair=True), Price(1.0, 1e-6))
    box = table_noise(Moves((1, 100), (1, 100)), Price(1.0, 1e-6))
    assert isinstance(pair.table, PairTable)
    assert pair.cost < box.variance[0] / 3
    # One row moves the sum by 100: half of the table's cells, in noise steps.
    assert pair.scale[1] * 100 <= pair.table.cells * ((1 << 38) + 1) // 2


def test_what_nobody_moves_is_released_as_it_is() -> None:
    noise = table_noise(Moves((0, 5), (0, 5)), Price(1.0))
    whole, above = noise.noisy(np.array([[7, 0]] * 100))
    assert set(whole[:, 0]) == {7}
    assert not above[:, 0].any()
    assert len(set(whole[:, 1])) > 1


def test_frames_have_keys_values_and_accuracy() -> None:
    keys = pl.DataFrame({"k": ["a", "b", "c"]})
    values = np.array([[100, 10**15], [0, 0], [5, -(10**15)]])
    columns = [Number("n"), Number("s", unit=0.5, whole=False)]
    frame = noisy_frame(keys, values, columns, Moves((1, 8), (1, 8)), Price(1.0))
    assert frame.columns == ["k", "n", "n_accuracy", "s", "s_accuracy"]
    assert frame.dtypes == [pl.String, pl.Int64, pl.Float64, pl.Float64, pl.Float64]
    assert frame["s"].to_numpy() == pytest.approx([5e14, 0, -5e14], abs=1000)
    with pytest.raises(ValueError, match="values"):
        noisy_frame(keys, values[:2], columns, Moves((1, 8), (1, 8)), Price(1.0))
    with pytest.raises(ValueError, match="integers"):
        noisy_frame(keys, values + 0.5, columns, Moves((1, 8), (1, 8)), Price(1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"row": (1,), "person": (1, 2)},
        {"row": (1 << 25,), "person": (1,)},
        {"row": (1,), "person": (1,), "rows": 0},
        {"row": (1, 2, 3), "person": (1, 2, 3), "pair": True},
    ],
)
def test_moves_must_make_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"row|person"):
        Moves(**wrong)  # type: ignore[arg-type]


def test_every_price_composes_to_what_was_asked() -> None:
    """The exact delta of several groups, each with the table's own profile."""
    noise = table_noise(Moves((1,), (1,), rows=3, groups=3), Price(1.0, 1e-6))
    table = noise.table
    assert table.epsilon * 3 <= 1.0 or table.delta_at(table.epsilon) * 3 < 1e-6


def test_what_a_column_counts_decides_how_far_its_noise_reaches() -> None:
    even = table_noise(Moves((1, 8, 8), (1, 8, 8)), Price(1.0))
    heavy = table_noise(Moves((1, 8, 8), (1, 8, 8), weights=(9.0, 1.0, 1.0)), Price(1.0))
    assert heavy.variance[0] < 0.8 * even.variance[0]
    assert heavy.variance[1] > even.variance[1]
    seen = heavy.sample.var(0)
    assert seen == pytest.approx(np.array(heavy.variance), rel=0.1)
    with pytest.raises(ValueError, match="weights"):
        Moves((1, 8), (1, 8), weights=(1.0,))


def test_rows_that_share_a_budget_down_to_the_limit_have_noise() -> None:
    assert table_noise(Moves((1,), (10_000,), rows=10_000), Price(1.0)).variance[0] > 0


@pytest.mark.parametrize(
    "price", [Price(8.0, 1e-3), Price(3.0, 1e-6), Price(2.0, concentrated=True)]
)
def test_answers_that_are_rounded_stay_within_whole_numbers(price):
    """Noise about as wide as a step says too little where it is measured before rounding."""
    moves = Moves((1, 3, 60), (1, 3, 60))
    noise = table_noise(moves, price, keys=1)
    whole, above = noise.noisy(np.zeros((20_000, 3), np.int64))
    errors = np.abs(np.rint(whole + above))
    for column, alpha in itertools.product(range(3), (0.3, 0.05)):
        within = noise.accuracy(column, alpha, whole=True)
        assert within == int(within)
        more = 5 * np.sqrt(alpha / 20_000)
        assert (errors[:, column] > within).mean() < alpha + 2 * more  # the draws of both
        assert within == 0 or (errors[:, column] > within - 1).mean() > alpha - 2 * more
    columns = [Number("a"), Number("b"), Number("c", 0.5, whole=False)]
    frame = noisy_frame(pl.DataFrame({"k": [1]}), np.zeros((1, 3), int), columns, moves, price)
    assert frame["b_accuracy"][0] == noise.accuracy(1, whole=True)
    assert frame["c_accuracy"][0] == noise.accuracy(2) / 2

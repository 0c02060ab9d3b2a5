"""Polars: LazyFrame contexts through the documented helper."""

import math
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal import (
    frame_query,
    make_frame_count,
    then_frame_count,
    then_frame_histogram,
    then_frame_sum,
    then_optimal_noise,
)
from opendp_optimal.measure.frames import aggregates as frames

pl = pytest.importorskip("polars")
dp.enable_features("contrib")

FRAME = pl.LazyFrame(
    {
        "age": [10.0, 20.0, None, math.nan, 200.0, -5.0] * 50,
        "n": [1, 2, 3, 4, 5, 6] * 50,
        "town": ["x", "y", "x", "z", None, "x"] * 50,
    }
)


FLOATS = (
    dp.lazyframe_domain([dp.series_domain("v", dp.atom_domain(T=float))]),
    dp.symmetric_distance(),
)


def context(parts: int = 1, contributions: object = 1, data: Any = FRAME) -> dp.Context:
    return dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=contributions),
        privacy_loss=dp.loss_of(epsilon=3.0, delta=1e-6),
        split_evenly_over=parts,
    )


def column(values: list[Any], kind: Any = pl.Float64) -> Any:
    """A frame with one column; times as whole numbers of their unit."""
    whole = pl.Int64 if kind.is_temporal() else kind
    return pl.LazyFrame({"v": pl.Series(values, dtype=whole).cast(kind)})


def histogram(values: list[Any], kind: Any, categories: list[Any]) -> Any:
    frame = column(values, kind)
    space = context(data=frame).accountant.input_space
    return (space >> then_frame_histogram("v", categories))(frame)


def test_three_aggregates_share_a_context() -> None:
    ctx = context(3)
    rows = frame_query(ctx).frame_count().optimal().release()
    assert abs(rows - 300) < 60
    ages = frame_query(ctx).frame_sum("age", (0.0, 100.0)).optimal().release()
    assert abs(ages - 50 * 130) < 100 * 60
    towns = frame_query(ctx).frame_histogram("town", ["x", "y", "absent"]).optimal().release()
    assert len(towns) == 3
    assert abs(towns[0] - 150) < 60
    assert abs(towns[2]) < 60
    with pytest.raises(ValueError, match="exhausted"):
        frame_query(ctx)


def test_stability() -> None:
    space = context().accountant.input_space
    total = space >> then_frame_sum("age", (-7.0, 100.0))
    assert total.map(1) == 100.0
    assert total.map(3) == 300.0
    assert total(FRAME) == 50 * (10 + 20 + 0 + 0 + 100 - 5)
    chain = total >> then_optimal_noise(total.map(2), (3.0, 1e-6))
    assert chain.map(2) == (3.0, 1e-6)


def test_integers_and_text_are_summed_without_raising() -> None:
    space = context().accountant.input_space
    assert (space >> then_frame_sum("n", (0.0, 4.0)))(FRAME) == 50 * (1 + 2 + 3 + 4 + 4 + 4)
    assert (space >> then_frame_sum("town", (0.0, 4.0)))(FRAME) == 0.0


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
)
def test_one_row_moves_the_sum_by_at_most_the_map(
    rows: list[float], extra: float, a: float, b: float
) -> None:
    bounds = (min(a, b), max(a, b))
    if max(map(abs, bounds)) < 1e-6:
        return
    total = FLOATS >> then_frame_sum("v", bounds)
    more, fewer = total(column([extra, *rows])), total(column(rows))
    assert abs(more - fewer) <= total.map(1)


@pytest.mark.parametrize("exponent", [-930, -929, -20, 0, 7, 60, 930])
def test_a_sum_counts_whole_steps_of_which_the_larger_bound_has_some_millions(exponent):
    bound = 2.0**exponent
    step = bound / 2**21  # a bound just below 2 * bound has 2**22
    total = FLOATS >> then_frame_sum("v", (-bound / 2, bound))
    assert total.map(1) == bound
    assert total(column([step])) == step
    assert total(column([0.4 * step, -0.4 * step, 0.4 * step])) == 0.0
    assert total(column([bound, 1.4 * step, 0.6 * step, math.inf])) == 2 * bound + 2 * step
    assert total(column([-bound, -0.6 * step])) == -bound / 2 - step


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_more_steps_than_a_float_counts_is_cut_off(sign, monkeypatch):
    monkeypatch.setattr(frames, "RESOLUTION", 50)  # with 22 it takes 2**31 rows
    bound = 2.0**50 - 1
    total = FLOATS >> then_frame_sum("v", (-bound, bound))
    rows = [sign * bound] * 8 + [sign * 9.0]  # 2**53 + 1
    fewer, more = total(column(rows)), total(column([sign * bound, *rows]))
    assert abs(more - fewer) <= total.map(1) == bound
    assert fewer == more == sign * 2.0**53


def test_the_map_is_rounded_up() -> None:
    bound, rows = 2**22 - 1, 2**32 - 1  # their product is odd and has 54 bits
    total = FLOATS >> then_frame_sum("v", (0.0, float(bound)))
    assert total.map(1) == bound
    assert int(total.map(rows)) == bound * rows + 1


@pytest.mark.parametrize("bounds", [(2.0, 2.0), (-3.0, -3.0), (-2.0, 0.0), (0.0, 1e-200)])
def test_what_every_row_adds_is_within_the_bounds(bounds):
    total = FLOATS >> then_frame_sum("v", bounds)
    step = max(map(abs, bounds)) / 2**21
    assert total.map(1) == pytest.approx(max(map(abs, bounds)))
    assert total(column([-math.inf])) == pytest.approx(bounds[0], abs=step)
    assert total(column([math.inf])) == pytest.approx(bounds[1], abs=step)
    zero = min(max(0.0, bounds[0]), bounds[1])
    assert total(column([None, math.nan])) == pytest.approx(2 * zero, abs=2 * step)


def test_a_histogram_counts_its_categories_and_no_other() -> None:
    space = context().accountant.input_space
    counts = space >> then_frame_histogram("town", ["y", "absent", "x", None])
    assert counts(FRAME) == [50, 0, 150, 50]
    assert counts.map(3) == 3
    assert histogram([3, 1, 3, None], pl.Int64(), [1, 2, 3, "3"]) == [1, 0, 2, 0]
    assert histogram(["b", "a", "b"], pl.Categorical(), ["a", "b", "c"]) == [1, 2, 0]


EPOCH = datetime(1970, 1, 1)
UNITS = {"ms": timedelta(milliseconds=1), "us": timedelta(microseconds=1)}
EXTREMES = [-(2**63) + 1, -(2**62), 2**62, 2**63 - 1]


def test_one_row_more_is_one_more_even_if_times_are_finer_than_those_of_python() -> None:
    keys = [EPOCH, EPOCH + UNITS["us"]]
    rows = [0] * 100 + [1] * 50 + [999] * 25 + [1000]
    assert histogram(rows, pl.Datetime("ns"), keys) == [175, 1]
    assert histogram([2, *rows], pl.Datetime("ns"), keys) == [176, 1]
    assert histogram(rows, pl.Time(), [time(0), time(0, 0, 0, 1)]) == [175, 1]
    # The hour that comes twice, when summer time ends.
    twice = [int(datetime(2023, 10, 29, h, 30, tzinfo=UTC).timestamp()) * 1000 for h in (0, 1)]
    kind = pl.Datetime("ms", "Europe/Berlin")
    (key,) = set(column(twice, kind).collect()["v"])
    assert histogram(twice * 3 + twice[:1], kind, [key]) == [7]


def test_a_day_that_python_cannot_name_is_no_category_and_no_failure() -> None:
    first, last = ((d - EPOCH.date()).days for d in (date.min, date.max))
    rows = [None, -(2**31) + 1, first - 1, first, last, last + 1, 2**31 - 1]
    assert histogram(rows, pl.Date(), [date.min, date.max, None]) == [1, 1, 1]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_nor_is_such_a_time(unit):
    assert histogram([*EXTREMES, None, 0], pl.Datetime(unit), [EPOCH, None]) == [1, 1]
    if unit in UNITS:
        first, last = ((d - EPOCH) // UNITS[unit] for d in (datetime.min, datetime.max))
        rows = [first - 1, first, last, last + 1]
        latest = EPOCH + last * UNITS[unit]
        assert histogram(rows, pl.Datetime(unit), [datetime.min, latest]) == [1, 1]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Etc/GMT+12", "Etc/GMT-14", "Europe/Berlin"])
def test_nor_in_any_zone(unit, zone):
    kind, key = pl.Datetime(unit, zone), EPOCH.replace(tzinfo=UTC)
    assert histogram([*EXTREMES, None, 0], kind, [key, None]) == [1, 1]
    if unit in UNITS:
        day = timedelta(days=1)
        ends = datetime.min, datetime.min + day, datetime.max - day, datetime.max
        rows = [(end - EPOCH) // UNITS[unit] for end in ends]
        keys = [(EPOCH + row * UNITS[unit]).replace(tzinfo=UTC) for row in rows[1:3]]
        assert histogram(rows, kind, keys) == [1, 1]


def test_a_sum_of_categories_is_one_of_text() -> None:
    for kind in (pl.Categorical(), pl.Enum(["7", "x"]), pl.String()):
        frame = column(["7", "x", None, "7"], kind)
        space = context(data=frame).accountant.input_space
        assert (space >> then_frame_sum("v", (0.0, 9.0)))(frame) == 14.0


@pytest.mark.parametrize("rows", [[], [[1, 2]]])
def test_arrays_are_refused_whether_there_are_rows_or_not(rows):
    frame = pl.LazyFrame({"v": pl.Series(rows, dtype=pl.Array(pl.Int64, 2))})
    space = context(data=frame).accountant.input_space
    for then in (then_frame_sum("v", (0.0, 1.0)), then_frame_histogram("v", [1])):
        with pytest.raises(dp.OpenDPException, match=r"column \('v'\) must hold single values"):
            (space >> then)(frame)


def test_bounds_on_contributions() -> None:
    ctx = context(1, [dp.polars.Bound(per_group=2), dp.polars.Bound(by=("town",), num_groups=1)])
    count = ctx.accountant.input_space >> then_frame_count()
    assert count.map(ctx.d_in) == 2
    assert count(FRAME) == 300
    assert isinstance(frame_query(ctx).frame_count().optimal().release(), int)


def test_only_a_bound_on_all_rows_bounds_the_rows() -> None:
    bound = dp.polars.Bound
    of_towns = bound(by=("town",), per_group=5)
    ctx = context(1, [of_towns, bound(per_group=2)])
    space = ctx.accountant.input_space
    assert (space >> then_frame_count()).map(ctx.d_in) == 2
    assert (space >> then_frame_sum("n", (0.0, 4.0))).map(ctx.d_in) == 8.0
    for bounds in ([of_towns], [bound(num_groups=3)], [bound(num_groups=3), of_towns]):
        with pytest.raises(dp.OpenDPException, match="d_in must hold a bound on contributions"):
            (space >> then_frame_count()).map(bounds)


def test_bad_arguments() -> None:
    space = context().accountant.input_space
    with pytest.raises(ValueError, match=r"column.*'height'.*age"):
        space >> then_frame_sum("height", (0.0, 1.0))
    small, large = math.nextafter(2.0**-930, 0.0), math.nextafter(2.0**930, math.inf)
    sizes = [(0.0, 0.0), (-small, small), (-large, 0.0), (0.0, large)]
    ends = [(1.0, 0.0), (0.0, math.inf), (-math.inf, 0.0), (math.nan, 1.0), (0.0, math.nan)]
    for bounds in [*sizes, *ends, 3, ("a", "b"), (1.0,)]:
        with pytest.raises(ValueError, match="bounds"):
            space >> then_frame_sum("age", bounds)  # type: ignore[arg-type]
    for categories in ([], ["x", "x"], 3, [["x"]]):
        with pytest.raises(ValueError, match="categories"):
            frame_query(context()).frame_histogram("town", categories)
    with pytest.raises(ValueError, match="input_domain"):
        (dp.atom_domain(T=int), dp.absolute_distance(T=int)) >> then_frame_sum("age", (0.0, 1.0))
    for metric in (dp.insert_delete_distance(), dp.absolute_distance(T=float)):
        for then in (then_frame_count(), then_frame_histogram("v", [1.0])):
            with pytest.raises(ValueError, match="input_metric"):
                (FLOATS[0], metric) >> then
    with pytest.raises(ValueError, match="input_metric"):
        make_frame_count(FLOATS[0], "SymmetricDistance")  # type: ignore[arg-type]
    plain = dp.Context.compositor(
        data=[1.0],
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    with pytest.raises(ValueError, match="LazyFrame"):
        frame_query(plain)
    with pytest.raises(ValueError, match="context"):
        frame_query("context")  # type: ignore[arg-type]


HOSTILE = {
    "durations": pl.Series([0, None, 2**63 - 1, -(2**63)]).cast(pl.Duration("ms")),
    "bytes": pl.Series([b"1", None, b"\xff\x00"]),
    "decimals": pl.Series([1, None, 10**18]).cast(pl.Decimal(38, 0)),
    "floats": pl.Series([1.0, None, math.nan, math.inf, -math.inf, 1e308]),
    "text": pl.Series(["1", None, "nan", "1e999", "", "\x00"]),
    "integers": pl.Series([1, None, 2**64 - 1], dtype=pl.UInt64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_row_decides_whether_there_is_an_error(name: str) -> None:
    values = HOSTILE[name]
    total = FLOATS >> then_frame_sum("v", (-5.0, 5.0))
    counts = FLOATS >> then_frame_histogram("v", ["1", 1, timedelta(0)])
    for rows in (values.clear(), values, *(values[k : k + 1] for k in range(len(values)))):
        frame = rows.alias("v").to_frame().lazy()
        assert abs(total(frame)) <= 5.0 * len(rows)
        assert sum(counts(frame)) <= len(rows)

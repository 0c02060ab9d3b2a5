"""Polars: LazyFrame contexts through the documented helper."""

import math

import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal import frame_query, then_frame_count, then_frame_sum, then_optimal_noise

pl = pytest.importorskip("polars")
dp.enable_features("contrib")

FRAME = pl.LazyFrame(
    {
        "age": [10.0, 20.0, None, math.nan, 200.0, -5.0] * 50,
        "n": [1, 2, 3, 4, 5, 6] * 50,
        "town": ["x", "y", "x", "z", None, "x"] * 50,
    }
)


def context(parts: int = 1, contributions: object = 1) -> dp.Context:
    return dp.Context.compositor(
        data=FRAME,
        privacy_unit=dp.unit_of(contributions=contributions),
        privacy_loss=dp.loss_of(epsilon=3.0, delta=1e-6),
        split_evenly_over=parts,
    )


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
    space = dp.lazyframe_domain([dp.series_domain("v", dp.atom_domain(T=float))])
    total = (space, dp.symmetric_distance()) >> then_frame_sum("v", bounds)
    fewer = pl.LazyFrame({"v": rows}, schema={"v": pl.Float64})
    more = pl.LazyFrame({"v": [extra, *rows]}, schema={"v": pl.Float64})
    assert abs(total(more) - total(fewer)) <= total.map(1)


def test_bounds_on_contributions() -> None:
    ctx = context(1, [dp.polars.Bound(per_group=2), dp.polars.Bound(by=("town",), num_groups=1)])
    count = ctx.accountant.input_space >> then_frame_count()
    assert count.map(ctx.d_in) == 2
    assert isinstance(frame_query(ctx).frame_count().optimal().release(), int)


def test_bad_arguments() -> None:
    space = context().accountant.input_space
    with pytest.raises(ValueError, match=r"column.*'height'.*age"):
        space >> then_frame_sum("height", (0.0, 1.0))
    for bounds in [(1.0, 0.0), (0.0, math.inf), (0.0, 0.0), 3, ("a", "b"), (1.0,)]:
        with pytest.raises(ValueError, match="bounds"):
            space >> then_frame_sum("age", bounds)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="categories"):
        frame_query(context()).frame_histogram("town", [])
    with pytest.raises(ValueError, match="categories"):
        frame_query(context()).frame_histogram("town", ["x", "x"])
    with pytest.raises(ValueError, match="input_domain"):
        (dp.atom_domain(T=int), dp.absolute_distance(T=int)) >> then_frame_sum("age", (0.0, 1.0))
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

"""make_optimal_noise: maps, measures, bad input."""

import math
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import opendp.prelude as dp
import pytest
from opendp.mod import OpenDPException

import opendp_optimal
from opendp_optimal import GapWarning, make_optimal_noise, then_optimal_noise
from opendp_optimal.measure.space import INTEGER_RANGES

dp.enable_features("contrib", "honest-but-curious")

FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
INT = dp.atom_domain(T=int), dp.absolute_distance(T=int)
COUNTS = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)


@pytest.mark.parametrize("d_in", [1.0, 0.1, 100.00000009, 1e-300, 1e300])
@pytest.mark.parametrize("d_out", [(1.0, 1e-6), (0.5, 1e-3)])
def test_the_designed_distance_costs_the_target(d_in: float, d_out: tuple[float, float]) -> None:
    meas = make_optimal_noise(*FLOAT, d_in, d_out)
    assert meas.output_measure == dp.approximate(dp.max_divergence())
    assert meas.map(d_in) == d_out
    assert meas.check(d_in, d_out)
    assert meas.map(0.0) == (0.0, 0.0)
    assert isinstance(meas(1.0), float)


@pytest.mark.parametrize("carrier", INTEGER_RANGES)
@pytest.mark.parametrize("d_in", [1, 2, 100])
def test_every_integer_type(carrier: str, d_in: int) -> None:
    space = dp.atom_domain(T=carrier), dp.absolute_distance(T=float)
    meas = make_optimal_noise(*space, float(d_in), (1.0, 1e-3))
    assert meas.map(float(d_in)) == (1.0, 1e-3)
    low, high = INTEGER_RANGES[carrier]
    assert low <= meas(5) <= high


def test_smaller_distances_cost_less_and_exactly_what_the_table_says() -> None:
    meas = make_optimal_noise(*FLOAT, 8.0, (1.0, 1e-3))
    costs = [meas.map(8.0 * k / 16) for k in range(17)]
    assert costs == sorted(costs)
    assert 0 < costs[1][0] < costs[8][0] < costs[16][0] == 1.0
    for k in (1, 8, 15):
        epsilon, delta = costs[k]
        assert delta <= 1e-3
        shift = meas.guarantee.grid.shift(Fraction(8 * k, 16))
        assert abs(shift - Fraction(k, 16)) < Fraction(1, 1000)
        assert meas.table.delta_at(epsilon, shift) <= 1e-3
        if epsilon > 0:
            assert meas.table.delta_at(epsilon * 0.999, shift) > 1e-3


def test_integer_distances_are_whole() -> None:
    space = dp.atom_domain(T=int), dp.absolute_distance(T=float)
    meas = make_optimal_noise(*space, 3.0, (1.0, 1e-3))
    assert meas.table.kind == "integer"
    assert meas.table.cells == 3
    assert meas.map(2.9) == meas.map(2.0)
    assert meas.map(2.0) < meas.map(3.0)
    assert meas.map(0.9) == (0.0, 0.0)


def test_large_integer_sensitivity_uses_a_real_table() -> None:
    meas = make_optimal_noise(*INT, 1000, (1.0, 1e-3))
    assert meas.table.kind == "real"
    assert meas.map(1000) == (1.0, 1e-3)
    assert meas.map(500) < (1.0, 1e-3)
    assert isinstance(meas(7), int)


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_whole_numbers_where_they_matter(loss: str) -> None:
    """At a large epsilon real noise, rounded, has many times the loss of noise of integers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        whole = make_optimal_noise(*INT, 256, (20.0, 1e-6), loss=loss)
    assert whole.table.kind == "integer"
    assert whole.table.upper < (1e-3, 0.03)[loss == "l2"]
    assert make_optimal_noise(*INT, 256, (1.0, 1e-6), loss=loss).table.kind == "real"


def test_larger_distances_are_groups() -> None:
    meas = make_optimal_noise(*FLOAT, 100.0, (1.0, 1e-6))
    last = 100.0 + 100.0 / 2**16
    for d in (100.0, math.nextafter(100.0, 200.0), 100.00000093, last):
        assert meas.map(d) == (1.0, 1e-6)
    for d in (math.nextafter(last, 200.0), 200.0, 2 * last):
        epsilon, delta = meas.map(d)
        assert epsilon == 2.0
        assert 1e-6 * (1 + math.e) <= delta < 1.0001e-6 * (1 + math.e)
    assert meas.map(1e300)[1] == 1.0
    pure = make_optimal_noise(*INT, 3, 0.5)
    assert [pure.map(d) for d in (3, 4, 6, 7, 3000)] == [0.5, 1.0, 1.0, 1.5, 500.0]


def test_the_curve_of_a_group_is_above_its_point() -> None:
    mine = make_optimal_noise(*FLOAT, 1.0, (1.0, 1e-3)).guarantee
    for d in (1.5, 2.0, 5.0):
        epsilon, delta = mine.pair(d)
        assert mine.curve(d)(epsilon) == pytest.approx(delta, rel=1e-3)
        assert mine.curve(d)(epsilon) <= delta
        assert mine.curve(d)(0.0) > mine.curve(1.0)(0.0)


@pytest.mark.parametrize("d_in", [0.1, 1 / 3, 1e-42, 1e-30, 16777217.0, 3e38])
def test_f32_answers_its_own_distance(d_in: float) -> None:
    space = dp.atom_domain(T="f32", nan=False), dp.absolute_distance(T="f32")
    epsilon, delta = make_optimal_noise(*space, d_in, (1.0, 1e-6)).map(d_in)
    assert (1 - 1e-5, 1e-6) < (epsilon, delta) <= (1.0, 1e-6)


def test_histograms_of_groups() -> None:
    for metric, steps in ((dp.l1_distance(T=int), 3), (dp.l2_distance(T=int), 9)):
        meas = make_optimal_noise(dp.vector_domain(dp.atom_domain(T=int)), metric, 1, 0.5)
        assert meas.map(1) == 0.5
        assert meas.map(3) == 0.5 * steps
    many = make_optimal_noise(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), 4, (1.0, 1e-6)
    )
    assert many.map(4) == (1.0, 1e-6)
    assert many.map(8)[0] == 2.0


def test_an_odometer_takes_optimal_noise() -> None:
    counts = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    odometer = dp.c.make_fully_adaptive_composition(*counts, dp.max_divergence())
    queryable = odometer([1] * 50)
    count = counts >> dp.t.then_count()
    queryable(count >> then_optimal_noise(1, 0.5))
    assert queryable.privacy_loss(1) == 0.5
    assert queryable.privacy_loss(3) == 1.5


@pytest.mark.parametrize(("space", "one"), [(FLOAT, 1.0), (INT, 1)])
def test_pure(space: tuple[dp.Domain, dp.Metric], one: float) -> None:
    meas = make_optimal_noise(*space, one, 1.0)
    assert meas.output_measure == dp.max_divergence()
    assert meas.map(one) == 1.0
    assert meas.table.delta_at(1.0) == 0.0
    # The optimum: staircase for reals, two-sided geometric for integers.
    expected = math.exp(0.5) / math.expm1(1.0) if one is FLOAT else None
    if isinstance(one, float):
        expected = math.exp(0.5) / math.expm1(1.0)
    else:
        a = math.exp(-1.0)
        expected = 2 * a / (1 - a * a)
    assert meas.table.upper == pytest.approx(expected, rel=2e-3)
    assert isinstance(meas(one), type(one))


def test_delta_zero_in_a_pair_stays_approximate() -> None:
    meas = make_optimal_noise(*INT, 1, (1.0, 0.0))
    assert meas.output_measure == dp.approximate(dp.max_divergence())
    assert meas.map(1) == (1.0, 0.0)


def test_profile() -> None:
    meas = make_optimal_noise(*FLOAT, 2.0, (1.0, 1e-3), profile=True)
    assert meas.output_measure == dp.smoothed_max_divergence()
    table = meas.table
    for d_in, shift in [(2.0, meas.guarantee.grid.shift(Fraction(2))), (1.0, None)]:
        shift = shift or meas.guarantee.grid.shift(Fraction(1))
        profile = meas.map(d_in)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            assert profile.delta(epsilon) == table.delta_at(epsilon, shift)
    assert meas.map(2.0).delta(1.0) <= 1e-3
    assert meas.map(0.0).delta(0.0) == 0.0
    fixed = dp.c.make_fix_delta(meas, delta=1e-3)
    assert fixed.map(2.0)[0] <= 1.0 + 1e-6


def test_profiles_of_vectors_are_upper_bounds() -> None:
    steps = make_optimal_noise(*COUNTS, 3, (1.0, 1e-3), profile=True)
    assert steps.map(3).delta(1.0) <= 1e-3 * (1 + 1e-9)
    assert steps.map(1).delta(1 / 3) <= 1e-3
    parts = make_optimal_noise(*FLOATS, 1.0, (1.0, 1e-3), changed=4, profile=True)
    assert parts.map(1.0).delta(1.0) <= 1e-3 * (1 + 1e-9)


def test_vectors() -> None:
    histogram = make_optimal_noise(*COUNTS, 1, (1.0, 1e-6))
    assert histogram.map(1) == (1.0, 1e-6)
    assert len(histogram([3, 2, 1])) == 3
    assert histogram([]) == []
    group = make_optimal_noise(*COUNTS, 3, (1.0, 1e-6))
    assert group.map(3) == (1.0, 1e-6)
    one, two = group.map(1), group.map(2)
    assert one[0] <= 1 / 3
    assert one < two < (1.0, 1e-6)
    parts = make_optimal_noise(*FLOATS, 1.0, (1.0, 1e-6), changed=3)
    assert parts.map(1.0) == (1.0, 1e-6)
    assert len(parts([0.0] * 5)) == 5


def test_then_is_the_same_as_make() -> None:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    total = space >> dp.t.then_clamp((0.0, 10.0)) >> dp.t.then_sum()
    meas = total >> then_optimal_noise(total.map(1), (1.0, 1e-6), loss="l2")
    assert meas.map(1) == (1.0, 1e-6)
    assert isinstance(meas([1.0, 2.0]), float)
    assert isinstance(INT >> then_optimal_noise(1, 0.5), dp.Measurement)


@pytest.mark.parametrize(
    ("d_in", "d_out", "options", "words"),
    [
        (0.0, (1.0, 1e-6), {}, r"d_in \(0.0\)"),
        (-1.0, (1.0, 1e-6), {}, r"d_in \(-1.0\)"),
        (math.nan, (1.0, 1e-6), {}, "d_in"),
        (math.inf, (1.0, 1e-6), {}, "d_in"),
        (1.0, (1.0,), {}, "d_out"),
        (1.0, (1.0, 1e-6, 0.0), {}, "d_out"),
        (1.0, "1", {}, "d_out"),
        (1.0, None, {}, "d_out"),
        (1.0, ("1", 1e-6), {}, "d_out"),
        (1.0, (-1.0, 1e-6), {}, r"d_out: epsilon \(-1.0\)"),
        (1.0, (math.nan, 1e-6), {}, "d_out: epsilon"),
        (1.0, (1.0, 1.0), {}, r"d_out: delta \(1.0\)"),
        (1.0, (1.0, -1e-9), {}, "d_out: delta"),
        (1.0, (0.0, 0.0), {}, "no budget"),
        (1.0, 0.0, {}, "no budget"),
        (1.0, (1.0, 1e-6), {"loss": "l3"}, r"loss \('l3'\)"),
        (1.0, (1.0, 1e-6), {"loss": "pinball:2"}, "loss"),
        (1.0, (1.0, 1e-6), {"gap": 0.0}, "gap"),
        (1.0, (1.0, 1e-6), {"changed": 2}, "changed"),
    ],
)
def test_bad_arguments(d_in: float, d_out: object, options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_optimal_noise(*FLOAT, d_in, d_out, **options)  # type: ignore[arg-type]


def test_a_budget_too_small_to_divide_is_not_divided() -> None:
    meas = make_optimal_noise(*COUNTS, 100_000, (1.0, 1e-6))
    assert meas.map(100_000) == (1.0, 1e-6)
    assert len(meas([1, 2, 3])) == 3


def test_contrib_is_asked_for() -> None:
    from opendp.mod import GLOBAL_FEATURES

    before = set(GLOBAL_FEATURES)
    GLOBAL_FEATURES.clear()
    try:
        with pytest.raises(OpenDPException, match="contrib"):
            make_optimal_noise(*INT, 1, (1.0, 1e-6))
    finally:
        GLOBAL_FEATURES.update(before)


def test_a_used_table_verifies() -> None:
    make_optimal_noise(*FLOAT, 1.0, (1.0, 1e-6)).table.verify()
    assert opendp_optimal.solve(epsilon=1.0, delta=1e-6).kind == "real"


@pytest.fixture
def contrib_only() -> Iterator[None]:
    dp.disable_features("honest-but-curious")
    yield
    dp.enable_features("honest-but-curious")


@pytest.mark.usefixtures("contrib_only")
@pytest.mark.parametrize(
    ("space", "d_in", "changed"), [(COUNTS, 2, 1), (FLOATS, 1.0, 1), (FLOATS, 1.0, 5)]
)
def test_what_is_only_stated_is_behind_a_feature(space: Any, d_in: Any, changed: int) -> None:
    """Two counts that move by 1 are at l1 distance 2: nobody can check ``changed=1``."""
    for build in (
        lambda: make_optimal_noise(*space, d_in, (1.0, 1e-6), changed=changed),
        lambda: space >> then_optimal_noise(d_in, (1.0, 1e-6), changed=changed),
    ):
        with pytest.raises(OpenDPException, match=rf"changed \({changed}\) .*honest-but-curious"):
            build()


@pytest.mark.usefixtures("contrib_only")
def test_what_is_proved_needs_no_feature() -> None:
    for changed in (2, 7):
        assert make_optimal_noise(*COUNTS, 2, (1.0, 1e-6), changed=changed).map(2) == (1.0, 1e-6)
    sized = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=3), dp.linf_distance(T=float)
    assert make_optimal_noise(*sized, 1.0, (1.0, 1e-6), changed=3).map(1.0) == (1.0, 1e-6)
    with pytest.raises(OpenDPException, match=r"changed \(2\)"):
        make_optimal_noise(*sized, 1.0, (1.0, 1e-6), changed=2)

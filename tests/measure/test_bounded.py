"""OpenDP measurements with data-dependent noise."""

import math
import random
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import binom

from opendp_optimal import (
    GapWarning,
    make_optimal_bounded_noise,
    make_optimal_noise,
    solve_bounded,
    then_optimal_bounded_noise,
)
from opendp_optimal.sample.bounded import Adding

dp.enable_features("contrib")

COUNT = dp.atom_domain(bounds=(0, 10)), dp.absolute_distance(T=int)
SHARE = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def test_counts() -> None:
    meas = make_optimal_bounded_noise(*COUNT, 2, (1.0, 1e-3))
    assert str(meas.output_measure) == "Approximate(MaxDivergence)"
    assert meas.map(2) == (1.0, 1e-3)
    assert meas.map(0) == (0.0, 0.0)
    epsilon, delta = meas.map(1)
    assert epsilon == 1.0
    assert delta == min(1e-3, meas.table.delta_at(1.0, 1))
    assert meas.map(3)[0] == meas.map(4)[0] == 2.0
    assert all(type(meas(5)) is int and 0 <= meas(5) <= 10 for _ in range(50))


def test_shares() -> None:
    meas = make_optimal_bounded_noise(*SHARE, 0.25, (1.0, 0.05), range=(0.0, 1.0), gap=0.05)
    assert meas.map(0.25) == (1.0, 0.05)
    assert meas.map(0.01)[1] <= 0.05
    assert meas.table.kind == "real"
    values = [meas(0.3) for _ in range(50)]
    assert all(type(v) is float and 0 <= v <= 1 for v in values)
    assert len(set(values)) > 5


def test_answers_outside_the_range_and_not_a_number() -> None:
    meas = make_optimal_bounded_noise(*SHARE, 0.25, (1.0, 0.05), range=(0.0, 1.0), gap=0.05)
    for odd in (math.nan, math.inf, -math.inf, 1e300, -0.0, 5e-324):
        assert 0 <= meas(odd) <= 1


@pytest.mark.parametrize("carrier", ["f32", "f64", "i32", "i64", "u32", "u64"])
def test_every_type_of_number(carrier: str) -> None:
    options: dict[str, Any] = {"nan": False} if carrier.startswith("f") else {}
    space = dp.atom_domain(T=carrier, **options), dp.absolute_distance(T=carrier)
    meas = make_optimal_bounded_noise(*space, 3, (1.0, 0.01), range=(0, 9), gap=0.1)
    assert 0 <= meas(4 if options == {} else 4.0) <= 9
    assert meas.map(3) == (1.0, 0.01)


def test_pure_privacy() -> None:
    meas = make_optimal_bounded_noise(*COUNT, 1, 1.0)
    assert str(meas.output_measure) == "MaxDivergence"
    assert meas.map(1) == 1.0
    assert meas.map(0) == 0.0


def test_long_ranges_of_integers_are_rounded_reals() -> None:
    meas = make_optimal_bounded_noise(
        dp.atom_domain(T=int),
        dp.absolute_distance(T=int),
        50,
        (1.0, 0.05),
        range=(0, 100),
        gap=0.05,
    )
    assert meas.table.kind == "real"
    assert all(type(meas(70)) is int and 0 <= meas(70) <= 100 for _ in range(50))


def test_a_distance_beyond_the_range_covers_every_distance() -> None:
    meas = make_optimal_bounded_noise(*COUNT, 100, (1.0, 0.1))
    assert meas.map(100) == meas.map(1000) == (1.0, 0.1)
    assert meas.table.problem.sensitivity == 10


def test_chains() -> None:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    mean = space >> dp.t.then_clamp((0.0, 10.0)) >> dp.t.then_resize(20, 5.0) >> dp.t.then_mean()
    meas = mean >> then_optimal_bounded_noise(mean.map(2), (1.0, 0.05), range=(0.0, 10.0), bins=20)
    assert meas.map(2) == (1.0, 0.05)
    assert 0 <= meas([1.0, 2.0, 3.0]) <= 10


def test_the_context() -> None:
    context = dp.Context.compositor(
        data=["a"] * 7,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-4),
        split_evenly_over=2,
        domain=dp.vector_domain(dp.atom_domain(T=str)),
    )
    query = context.query().count().optimal_bounded(range=(0, 20), cap=2.5)
    assert query.resolve().map(1) == (0.5, 5e-5)
    assert 0 <= query.release() <= 20
    with pytest.raises(ValueError, match="range must be given"):
        context.query().count().optimal_bounded().release()


def test_the_bounds_of_the_domain_are_the_range() -> None:
    meas = make_optimal_bounded_noise(*COUNT, 1, (1.0, 1e-3))
    assert (meas.table.problem.low, meas.table.problem.high) == (0, 10)


@pytest.mark.parametrize(
    ("space", "options", "words"),
    [
        (SHARE, {}, "range must be given: the domain .* has no bounds"),
        (SHARE, {"range": (1.0,)}, r"range \(\(1.0,\)\) must be a pair"),
        (SHARE, {"range": (0, math.inf)}, "must be a pair .* of finite"),
        (COUNT, {"range": (0, 9.5)}, "must be integers that floats hold"),
        (COUNT, {"d_in": 0.5}, r"d_in \(0.5\) must be at least 1"),
        (SHARE, {"range": (0, 1), "d_in": 0.0}, r"d_in \(0.0\) must be greater than 0"),
        (COUNT, {"cap": 1e-6}, r"cap \(1e-06\) must be larger"),
        (COUNT, {"prior": [1.0]}, "must have 11 weights"),
        (COUNT, {"d_out": (0.0, 0.1)}, "epsilon"),
    ],
)
def test_bad_input(space: Any, options: dict[str, Any], words: str) -> None:
    options = {"d_in": 1, "d_out": (1.0, 1e-3), **options}
    with pytest.raises(ValueError, match=words):
        make_optimal_bounded_noise(*space, **options)


def test_vectors_are_refused() -> None:
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    with pytest.raises(ValueError, match="must be an atom_domain: one number"):
        make_optimal_bounded_noise(*space, 1, (1.0, 1e-3), range=(0, 10))


def differs(draws: list[int], table: Any, answer: int, alarm: float = 1e-9) -> bool:
    """Whether some count is out of all proportion; false alarms have at most this chance."""
    row = table.weights[answer - int(table.problem.low)] / table.total
    each = alarm / (2 * len(row))
    for y, p in enumerate(row):
        seen = sum(d - int(table.problem.low) == y for d in draws)
        if seen < binom.ppf(each, len(draws), p) or seen > binom.isf(each, len(draws), p):
            return True
    return False


def test_releases_follow_the_table() -> None:
    meas = make_optimal_bounded_noise(*COUNT, 1, (1.0, 1e-3))
    draws = [meas(4) for _ in range(20000)]
    assert not differs(draws, meas.table, 4)
    # The test can fail: a mechanism for a slightly smaller epsilon is caught.
    other = solve_bounded(0.8, 1e-3, sensitivity=1, range=(0, 10), integer=True)
    draw = other.releaser()
    assert differs([draw(4) for _ in range(20000)], meas.table, 4)


class Seen:
    """A mechanism that remembers the grid places it is asked for."""

    def __init__(self, mechanism: Any) -> None:
        self.mechanism, self.place = mechanism, 0

    def draw(self, place: int) -> int:
        self.place = place
        return int(self.mechanism.draw(place))

    def cell(self, shift: int) -> int:
        if isinstance(self.mechanism, Adding):
            return self.place
        cell = (self.place - self.mechanism.start - shift) // self.mechanism.step + 1
        return min(max(cell, 0), len(self.mechanism.rows) - 1)


LARGE = [
    ("i64", (2**60, 2**60 + 1024), 64, 16, 16),
    ("u64", (2**63, 2**63 + 2**17), 32, 2**12, 2048),
    ("i64", (0, 2**60 - 2**20), 15, (2**60 - 2**20) // 3, 2**40),
    ("usize", (0, 2**63), 8, 2**61, 2**50),
]


@pytest.mark.parametrize(("carrier", "ends", "bins", "d_in", "near"), LARGE)
def test_integers_that_floats_do_not_hold(
    carrier: str, ends: tuple[int, int], bins: int, d_in: int, near: int
) -> None:
    """Answers k cells apart are never drawn from rows that are further apart, nor told apart."""
    space = dp.atom_domain(T=carrier), dp.absolute_distance(T=carrier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        meas = make_optimal_bounded_noise(*space, d_in, 1.0, range=ends, bins=bins, gap=1.0)
    table, watched = meas.table, replace(meas.table)
    seen = watched.__dict__["mechanism"] = Seen(table.mechanism)
    release = watched.whole_releaser()
    rng = random.Random(3)
    step = getattr(seen.mechanism, "step", 2)
    shifts = [0, 1, step // 2, step - 1]
    for _ in range(300):
        distance = rng.choice([1, 2, near, d_in, rng.randint(1, d_in)])
        first = rng.randint(ends[0], ends[1] - distance)
        rows = []
        for answer in (first, first + distance):
            assert ends[0] <= release(answer) <= ends[1]
            rows.append([seen.cell(shift) for shift in shifts])
        allowed = table.apart(Fraction(distance))
        assert allowed <= (table.cells or table.clamped.reach)
        assert max(b - a for a, b in zip(*rows, strict=True)) <= allowed


@pytest.mark.parametrize("kind", [int, np.int64, Fraction, Decimal, np.longdouble, np.float32])
def test_answers_of_any_type_are_rounded_once(kind: Any) -> None:
    ends = (2.0**60, 2.0**60 + 2.0**20)
    table = solve_bounded(1.0, 0.0, sensitivity=2.0**16, range=ends, bins=16)
    seen = table.__dict__["mechanism"] = Seen(table.mechanism)
    release = table.releaser()
    for answer in (2**60, 2**60 + 127, 2**60 + 129, 2**60 + 2**19, 2**61, 0):
        given = kind(answer)
        release(given)
        exact = min(max(Fraction(int(given)), Fraction(ends[0])), Fraction(ends[1]))
        assert seen.place == round(exact * Fraction(2) ** table.bits)


@pytest.mark.parametrize(("length", "d_in"), [(10.0, 0.1), (1.0, 1e-3), (100.0, 1e-7)])
@pytest.mark.parametrize("d_out", [1.0, (1.0, 1e-6)])
def test_an_ordinary_mean_is_answered_no_worse_than_by_noise_alone(length, d_in, d_out):
    floats = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    with pytest.warns(GapWarning):
        meas = make_optimal_bounded_noise(*floats, d_in, d_out, range=(0.0, length), cache=False)
    noise = make_optimal_noise(*floats, d_in, d_out).table
    assert meas.table.upper <= noise.upper * d_in * (1 + 2e-5)
    assert meas.table.lower > 0
    meas.table.verify()
    assert meas.map(d_in) == meas.map(d_in * (1 + 2.0**-17)) == d_out
    assert meas.map(2 * d_in) != d_out
    assert 0 <= meas(0.0) <= length

"""Releases are exact integers on a grid, and follow OpenDP's noise where numbers end."""

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import opendp_optimal
from opendp_optimal import make_optimal_noise
from opendp_optimal.measure.noise import noise_measurement
from opendp_optimal.measure.release import LARGEST, Grid, grid_for, releaser
from opendp_optimal.measure.space import INTEGER_RANGES, Space
from opendp_optimal.sample.noise import NoiseSampler
from opendp_optimal.table import NoiseTable

dp.enable_features("contrib", "honest-but-curious")

FLOAT = Space("f64", "absolute")
FLOATS = Space("f64", "l1")


@pytest.fixture(scope="module")
def table() -> NoiseTable:
    return opendp_optimal.solve(epsilon=1.0, delta=1e-6)


class Fixed:
    """A table whose noise is known, to see what becomes of it."""

    kind, radius, spike = "real", 64, None

    def __init__(self, noise: int, cells: int = 16) -> None:
        self.noise, self.cells = noise, cells

    def draw(self, size: int | None = None, steps: int = 1) -> object:
        return self.noise if size is None else np.full(size, self.noise, np.int64)


sensitivities = st.floats(min_value=5e-324, max_value=1e308)


@given(sensitivities)
@example(5e-324)
@example(1.7976931348623157e308)
def test_the_grid_hides_the_sensitivity_and_little_more(d_in: float) -> None:
    table = Fixed(0)
    grid = grid_for(FLOAT, table, Fraction(d_in))  # type: ignore[arg-type]
    step = Fraction(2) ** -grid.bits
    assert grid.reach == table.cells * grid.steps
    assert grid.steps % 2 == 1
    # Two values d_in apart, after rounding each to the grid, are never further apart than reach.
    assert grid.reach >= math.floor(Fraction(d_in) / step) + grid.slack
    assert grid.reach * step <= Fraction(d_in) * Fraction(10001, 10000)
    assert grid.slack == 1 or grid.bits >= 1074
    assert grid.shift(Fraction(d_in)) <= 1


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    sensitivities,
    st.integers(-(2**40), 2**40),
)
@settings(max_examples=300)
def test_a_release_is_the_exact_sum_rounded_once(x: float, d_in: float, noise: int) -> None:
    table = Fixed(noise)
    grid = grid_for(FLOAT, table, Fraction(d_in))  # type: ignore[arg-type]
    one = releaser(FLOAT, table.draw, grid)(x)
    (many,) = releaser(FLOATS, table.draw, grid)([x])
    exact = round(Fraction(x) * Fraction(2) ** grid.bits) + noise
    value = Fraction(exact) / Fraction(2) ** grid.bits
    largest = LARGEST["f64"]
    if abs(value) >= Fraction(largest):
        expected = largest if value > 0 else -largest
    elif grid.bits <= 1000:
        expected = float(value)
    else:  # the result may be subnormal, where a scaled double is rounded twice
        expected = pytest.approx(float(value), rel=1e-15, abs=5e-324)
    assert one == expected
    assert many == expected


@pytest.mark.parametrize("noise", [2**53 + 1, -(2**60) - 1])
def test_noise_beyond_doubles_goes_through_integers(noise: int) -> None:
    table, grid = Fixed(noise), Grid(20, 1, 65537, 65537 * 16)
    (many,) = releaser(FLOATS, table.draw, grid)([3.0])
    assert many == releaser(FLOAT, table.draw, grid)(3.0)
    assert many == float(Fraction(3 * 2**20 + noise) / 2**20)


SPECIAL = [math.inf, -math.inf, 1.7976931348623157e308, -1.7976931348623157e308]


@pytest.mark.parametrize("x", SPECIAL)
def test_ends_as_in_native_noise(x: float, table: NoiseTable) -> None:
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    native = dp.m.make_laplace(*space, scale=1.0)(x)
    ours = make_optimal_noise(*space, 1.0, (1.0, 1e-6))
    assert ours(x) == native
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    both = make_optimal_noise(*vectors, 1.0, (1.0, 1e-6), changed=1)([x, 0.0])
    assert both[0] == native
    assert abs(both[1]) < 100


def test_nan_counts_as_zero_as_in_native_noise() -> None:
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    assert abs(dp.m.make_laplace(*space, scale=1.0)(math.nan)) < 1000
    ours = make_optimal_noise(*space, 1.0, (1.0, 1e-6))
    assert abs(ours(math.nan)) < 1000
    vectors = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    assert abs(make_optimal_noise(*vectors, 1.0, (1.0, 1e-6), changed=1)([math.nan])[0]) < 1000


def test_single_precision_stays_finite() -> None:
    space = dp.atom_domain(T="f32", nan=False), dp.absolute_distance(T="f32")
    ours = make_optimal_noise(*space, 1.0, (1.0, 1e-6))
    largest = float(np.finfo(np.float32).max)
    assert ours(math.inf) == largest
    assert abs(ours(2.0) - 2.0) < 1000
    vectors = dp.vector_domain(dp.atom_domain(T="f32", nan=False)), dp.l1_distance(T="f32")
    assert make_optimal_noise(*vectors, 1.0, (1.0, 1e-6), changed=1)([-math.inf]) == [-largest]


@pytest.mark.parametrize("carrier", INTEGER_RANGES)
@pytest.mark.parametrize("noise", [0, 1, -1, 2**40, -(2**40), 2**62, -(2**62)])
def test_integers_stop_at_the_ends_of_their_type(carrier: str, noise: int) -> None:
    low, high = INTEGER_RANGES[carrier]
    table, grid = Fixed(noise), Grid(0, 0, 1, 1)
    table.kind = "integer"
    values = [low, low + 1, 0, high - 1, high]
    expected = [min(high, max(low, v + noise)) for v in values]
    scalar = releaser(Space(carrier, "absolute"), table.draw, grid)
    vector = releaser(Space(carrier, "l1"), table.draw, grid)
    assert [scalar(v) for v in values] == expected
    assert vector(values).tolist() == expected


@given(st.integers(-(2**31), 2**31 - 1), st.integers(65, 2**44), st.integers(-(2**50), 2**50))
def test_large_integer_sensitivities_round_the_exact_sum(x: int, d_in: int, noise: int) -> None:
    table, space = Fixed(noise), Space("i64", "absolute")
    grid = grid_for(space, table, Fraction(d_in))  # type: ignore[arg-type]
    assert grid.slack == 0
    assert grid.reach >= d_in * 2**grid.bits
    exact = Fraction(x * 2**grid.bits + noise, 2**grid.bits)
    expected = math.floor(exact + Fraction(1, 2))
    assert releaser(space, table.draw, grid)(x) == expected
    assert releaser(Space("i64", "l1"), table.draw, grid)([x]).tolist() == [expected]


@pytest.mark.parametrize("target", [(1.0, 1e-6), 1.0])
@pytest.mark.parametrize("d_in", [2**44 + 1, 10**17, 2**63 - 1])
def test_integers_may_move_as_far_as_their_type_reaches(target: object, d_in: int) -> None:
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    meas = make_optimal_noise(*space, d_in, target)  # type: ignore[arg-type]
    assert meas.map(d_in) == target
    errors = np.array([min(abs(meas(0)), d_in) for _ in range(400)]) / d_in
    # Errors up to d_in, as a share of it: about .58 on average, .34 the standard deviation.
    table = meas.table.sample(100_000)
    assert errors.mean() == pytest.approx(np.minimum(abs(table), 1).mean(), abs=7 * 0.36 / 20)


@pytest.mark.parametrize("target", [(1.0, 1e-6), 1.0])
def test_long_noise_on_large_integers(target: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where whole steps are too fine to draw the noise in, it is drawn in coarser ones."""
    monkeypatch.setattr("opendp_optimal.measure.release.LONGEST_NOISE", 2**40)
    d_in = 2**44
    for carrier in ("i64", "u64"):
        space = dp.atom_domain(T=carrier), dp.absolute_distance(T=carrier)
        meas = make_optimal_noise(*space, d_in, target)  # type: ignore[arg-type]
        assert meas.guarantee.grid.bits < 0
        assert meas.map(d_in) == target
        assert 0 < abs(meas(2**62) - 2**62) < 2**52


@pytest.mark.slow
def test_noise_longer_than_64_bits_does_not_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise without end has no largest value: a vector of it is as exact as one draw."""
    table = opendp_optimal.solve(1e-4, 0.0)
    signs = np.array([1, -1, 1])
    monkeypatch.setattr(NoiseSampler, "follow_tails", lambda self, cells: signs * 2**46)
    drawn = table.draw(3, steps=2**18 + 1)
    assert all(2**63 < n < 2**65 for n in (drawn * signs).tolist())
    for carrier, low, high in (("i64", -(2**63), 2**63 - 1), ("u64", 0, 2**64 - 1)):
        space = (
            dp.vector_domain(dp.atom_domain(T=carrier), size=3),
            dp.linf_distance(T=carrier),
        )
        release = noise_measurement(*space, table, 2**44, 4e-4)
        assert list(release([5, 5, 5])) == [high, low, high]


def test_vectors_have_the_length_that_the_domain_states() -> None:
    """A proof that counts coordinates counts on it."""
    for carrier, zero in (("f64", 0.0), ("i64", 0)):
        options = {"nan": False} if carrier == "f64" else {}
        atoms = dp.atom_domain(T=carrier, **options)  # type: ignore[arg-type]
        space = dp.vector_domain(atoms, size=2), dp.linf_distance(T=carrier)
        meas = make_optimal_noise(*space, type(zero)(1), (1.0, 1e-6))
        assert {len(meas([zero] * n)) for n in (0, 1, 2, 5)} == {2}

"""What is claimed holds: distributions written out in full, every shift tried.

This checks the maps against the definition of differential privacy, by code that shares nothing
with the engine's own proof but the bounds on the exponential.
"""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.measure import release as grids
from opendp_optimal.table import NoiseTable

dp.enable_features("contrib", "honest-but-curious")

FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
INT = dp.atom_domain(T=int), dp.absolute_distance(T=int)
COUNTS = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)


def on_grid(table: NoiseTable, steps: int) -> tuple[list[int], int]:
    """The probabilities of all grid points as integers, and what they add up to."""
    out = [int(w) for w in table.weights for _ in range(steps)]
    out[len(out) // 2] += int(table.atom) * steps
    assert sum(out) == table.total * steps
    return out, table.total * steps


def shortfall(mass: list[int], shift: int, epsilon: float) -> Fraction:
    """The largest P(S) - exp(epsilon) Q(S) for noise and shifted noise, rounded up."""
    low = exp_bounds(epsilon)[0]  # a lower bound on exp(epsilon), as a multiple of 2^-BITS
    shifted = [0] * shift + mass
    excess = sum(
        max(0, (p << BITS) - low * q) for p, q in zip(mass + [0] * shift, shifted, strict=True)
    )
    return Fraction(excess, 1 << BITS)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few grid points that all of them can be written out, and rounding matters."""
    monkeypatch.setattr(grids, "RESOLUTION", 2)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("d_in", [1.0, 0.3, 7.7, 1e-310])
@pytest.mark.parametrize("target", [(1.0, 1e-3), (3.0, 0.2), (0.5, 1e-2)])
def test_floats_at_every_distance(d_in: float, target: tuple[float, float]) -> None:
    meas = make_optimal_noise(*FLOAT, d_in, target)
    grid, table = meas.guarantee.grid, meas.table
    mass, total = on_grid(table, grid.steps)
    for part in (1.0, 0.6, 0.1):
        distance = d_in * part
        epsilon, delta = meas.map(distance)
        # However the two values lie on the grid, they end up at most this far apart.
        most = math.floor(Fraction(distance) * Fraction(2) ** grid.bits) + grid.slack
        for shift in range(1, most + 1):
            assert shortfall(mass, shift, epsilon) <= Fraction(delta) * total


@pytest.mark.usefixtures("coarse")
def test_rounding_moves_values_no_further_than_claimed() -> None:
    meas = make_optimal_noise(*FLOAT, 0.3, (1.0, 1e-3))
    bits, reach = meas.guarantee.grid.bits, meas.guarantee.grid.reach
    x = np.linspace(-2, 2, 4001)
    apart = np.rint(np.ldexp(x + 0.3, bits)) - np.rint(np.ldexp(x, bits))
    assert apart.max() <= reach
    assert apart.max() > math.floor(0.3 * 2.0**bits)  # so the slack is needed


@pytest.mark.parametrize("d_in", [1, 2, 5])
def test_integers_at_every_distance(d_in: int) -> None:
    meas = make_optimal_noise(*INT, d_in, (1.0, 1e-3))
    mass, total = on_grid(meas.table, 1)
    for distance in range(1, d_in + 1):
        epsilon, delta = meas.map(distance)
        for shift in range(1, distance + 1):
            assert shortfall(mass, shift, epsilon) <= Fraction(delta) * total


@pytest.mark.usefixtures("coarse")
def test_large_integer_sensitivities() -> None:
    meas = make_optimal_noise(*INT, 500, (1.0, 1e-3))
    grid = meas.guarantee.grid
    mass, total = on_grid(meas.table, grid.steps)
    for distance in (500, 250):
        epsilon, delta = meas.map(distance)
        most = distance << grid.bits
        for shift in (1, most // 3, most - 1, most):
            assert shortfall(mass, shift, epsilon) <= Fraction(delta) * total


def with_tails(table: NoiseTable, blocks: int) -> list[Fraction]:
    """The probabilities of lattice points of a pure table, out to some blocks of its tails."""
    assert table.tail is not None
    whole = Fraction(table.total)
    side = [
        table.tail.weight / whole * (table.tail.again / whole) ** q * (int(t) / whole)
        for q in range(blocks)
        for t in table.tail.weights
    ]
    return side[::-1] + [int(w) / whole for w in table.weights] + side


@pytest.mark.parametrize(("space", "one"), [(INT, 3), (INT, 1), (FLOAT, 1.0)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_pure_noise_point_by_point(
    space: tuple[dp.Domain, dp.Metric], one: float, epsilon: float
) -> None:
    meas = make_optimal_noise(*space, one, epsilon)
    assert meas.map(one) == epsilon
    table = meas.table
    assert table.atom == 0  # a point mass would be seen by any shift
    mass = with_tails(table, 4)
    low = Fraction(exp_bounds(epsilon)[0], 1 << BITS)
    for shift in range(1, table.cells + 1):
        for near, far in zip(mass, mass[shift:], strict=False):
            assert near <= low * far
            assert far <= low * near


def pair(table: NoiseTable, shifts: tuple[int, int], epsilon: float) -> float:
    """The shortfall of two independent noises whose means move by ``shifts``, in floats."""
    weights = np.asarray(table.weights, dtype=float) / table.total
    size = len(weights) + max(shifts)

    def moved(by: int) -> npt.NDArray[np.float64]:
        out = np.zeros(size)
        out[by : by + len(weights)] = weights
        return out

    still = np.outer(moved(0), moved(0))
    shifted = np.outer(moved(shifts[0]), moved(shifts[1]))
    return float(np.clip(still - math.exp(epsilon) * shifted, 0, None).sum())


@pytest.mark.parametrize("target", [(1.0, 1e-3), (2.0, 1e-2), (0.5, 0.05)])
def test_unit_steps_cover_every_way_to_go_two_steps(target: tuple[float, float]) -> None:
    meas = make_optimal_noise(*COUNTS, 2, target)
    assert meas.guarantee.design.argument == "steps"
    for shifts in ((2, 0), (1, 1), (1, 0)):
        epsilon, delta = meas.map(sum(shifts))
        assert pair(meas.table, shifts, epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("d_in", [1, 2])
def test_composition_covers_two_coordinates(d_in: int) -> None:
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    meas = make_optimal_noise(*space, d_in, (1.0, 1e-3), changed=2)
    assert meas.guarantee.design.argument == "composition"
    for first in range(d_in + 1):
        for second in range(d_in + 1):
            assert pair(meas.table, (first, second), 1.0) <= 1e-3 * (1 + 1e-9)


def test_a_table_that_is_too_short_would_be_caught() -> None:
    table = make_optimal_noise(*INT, 1, (1.0, 1e-3)).table
    mass, total = on_grid(table, 1)
    assert shortfall(mass, 2, 1.0) > Fraction(1e-3) * total
    assert shortfall(mass, 1, 0.9) > Fraction(1e-3) * total

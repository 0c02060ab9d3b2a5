"""Releases follow the table, and the test can tell when they do not.

The false-alarm rate is fixed beforehand: each check compares a statistic with a bound that a
correct sampler exceeds with probability below 1e-9 (Hoeffding, or an exact binomial tail).
"""

import math

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import pytest

from opendp_optimal import make_optimal_noise
from opendp_optimal.table import NoiseTable

dp.enable_features("contrib", "honest-but-curious")

FALSE_ALARM = 1e-9
COUNT = 1_000_000
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
COUNTS = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)


def far_from(sample: npt.NDArray[np.int64], table: NoiseTable) -> bool:
    """Whether the largest gap between distribution functions is more than chance allows (DKW)."""
    weights = np.asarray(table.weights, dtype=float) / float(table.total)
    weights[table.radius] += float(table.atom) / float(table.total)
    points = np.arange(-table.radius, table.radius + 1)
    found = np.searchsorted(np.sort(sample), points, side="right") / len(sample)
    bound = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * len(sample)))
    return bool(np.max(np.abs(found - np.cumsum(weights))) > bound)


@pytest.mark.parametrize("target", [(1.0, 1e-3), (5.0, 0.25)])
@pytest.mark.slow
def test_floats_follow_the_table(target: tuple[float, float]) -> None:
    meas = make_optimal_noise(*FLOATS, 3.0, target, changed=1)
    grid, table = meas.guarantee.grid, meas.table
    noise = np.array(meas(np.full(COUNT, 40.0))) - 40.0
    steps = np.rint(noise * 2.0**grid.bits).astype(np.int64)
    cells = np.floor_divide(steps + grid.steps // 2, grid.steps)
    assert not far_from(cells, table)
    # One in twenty is a whole sensitivity too far.
    assert far_from(cells + table.cells * (np.arange(COUNT) % 20 == 0), table)


@pytest.mark.slow
def test_floats_are_uniform_within_a_cell() -> None:
    meas = make_optimal_noise(*FLOATS, 3.0, (1.0, 1e-3), changed=1)
    grid = meas.guarantee.grid
    steps = np.rint(np.array(meas(np.zeros(COUNT))) * 2.0**grid.bits).astype(np.int64)
    offset = np.sort((steps + grid.steps // 2) % grid.steps)
    ideal = (np.arange(COUNT) + 0.5) / COUNT
    gap = np.max(np.abs((offset + 0.5) / grid.steps - ideal))
    assert gap < math.sqrt(math.log(2 / FALSE_ALARM) / (2 * COUNT)) + 1 / grid.steps


def test_integers_follow_the_table() -> None:
    meas = make_optimal_noise(*COUNTS, 1, (1.0, 1e-3))
    noise = np.array(meas(np.full(COUNT, 7, dtype=np.int32)), dtype=np.int64) - 7
    assert not far_from(noise, meas.table)
    assert far_from(np.where(np.arange(COUNT) % 50 == 0, 0, noise), meas.table)


def test_scalars_follow_the_table() -> None:
    meas = make_optimal_noise(
        dp.atom_domain(T=int), dp.absolute_distance(T=int), 2, (1.0, 1e-3), loss="l2"
    )
    noise = np.array([meas(0) for _ in range(20_000)], dtype=np.int64)
    assert not far_from(noise, meas.table)


def test_pure_noise_has_the_mean_it_should() -> None:
    meas = make_optimal_noise(*COUNTS, 1, 1.0)
    noise = np.abs(np.array(meas(np.zeros(COUNT, dtype=np.int32)), dtype=float))
    # Two-sided geometric: variance of |noise| is below 2, and six standard errors are 1e-9.
    a = math.exp(-1.0)
    assert abs(noise.mean() - 2 * a / (1 - a * a)) < 6.2 * math.sqrt(2 / COUNT)


def test_releases_are_on_the_grid() -> None:
    meas = make_optimal_noise(*FLOATS, 0.1, (1.0, 1e-3), changed=1)
    scaled = np.array(meas(np.full(1000, 0.1234567))) * 2.0**meas.guarantee.grid.bits
    assert np.all(scaled == np.rint(scaled))

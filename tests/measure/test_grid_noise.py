"""Gaussian and Laplace noise on a grid, as measurements."""

import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.special import ndtr

from opendp_optimal.extend import (
    make_grid_gaussian,
    make_grid_laplace,
    then_grid_gaussian,
    then_grid_laplace,
)
from tests.tails import surprising

COUNTS = dp.atom_domain(T=int), dp.absolute_distance(T=int)


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib")


@pytest.fixture
def plane():
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2), dp.l2_distance(T=float)


def test_maps_are_exact_on_integers():
    meas = make_grid_gaussian(*COUNTS, rho=0.125)
    assert [meas.map(d) for d in (0, 1, 2, 4)] == [0.0, 0.125, 0.5, 2.0]
    meas = make_grid_laplace(*COUNTS, epsilon=0.25)
    assert [meas.map(d) for d in (0, 1, 4)] == [0.0, 0.25, 1.0]


def test_maps_include_the_rounding_of_floats(plane):
    meas = make_grid_gaussian(*plane, rho=1e-2, grid=0.5)
    worst = 3.0 + 0.5 * math.sqrt(2.0)
    assert meas.map(3.0) == pytest.approx(1e-2 * worst**2)
    assert meas.map(3.0) >= 1e-2 * worst**2 * (1 - 1e-15)
    fine = make_grid_gaussian(*plane, rho=1e-2)
    assert 1e-2 * 9.0 < fine.map(3.0) < 1e-2 * 9.0 * 1.0001
    laplace = make_grid_laplace(*plane, epsilon=1e-2, grid=0.5)
    assert laplace.map(3.0) == pytest.approx(1e-2 * worst)


def test_releases_are_on_the_grid(plane):
    for make in (
        lambda: make_grid_gaussian(*plane, rho=1e-2, grid=0.25),
        lambda: make_grid_laplace(*plane, epsilon=1e-2, grid=0.25),
    ):
        x = make()([1.1, -7.3])
        assert all(v / 0.25 == int(v / 0.25) for v in x)


def test_the_scale_is_right():
    meas = make_grid_gaussian(*COUNTS, rho=0.005)  # sigma 10
    draws = np.array([meas(7) for _ in range(400)])
    within = int((np.abs(draws - 7) <= 10.0).sum())
    assert not surprising(within, 400, 2 * ndtr(1.0) - 1)


def test_native_composition(plane):
    gaussian, laplace = plane >> then_grid_gaussian(rho=1e-4), plane >> then_grid_laplace(1e-2)
    both = dp.c.make_composition([gaussian, gaussian])
    assert both.map(10.0) == pytest.approx(2 * gaussian.map(10.0))
    both = dp.c.make_composition([laplace, laplace])
    assert both.map(10.0) == pytest.approx(2 * laplace.map(10.0))
    assert len(both([1.0, 2.0])) == 2
    native = dp.m.make_gaussian(*plane, scale=50.0)
    assert dp.c.make_composition([gaussian, native]).map(1.0) > gaussian.map(1.0)
    pure = dp.c.make_pureDP_to_zCDP(laplace)
    assert pure.map(10.0) == pytest.approx(laplace.map(10.0) ** 2 / 2)
    odometer = dp.c.make_fully_adaptive_composition(*plane, dp.zero_concentrated_divergence())
    queryable = odometer([3.0, 4.0])
    queryable(gaussian)
    assert queryable.privacy_loss(10.0) == pytest.approx(gaussian.map(10.0))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_bad_prices(plane, bad):
    with pytest.raises(ValueError, match="rho"):
        make_grid_gaussian(*plane, rho=bad)
    with pytest.raises(ValueError, match="epsilon"):
        make_grid_laplace(*plane, epsilon=bad)


def test_data_outside_the_domain_raises_nothing(plane):
    """What OpenDP lets through must not be told apart by an error."""
    meas = make_grid_gaussian(*plane, rho=1e-2)
    assert np.isfinite(meas([math.nan, math.inf])).all()


def test_bad_spaces(plane):
    any_length = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    for domain, metric in (
        (any_length, plane[1]),
        (plane[0], dp.l1_distance(T=float)),
        (dp.vector_domain(dp.atom_domain(T=float, nan=True), size=2), plane[1]),
        (dp.atom_domain(T=str), dp.discrete_distance()),
    ):
        with pytest.raises(ValueError, match=r"input_domain|input_metric"):
            make_grid_gaussian(domain, metric, rho=1.0)
    long = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=17)
    with pytest.raises(ValueError, match="16 coordinates"):
        make_grid_laplace(long, plane[1], epsilon=1.0)
    with pytest.raises(ValueError, match="grid"):
        make_grid_gaussian(*COUNTS, rho=1.0, grid=2.0)
    with pytest.raises(ValueError, match="coarser"):
        make_grid_gaussian(*plane, rho=1e-12, grid=2.0**-30)
    with pytest.raises(ValueError, match="finer"):
        make_grid_gaussian(*plane, rho=1.0, grid=2.0)
    with pytest.raises(ValueError, match="finer"):
        make_grid_laplace(*plane, epsilon=1.0, grid=2.0)

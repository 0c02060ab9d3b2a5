"""Scores and projections before noise, in chains and contexts."""

import math

import opendp.prelude as dp
import pytest

import opendp_optimal_geo as geo
from opendp_optimal_geo import (
    projected_distance,
    rectangle,
    then_distance_to_point,
    then_grid_gaussian,
    then_grid_laplace,
    then_projection,
    then_signed_distance,
)


def test_scores_chain(plane):
    chain = (
        plane >> then_signed_distance(rectangle((0, 0), 100, 100)) >> then_grid_gaussian(rho=1e-2)
    )
    assert chain.map(5.0) == pytest.approx(0.25, rel=1e-3)
    assert abs(chain([0.0, 0.0]) + 50.0) < 80.0
    chain = plane >> then_distance_to_point((3.0, 4.0)) >> then_grid_laplace(epsilon=1.0)
    assert chain.map(5.0) == pytest.approx(5.0, rel=1e-3)
    lonlat = plane[0], projected_distance("EPSG:32618")
    chain = lonlat >> then_projection("EPSG:32618") >> then_grid_gaussian(rho=1e-4)
    x, y = chain([-74.0, 40.7])
    assert math.hypot(x - 584_482.4, y - 4_505_935.9) < 1000.0


@pytest.mark.slow
def test_context(plane):
    context = dp.Context.compositor(
        data=[100.0, 200.0],
        privacy_unit=(plane[1], 50.0),
        privacy_loss=dp.loss_of(rho=0.25),
        split_evenly_over=2,
        domain=plane[0],
    )
    assert len(context.query().grid_gaussian().release()) == 2
    square = rectangle((0, 0), 100, 100)
    assert isinstance(context.query().signed_distance(square).grid_gaussian().release(), float)


def test_bad_spaces(plane):
    any_length = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    for domain, metric in (
        (any_length, plane[1]),
        (plane[0], dp.l1_distance(T=float)),
        (dp.vector_domain(dp.atom_domain(T=float, nan=True), size=2), plane[1]),
        (dp.atom_domain(T=str), dp.discrete_distance()),
    ):
        with pytest.raises(ValueError, match=r"input_domain|input_metric"):
            geo.make_distance_to_point(domain, metric, (0.0, 0.0))
    with pytest.raises(ValueError, match="projected_distance"):
        geo.make_projection(*plane, "EPSG:32618")
    with pytest.raises(ValueError, match="crs"):
        geo.make_projection(*plane, "EPSG:4326")


@pytest.mark.parametrize(
    ("longitude", "latitude", "reason"),
    [
        ([0.0], [90.5], "latitude"),
        ([181.0], [0.0], "longitude"),
        ([math.nan], [0.0], "longitude"),
        ([0.0], [math.inf], "latitude"),
        ([0.0, 1.0], [0.0], "as long"),
    ],
)
def test_bad_degrees(longitude, latitude, reason):
    with pytest.raises(ValueError, match=reason):
        geo.project(longitude, latitude, "EPSG:3857")
    with pytest.raises(ValueError, match=reason):
        geo.Population.from_lonlat(longitude, latitude, crs="EPSG:3857", budget=1.0)


def test_bad_projections():
    for crs in ("EPSG:0", "nonsense", "EPSG:4326"):
        with pytest.raises(ValueError, match="crs"):
            geo.project([0.0], [0.0], crs)

"""1-Lipschitz scores and the projection as OpenDP transformations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from opendp.domains import atom_domain, vector_domain
from opendp.metrics import absolute_distance, l2_distance, user_distance
from opendp.mod import Domain, Metric, Transformation

from opendp_optimal.extend import Floats, float_up, make_transformation, space_of, to_then
from opendp_optimal_geo.projection import FARTHEST, project_anywhere
from opendp_optimal_geo.score import DistanceTo, Score, SignedDistance, score_error


def make_signed_distance(input_domain: Domain, input_metric: Metric, region: Any) -> Transformation:
    """Return the signed distance to a region's boundary, negative inside: stability 1.

    The map adds what floating-point errors can add, 2^-16 of a unit at most.

    :param input_domain: vectors of two floats
    :param input_metric: ``l2_distance``
    :param region: a shapely Polygon or MultiPolygon

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> from opendp_optimal_geo import rectangle
    >>> plane = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2)
    >>> t = make_signed_distance(plane, dp.l2_distance(T=float), rectangle((0, 0), 4, 2))
    >>> t([0.0, 0.0]), round(t.map(3.0), 3)
    (-1.0, 3.0)
    """
    return _make_score(input_domain, input_metric, SignedDistance(region))


def make_distance_to_point(
    input_domain: Domain, input_metric: Metric, point: Any
) -> Transformation:
    """Return the distance to a point: stability 1.

    The map adds what floating-point errors can add, 2^-16 of a unit per coordinate at most.

    :param input_domain: vectors of floats of a fixed length
    :param input_metric: ``l2_distance``
    :param point: as many coordinates

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> plane = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2)
    >>> make_distance_to_point(plane, dp.l2_distance(T=float), (3.0, 4.0))([0.0, 0.0])
    5.0
    """
    return _make_score(input_domain, input_metric, DistanceTo(point))


def _make_score(input_domain: Domain, input_metric: Metric, score: Score) -> Transformation:
    space = space_of(input_domain, input_metric)
    if space.norm != "l2" or space.size != score.dimension or space.integer:
        raise ValueError(
            f"input_domain ({input_domain}) and input_metric ({input_metric}) must be vectors of "
            f"{score.dimension} floats under l2_distance"
        )
    size = score.dimension
    if score.extent > FARTHEST:
        raise ValueError(f"coordinates (up to {score.extent:g}) must be at most {FARTHEST:g}")
    slack = Fraction(2.0 * score_error(size) * FARTHEST)

    def function(data: Any) -> float:
        return float(score(_row(data, size, FARTHEST))[0])

    def stability(d_in: Any) -> float:
        return float_up(Fraction(d_in) + slack)

    line = atom_domain(T=float, nan=False), absolute_distance(T=float)
    return make_transformation(input_domain, input_metric, *line, function, stability)


def projected_distance(crs: str) -> Metric:
    """Return the metric of longitude and latitude that is Euclidean after a projection.

    The distance of two points is that of what :func:`make_projection` makes of them: points that
    the system does not cover are at the origin, and no distance apart.

    :param crs: projected coordinate system in metres
    """
    return user_distance(f"ProjectedDistance({crs})")


def make_projection(input_domain: Domain, input_metric: Metric, crs: str) -> Transformation:
    """Return the projection of (longitude, latitude) in degrees to metres.

    Every point has a place on the plane. Degrees out of range are clamped, a point that the system
    does not cover is at the origin, (0, 0), and coordinates end at 2^27 m. The input metric is the
    distance of these places, so the map is the identity.

    :param input_domain: vectors of two floats
    :param input_metric: ``projected_distance(crs)``
    :param crs: projected coordinate system in metres, such as "EPSG:32618"

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> plane = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2)
    >>> t = make_projection(plane, projected_distance("EPSG:32618"), "EPSG:32618")
    >>> [round(x) for x in t([-74.0, 40.7])], t.map(10.0)
    ([584482, 4505936], 10.0)
    """
    project_anywhere(0.0, 0.0, crs)
    domain = vector_domain(atom_domain(T=float, nan=False), size=2)
    if input_domain != domain:
        raise ValueError(f"input_domain ({input_domain}) must be vectors of two floats")
    if str(input_metric) != str(projected_distance(crs)):
        raise ValueError(f"input_metric ({input_metric}) must be projected_distance({crs!r})")

    def function(data: Any) -> Floats:
        longitude, latitude = _row(data, 2, 180.0)[0].tolist()
        return project_anywhere(longitude, latitude, crs)

    return make_transformation(
        input_domain, input_metric, domain, l2_distance(T=float), function, lambda d_in: d_in
    )


def _row(data: Any, size: int, limit: float) -> Floats:
    x = np.resize(np.nan_to_num(np.asarray(data, np.float64)), size)
    return np.clip(x, -limit, limit)[None, :]


then_signed_distance = to_then(make_signed_distance)
then_distance_to_point = to_then(make_distance_to_point)
then_projection = to_then(make_projection)

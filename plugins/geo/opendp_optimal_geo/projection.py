"""Longitude and latitude to metres, by pyproj."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyproj
from pyproj.exceptions import CRSError

from opendp_optimal.extend import Floats

FARTHEST = 2.0**27
"""Coordinates are clamped to this, which never moves points apart."""


def project(longitude: Any, latitude: Any, crs: str) -> Floats:
    """Return points in metres, one row each.

    Distances, and with them privacy, are meant on the projected plane: choose a projection that is
    true to scale where the people are, such as their UTM zone, and choose it without looking at
    the data. Whoever calls this owns the points: a place that the system does not cover is an
    error, before anything is released.

    :param longitude: degrees, in [-180, 180]
    :param latitude: degrees, in [-90, 90]
    :param crs: a projected coordinate system in metres, such as "EPSG:32618"

    >>> project([-74.0], [40.7], "EPSG:32618").round(1).tolist()
    [[584482.4, 4505935.9]]
    """
    x = np.atleast_1d(np.asarray(longitude, dtype=np.float64))
    y = np.atleast_1d(np.asarray(latitude, dtype=np.float64))
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"longitude (shape {x.shape}) and latitude (shape {y.shape}) must be as long"
        )
    for name, values, limit in (("longitude", x, 180.0), ("latitude", y, 90.0)):
        if not (np.isfinite(values).all() and (np.abs(values) <= limit).all()):
            raise ValueError(f"{name} must be finite, in [-{limit:g}, {limit:g}] degrees")
    eastings, northings = _transformer(crs).transform(x, y)
    points = np.column_stack([eastings, northings])
    if not np.isfinite(points).all():
        raise ValueError(f"crs ({crs!r}) must cover every longitude and latitude given")
    return points


def project_anywhere(longitude: float, latitude: float, crs: str) -> Floats:
    """Return the place of any two numbers on the plane, in metres: every point has one.

    Degrees are clamped, coordinates too. What the system does not cover is at the origin, (0, 0).

    :param longitude: degrees, clamped to [-180, 180]
    :param latitude: degrees, clamped to [-85, 85]
    :param crs: a projected coordinate system in metres

    >>> project_anywhere(15.0, 0.0, "EPSG:32618").tolist()
    [0.0, 0.0]
    """
    x, y = np.clip(np.nan_to_num([longitude, latitude]), (-180.0, -85.0), (180.0, 85.0)).tolist()
    place = np.array(_transformer(crs).transform(x, y), np.float64)
    if not np.isfinite(place).all():
        return np.zeros(2)
    return np.clip(place, -FARTHEST, FARTHEST)


def unproject(points: Floats, crs: str) -> Floats:
    """Return longitude and latitude of points in metres, one row each.

    :param points: rows of x and y
    :param crs: the projected coordinate system they are in

    >>> unproject(project([10.0], [50.0], "EPSG:3857"), "EPSG:3857").round(6).tolist()
    [[10.0, 50.0]]
    """
    x, y = _transformer(crs).transform(points[:, 0], points[:, 1], direction="INVERSE")
    return np.column_stack([x, y])


def _transformer(crs: str) -> pyproj.Transformer:
    try:
        system = pyproj.CRS.from_user_input(crs)
    except CRSError:
        raise ValueError(f"crs ({crs!r}) must be a coordinate system that pyproj knows") from None
    if not system.is_projected or system.axis_info[0].unit_name not in ("metre", "meter"):
        raise ValueError(f"crs ({crs!r}) must be a projected system in metres")
    return pyproj.Transformer.from_crs("EPSG:4326", system, always_xy=True)

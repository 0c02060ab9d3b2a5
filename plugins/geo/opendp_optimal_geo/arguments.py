"""What the options of the commands say: people in a file, regions, looks, lists of numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import opendp_optimal_geo
from opendp_optimal.extend import progress_bar

# What reading a hostile file may raise on the way; all of it means: not a region.
_MALFORMED = (ValueError, TypeError, AttributeError, LookupError, RecursionError, OSError)


def read_people(
    *,
    file: Path,
    price: float | None,
    crs: str | None,
    columns: str | None,
    address: str | None,
    column: str | None,
    **terms: Any,
) -> tuple[Any, Any, float]:
    """Return the population of a file, its points, and the price of a query."""
    if (address is None) != (column is None):
        raise ValueError("ledger and id must be given together: people are known by their ids")
    points = read_points(file, crs, columns)
    if address is not None and column is not None:
        from opendp_optimal.budget import open_ledger
        from opendp_optimal_geo.files import read_ids

        terms |= {"ids": read_ids(file, column), "ledger": open_ledger(address)}
    people = opendp_optimal_geo.Population(points, **terms)
    return people, points, float(people.capacity) if price is None else price


def read_points(file: Path, crs: str | None, columns: str | None) -> Any:
    """Return the points of a file, in metres where a projection is given."""
    from opendp_optimal_geo.files import coordinate_columns, header, read_columns

    if columns is None:
        names, degrees = coordinate_columns(file)
    else:
        parts = [part.strip() for part in columns.split(",")]
        if len(parts) != 2 or any(part not in header(file) for part in parts):
            raise ValueError(f"columns ({columns!r}) must be two columns of {file.name}")
        names, degrees = (parts[0], parts[1]), crs is not None
    if degrees and crs is None:
        raise ValueError("crs (None) must be given for longitude and latitude, e.g. EPSG:32618")
    with progress_bar("reading") as progress:
        points = read_columns(file, names, progress=progress)
    if not degrees:
        return points
    return opendp_optimal_geo.project(points[:, 0], points[:, 1], str(crs))


def read_region(text: str, crs: str | None) -> Any:
    """Return the region that WKT, GeoJSON or a file with it describes.

    :param text: one of these
    :param crs: projected coordinate system, where the region is in degrees
    """
    import shapely

    from opendp_optimal_geo.region import check_region

    try:
        source = _text_of(text)
        if source.lstrip().startswith("{"):
            found = json.loads(source)
            features = found.get("features", [found])
            shapes = [shapely.from_geojson(json.dumps(f.get("geometry", f))) for f in features]
            region = shapes[0] if len(shapes) == 1 else shapely.union_all(shapes)
        else:
            region = shapely.from_wkt(source)
    except (shapely.errors.GEOSException, *_MALFORMED):
        raise ValueError(f"region ({text!r}) must be WKT or GeoJSON, or a file with it") from None
    check_region(region)
    if crs is not None:
        project = opendp_optimal_geo.project
        region = shapely.transform(region, lambda xy: project(xy[:, 0], xy[:, 1], crs))
    return check_region(region)


def _text_of(text: str) -> str:
    """Return what a file holds, or the text itself if it names none."""
    try:
        named = Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or not one
        named = False
    return Path(text).read_text(encoding="utf-8") if named else text


def read_numbers(name: str, text: str, length: int) -> list[float]:
    """Return so many numbers, separated by commas.

    :param name: what to call the option in the message
    :param text: what was given
    :param length: how many there must be
    """
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != length:
        raise ValueError(f"{name} ({text!r}) must be {length} numbers separated by commas")
    return values


def read_looks(text: str) -> Any:
    """Return looks as a population takes them.

    :param text: even:c, doubling:c, or prices separated by commas
    """
    kind, _, rest = text.partition(":")
    if kind in ("even", "doubling") and rest.isdigit():
        return kind, int(rest)
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"looks ({text!r}) must be even:c, doubling:c, or prices") from None


@contextmanager
def adding_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar whose steps add up.

    :param label: what is being done
    """
    done = 0
    with progress_bar(label) as show:

        def update(step: int, total: int) -> None:
            nonlocal done
            done += step
            show(done, max(done, total))

        yield update

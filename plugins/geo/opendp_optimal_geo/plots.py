"""Pictures; needs the extra ``plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from opendp_optimal_geo.answers import Answer
from opendp_optimal_geo.queries import DensityMap

FloatArray = NDArray[np.float64]


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError:  # pragma: no cover
        raise ImportError(
            "pictures need matplotlib: pip install opendp-optimal-geo[plot]"
        ) from None
    figure = Canvas(figsize=size, layout="constrained", dpi=130)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def plot_elimination(
    path: Path, points: FloatArray, answer: Answer, region: BaseGeometry, *, limit: int = 20_000
) -> None:
    """Draw at which look every user was decided (Figure 2).

    The picture shows the points themselves: it is for their owner, or for public points.

    :param path: file to write
    :param points: rows of x and y
    :param answer: of a range count
    :param region: what was asked about
    :param limit: draw at most so many users
    """
    assert answer.decided_at is not None
    figure, axes = _figure(1, 1, (7.5, 6.5))
    axis = axes[0, 0]
    step = max(1, len(points) // limit)
    x, looks = points[::step], answer.decided_at[::step].astype(np.float64)
    rounds = len(answer.rounds)
    never = looks == 0
    dots = axis.scatter(
        x[~never, 0],
        x[~never, 1],
        c=looks[~never],
        s=3,
        cmap="viridis",
        vmin=1,
        vmax=max(2, rounds),
        rasterized=True,  # one picture in an SVG, not twenty thousand circles
    )
    axis.scatter(
        x[never, 0], x[never, 1], s=4, color="crimson", label="never decided", rasterized=True
    )
    for part in getattr(region, "geoms", [region]):
        for ring in (part.exterior, *part.interiors):
            axis.plot(*np.array(ring.coords)[:, :2].T, color="black", linewidth=1.2)
    figure.colorbar(dots, ax=axis, label="decided at look")
    centre, (west, south, east, north) = region.centroid, region.bounds
    reach = 3.0 * max(east - west, north - south)
    axis.set(
        xlim=(centre.x - reach, centre.x + reach),
        ylim=(centre.y - reach, centre.y + reach),
        aspect="equal",
        title=f"count {answer.value} ± {answer.error_bound:g}, saving {answer.saving:.0%}",
    )
    axis.legend(frameon=False, fontsize=8)
    figure.savefig(path)


def plot_density(path: Path, density: DensityMap) -> None:
    """Draw a density as a heat map.

    :param path: file to write
    :param density: from :meth:`Population.density_map`
    """
    figure, axes = _figure(1, 1, (7.5, 6.5))
    west, south, east, north = density.bounds
    image = axes[0, 0].imshow(
        density.density, origin="lower", extent=(west, east, south, north), cmap="magma"
    )
    figure.colorbar(image, ax=axes[0, 0], label="users per squared unit")
    axes[0, 0].set_title(f"density from {density.answered} noisy points")
    figure.savefig(path)

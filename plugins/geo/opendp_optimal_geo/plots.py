"""Pictures; needs the extra ``plot``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from shapely.geometry.base import BaseGeometry

from opendp_optimal.extend import Floats, new_figure, save_figure
from opendp_optimal_geo.answer import Answer
from opendp_optimal_geo.density import DensityMap
from opendp_optimal_geo.maps import CountMap


def _outline(axis: Any, region: BaseGeometry) -> None:
    for part in getattr(region, "geoms", [region]):
        for ring in (part.exterior, *part.interiors):
            axis.plot(*np.array(ring.coords)[:, :2].T, color="black", linewidth=1.2)


def _title(answer: Answer) -> str:
    return f"count {answer.value} ± {answer.error_bound:g}, saving {answer.saving:.0%}"


def _heat(axis: Any, title: str, table: Floats, bounds: tuple[float, ...], **limits: Any) -> Any:
    west, south, east, north = bounds
    axis.set_title(title)
    extent = (west, east, south, north)
    return axis.imshow(table, origin="lower", extent=extent, cmap="magma", **limits)


def plot_count(path: Path, answer: Answer, region: BaseGeometry) -> None:
    """Draw a region with its count, and how many users were decided at each look.

    Everything in the picture was released: it is as safe to publish as the answer.

    :param path: file to write
    :param answer: of a range count
    :param region: what was asked about
    """
    figure, (where, when) = new_figure(11.0, 5.0, columns=2)
    _outline(where, region)
    where.set(aspect="equal", title=_title(answer))
    looks = [r.look for r in answer.rounds]
    inside, outside = ([getattr(r, k) for r in answer.rounds] for k in ("inside", "outside"))
    open_ = [r.asked - r.inside - r.outside for r in answer.rounds]
    when.bar(looks, inside, label="found inside", color="C0")
    when.bar(looks, outside, bottom=inside, label="found outside", color="C1")
    decided = np.add(inside, outside)
    when.bar(looks, open_, bottom=decided, label="not decided", color="lightgrey")
    when.set(xlabel="look", ylabel="users asked", xticks=looks)
    when.legend(frameon=False, fontsize=8)
    save_figure(figure, str(path))


def plot_elimination(
    path: Path, points: Floats, answer: Answer, region: BaseGeometry, *, limit: int = 20_000
) -> None:
    """Draw at which look every user was decided, at the user's true point (Figure 2).

    The picture shows what is secret: it is for the owner of the points, or for public points.
    :func:`plot_count` draws what was released.

    :param path: file to write
    :param points: rows of x and y
    :param answer: of a range count
    :param region: what was asked about
    :param limit: draw at most so many users
    """
    assert answer.decided_at is not None
    figure, (axis,) = new_figure(7.5, 6.5)
    step = max(1, len(points) // limit)
    x, looks = points[::step], answer.decided_at[::step].astype(np.float64)
    decided, last = looks > 0, max(2, len(answer.rounds))
    # One picture in an SVG, not twenty thousand circles.
    scatter = partial(axis.scatter, rasterized=True)
    dots = scatter(*x[decided].T, c=looks[decided], s=3, cmap="viridis", vmin=1, vmax=last)
    scatter(*x[~decided].T, s=4, color="crimson", label="never decided")
    _outline(axis, region)
    figure.colorbar(dots, ax=axis, label="decided at look")
    centre, (west, south, east, north) = region.centroid, region.bounds
    reach = 3.0 * max(east - west, north - south)
    axis.set(
        xlim=(centre.x - reach, centre.x + reach),
        ylim=(centre.y - reach, centre.y + reach),
        aspect="equal",
        title=f"{_title(answer)}; true points",
    )
    axis.legend(frameon=False, fontsize=8)
    save_figure(figure, str(path))


def plot_density(path: Path, density: DensityMap) -> None:
    """Draw a density as a heat map.

    :param path: file to write
    :param density: from :meth:`Population.density_map`
    """
    shown = {f"density from {density.answered} noisy points": density.density}
    if density.posterior is not None:
        shown["their noise taken out"] = density.posterior
    figure, axes = new_figure(7.5 * len(shown), 6.5, columns=len(shown))
    for axis, (title, table) in zip(axes, shown.items(), strict=True):
        image = _heat(axis, title, table, density.bounds)
        figure.colorbar(image, ax=axis, label="users per squared unit")
    save_figure(figure, str(path))


def plot_counts(path: Path, found: CountMap) -> None:
    """Draw a map of counts: as released, and estimated where that was asked for.

    :param path: file to write
    :param found: from :meth:`Population.count_map`
    """
    shown = {"released": found.counts.astype(np.float64)}
    if found.posterior is not None:
        shown["posterior mean"] = found.best
    figure, axes = new_figure(6.0 * len(shown), 5.2, columns=len(shown))
    top = max(float(found.best.max()), 1.0)
    for axis, (title, table) in zip(axes, shown.items(), strict=True):
        image = _heat(axis, title, table, found.bounds, vmin=0, vmax=top)
    figure.colorbar(image, ax=list(axes), label="users in a cell")
    save_figure(figure, str(path))

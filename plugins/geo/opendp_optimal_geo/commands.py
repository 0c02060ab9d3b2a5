"""``opendp-optimal geo ...``: results on standard output, progress on standard error.

Exit codes: 0 done, 1 failed (also an audit that refutes the claim), 2 bad arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from opendp_optimal_geo._outputs import check_outputs, print_answer, print_json

F = TypeVar("F", bound=Callable[..., Any])


class _Polite(click.Group):
    """Turns a bad argument into a usage error (exit code 2) and a missing extra into a message."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        except (ImportError, OSError) as error:
            raise click.ClickException(str(error)) from None


@click.group(name="geo", cls=_Polite)
def geo() -> None:
    """Geo-privacy: counts, densities and neighbours from users with budgets of their own."""


_written = click.Path(path_type=Path)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _population_options(command: F) -> F:
    """Add what says who is asked, and with which budget."""
    for option in reversed(
        (
            click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
            click.option("--budget", type=float, required=True, help="Of each user, in all."),
            click.option(
                "--price", type=float, help="For this query; the whole budget by default."
            ),
            click.option("--privacy", type=click.Choice(["cgp", "gp", "approx-gp"]), default="cgp"),
            click.option("--delta", type=float, help="For approx-gp."),
            click.option("--reach", type=float, help="For approx-gp, in metres."),
            click.option("--crs", help="Projection of longitude and latitude, e.g. EPSG:32618."),
            click.option("--columns", help="Two columns, e.g. lng,lat; found by name if left out."),
            click.option(
                "--state",
                type=click.Path(dir_okay=False, path_type=Path),
                help="File with the budgets; made if it is not there, charged before every look.",
            ),
        )
    ):
        command = option(command)
    return command


def _query_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--method", type=click.Choice(["point", "distance"]), default="point"),
            click.option("--looks", default="doubling:10", show_default=True, help="even:4, ..."),
            click.option("--beta", type=float, default=0.05, show_default=True),
            click.option("--baseline", is_flag=True, help="One look, nobody is eliminated."),
            _json_option,
        )
    ):
        command = option(command)
    return command


@geo.command(name="count")
@_population_options
@click.option("--region", "region_text", required=True, help="WKT, or a file with GeoJSON or WKT.")
@click.option("--degrees", is_flag=True, help="The region is in longitude and latitude.")
@click.option(
    "--map", "map_file", type=_written, help="Draw the region, and how many were decided when."
)
@click.option(
    "--map-with-true-points",
    "secret_file",
    type=_written,
    help="Draw who was decided when, at everybody's true point: not for publication.",
)
@_query_options
def count_command(
    region_text: str,
    degrees: bool,
    map_file: Path | None,
    secret_file: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Count the users inside a region."""
    check_outputs(pictures=(map_file, secret_file))
    region = _region(region_text, options["crs"] if degrees else None)
    people, points, answer = _ask("range_count", region, **options)
    print_answer(answer, people, as_json)
    if map_file is not None:
        from opendp_optimal_geo.plots import plot_count

        plot_count(map_file, answer, region)
    if secret_file is not None:
        from opendp_optimal_geo.plots import plot_elimination

        plot_elimination(secret_file, points, answer, region)


@geo.command(name="kde")
@_population_options
@click.option("--at", required=True, help="x,y of the point.")
@click.option("--bandwidth", type=float, required=True, help="In metres.")
@_query_options
def kde_command(at: str, bandwidth: float, as_json: bool, **options: Any) -> None:
    """Estimate the kernel density at one point."""
    people, _, answer = _ask("kde", _numbers("at", at, 2), bandwidth, **options)
    print_answer(answer, people, as_json)


@geo.command(name="neighbours")
@_population_options
@click.option("--at", required=True, help="x,y of the point.")
@click.option("--k", type=int, default=10, show_default=True, help="How many.")
@_query_options
def neighbours_command(at: str, k: int, as_json: bool, **options: Any) -> None:
    """Find the users nearest to a point; they are named by their line in the file, from 0."""
    people, _, answer = _ask("nearest", _numbers("at", at, 2), k, **options)
    print_answer(answer, people, as_json)


@geo.command(name="density")
@_population_options
@click.option("--bounds", required=True, help="west,south,east,north in metres.")
@click.option("--cells", type=int, default=200, show_default=True, help="Along each side.")
@click.option("--bandwidth", type=float, required=True, help="Of the smoothing, in metres.")
@click.option("--output", type=_written, help="Heat map to write.")
@click.option("--table", type=_written, help="CSV of the densities to write.")
@_json_option
def density_command(
    bounds: str,
    cells: int,
    bandwidth: float,
    output: Path | None,
    table: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw a private density map from one noisy point per user."""
    check_outputs(pictures=(output,), tables=(table,))
    people, _, price = _population(**options)
    corners = _numbers("bounds", bounds, 4)
    with _bar("density") as progress:
        result = people.density_map(corners, cells, bandwidth, budget=price, progress=progress)
    if as_json:
        report = {"answered": result.answered, "bounds": result.bounds, "cells": cells}
        print_json({**report, "largest": float(result.density.max())})
    else:
        click.echo(f"{result.answered} users, largest density {result.density.max():.4g} per m^2")
    if table is not None:
        np.savetxt(table, result.density, delimiter=",", fmt="%.6g")
    if output is not None:
        from opendp_optimal_geo.plots import plot_density

        plot_density(output, result)


@geo.command(name="audit")
@click.option("--distance", type=float, default=100.0, show_default=True, help="In metres.")
@click.option("--price", type=float, default=1e-4, show_default=True, help="Of all looks together.")
@click.option("--privacy", type=click.Choice(["cgp", "gp"]), default="cgp")
@click.option("--method", type=click.Choice(["point", "distance"]), default="point")
@click.option("--draws", type=click.IntRange(min=100), default=200_000, show_default=True)
@click.option("--false-alarm", type=float, default=1e-6, show_default=True)
@_json_option
def audit_command(
    distance: float,
    price: float,
    privacy: str,
    method: str,
    draws: int,
    false_alarm: float,
    as_json: bool,
) -> None:
    """Audit the looks that users release, statistically, through the whole population."""
    from opendp_optimal_geo.audit import audit_population

    report = audit_population(
        distance, price, privacy=privacy, method=method, draws=draws, false_alarm=false_alarm
    )
    if as_json:
        print_json({**asdict(report), "violated": report.violated})
    else:
        click.echo(f"claimed {report.claimed:.6f}, proven at least {report.proven:.6f}")
        click.echo("REFUTED" if report.violated else "not refuted")
    if report.violated:
        raise click.exceptions.Exit(1)


def _population(
    *,
    file: Path,
    budget: float,
    price: float | None,
    privacy: str,
    delta: float | None,
    reach: float | None,
    crs: str | None,
    columns: str | None,
    state: Path | None,
) -> tuple[Any, Any, float]:
    from opendp_optimal_geo.files import coordinate_columns, header, read_columns
    from opendp_optimal_geo.population import Population
    from opendp_optimal_geo.projection import project

    if columns is None:
        names, degrees = coordinate_columns(file)
    else:
        parts = [part.strip() for part in columns.split(",")]
        if len(parts) != 2 or any(part not in header(file) for part in parts):
            raise ValueError(f"columns ({columns!r}) must be two columns of {file.name}")
        names, degrees = (parts[0], parts[1]), crs is not None
    if degrees and crs is None:
        raise ValueError("crs (None) must be given for longitude and latitude, e.g. EPSG:32618")
    with _bar("reading", adding=False) as progress:
        points = read_columns(file, names, progress=progress)
    if degrees:
        points = project(points[:, 0], points[:, 1], str(crs))
    if state is not None and state.exists():
        people = Population.restore(points, state, journal=state)
        if people.budget != budget or people.privacy != privacy:
            raise ValueError(
                f"state ({state.name}) must be for the same budget ({people.budget:g}) and "
                f"privacy ({people.privacy})"
            )
    else:
        people = Population(
            points, budget=budget, privacy=privacy, delta=delta, reach=reach, journal=state
        )
    return people, points, float(people.capacity) if price is None else price


def _ask(
    query: str,
    *arguments: Any,
    method: str,
    looks: str,
    beta: float,
    baseline: bool,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """Ask a population one query; return it, its points and the answer."""
    people, points, price = _population(**options)
    with _bar(query.replace("_", " ")) as progress:
        answer = getattr(people, query)(
            *arguments,
            budget=price,
            method=method,
            looks=_looks(looks),
            beta=beta,
            baseline=baseline,
            progress=progress,
        )
    return people, points, answer


# What reading a hostile file may raise on the way; all of it means: not a region.
_MALFORMED = (ValueError, TypeError, AttributeError, LookupError, RecursionError, OSError)


def _text_of(text: str) -> str:
    """Return what a file holds, or the text itself if it names none."""
    try:
        named = Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or not one
        named = False
    return Path(text).read_text(encoding="utf-8") if named else text


def _region(text: str, crs: str | None) -> Any:
    import shapely

    from opendp_optimal_geo.projection import project
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
        region = shapely.transform(region, lambda xy: project(xy[:, 0], xy[:, 1], crs))
    return check_region(region)


def _numbers(name: str, text: str, length: int) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != length:
        raise ValueError(f"{name} ({text!r}) must be {length} numbers separated by commas")
    return values


def _looks(text: str) -> Any:
    kind, _, rest = text.partition(":")
    if kind in ("even", "doubling") and rest.isdigit():
        return kind, int(rest)
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"looks ({text!r}) must be even:c, doubling:c, or prices") from None


@contextmanager
def _bar(label: str, *, adding: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error while the block runs."""
    from rich.console import Console
    from rich.progress import Progress

    done = 0
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def update(step: int, total: int) -> None:
            nonlocal done
            done = done + step if adding else step
            bar.update(task, completed=done, total=max(done, total))

        yield update

"""``opendp-optimal geo ...``: results on standard output, progress on standard error.

Exit codes: 0 done, 1 failed (also an audit that refutes the claim), 2 bad arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import click

import opendp_optimal_geo
from opendp_optimal.extend import (
    CommandGroup,
    drawable,
    json_option,
    late,
    print_audit,
    print_json,
    writable,
)
from opendp_optimal_geo.arguments import (
    adding_bar,
    read_looks,
    read_numbers,
    read_people,
    read_points,
    read_region,
)

F = TypeVar("F", bound=Callable[..., Any])


@click.group(name="geo", cls=CommandGroup)
def geo() -> None:
    """Geo-privacy: counts, densities and neighbours from users with budgets of their own."""


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options, in this order."""
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


_path = click.Path(path_type=Path)
_picture = partial(click.option, type=_path, callback=drawable)
_population_options = _all(
    click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    click.option("--budget", type=float, required=True, help="Of each user, in all."),
    click.option("--price", type=float, help="For this query; the whole budget by default."),
    click.option("--privacy", type=click.Choice(["cgp", "gp", "approx-gp"]), default="cgp"),
    click.option("--delta", type=float, help="For approx-gp."),
    click.option("--reach", type=float, help="For approx-gp, in metres."),
    click.option("--crs", help="Projection of longitude and latitude, e.g. EPSG:32618."),
    click.option("--columns", help="Two columns, e.g. lng,lat; found by name if left out."),
    click.option(
        "--ledger",
        "--state",
        "address",
        help="Ledger that keeps the budgets, charged before every look: a file, or postgresql://...",
    ),
    click.option("--id", "column", help="With a ledger: the column that says who is who."),
    click.option(
        "--name",
        default="people",
        show_default=True,
        help="With a ledger: what the population is called there.",
    ),
    click.option(
        "--key",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With a ledger: file with the key that hides who is who; beside it by default.",
    ),
)
_query_options = _all(
    click.option("--method", type=click.Choice(["point", "distance"]), default="point"),
    click.option("--looks", default="doubling:10", show_default=True, help="even:4, ..."),
    click.option("--beta", type=float, default=0.05, show_default=True),
    click.option("--baseline", is_flag=True, help="One look, nobody is eliminated."),
    json_option,
)


@geo.command(name="count")
@_population_options
@click.option("--region", "region_text", required=True, help="WKT, or a file with GeoJSON or WKT.")
@click.option("--degrees", is_flag=True, help="The region is in longitude and latitude.")
@_picture("--map", "map_file", help="Draw the region, and how many were decided when.")
@_picture(
    "--map-with-true-points",
    "secret_file",
    help="Draw who was decided when, at everybody's true point: not for publication.",
)
@_query_options
def count_command(
    region_text: str, degrees: bool, map_file: Path | None, secret_file: Path | None, **options: Any
) -> None:
    """Count the users inside a region."""
    region = read_region(region_text, options["crs"] if degrees else None)
    points, answer = _ask(opendp_optimal_geo.RangeCount(region), **options)
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
def kde_command(at: str, bandwidth: float, **options: Any) -> None:
    """Estimate the kernel density at one point."""
    _ask(opendp_optimal_geo.KernelDensity(read_numbers("at", at, 2), bandwidth), **options)


@geo.command(name="neighbours")
@_population_options
@click.option("--at", required=True, help="x,y of the point.")
@click.option("--k", type=int, default=10, show_default=True, help="How many.")
@_query_options
def neighbours_command(at: str, k: int, **options: Any) -> None:
    """Find the users nearest to a point; they are named by their line in the file, from 0."""
    _ask(opendp_optimal_geo.Nearest(read_numbers("at", at, 2), k), **options)


@geo.command(name="density")
@_population_options
@click.option("--bounds", required=True, help="west,south,east,north in metres.")
@click.option("--cells", type=int, default=200, show_default=True, help="Along each side.")
@click.option("--bandwidth", type=float, required=True, help="Of the smoothing, in metres.")
@click.option("--posterior", is_flag=True, help="Take the noise of the points out, at no cost.")
@_picture("--output", help="Heat map to write.")
@click.option("--table", type=_path, callback=writable, help="CSV of the densities to write.")
@json_option
def density_command(
    bounds: str, cells: int, bandwidth: float, posterior: bool, **options: Any
) -> None:
    """Draw a private density map from one noisy point per user."""
    corners = read_numbers("bounds", bounds, 4)
    wanted = _taken(options, "as_json", "table", "output")
    people, _, price = read_people(**options)
    with adding_bar("density") as progress:
        result = people.density_map(
            *(corners, cells, bandwidth), budget=price, posterior=posterior, progress=progress
        )
    largest = float(result.best.max())
    report = {"answered": result.answered, "bounds": result.bounds, "cells": cells}
    report |= {"largest": largest, "gap": result.gap}
    told = f"{result.answered} users, largest density {largest:.4g} per m^2"
    _show_map(result, report, told, late("opendp_optimal_geo.plots:plot_density"), **wanted)


@geo.command(name="count-map")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rho", type=float, required=True, help="Price of the whole map (zCDP).")
@click.option("--bounds", required=True, help="west,south,east,north in metres.")
@click.option("--cells", type=int, default=100, show_default=True, help="Along each side.")
@click.option("--crs", help="Projection of longitude and latitude, e.g. EPSG:32618.")
@click.option("--columns", help="Two columns, e.g. lng,lat; found by name if left out.")
@click.option("--posterior", is_flag=True, help="Estimate the true counts, at no cost.")
@_picture("--output", help="Heat map to write.")
@click.option("--table", type=_path, callback=writable, help="CSV of the counts to write.")
@json_option
def count_map_command(rho: float, bounds: str, cells: int, posterior: bool, **options: Any) -> None:
    """Count the users in each cell of a map, in the central model: a curator adds noise."""
    corners = read_numbers("bounds", bounds, 4)
    wanted = _taken(options, "as_json", "table", "output")
    points = read_points(**options)
    people = opendp_optimal_geo.Population(points, budget=1.0, central_budget=rho)
    found = people.count_map(corners, cells, budget=rho, posterior=posterior)
    total = int(found.counts.sum())
    report = {"bounds": found.bounds, "cells": cells, "deviation": found.deviation, "total": total}
    told = f"total {total}, noise of deviation {found.deviation:.4g} in each cell"
    if found.posterior is not None:
        before, after = found.posterior.gain
        report |= {"error_before": before, "error_after": after}
        errors = f"{before:.4g} released, {after:.4g} estimated"
        told += f"\nmean absolute error to expect: {errors}"
    _show_map(found, report, told, late("opendp_optimal_geo.plots:plot_counts"), **wanted)


@geo.command(name="audit")
@click.option("--distance", type=float, default=100.0, show_default=True, help="In metres.")
@click.option("--price", type=float, default=1e-4, show_default=True, help="Of all looks together.")
@click.option("--privacy", type=click.Choice(["cgp", "gp"]), default="cgp")
@click.option("--method", type=click.Choice(["point", "distance"]), default="point")
@click.option("--draws", type=click.IntRange(min=100), default=200_000, show_default=True)
@click.option("--false-alarm", type=float, default=1e-6, show_default=True)
@json_option
def audit_command(distance: float, price: float, as_json: bool, **options: Any) -> None:
    """Audit the looks that users release, statistically, through the whole population."""
    report = opendp_optimal_geo.audit_population(distance, price, **options)
    print_audit(report, as_json)


def _taken(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Take some options out of those of a command."""
    return {name: options.pop(name) for name in names}


def _show_map(
    found: Any,
    report: dict[str, Any],
    told: str,
    plot: Callable[[Path, Any], None],
    *,
    as_json: bool,
    table: Path | None,
    output: Path | None,
) -> None:
    """Print what is to be said of a map; write its numbers, and draw it, where that is wanted."""
    if as_json:
        print_json(report, indent=None)
    else:
        click.echo(told)
    if table is not None:
        import numpy as np

        np.savetxt(table, found.best, delimiter=",", fmt="%.6g")
    if output is not None:
        plot(output, found)


def _ask(query: Any, *, looks: str, as_json: bool, **options: Any) -> tuple[Any, Any]:
    """Ask a population one query and print the answer; return its points and the answer."""
    chosen = {**_taken(options, "method", "beta", "baseline"), "looks": read_looks(looks)}
    people, points, price = read_people(**options)
    with adding_bar("asking") as progress:
        answer = people.ask(query, budget=price, progress=progress, **chosen)
    _print_answer(answer, people, as_json)
    return points, answer


def _print_answer(answer: Any, people: Any, as_json: bool) -> None:
    """Print the answer to a query: what was released, and what it cost."""
    report = {
        "value": answer.value,
        "error_bound": answer.error_bound,
        "beta": answer.beta,
        "saving": answer.saving,
        "missing": answer.missing,
        "users": people.size,
        "mean_remaining": float(people.remaining.mean()),
        "halted": int(people.halted.sum()),
        "generation": answer.generation,
        "rounds": [asdict(r) for r in answer.rounds],
    }
    if as_json:
        print_json(report, indent=None)
        return
    click.echo(f"value        {answer.value}")
    click.echo(f"error bound  {answer.error_bound:g} (except with probability {answer.beta:g})")
    click.echo(f"saving       {answer.saving:.4f} of the price")
    click.echo(f"remaining    {report['mean_remaining']:.6g} of {float(people.capacity):.6g}, mean")
    if answer.generation is not None:
        click.echo(f"generation   {answer.generation} of the ledger")
    if answer.missing:
        click.echo(f"missing      {answer.missing} users gave no answer")
    for r in answer.rounds:
        click.echo(f"  look {r.look:<3} asked {r.asked:<9} in {r.inside:<9} out {r.outside}")

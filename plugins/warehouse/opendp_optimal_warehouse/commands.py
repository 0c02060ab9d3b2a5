"""``opendp-optimal warehouse ...``: results on standard output, progress on standard error.

Exit codes: 0 done, 1 failed (no connection), 2 bad arguments or a spent budget, 130 interrupted.
"""

from __future__ import annotations

import datetime
import operator
from pathlib import Path
from typing import Any

import click

from opendp_optimal.extend import (
    CommandGroup,
    drawable,
    json_option,
    new_figure,
    plot_option,
    print_json,
    progress_bar,
    save_figure,
    writable,
    write_whole,
)
from opendp_optimal_warehouse.expressions import col

_FORMATS = {".csv": "write_csv", ".parquet": "write_parquet"}
_BESIDE = "beside --out"
_SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def _picture(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    return value if value == _BESIDE else drawable(ctx, param, value)


@click.group(name="warehouse", cls=CommandGroup)
def warehouse() -> None:
    """Private tables of a database: counts, sums, means, variances and quantiles by group."""


@warehouse.command(name="release")
@click.option(
    "--url", required=True, help="duckdb:///people.db, postgresql://..., spark:///folder."
)
@click.option("--table", "table_name", required=True, help="Its name there.")
@click.option("--person", help="The column that says whose row it is.")
@click.option("--rows-are-people", is_flag=True, help="Every row counts for itself: no --person.")
@click.option("--by", "by", multiple=True, help="A column that groups are made by.")
@click.option(
    "--keys",
    multiple=True,
    help="The groups of a column, which are public: town=Bern,Basel or town=@file, one a line. "
    "Without any, groups of enough people are released.",
)
@click.option(
    "--where", multiple=True, help='Rows that are used: "age >= 18", "town in Bern,Basel".'
)
@click.option(
    "--rows-per-person", type=int, help="Rows of a person that are used, at most; 1 by default."
)
@click.option("--groups-per-person", type=int, help="Groups of a person that are used, at most.")
@click.option("--clip-sum", multiple=True, help="Of a person in a group: income:0:500.")
@click.option("--clip-rows", type=int, help="A person counts for so many rows in a group.")
@click.option("--people", is_flag=True, help="Count people.")
@click.option("--count", is_flag=True, help="Count rows.")
@click.option("--sum", "sums", multiple=True, help="A column and its bounds: income:0:100.")
@click.option("--mean", "means", multiple=True, help="A column and its bounds.")
@click.option("--variance", "variances", multiple=True, help="A column and its bounds.")
@click.option(
    "--quantile", "quantiles", multiple=True, help="With probabilities: income:0:100:0.25,0.5,0.75."
)
@click.option("--epsilon", type=float, help="The price.")
@click.option("--delta", type=float, help="The price.")
@click.option("--rho", type=float, help="The price, in place of epsilon and delta.")
@click.option(
    "--ledger", "address", required=True, help="That is charged: a file, or postgresql://"
)
@click.option("--name", help="Of the budget in the ledger; the table's name by default.")
@click.option("--request", help="A key: asked again, the same answer comes back for nothing.")
@click.option("--explain", is_flag=True, help="Print SQL, sensitivities, noise; charge nothing.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Write the table: .csv or .parquet.",
)
@click.option(
    "--plot",
    is_flag=False,
    flag_value=_BESIDE,
    metavar="[FILE]",
    callback=_picture,
    help="Save a plot, .png, .svg or .pdf; beside --out if no file is named.",
)
@json_option
def release_command(
    url: str,
    address: str,
    explain: bool,
    out: Path | None,
    plot: str | None,
    as_json: bool,
    request: str | None,
    **options: Any,
) -> None:
    """Charge a budget and release one table, with noise."""
    from opendp.mod import enable_features

    from opendp_optimal.budget import open_ledger
    from opendp_optimal_warehouse.connection import connect

    enable_features("contrib")
    if out is not None and out.suffix not in _FORMATS:
        raise ValueError(f"--out ({out}) must end in .csv or .parquet")
    if plot == _BESIDE:
        if out is None:
            raise ValueError("--plot needs a file, or --out to be beside of")
        plot = str(out.with_suffix(".png"))
    with open_ledger(address) as ledger, connect(url) as house:
        prepared = _prepared(house, ledger, **options)
        if explain:
            click.echo(prepared.explain())
            return
        with progress_bar("the database works") as tick:
            frame = prepared.run(request=request, progress=tick)
    _tell(frame, out, plot, as_json)


@warehouse.command(name="demo")
@click.option("--trips", type=click.IntRange(1000, 100_000_000), default=200_000, show_default=True)
@click.option("--epsilon", default=6.0, show_default=True, help="For the whole year.")
@click.option("--delta", default=1e-6, show_default=True, help="For the whole year.")
@plot_option
@json_option
def demo_command(trips: int, epsilon: float, delta: float, plot: str | None, as_json: bool) -> None:
    """A year of made-up taxi trips: every month a table by zone, one budget for the year."""
    from opendp.mod import enable_features

    from opendp_optimal_warehouse.trips import year_of_trips

    enable_features("contrib")
    with progress_bar("months", total=12) as tick:
        frame, left = year_of_trips(trips, epsilon, delta, tick)
    if plot is not None:
        draw(frame.filter(frame["month"] == 1).drop("month"), plot)
    if as_json:
        print_json({"rows": frame.to_dicts(), "remaining": list(left)}, indent=None)
        return
    click.echo(frame.write_csv(float_precision=2), nl=False)
    click.echo(f"left of the budget: epsilon {left[0]:g}, delta {left[1]:g}", err=True)


def _prepared(
    house: Any,
    ledger: Any,
    table_name: str,
    person: str | None,
    rows_are_people: bool,
    by: tuple[str, ...],
    keys: tuple[str, ...],
    where: tuple[str, ...],
    rows_per_person: int | None,
    groups_per_person: int | None,
    clip_sum: tuple[str, ...],
    clip_rows: int | None,
    people: bool,
    count: bool,
    sums: tuple[str, ...],
    means: tuple[str, ...],
    variances: tuple[str, ...],
    quantiles: tuple[str, ...],
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    name: str | None,
) -> Any:
    """The release that was asked for, checked."""
    if (person is None) != rows_are_people:
        raise ValueError("give --person, or --rows-are-people")
    table = house.table(table_name, person=person, ledger=ledger, name=name or table_name)
    kinds = table.kinds
    for text in where:
        table = table.where(_predicate(text, kinds))
    if by:
        given = dict(_keys(text) for text in keys)
        if given and set(given) != set(by):
            raise ValueError(
                f"--keys must be given once for each of {', '.join(by)}, or not at all"
            )
        lists = {key: [_constant("--keys", kinds, key, v) for v in given[key]] for key in given}
        table = table.by(*by, keys=lists or None)
    elif keys:
        raise ValueError("--keys need --by")
    clipped = bool(clip_sum) or clip_rows is not None
    if rows_per_person is not None or not (clipped or rows_are_people):
        table = table.rows_per_person(1 if rows_per_person is None else rows_per_person)
    if groups_per_person is not None:
        table = table.groups_per_person(groups_per_person)
    if clipped:
        table = table.clip_per_person(sum=_bounds("--clip-sum", clip_sum), rows=clip_rows)
    return table.prepare(
        people=people,
        count=count,
        sums=_bounds("--sum", sums),
        means=_bounds("--mean", means),
        variances=_bounds("--variance", variances),
        quantiles=_quantiles(quantiles),
        epsilon=epsilon,
        delta=delta,
        rho=rho,
    )


def _bounds(option: str, given: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Columns and their bounds."""
    found = {}
    for text in given:
        name, *ends = text.rsplit(":", 2)
        try:
            low, high = (float(end) for end in ends)
        except ValueError:
            raise ValueError(f"{option} ({text!r}) must be column:low:high") from None
        found[name] = low, high
    return found


def _quantiles(given: tuple[str, ...]) -> dict[str, tuple[float, float, list[float]]]:
    """Columns, their bounds and probabilities."""
    found = {}
    for text in given:
        name, *rest = text.rsplit(":", 3)
        try:
            low, high, wanted = rest
            found[name] = float(low), float(high), [float(p) for p in wanted.split(",")]
        except ValueError:
            raise ValueError(f"--quantile ({text!r}) must be column:low:high:0.25,0.5") from None
    return found


def _predicate(text: str, kinds: Any) -> Any:
    """A comparison of a column with constants, as text."""
    name, sign, value = [*text.split(maxsplit=2), "", "", ""][:3]
    if sign == "in" and value:
        return col(name).isin(
            [_constant("--where", kinds, name, one.strip()) for one in value.split(",")]
        )
    if sign not in _SIGNS or not value:
        raise ValueError(f"--where ({text!r}) must be as 'age >= 18' or 'town in Bern,Basel'")
    return _SIGNS[sign](col(name), _constant("--where", kinds, name, value))


def _keys(text: str) -> tuple[str, list[str]]:
    """A column and the groups that are made by it."""
    name, found, values = text.partition("=")
    if not found or not values:
        raise ValueError(f"--keys ({text!r}) must be column=one,two or column=@file")
    if values.startswith("@"):
        return name, Path(values[1:]).read_text(encoding="utf-8").splitlines()
    return name, values.split(",")


def _constant(option: str, kinds: Any, name: str, text: str) -> Any:
    """A text as a constant of the column's kind."""
    kind = kinds[name].name if name in kinds else "text"
    try:
        if kind == "whole":
            return int(text)
        if kind == "float":
            return float(text)
        if kind == "timestamp":
            return datetime.datetime.fromisoformat(text)
        if kind == "date":
            return datetime.date.fromisoformat(text)
        if kind == "boolean":
            return {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError):
        raise ValueError(f"{option} ({text!r}) must be of the kind of {name}: {kind}") from None
    return text


def _tell(frame: Any, out: Path | None, plot: str | None, as_json: bool) -> None:
    """Write, draw and print a released frame."""
    if out is not None:
        import io

        content = io.BytesIO()
        getattr(frame, _FORMATS[out.suffix])(content)
        write_whole(out, content.getvalue())
    if plot is not None:
        draw(frame, plot)
    if as_json:
        print_json({"rows": [_plain(row) for row in frame.to_dicts()]}, indent=None)
    elif out is None:
        click.echo(frame.write_csv(), nl=False)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.isoformat() if isinstance(v, datetime.date) else v for k, v in row.items()}


def draw(frame: Any, path: str) -> None:
    """Draw every answer with its interval, by group.

    :param frame: that was released
    :param path: of the picture
    """
    names = [name for name in frame.columns if f"{name}_lower" in frame.columns]
    ends = {f"{name}{end}" for name in names for end in ("", "_accuracy", "_lower", "_upper")}
    keys = [name for name in frame.columns if name not in ends]
    places = (
        [" ".join(map(str, row)) for row in frame.select(keys).iter_rows()] if keys else ["all"]
    )
    figure, axes = new_figure(8.0, 2.2 * len(names) + 1.0, rows=len(names))
    for axis, name in zip(axes, names, strict=True):
        value = frame[name]
        off = [(value - frame[f"{name}_lower"]).clip(0), (frame[f"{name}_upper"] - value).clip(0)]
        axis.errorbar(range(frame.height), value, off, fmt="o", markersize=3)
        axis.set_ylabel(name)
        few = frame.height <= 40
        axis.set_xticks(range(frame.height) if few else [], places if few else [], rotation=45)
    save_figure(figure, path)

"""``opendp-optimal budget``: budgets in a ledger, what was spent, and whether the log is whole."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import click

from opendp_optimal.budget.ledger import Ledger, open_ledger
from opendp_optimal.budget.ledger.chain import Entry, Kind
from opendp_optimal.cli.terminal import (
    CommandGroup,
    json_option,
    note,
    plot_option,
    print_json,
    print_table,
)

ledger_option = click.option(
    "--ledger",
    "address",
    default="budgets.db",
    show_default=True,
    envvar="OPENDP_OPTIMAL_LEDGER",
    help="A file, or postgresql://...",
)


@click.group(name="budget", cls=CommandGroup)
def budget() -> None:
    """Keep privacy budgets in a ledger that cannot be spent twice."""


@budget.command()
@click.argument("name")
@click.option("--epsilon", type=float, help="The limit, of pure or approximate privacy.")
@click.option("--delta", type=float, help="The limit of delta.")
@click.option("--rho", type=float, help="The limit, of zero-concentrated privacy.")
@click.option("--note", "text", default="", help="Why.")
@ledger_option
@json_option
def create(
    name: str,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    text: str,
    address: str,
    as_json: bool,
) -> None:
    """Open a budget for the data set NAME."""
    ledger = open_ledger(address)
    ledger.create(name, epsilon=epsilon, delta=delta, rho=rho, note=text)
    _print_budgets(ledger, name, as_json)


@budget.command()
@click.argument("name", required=False)
@ledger_option
@plot_option
@json_option
def show(name: str | None, address: str, plot: str | None, as_json: bool) -> None:
    """Show what is left of all budgets, or of that of NAME; with --plot, over time."""
    ledger = _opened(address)
    _print_budgets(ledger, name, as_json)
    if plot:
        _draw(ledger, name, plot)


@budget.command()
@click.argument("name", required=False)
@ledger_option
@json_option
def log(name: str | None, address: str, as_json: bool) -> None:
    """Print every line of the log, or those of NAME."""
    lines = _lines(_opened(address), name)
    if as_json:
        print_json(lines)
        return
    rows = [
        (
            str(line["number"]),
            line["time"],
            line["name"],
            line["action"],
            "" if line["price"] is None else str(line["price"]),
            line["note"],
        )
        for line in lines
    ]
    print_table(["line", "time", "name", "action", "price", "note"], rows)


@budget.command()
@ledger_option
@json_option
def verify(address: str, as_json: bool) -> None:
    """Check that the log is whole and that every budget is what its lines add up to."""
    ledger = _opened(address)
    generation = ledger.verify()
    if as_json:
        print_json({"generation": generation, "whole": True})
    else:
        click.echo(f"whole, at generation {generation}")


@budget.command()
@ledger_option
def export(address: str) -> None:
    """Print budgets and log as JSON, for other accountants."""
    ledger = _opened(address)
    print_json(
        {
            "generation": ledger.verify(),
            "budgets": [_told(ledger, one.name) for one in ledger.budgets()],
            "log": [{**asdict(entry), "amount": entry.amount._asdict()} for entry in ledger.log()],
        }
    )


def _opened(address: str) -> Ledger:
    """A ledger that is there: whoever looks makes none."""
    if "://" not in address and "=" not in address and not os.path.lexists(address):
        shown = "..." if "@" in address else repr(address)  # a password may be in it
        raise ValueError(f"ledger ({shown}) must be there: see budget create")
    return open_ledger(address)


def _told(ledger: Ledger, name: str) -> dict[str, Any]:
    found = ledger.budget(name)
    return {
        "name": found.name,
        "kind": found.kind.told,
        "limit": found.whole,
        "spent": found.kind.floats(found.spent, up=True),
        "remaining": found.remaining,
        "unit": found.unit,
    }


def _print_budgets(ledger: Ledger, name: str | None, as_json: bool) -> None:
    names = [name] if name is not None else [one.name for one in ledger.budgets()]
    told = [_told(ledger, each) for each in names]
    if as_json:
        print_json({"generation": ledger.generation, "budgets": told})
        return
    people = sorted({entry.name for entry in ledger.log(name) if entry.action == "columns"})
    if people:
        note(f"kept in columns, see budget log: {', '.join(people)}")
    elif not told:
        note("no budgets yet: opendp-optimal budget create NAME --epsilon 1")
    rows = [
        [str(one[key]) for key in ("name", "kind", "limit", "spent", "remaining")] for one in told
    ]
    print_table(["name", "in", "limit", "spent", "remaining"], rows)


def _lines(ledger: Ledger, name: str | None) -> list[dict[str, Any]]:
    kinds = {one.name: one.kind for one in ledger.budgets()}
    return [
        {
            "number": entry.number,
            "time": entry.time,
            "name": entry.name,
            "action": entry.action,
            "price": _price(kinds.get(entry.name), entry),
            "note": entry.detail.get("note", ""),
        }
        for entry in ledger.log(name)
    ]


def _price(kind: Kind | None, entry: Entry) -> Any:
    """A limit or a price; of columns what their writer says."""
    if kind is None or entry.action == "columns":
        return entry.detail.get("price")
    return kind.floats(entry.amount, up=True)


def _draw(ledger: Ledger, name: str | None, path: str) -> None:
    """Spending over time, as a share of the limit."""
    from datetime import datetime

    from opendp_optimal.cli.plots import new_figure, save_figure

    figure, (axis,) = new_figure(7.0, 4.0)
    for found in ledger.budgets(name):
        spent, shares = 0, []
        times: list[datetime] = []
        for entry in ledger.log(found.name):
            if entry.action in ("create", "charge"):
                spent += entry.amount.main if entry.action == "charge" else 0
                now = datetime.fromisoformat(entry.time)
                times.append(max(now, times[-1]) if times else now)  # clocks may go back
                shares.append(spent / found.limit.main)
        axis.step(times, shares, where="post", marker=".", label=found.name)
    axis.axhline(1.0, color="#888888", linewidth=1.0)
    axis.set_ylim(0.0, 1.05)
    axis.set_ylabel("share of the budget that was spent")
    axis.tick_params(axis="x", rotation=30)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False)
    save_figure(figure, path)

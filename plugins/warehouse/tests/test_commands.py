"""The command line: one release, files, pictures, bad arguments."""

import json

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse.commands import warehouse


@pytest.fixture
def place(tmp_path):
    with duckdb.connect(str(tmp_path / "people.db")) as db:
        db.execute(
            """CREATE TABLE people AS SELECT (i % 900)::BIGINT AS pid, i % 3 AS size,
            ['Bern', 'Basel'][1 + (i % 2)::INTEGER] AS town, (i % 100)::DOUBLE AS income
            FROM range(2000) AS t(i)"""
        )
    with open_ledger(tmp_path / "budgets.db") as ledger:
        ledger.create("people", epsilon=10.0, delta=1e-5)
    return tmp_path


def asked(place, *more):
    return [
        *("release", "--url", f"duckdb:///{place}/people.db", "--table", "people"),
        *("--ledger", f"{place}/budgets.db", "--epsilon", "1", "--delta", "1e-6", *more),
    ]


BY_TOWN = ("--person", "pid", "--rows-per-person", "2", "--by", "town", "--keys", "town=Bern,Basel")


def left(place):
    with open_ledger(place / "budgets.db") as ledger:
        return ledger.remaining("people")[0]


def test_a_release_is_written_drawn_and_charged(place):
    out, plot = place / "table.parquet", place / "table.svg"
    more = (*BY_TOWN, "--people", "--mean", "income:0:100", "--out", str(out), "--plot", str(plot))
    result = CliRunner().invoke(warehouse, asked(place, *more))
    assert result.exit_code == 0, result.output
    frame = pl.read_parquet(out)
    assert frame["town"].to_list() == ["Bern", "Basel"]
    assert "income_mean_accuracy" in frame.columns
    assert b"<svg" in plot.read_bytes()
    assert left(place) == 9.0


def test_as_the_page_has_it(place):
    """Keys that only the data have, one row a person, a plot beside the table."""
    out = place / "table.parquet"
    more = (
        "--person",
        "pid",
        "--by",
        "town",
        "--mean",
        "income:0:100",
        "--out",
        str(out),
        "--plot",
    )
    more += ("--quantile", "income:0:100:0.5", "--where", "size in 0,1", "--where", "income >= 1")
    result = CliRunner().invoke(warehouse, asked(place, *more))
    assert result.exit_code == 0, result.output
    assert pl.read_parquet(out)["town"].to_list() == ["Basel", "Bern"]
    assert (place / "table.png").read_bytes().startswith(b"\x89PNG")


def test_json_and_explanation(place):
    (place / "towns.txt").write_text("Bern\nBasel\n")
    more = (*BY_TOWN[:-1], f"town=@{place}/towns.txt", "--count", "--json")
    result = CliRunner().invoke(warehouse, asked(place, *more))
    assert [row["town"] for row in json.loads(result.stdout)["rows"]] == ["Bern", "Basel"]
    result = CliRunner().invoke(warehouse, asked(place, *BY_TOWN, "--count", "--explain"))
    assert "BETWEEN" in result.stdout
    assert left(place) == 9.0


BAD = {
    "no person": ("--count",),
    "keys of another column": (*BY_TOWN[:6], "--keys", "size=1", "--count"),
    "no comparison": (*BY_TOWN, "--count", "--where", "size is 1"),
    "a constant of another kind": (*BY_TOWN, "--count", "--where", "size == large"),
    "quantiles": (*BY_TOWN, "--quantile", "income:0:100"),
    "a plot beside nothing": (*BY_TOWN, "--count", "--plot"),
    "keys of another kind": ("--person", "pid", "--by", "size", "--keys", "size=a", "--people"),
    "bounds": (*BY_TOWN, "--mean", "income:a:b"),
    "an ending": (*BY_TOWN, "--count", "--out", "table.xls"),
    "no column": (*BY_TOWN, "--mean", "nothing:0:1"),
    "nothing": BY_TOWN,
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arguments_cost_nothing(place, what):
    result = CliRunner().invoke(warehouse, asked(place, *BAD[what]))
    assert result.exit_code == 2, result.output
    assert left(place) == 10.0


def test_no_connection_is_a_plain_message(place):
    arguments = asked(place, *BY_TOWN, "--count")
    arguments[2] = "postgresql://me:secret@127.0.0.1:1/db"
    result = CliRunner().invoke(warehouse, arguments)
    assert result.exit_code == 1
    assert "secret" not in result.output
    assert left(place) == 10.0


def test_the_demo(place):
    result = CliRunner().invoke(warehouse, ["demo", "--trips", "3000", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert len(found["rows"]) == 96
    assert found["remaining"][0] == pytest.approx(1.5)

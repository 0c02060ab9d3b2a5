"""The same rows and plan give the same integers on DuckDB, PostgreSQL, Spark and in Polars."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import warehouse_native as native
from hypothesis import HealthCheck, Phase, assume, given, settings
from warehouse_plans import plans
from warehouse_rows import (
    hostile_rows,
    into_duckdb,
    into_parquet,
    into_polars,
    into_postgres,
)

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import connect
from opendp_optimal_warehouse.release import rows_of
from opendp_optimal_warehouse.steps import make_tally

pytestmark = [
    pytest.mark.process,
    # Of Spark, where it is installed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
EXAMPLES = int(os.environ.get("WAREHOUSE_PLANS", "8"))
"""Random plans; more are tried with the environment variable."""
PHASES = [phase for phase in Phase if phase is not Phase.shrink]


class Engines:
    """The same rows several times, and a ledger."""

    def __init__(self, houses, frames, ledger):
        self.houses, self.frames, self.ledger = houses, frames, ledger


@pytest.fixture(scope="module")
def engines(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("conformance")
    rows = hostile_rows(400, seed=1)
    ledger = open_ledger(folder / "budgets.db")
    ledger.create("census", epsilon=1e6, delta=0.5)
    houses = [
        connect(into_duckdb(folder / "people.db", rows)),
        connect(into_postgres(server.get_uri(), rows)),
    ]
    frames = [into_polars(rows)] * 2
    if find_spec("pyspark") is not None:
        frames.append(into_parquet(folder / "people.parquet", rows))
        few = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
        houses.append(connect(f"spark:///{folder}", master="local[2]", **few))
    yield Engines(houses, frames, ledger)
    for house in houses:
        house.close()
    ledger.close()


def integers(house, ledger, plan):
    """What a house counts for a plan: for each group its integers and bins; kinds and layout."""
    table = plan.of(house.table("people", person=plan.person, ledger=ledger, name="census"))
    layout = table.layout(**plan.asked)
    chain = rows_of(table, layout)
    found = make_tally(chain.output_domain, chain.output_metric)(chain(table.source))
    return found, table.kinds, layout


def as_dictionary(found, layout):
    """By what tells groups apart, without groups of nothing."""
    if layout.raw:
        shown = [[v.decode() if isinstance(v, bytes) else v for v in key] for key in found.keys]
    else:
        shown = [[at] for at in range(len(found.keys))] if layout.keys else [[]]
    bins = [[{} for _ in layout.cuts] for _ in found.keys]
    for column, (place, where, number) in enumerate(found.bins):
        for group, at, count in zip(place, where, number, strict=True):
            bins[group][column][at] = count
    rows = zip(shown, found.totals.tolist(), bins, strict=True)
    return {tuple(k): (t, b) for k, t, b in rows if any(t) or any(b)}


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(plans())
def test_random_plans(engines, plan):
    try:
        found = [integers(house, engines.ledger, plan) for house in engines.houses]
    except ValueError as error:
        assume("farther apart" not in str(error))
        assume("whole numbers below" not in str(error))
        raise
    for (counted, kinds, layout), frame in zip(found, engines.frames, strict=True):
        expected = native.groups(frame, kinds, plan.person, plan, layout)
        expected = {key: pair for key, pair in expected.items() if any(pair[0]) or any(pair[1])}
        assert as_dictionary(counted, layout) == expected


PAGES = Path(__file__).parents[3] / "docs" / "how-to"


def run_page(name, engine, **names):
    """Run the blocks of a page that are for an engine."""
    blocks = re.findall(rf"^```python {engine}\n(.*?)^```", (PAGES / name).read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names


def test_the_page_on_postgresql(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = into_postgres(server.get_uri(), hostile_rows(2000, seed=2, people=900))
    found = run_page("warehouse-postgresql.md", "postgresql", url=url)["found"]
    assert "Bern" in found["town"].to_list()
    with connect(url) as house:
        assert "@" not in house.address
        with pytest.raises(Exception, match="read-only"):
            house._backend.raw_sql("CREATE TABLE more (x INTEGER)")


@pytest.mark.slow
def test_the_page_on_spark(tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    into_polars(hostile_rows(2000, seed=2, people=900)).select(
        "pid", "town", "income"
    ).write_parquet(tmp_path / "people.parquet")
    run_page("warehouse-spark.md", "spark", folder=tmp_path)

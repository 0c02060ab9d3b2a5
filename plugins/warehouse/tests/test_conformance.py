"""The same rows and plan give the same integers on DuckDB, PostgreSQL and natively in Polars."""

import os
from pathlib import Path

import pytest
import warehouse_native as native
from hypothesis import HealthCheck, Phase, assume, given, settings
from warehouse_plans import plans
from warehouse_rows import hostile_rows, into_duckdb, into_polars, into_postgres

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import col, connect
from opendp_optimal_warehouse.release import rows_of
from opendp_optimal_warehouse.steps import make_tally

pytestmark = pytest.mark.process
EXAMPLES = int(os.environ.get("WAREHOUSE_PLANS", "8"))
"""Random plans; more are tried with the environment variable."""
PHASES = [phase for phase in Phase if phase is not Phase.shrink]


class Engines:
    """The same rows three times, and a ledger."""

    def __init__(self, houses, frame, ledger):
        self.houses, self.frame, self.ledger = houses, frame, ledger


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
    yield Engines(houses, into_polars(rows), ledger)
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
    _, kinds, layout = found[0]
    expected = native.groups(engines.frame, kinds, plan.person, plan, layout)
    expected = {key: pair for key, pair in expected.items() if any(pair[0]) or any(pair[1])}
    for counted, _, _ in found:
        assert as_dictionary(counted, layout) == expected


HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "warehouse.md"


def test_the_guide_works_on_postgresql(server, engines):
    """The page's own code, with the address of PostgreSQL in place of DuckDB's."""
    with connect(into_postgres(server.get_uri(), hostile_rows(2000, seed=2, people=900))) as house:
        assert ":@" not in house.address
        people = house.table("people", person="pid", ledger=engines.ledger, name="census")
        asked = people.where(col("must") >= 5).rows_per_person(2).by("town", keys=["Bern", "東京"])
        text = asked.explain(people=True, means={"income": (0, 100)}, epsilon=1.0, delta=1e-7)
        assert "BETWEEN" in text
        frame = asked.release(people=True, means={"income": (0, 100)}, epsilon=5.0, delta=1e-7)
        assert frame.columns[:3] == ["town", "people", "people_accuracy"]
        with pytest.raises(Exception, match="read-only"):
            house._backend.raw_sql("CREATE TABLE more (x INTEGER)")
    assert 'connect("postgresql://' in HOW_TO.read_text()

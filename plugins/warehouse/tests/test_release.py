"""Releases through the ledger: what they answer, what they cost, what they refuse and never say."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import duckdb
import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_optimal.budget import BudgetError
from opendp_optimal_warehouse import (
    WarehouseError,
    col,
    connect,
    make_tally,
    make_where,
    then_noisy_table,
)
from opendp_optimal_warehouse.release import rows_of


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("people") / "people.db"
    with duckdb.connect(str(place)) as db:
        db.execute(
            """CREATE TABLE people AS SELECT (i % 4000)::BIGINT AS pid,
            ['Bern', 'Basel', 'Chur'][1 + (i % 3)::INTEGER] AS town,
            (20 + i % 60)::INTEGER AS age, (i % 100)::DOUBLE AS income,
            DATE '2024-01-01' + (i % 366)::INTEGER AS day, i % 2 = 0 AS flag,
            [i] AS list FROM range(12000) AS t(i)"""
        )
    return place


@pytest.fixture
def house(path):
    with connect(f"duckdb:///{path}") as opened:
        yield opened


@pytest.fixture
def people(house, ledger):
    return house.table("people", person="pid", ledger=ledger, name="census")


TOWNS = ["Bern", "Basel", "Chur", "nowhere"]


def test_a_table_costs_one_price_and_is_close_to_the_truth(people, ledger):
    asked = people.rows_per_person(3).by("town", keys=TOWNS)
    before = ledger.remaining("census")
    frame = asked.release(
        people=True,
        count=True,
        sums={"income": (0, 100)},
        means={"age": (18, 90)},
        variances={"age": (18, 90)},
        epsilon=10.0,
        delta=1e-6,
    )
    after = ledger.remaining("census")
    assert (before[0] - after[0], round(before[1] - after[1], 12)) == (10.0, 1e-6)
    assert frame["town"].to_list() == TOWNS
    for name in ("people", "count", "income_sum", "age_mean", "age_variance"):
        assert f"{name}_accuracy" in frame.columns
    real = frame.head(3)
    assert (real["count"] - 4000).abs().max() < 100
    assert (real["income_sum"] - 198_000).abs().max() < 10_000
    assert (real["age_mean"] - 49.5).abs().max() < 1.5
    assert (real["age_variance"] - 300).abs().max() < 60
    assert abs(frame["count"][3]) < 100


def test_pure_and_concentrated_budgets(house, ledger):
    for name, price in (("pure", {"epsilon": 1.0}), ("rho", {"rho": 0.5})):
        table = house.table("people", person="pid", ledger=ledger, name=name)
        frame = table.rows_per_person(1).release(count=True, **price)
        assert abs(frame["count"][0] - 4000) < 200
        assert ledger.remaining(name) == 100.0 - next(iter(price.values()))


def test_clipped_sums_and_groups(people):
    asked = people.by("town", keys=TOWNS[:3]).groups_per_person(1)
    asked = asked.clip_per_person(sum={"income": (0, 150)}, rows=2)
    frame = asked.release(people=True, count=True, sums={"income": (0, 100)}, epsilon=20.0)
    assert abs(frame["people"].sum() - 4000) < 60
    assert frame["count"].sum() < 8100


def test_rows_that_are_people(house, ledger):
    table = house.table("people", person=None, ledger=ledger, name="census")
    frame = table.release(count=True, means={"income": (0, 100)}, epsilon=5.0)
    assert abs(frame["count"][0] - 12_000) < 20
    with pytest.raises(ValueError, match="people needs a table with a person"):
        table.release(people=True, epsilon=1.0)
    other = house.table("people", person="pid", ledger=ledger, name="census").rows_per_person(1)
    with pytest.raises(ValueError, match="must be that of the first context"):
        other.release(count=True, epsilon=1.0)


def test_the_same_request_is_answered_once(people, ledger):
    asked = people.rows_per_person(1)
    first = asked.release(count=True, epsilon=1.0, request="monthly")
    left = ledger.remaining("census")
    assert asked.release(count=True, epsilon=1.0, request="monthly").equals(first)
    assert ledger.remaining("census") == left
    with pytest.raises(ValueError, match="another question"):
        people.rows_per_person(2).release(count=True, epsilon=1.0, request="monthly")


def test_a_spent_budget_sends_nothing(house, ledger, monkeypatch):
    ledger.create("small", epsilon=1.0)
    table = house.table("people", person="pid", ledger=ledger, name="small").rows_per_person(1)
    prepared = table.prepare(count=True, epsilon=2.0)
    monkeypatch.setattr("opendp_optimal_warehouse.aggregate.tally", None)
    with pytest.raises(BudgetError):
        prepared.run()
    assert ledger.remaining("small") == 1.0


def test_every_step_works_in_a_context(people):
    layout = people.rows_per_person(2).by("town", keys=TOWNS).layout(count=True)
    domain, metric = people.input_space
    context = dp.Context.compositor(
        data=people.source,
        privacy_unit=(metric, 1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=domain,
    )
    adults = make_where(domain, metric, col("age") >= 40)
    chain = adults >> rows_of(people.rows_per_person(2).by("town", keys=TOWNS), layout)
    tally = chain >> make_tally(chain.output_domain, chain.output_metric)
    assert [step.map(1) for step in (adults, chain, tally)] == [1, 1, 1]
    measurement = tally >> then_noisy_table(1, 1.0)
    assert measurement.map(1) == 1.0
    assert context(measurement).height == 4
    with pytest.raises(dp.OpenDPException, match="one person is hidden"):
        measurement.map(2)


def test_explanations_have_all_and_no_password(people):
    text = (
        people.rows_per_person(2)
        .by("town", keys=TOWNS)
        .explain(count=True, means={"age": (18, 90)}, epsilon=1.0, delta=1e-6)
    )
    for part in ("price      epsilon 1", "noise ", "at most 2 rows", "BETWEEN", "moves it by"):
        assert part in text
    with pytest.raises(WarehouseError) as caught:
        connect("postgresql://me:secret@127.0.0.1:1/db")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_lost_connection_costs_nothing(people, ledger):
    prepared = people.rows_per_person(1).prepare(count=True, epsilon=1.0)
    people.source.get_backend().disconnect()
    with pytest.raises(WarehouseError, match="does not describe"):
        prepared.run()
    assert ledger.remaining("census")[0] == 100.0


def test_what_a_database_says_is_not_repeated(tmp_path, ledger):
    pl.DataFrame({"pid": [1]}).write_parquet(tmp_path / "people.parquet")
    with connect(tmp_path) as folder:
        people = folder.table("people", person="pid", ledger=ledger, name="census")
        prepared = people.rows_per_person(1).prepare(count=True, epsilon=1.0)
        (tmp_path / "people.parquet").unlink()
        with pytest.raises(WarehouseError) as caught:
            prepared.run()
    assert "stays charged" in str(caught.value)
    assert caught.value.__context__ is None
    assert ledger.remaining("census")[0] == 99.0


@pytest.mark.parametrize("keys", [["Bern", "Basel", "Chur"], None])
def test_rows_are_chosen_evenly(people, keys):
    """Everybody has a row in each of three towns: one is kept, each as often as the others."""
    layout = people.rows_per_person(1).by("town", keys=keys).layout(count=True)
    chain = rows_of(people.rows_per_person(1).by("town", keys=keys), layout)
    found = make_tally(chain.output_domain, chain.output_metric)(chain(people.source))
    assert found.totals.sum() == 4000
    # Five standard deviations of a binomial.
    assert np.abs(found.totals - 4000 / 3).max() < 5 * np.sqrt(4000 * 2 / 9)


def test_threads_share_a_connection(people, ledger):
    asked = people.rows_per_person(1)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: asked.release(count=True, epsilon=1.0), range(8)))
    assert all(abs(frame["count"][0] - 4000) < 60 for frame in found)
    assert ledger.remaining("census")[0] == 92.0


BAD = {
    "no such column": lambda t: t.where(col("agee") > 1),
    "a list": lambda t: t.where(col("list") == 1),
    "the person": lambda t: t.where(col("pid") == 1),
    "an order of texts": lambda t: t.where(col("town") > "B"),
    "another kind": lambda t: t.where(col("age") == "young"),
    "no predicate": lambda t: t.where(col("age")),
    "an overflow": lambda t: t.derive(x=col("day").year() * 10**15 * 10**4),
    "division": lambda t: t.where(col("age") / 2 > 1),
    "division by a column": lambda t: t.where(col("age") // col("age") > 1),
    "a logarithm": lambda t: t.where(col("age").log() > 1),
    "arithmetic on floats": lambda t: t.derive(x=col("income") + 1),
    "a taken name": lambda t: t.derive(age=col("age").clamp(0, 1)),
    "a truth value": lambda t: t.where(bool(col("age") > 1)),
    "nan": lambda t: t.where(col("income") > float("nan")),
    "a nul": lambda t: t.where(col("town") == "a\0"),
    "keys of another kind": lambda t: t.by("town", keys=[1, 2]),
    "equal keys": lambda t: t.by("town", keys=["a", "a"]),
    "no keys": lambda t: t.by("town", keys=[]),
    "keys that are a text": lambda t: t.by("town", keys="Bern"),
    "floats as keys": lambda t: t.by("income", keys=[1.0]),
    "no rows": lambda t: t.rows_per_person(0),
    "half a row": lambda t: t.rows_per_person(1.5),
    "twice": lambda t: t.rows_per_person(1).rows_per_person(1),
    "both": lambda t: t.rows_per_person(1).clip_per_person(),
    "groups of nothing": lambda t: t.groups_per_person(1).release(people=True, epsilon=1.0),
    "no bound": lambda t: t.release(count=True, epsilon=1.0),
    "nothing": lambda t: t.rows_per_person(1).release(epsilon=1.0),
    "no price": lambda t: t.rows_per_person(1).release(count=True),
    "two prices": lambda t: t.rows_per_person(1).release(count=True, epsilon=1.0, rho=1.0),
    "another price": lambda t: t.rows_per_person(1).release(count=True, rho=1.0),
    "a negative price": lambda t: t.rows_per_person(1).release(count=True, epsilon=-1.0),
    "delta of 2": lambda t: t.rows_per_person(1).release(count=True, epsilon=1.0, delta=2.0),
    "bounds": lambda t: t.rows_per_person(1).release(means={"age": (90, 18)}, epsilon=1.0),
    "infinite": lambda t: t.rows_per_person(1).release(means={"age": (0, np.inf)}, epsilon=1.0),
    "texts": lambda t: t.rows_per_person(1).release(means={"town": (0, 1)}, epsilon=1.0),
    "close": lambda t: t.rows_per_person(1).release(means={"age": (1e18, 1e18 + 256)}, epsilon=1.0),
    "a clipped mean": lambda t: t.clip_per_person().release(means={"age": (0, 1)}, epsilon=1.0),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_named_and_costs_nothing(people, ledger, what):
    before = ledger.log()
    with pytest.raises((ValueError, AttributeError)) as caught:
        BAD[what](people)
    assert str(caught.value)
    assert ledger.log() == before


def test_addresses_and_tables_that_are_not_there(tmp_path, house, ledger):
    for url in (tmp_path / "none.db", "duckdb:////none/none.db"):
        with pytest.raises(WarehouseError):
            connect(url)
    (tmp_path / "text.db").write_text("not a database")
    with pytest.raises(WarehouseError):
        connect(tmp_path / "text.db")
    for url in ("mysql://me:secret@host/db", ""):
        with pytest.raises(ValueError, match="url must") as caught:
            connect(url)
        assert "secret" not in str(caught.value)
    for bad in ({"person": "nobody"}, {"person": "income"}, {"name": "unknown"}, {"ledger": None}):
        good = {"person": "pid", "ledger": ledger, "name": "census"}
        with pytest.raises(ValueError, match=next(iter(bad))):
            house.table("people", **good | bad)
    with pytest.raises(ValueError, match="table"):
        house.table("nothing", person="pid", ledger=ledger, name="census")


def test_a_folder_of_parquet_files(tmp_path, ledger):
    for part in range(3):
        frame = pl.DataFrame({"pid": range(part * 10, part * 10 + 10), "x": [0.5] * 10})
        (tmp_path / "people").mkdir(exist_ok=True)
        frame.write_parquet(tmp_path / "people" / f"{part}.parquet")
    with connect(tmp_path) as folder:
        table = folder.table("people", person="pid", ledger=ledger, name="census")
        assert abs(table.rows_per_person(1).release(count=True, epsilon=8.0)["count"][0] - 30) < 9
        for name in ("..", "other", "a/b"):
            with pytest.raises(ValueError, match="table"):
                folder.table(name, person="pid", ledger=ledger, name="census")


def test_keys_of_every_kind(people):
    days = [date(2024, 2, 29), date(2024, 12, 31)]
    asked = people.rows_per_person(3).by("day", "flag", keys={"day": days, "flag": [True, False]})
    frame = asked.release(count=True, epsilon=20.0)
    assert frame["day"].to_list() == [days[0], days[0], days[1], days[1]]
    assert frame["flag"].to_list() == [True, False] * 2

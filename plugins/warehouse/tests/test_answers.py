"""Keys that only the data have, quantiles, joins with public tables, intervals, the posterior."""

from datetime import date

import duckdb
import numpy as np
import polars as pl
import pytest

from opendp_optimal_warehouse import col, connect
from opendp_optimal_warehouse.public import public_frame


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("people") / "people.db"
    with duckdb.connect(str(place)) as db:
        db.execute(
            """CREATE TABLE people AS SELECT i AS pid, CASE WHEN i = 7 THEN 'hermit' ELSE
            ['Bern', 'Basel', 'Chur'][1 + (i % 3)::INTEGER] END AS town,
            (20 + i % 61)::INTEGER AS age, (i % 1001) / 10 AS income,
            DATE '2024-01-01' + (i % 2)::INTEGER AS day, i % 2 = 0 AS flag
            FROM range(9000) AS t(i)"""
        )
        db.execute(
            "CREATE TABLE regions AS SELECT * FROM (VALUES ('Bern', 'west', 1.5), "
            "('Basel', 'north', NULL), (NULL, 'none', 3.0)) t(name, region, height)"
        )
        db.execute("CREATE TABLE twice AS SELECT * FROM (VALUES ('a', 1), ('a', 2)) t(name, x)")
    return place


@pytest.fixture
def house(path):
    with connect(path) as opened:
        yield opened


@pytest.fixture
def people(house, ledger):
    table = house.table("people", person="pid", ledger=ledger, name="census")
    return table.rows_per_person(1)


def test_keys_of_enough_people_are_released(people, ledger):
    frame = people.by("town").release(people=True, epsilon=1.0, delta=1e-6)
    assert frame["town"].to_list() == ["Basel", "Bern", "Chur"]  # sorted, without the hermit
    assert (frame["people"] - 3000).abs().max() < 60
    assert ledger.remaining("census")[0] == 99.0
    assert (frame["people_upper"] - frame["people"] - frame["people_accuracy"]).abs().max() == 0


def test_answers_for_keys_of_the_data(people):
    asked = people.by("town", "day", "flag")
    frame = asked.release(
        count=True,
        means={"income": (0, 100)},
        quantiles={"age": (0, 120, [0.5])},
        epsilon=8.0,
        delta=1e-6,
    )
    assert frame.height == 6
    assert set(frame["day"]) == {date(2024, 1, 1), date(2024, 1, 2)}
    assert frame.schema["flag"] == pl.Boolean
    assert (frame["count"] - 1500).abs().max() < 60
    assert (frame["income_mean"] - 50).abs().max() < 6
    assert (frame["age_0.5"] - 50).abs().max() < 5


def test_no_key_is_enough(people):
    frame = people.by("age").release(people=True, epsilon=0.02, delta=1e-9)
    assert frame.height == 0
    assert frame.columns[:2] == ["age", "people"]


def test_keys_of_the_data_need_delta_and_bounds(house, ledger, people):
    with pytest.raises(ValueError, match="delta above 0"):
        people.by("town").release(people=True, epsilon=1.0)
    pure = house.table("people", person="pid", ledger=ledger, name="rho").by("town")
    with pytest.raises(ValueError, match="groups_per_person"):
        pure.release(people=True, rho=1.0)
    with pytest.raises(ValueError, match="delta above 0"):
        pure.groups_per_person(1).release(people=True, rho=1.0)
    with pytest.raises(ValueError, match="kind float"):
        people.by("income")


def test_rows_that_are_people_choose_keys(house, ledger):
    table = house.table("people", person=None, ledger=ledger, name="census").by("town")
    frame = table.release(count=True, epsilon=1.0, delta=1e-6)
    assert frame["town"].to_list() == ["Basel", "Bern", "Chur"]


@pytest.mark.parametrize(("name", "price"), [("pure", {"epsilon": 4.0}), ("rho", {"rho": 2.0})])
def test_quantiles(house, ledger, name, price):
    table = house.table("people", person="pid", ledger=ledger, name=name).rows_per_person(1)
    frame = table.release(
        quantiles={"income": (0, 100, [0.25, 0.5, 0.75]), "age": (0, 10**6, [0.5])}, **price
    )
    for p, value in ((0.25, 25), (0.5, 50), (0.75, 75)):
        assert abs(frame[f"income_{p}"][0] - value) < 2
        assert (
            frame[f"income_{p}_lower"][0]
            <= frame[f"income_{p}"][0]
            <= frame[f"income_{p}_upper"][0]
        )
    assert frame.schema["age_0.5"] == pl.Int64
    assert abs(frame["age_0.5"][0] - 50) < 70  # bins of 62


def test_whole_numbers_have_bins_of_their_own(people):
    frame = people.release(quantiles={"age": (0, 120, [0.5]), "flag": (0, 1, [0.9])}, epsilon=4.0)
    assert abs(frame["age_0.5"][0] - 50) <= 1
    text = people.explain(quantiles={"age": (0, 120, [0.5])}, epsilon=4.0)
    assert "121 candidates" in text


BAD_QUANTILES = [
    (0, 1),
    (0, 1, []),
    (0, 1, [0.5, 0.2]),
    (1, 0, [0.5]),
    (0, 1, [1.5]),
    5,
    (0, 1, 0.5),
]


@pytest.mark.parametrize("asked", BAD_QUANTILES)
def test_bad_quantiles(people, ledger, asked):
    with pytest.raises(ValueError, match=r"quantiles|probabilities|must"):
        people.release(quantiles={"income": asked}, epsilon=1.0)
    assert ledger.remaining("census")[0] == 100.0


def test_a_price_too_small_for_quantiles(people):
    with pytest.raises(ValueError, match="quantiles of each row"):
        people.release(quantiles={"income": (0, 1, [0.5])}, epsilon=1e-4)


def test_joins_with_public_tables(house, people):
    regions = house.public("regions", key="name")
    joined = people.join(regions, on="town")
    frame = joined.by("region", keys=["west", "north", "none"]).release(
        count=True, sums={"height": (0, 2)}, epsilon=20.0
    )
    assert (frame["count"] - pl.Series([3000, 3000, 0])).abs().max() < 20
    assert abs(frame["height_sum"][0] - 4500) < 20
    assert joined.release(count=True, epsilon=20.0)["count"][0] > 8900  # no row is lost
    with pytest.raises(ValueError, match="every value once"):
        house.public("twice", key="name")
    with pytest.raises(ValueError, match="kind of the public key"):
        people.join(regions, on="age")
    with pytest.raises(ValueError, match="no column has"):
        people.join(pl.DataFrame({"town": ["Bern"], "age": [1]}), on="town")


def test_a_public_table_that_grows_adds_no_rows(tmp_path, ledger):
    """What is sent keeps one row of each key, whatever was true when it was checked."""
    with duckdb.connect(str(tmp_path / "people.db")) as db:
        db.execute("CREATE TABLE people AS SELECT i AS pid, i % 2 AS key FROM range(10) t(i)")
        db.execute("CREATE TABLE public AS SELECT i AS key, i AS x FROM range(2) t(i)")
    with connect(tmp_path / "people.db") as opened:
        public = opened.public("public", key="key")
    with duckdb.connect(str(tmp_path / "people.db")) as db:
        db.execute("INSERT INTO public SELECT 1, i FROM range(1000) t(i)")
    with connect(tmp_path / "people.db") as opened:
        table = opened.table("people", person=None, ledger=ledger, name="census")
        again = type(public)(public.key, public.kinds, opened._backend.table("public"))
        frame = table.join(again, on="key").release(count=True, epsilon=20.0)
    assert abs(frame["count"][0] - 10) < 5


def test_public_frames():
    for bad in (
        {"k": [1, 1], "x": [1, 2]},
        {"k": [1]},
        {"x": [1], "y": [2]},
        {"k": [0.5], "x": [1]},
    ):
        with pytest.raises(ValueError, match="public"):
            public_frame(bad, "k")
    with pytest.raises(ValueError, match="of the kind"):
        public_frame({"k": [1, 2], "x": ["a", 1]}, "k")


def test_the_posterior_takes_a_release(people):
    posterior = pytest.importorskip("opendp_optimal_bayes").posterior
    asked = people.by("age", keys=list(range(20, 81)))
    prepared = asked.prepare(people=True, epsilon=1.0)
    found = posterior(prepared.run(), prepared.law("people"), column="people").frame()
    assert found.height == 61
    box = asked.prepare(people=True, means={"income": (0, 1), "age": (0, 99)}, epsilon=1.0)
    with pytest.raises(ValueError, match="must be one table"):
        box.law("people")
    with pytest.raises(ValueError, match="asked for"):
        prepared.law("count")


def test_columns_of_the_answer_have_names_of_their_own(people):
    asked = people.derive(count=col("age").clamp(0, 100)).by("count", keys=[20])
    with pytest.raises(ValueError, match="two columns"):
        asked.release(count=True, epsilon=1.0)
    assert asked.release(people=True, epsilon=1.0).height == 1


def test_intervals_cover(people):
    """Of 61 counts nearly all are within their intervals: 50 is what five mistakes in a hundred
    fall below once in 10^4.
    """
    frame = people.by("age", keys=list(range(20, 81))).release(people=True, epsilon=1.0)
    truth = np.bincount(np.arange(9000) % 61)
    inside = (frame["people_lower"].to_numpy() <= truth) & (
        truth <= frame["people_upper"].to_numpy()
    )
    assert inside.sum() >= 50

"""Removing one person never moves the integers by more than is stated; planted bugs are caught."""

import os
from collections import Counter
from dataclasses import dataclass

import ibis
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from warehouse_plans import plans
from warehouse_rows import hostile_rows, into_duckdb

from opendp_optimal.budget import open_ledger
from opendp_optimal_warehouse import aggregate, col, connect, grids
from opendp_optimal_warehouse.release import rows_of
from opendp_optimal_warehouse.steps import make_tally

EXAMPLES = int(os.environ.get("WAREHOUSE_PLANS", min(8, settings().max_examples)))
PHASES = [phase for phase in Phase if phase is not Phase.shrink]


class House:
    """Rows in DuckDB, with and without each person."""

    def __init__(self, folder):
        self.rows = hostile_rows(60, seed=3, people=3)
        self.house = connect(into_duckdb(folder / "people.db", self.rows))
        self.ledger = open_ledger(folder / "budgets.db")
        self.ledger.create("census", epsilon=1.0)

    def moves(self, plan):
        """The layout, and how far each person moves each integer of each group."""
        opened = self.house.table("people", person=plan.person, ledger=self.ledger, name="census")
        table = plan.of(opened)
        layout = table.layout(**plan.asked)
        chain = rows_of(table, layout)
        whole = self.totals(chain, table.source)
        at = 0 if plan.person == "pid" else 1
        people = {row[at] for row in self.rows if row[at] is not None}
        found = []
        for person in sorted(people, key=str)[:4]:
            without = table.source.filter(table.source[plan.person] != person)
            found.append(difference(whole, self.totals(chain, without), layout))
        return layout, found

    def totals(self, chain, source):
        return make_tally(chain.output_domain, chain.output_metric)(chain(source))


@dataclass
class Move:
    """How far one person moved everything.

    :param totals: the integers of each group
    :param chosen: what keys are chosen by, in each group
    :param bins: rows in all bins of all groups, for each column with quantiles
    """

    totals: np.ndarray
    chosen: np.ndarray
    bins: list


def difference(more, less, layout):
    """How far the integers, what keys are chosen by, and the bins moved."""
    keys = list(dict.fromkeys([*more.keys, *less.keys]))
    totals = np.zeros((len(keys), len(layout.totals)), np.int64)
    chosen = np.zeros(len(keys), np.int64)
    bins = [Counter() for _ in layout.cuts]
    for sign, counted in ((1, more), (-1, less)):
        places = np.array([keys.index(key) for key in counted.keys], np.int64)
        totals[places] += sign * counted.totals
        if counted.chosen is not None:
            chosen[places] += sign * counted.chosen
        for found, (group, at, number) in zip(bins, counted.bins, strict=True):
            for place, where, rows in zip(places[group], at, number, strict=True):
                found[place, where] += sign * rows
    return Move(totals, chosen, [sum(map(abs, found.values())) for found in bins])


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("sensitivity"))
    yield made
    made.house.close()
    made.ledger.close()


def exceeded(layout, move):
    """Whether one person moved more than is stated."""
    stated = layout.moves
    each, most, totals = np.array(stated.row), np.array(stated.person), np.abs(move.totals)
    return (
        (totals > most).any()
        or (totals != 0).any(axis=1).sum() > stated.groups
        or np.ceil(totals / each).max(axis=1, initial=0).sum() > stated.rows
        or (np.abs(move.chosen) > 1).any()
        or np.abs(move.chosen).sum() > stated.groups
        or any(rows > layout.rows for rows in move.bins)
    )


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(plans(person=("pid", "name")))
def test_one_person_moves_no_more_than_is_stated(house, plan):
    try:
        layout, moves = house.moves(plan)
    except ValueError as error:
        assume("farther apart" not in str(error))
        assume("whole numbers below" not in str(error))
        raise
    assert moves
    assert not any(exceeded(layout, move) for move in moves)


class OneWay:
    """A plan that was chosen by hand."""

    person = "pid"

    def __init__(self, *wheres, **asked):
        self.wheres, self.asked = wheres, {"count": True, **asked}

    def of(self, table):
        for predicate in self.wheres:
            table = table.where(predicate)
        return table.by("flag", keys=[True, False]).rows_per_person(2)


def test_truncation_left_out_is_caught(house, monkeypatch):
    monkeypatch.setattr(aggregate, "few_rows", lambda rows, person, layout: rows)
    layout, moves = house.moves(OneWay())
    assert any(exceeded(layout, move) for move in moves)


def test_clamping_before_rounding_is_caught(house, monkeypatch):
    def place(self, value, kind):
        step = 2.0**-self.bits
        clamped = value.clip(self.low * step, (self.high + 0.75) * step)
        return (clamped / step).ceil().cast("int64")

    plan = OneWay(col("income") >= 100, sums={"income": (0, 100)})
    assert not any(exceeded(*pair) for pair in _pairs(house.moves(plan)))
    monkeypatch.setattr(grids.Grid, "place", place)
    layout, moves = house.moves(plan)
    assert any(exceeded(layout, move) for move in moves)


def test_ties_of_a_hash_are_caught(house, monkeypatch):
    def few_rows(rows, person, layout):
        order = ibis.rank().over(ibis.window(group_by=rows.person, order_by=[rows.place]))
        ranked = rows.mutate(rank=order)
        return ranked.filter(ranked["rank"] < layout.rows).drop("rank")

    monkeypatch.setattr(aggregate, "few_rows", few_rows)
    layout, moves = house.moves(OneWay())
    assert any(exceeded(layout, move) for move in moves)


def _pairs(found):
    layout, moves = found
    return [(layout, move) for move in moves]


def test_the_filter_on_the_rows_number_is_between(house):
    plan = OneWay(sums={"income": (0, 100)})
    table = plan.of(house.house.table("people", person="pid", ledger=house.ledger, name="census"))
    layout = table.layout(**plan.asked)
    query = aggregate.tally(rows_of(table, layout)(table.source), layout)
    plain = house.house._backend.raw_sql(f"EXPLAIN {ibis.to_sql(query)}").fetchall()[0][1]
    text = "".join(plain.split()).replace("│", "")
    assert "WINDOW" in text
    assert "ROW_NUMBER()" in text
    assert "BETWEEN1AND2" in text
    assert "TopN" not in text
    assert "arg_min" not in text

"""Budgets in a ledger: people are who they are, in any order, and what they paid stays paid."""

import json
import os
import pickle
import stat
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from opendp_optimal.budget import BudgetError, LedgerError, open_ledger
from opendp_optimal.budget.ledger.sqlite import LOOK_AGAIN
from opendp_optimal_geo import (
    Curator,
    Points,
    Population,
    RangeCount,
    Schedule,
    even_rule,
    rectangle,
    saving_rule,
)
from opendp_optimal_geo import accounts as accounts_module
from opendp_optimal_geo.allowances import WHOLE
from opendp_optimal_geo.identity import Pseudonyms, check_ids, create_key, find

SQUARE = rectangle((0, 0), 1000, 1000)
POINTS = np.random.default_rng(3).normal(0.0, 800.0, (40, 2))
NAMES = np.array([f"person {i}" for i in range(40)])


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "budgets.db")
    yield opened
    opened.close()


def population(ledger, rows=None, **options):
    rows = np.arange(40) if rows is None else np.asarray(rows)
    options = {"budget": 1e-3, "ledger": ledger, "ids": NAMES[rows], **options}
    return Population(POINTS[rows], **options)


def paid_by_name(people, names):
    return dict(zip(list(names), people.allowances.paid.tolist(), strict=True))


def test_rows_in_another_order_are_recognised(ledger):
    people = population(ledger)
    people.ask(RangeCount(SQUARE), budget=np.linspace(1e-4, 9e-4, 40))
    rows = np.random.default_rng(0).permutation(40)
    again = population(ledger, rows)
    assert paid_by_name(again, NAMES[rows]) == paid_by_name(people, NAMES)
    again.ask(Points(), budget=np.where(rows < 20, 9.5e-4, 0.0))
    assert paid_by_name(again, NAMES[rows]) == paid_by_name(people, NAMES)
    assert people.halted.any()
    assert (again.halted == people.halted[rows]).all()
    released = again.release_points(budget=1e-5)
    assert (np.isnan(released[:, 0]) == again.halted).all()


def test_people_join_and_leavers_are_remembered(ledger):
    first = population(ledger, range(20))
    first.release_points(budget=1e-3)
    second = population(ledger, [5, 30, 7, 31])
    assert second.remaining.tolist() == pytest.approx([0.0, 1e-3, 0.0, 1e-3])
    second.release_points(budget=4e-4)
    third = population(ledger, range(40))
    spent = third.spent / 1e-3
    assert spent[:20].tolist() == pytest.approx([1.0] * 20)
    assert spent[[30, 31]].tolist() == pytest.approx([0.4] * 2)
    assert not spent[[*range(20, 30), *range(32, 40)]].any()
    assert third.halted[[5, 7]].all()
    assert first.spent.tolist() == third.spent[:20].tolist()  # opened before the others came


def test_numbers_and_texts_are_the_same_people(ledger):
    rows = np.arange(6)
    kinds = [rows, rows.astype(np.uint8), rows.astype(str), [str(r) for r in rows], rows.tolist()]
    kinds += [rows.astype(object), rows.astype("S")]
    for number, ids in enumerate(kinds):
        people = Population(POINTS[:6], budget=1.0, ledger=ledger, ids=ids)
        assert people.spent.tolist() == pytest.approx([number * 0.125] * 6)
        people.release_points(budget=0.125)


@pytest.mark.parametrize(
    "ids",
    [
        None,
        "abc",
        ["a", "b"],
        ["a", "b", "b"],
        ["a", "b", ""],
        ["a", "b", None],
        ["a", "b", 3],
        [1, 2, True],
        [1.0, 2.0, 3.0],
        np.array([1.0, 2.0, np.nan]),
        np.array([["a"], ["b"], ["c"]]),
        ["a", "b", "c" * 1001],
        ["a", "b", "\ud800"],
        3,
        np.array([1, 2, 3]).astype("datetime64[s]"),
    ],
    ids=repr,
)
def test_wrong_identifiers_are_refused(ledger, ids):
    with pytest.raises(ValueError, match="ids") as refused:
        Population(POINTS[:3], budget=1.0, ledger=ledger, ids=ids)
    assert "'b'" not in str(refused.value)
    assert not [piece for piece in ledger.columns("people").since(0) if piece.sort == "join"]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("budget", {"budget": 2e-3}),
        ("privacy", {"privacy": "gp"}),
        ("grid", {"grid": 0.5}),
        ("privacy", {"privacy": "approx-gp", "delta": 1e-6, "reach": 10.0}),
        ("key", {"key": "other-key"}),
    ],
)
def test_other_parameters_are_refused(ledger, tmp_path, name, other):
    create_key(tmp_path / "other-key")
    population(ledger, range(5)).release_points(budget=1e-4)
    if "key" in other:
        other = {"key": tmp_path / other["key"]}
    generation = ledger.generation
    with pytest.raises(ValueError, match=name):
        population(ledger, range(9), **other)
    assert ledger.generation == generation
    assert population(ledger, range(5), name="others", **other).spent.max() == 0.0


def test_approximate_populations_are_told_apart(ledger):
    options = {"privacy": "approx-gp", "budget": 0.1, "delta": 1e-6, "reach": 500.0}
    people = population(ledger, **options)
    people.release_points(budget=float(people.capacity) / 2)
    assert population(ledger, **options).spent.tolist() == people.spent.tolist()
    for other in ({"delta": 1e-5}, {"reach": 400.0}, {"tight": False}):
        with pytest.raises(ValueError, match=next(iter(other))):
            population(ledger, **{**options, **other})


def test_a_lost_key_is_not_made_anew(ledger, tmp_path):
    population(ledger)
    key = tmp_path / "budgets.db-key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    text = key.read_text()
    key.chmod(0o644)
    with pytest.raises(ValueError, match="owner alone"):
        population(ledger)
    for wrong in ("", "zz" * 32, "ab" * 31, "\xe9"):
        key.write_text(wrong)
        key.chmod(0o600)
        with pytest.raises(ValueError, match="hexadecimal"):
            population(ledger)
    key.unlink()
    with pytest.raises(ValueError, match="missing"):
        population(ledger)
    assert not key.exists()
    key.write_text(text)
    key.chmod(0o600)
    population(ledger)


def test_nothing_tells_who_is_who(ledger, tmp_path, monkeypatch):
    """Neither identifiers nor the key are in the ledger; another key makes other hashes."""
    people = population(ledger)
    people.ask(RangeCount(SQUARE), budget=1e-4, note="ann: homes")
    secret = bytes.fromhex((tmp_path / "budgets.db-key").read_text())
    kept = b"".join(p.content for p in ledger.columns("people").since(0))
    kept += json.dumps([[e.detail, e.name, e.link] for e in ledger.log()]).encode()
    kept += (tmp_path / "budgets.db").read_bytes() + (tmp_path / "budgets.db-wal").read_bytes()
    for told in (b"person", secret, secret.hex().encode(), people.allowances._pseudonyms._key):
        assert told not in kept
    assert "look 1 of 10: RangeCount ann: homes" in {e.detail["note"] for e in ledger.log()}
    create_key(tmp_path / "other")
    names = check_ids(NAMES, 40)
    one, two = (Pseudonyms(tmp_path / "other", name).of(names) for name in ("a", "b"))
    assert not (one == two).any()


@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 30), unique=True))
def test_people_are_found(known, asked):
    keys = np.array([[7, i] for i in range(31)], np.uint64)  # alike in the first word
    places, new = find(keys[asked], keys[known])
    for row, person in enumerate(asked):
        if person in known:
            assert places[row] == known.index(person)
    newcomers = [row for row, person in enumerate(asked) if person not in known]
    assert new.tolist() == newcomers
    assert places[newcomers].tolist() == [len(known) + i for i in range(len(newcomers))]


def test_components_are_by_identifier(ledger):
    people = population(ledger, [3, 1, 2])
    population(ledger, [0])
    with pytest.raises(ValueError, match="ids"):
        people.add_component("work", POINTS[[1, 2, 3]])
    with pytest.raises(ValueError, match="those of the population"):
        people.add_component("work", POINTS[[1, 2, 0]], ids=NAMES[[1, 2, 0]])
    with pytest.raises(ValueError, match="those of the population"):
        people.add_component("work", POINTS[[1, 2, 9]], ids=NAMES[[1, 2, 9]])
    people.add_component("work", POINTS[[1, 2, 3]], ids=NAMES[[1, 2, 3]])
    assert (people._components["work"] == people._components["data"]).all()
    with pytest.raises(ValueError, match="ids"):
        Population(POINTS, budget=1.0).add_component("work", POINTS, ids=NAMES)


def test_a_ledger_needs_identifiers(ledger, tmp_path):
    with pytest.raises(ValueError, match="together"):
        Population(POINTS, budget=1.0, ledger=ledger)
    with pytest.raises(ValueError, match="together"):
        Population(POINTS, budget=1.0, ids=NAMES)
    with pytest.raises(ValueError, match="ledger"):
        Population(POINTS, budget=1.0, ids=NAMES, ledger=str(tmp_path / "budgets.db"))
    with pytest.raises(ValueError, match="name"):
        population(ledger, name="a/b")


def test_the_central_budget_is_in_the_ledger(ledger, monkeypatch):
    from opendp_optimal_geo import curator

    people = population(ledger, central_budget=0.75)
    written, honest = [], curator.gaussian_noise

    def noise(*args):
        written.append(population(ledger, central_budget=0.75).central_remaining)
        if len(written) == 3:
            raise RuntimeError("lost the power")
        return honest(*args) * 0  # at the threshold: never decided

    monkeypatch.setattr(curator, "gaussian_noise", noise)
    half = rectangle((0, 0), 1e6, 1e6)
    with pytest.raises(RuntimeError, match="lost"):
        people.threshold(half, 1.0 - 2.0**-50, budget=0.5, looks=("even", 4))
    assert written == [Fraction(5, 8), Fraction(1, 2), Fraction(3, 8)]
    assert people.central_remaining == Fraction(3, 8)
    with pytest.raises(ValueError, match="left"):
        people.threshold(half, 0.5, budget=0.5)
    with pytest.raises(ValueError, match="made with"):
        population(ledger, central_budget=1.0)
    assert ledger.verify()


def test_a_curator_spends_everything_and_no_more(ledger):
    for _ in range(3):
        curator = Curator(range(100), budget=0.1, ledger=ledger, name="incomes")
        answer = curator.threshold(
            lambda x: x < 50, 0.5, budget=float(curator.remaining) / 3, looks=("even", 7)
        )
        assert answer.value in (True, False)
    curator.threshold(lambda x: x < 50, 0.5, budget=curator.remaining, looks=("even", 7))
    assert curator.remaining <= curator.filter.capacity
    assert f"total={float(curator.filter.total):.6g})" in repr(curator)
    assert curator.filter.total > 0
    ledger.create("other", epsilon=1.0)
    with pytest.raises(ValueError, match="made with"):
        Curator(range(100), budget=1.0, ledger=ledger, name="other")
    with pytest.raises(ValueError, match="budget"):
        Curator(range(100), budget=curator.filter, ledger=ledger, name="incomes")


def test_schedules_go_on_for_each_person(ledger):
    """Who comes later has as many queries as are left, and a budget for these."""
    people = population(ledger, range(10))
    schedule = Schedule(people, 4, even_rule, name="weekly")
    assert schedule.next_budget().tolist() == pytest.approx([2.5e-4] * 10)
    schedule.run([("range_count", SQUARE)] * 2, baseline=True)
    more = population(ledger, [11, 3, 10])
    again = Schedule(more, 4, even_rule, name="weekly")
    assert again.done == 2
    assert again.next_budget().tolist() == pytest.approx([5e-4, 2.5e-4, 5e-4])
    again.run([("range_count", SQUARE)] * 2, baseline=True)
    assert more.remaining.max() < 1e-3 * 2**-30
    assert not more.halted.any()
    with pytest.raises(ValueError, match="done"):
        Schedule(population(ledger), 4, even_rule, name="weekly").next_budget()
    with pytest.raises(ValueError, match="schedule"):
        Schedule(more, 5, even_rule, name="weekly")
    with pytest.raises(ValueError, match="schedule"):
        Schedule(more, 4, saving_rule, name="weekly")
    with pytest.raises(ValueError, match="name"):
        Schedule(more, 4, name="")


@pytest.mark.parametrize("kept", [True, False])
def test_a_step_that_two_take_at_once(ledger, kept):
    """Each query of a schedule is asked and paid for once; one that is refused is not taken."""
    people = population(ledger) if kept else Population(POINTS, budget=1e-3)
    schedule = Schedule(people, 8, even_rule)
    others = [Schedule(population(ledger), 8, even_rule) if kept else schedule for _ in range(3)]
    gate, failures = threading.Barrier(4), []

    def ask(mine):
        try:
            gate.wait()
            for _ in range(2):
                mine.ask("range_count", SQUARE, baseline=True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(each,)) for each in (schedule, *others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert schedule.done == 8
    assert not people.halted.any()
    assert people.remaining.max() < 1e-3 * 2**-30
    small = Schedule(population(ledger, name="more") if kept else Population(POINTS, budget=1), 2)
    with pytest.raises(ValueError, match="beta"):
        small.ask("range_count", SQUARE, beta=2.0)
    assert small.done == 0


def test_columns_are_put_together(ledger, monkeypatch):
    """What was paid, halted and planned is the same after a fold; the pieces are few."""
    monkeypatch.setattr(accounts_module, "LEAST_FOLD", 0)
    people, other = population(ledger), population(ledger, range(39, -1, -1))
    schedule = Schedule(people, 3)
    schedule.ask("range_count", SQUARE)
    for budget in np.random.default_rng(5).uniform(0, 3e-4, (12, 40)):
        people.ask(Points(), budget=budget)
        assert (other.allowances.paid[::-1] == people.allowances.paid).all()
    assert people.halted.any()
    pieces = ledger.columns("people").since(0)
    assert "fold" in {piece.sort for piece in pieces}
    assert len(pieces) < 10
    again = population(ledger)
    for name in ("paid", "halted"):
        assert (getattr(again.allowances, name) == getattr(people.allowances, name)).all()
    assert Schedule(again, 3).done == 1
    assert (Schedule(again, 3).next_budget() == schedule.next_budget()).all()
    assert ledger.verify()


def test_a_ledger_that_fails_stops_the_look(ledger, tmp_path, monkeypatch):
    people = population(ledger)
    monkeypatch.setattr(type(people), "engine", staticmethod(lambda *_: pytest.fail("asked")))

    connection = ledger._store._connection()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA max_page_count = 1")  # of as many as there are

    def fill():  # some pages have room yet
        for _ in range(100):
            people.allowances.charge([np.arange(40)], [1])

    with pytest.raises(LedgerError, match="full"):
        fill()
    before = people.allowances.paid
    with pytest.raises(LedgerError, match="full"):
        people.release_points(budget=np.linspace(1e-4, 5e-4, 40))
    assert (people.allowances.paid == before).all()
    connection.execute("PRAGMA max_page_count = 100000")
    os.rename(tmp_path / "budgets.db", tmp_path / "elsewhere.db")
    time.sleep(2 * LOOK_AGAIN)
    with pytest.raises(LedgerError, match="replaced or removed"):
        people.release_points(budget=5e-4)


def test_an_interruption_between_charging_and_noting_it(ledger, monkeypatch):
    """Whatever happens after a charge is on disk, memory says what the ledger says."""
    for number, when in enumerate(("before", "after"), start=1):
        people = population(ledger)
        honest = people.allowances._apply

        def stopped(*args, honest=honest, when=when):
            if when == "after":
                honest(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(people.allowances, "_apply", stopped)
            with pytest.raises(KeyboardInterrupt):
                people.release_points(budget=1e-4)
        assert people.spent.tolist() == pytest.approx([number * 1e-4] * 40)
    assert people.allowances.paid.tolist() == population(ledger).allowances.paid.tolist()


def test_budgets_in_memory_cannot_be_copied():
    people = Population(POINTS, budget=1.0)
    with pytest.raises(TypeError, match="spent twice"):
        pickle.dumps(people)
    people.allowances._process += 1  # as in a forked process
    with pytest.raises(BudgetError, match="ledger"):
        people.release_points(budget=0.5)


class Owners(RuleBasedStateMachine):
    """Several populations over one ledger, in any order, against exact totals by person."""

    @initialize(data=st.data())
    def begin(self, data):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.ledger = open_ledger(f"{self.folder.name}/budgets.db")
        self.paid, self.people = dict.fromkeys(NAMES[:12].tolist(), 0), []
        self.open(list(range(6)))

    @rule(rows=st.lists(st.integers(0, 11), unique=True, min_size=1))
    def open(self, rows):
        own = open_ledger(self.ledger.address) if len(self.people) % 2 else self.ledger
        self.people = [*self.people[-2:], (rows, population(own, rows, budget=1.0))]

    @rule(which=st.integers(0, 2), shares=st.lists(st.integers(0, 5), min_size=12, max_size=12))
    def ask(self, which, shares):
        rows, people = self.people[which % len(self.people)]
        budgets = np.array(shares)[rows] / 8.0
        if not budgets.any():
            return
        before = people.halted
        value = people.ask(Points(), budget=budgets).value
        answered = np.isfinite(value[:, 0])
        prices = people.allowances.allotment(budgets).tolist()
        for row, ticks, told, was in zip(rows, prices, answered, before, strict=True):
            name = str(NAMES[row])
            fits = self.paid[name] + ticks <= WHOLE
            assert told == (ticks > 0 and fits and not was)
            self.paid[name] += ticks if told else 0

    @invariant()
    def everybody_knows(self):
        for rows, people in getattr(self, "people", ()):
            kept = [self.paid[str(NAMES[row])] for row in rows]
            assert people.allowances.paid.tolist() == kept

    def teardown(self):
        if hasattr(self, "ledger"):
            self.ledger.verify()
            self.folder.cleanup()


TestOwners = Owners.TestCase
TestOwners.settings = settings(
    max_examples=5,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

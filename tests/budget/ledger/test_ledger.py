"""What a ledger promises: sums of prices never exceed limits, whoever asks, whatever fails."""

import contextlib
import json
import math
import os
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from opendp_optimal.budget.ledger import open_ledger
from opendp_optimal.budget.ledger.postgres import without_password
from opendp_optimal.errors import BudgetError, LedgerError
from tests.attacks.spenders import kill_spenders
from tests.budget.ledger.conftest import start_again, stop_at_once
from tests.budget.ledger.writers import Writers


def test_a_budget_is_spent_once(ledger):
    ledger.create("census", epsilon=2.0, delta=1e-6)
    ledger.charge("census", epsilon=0.5, delta=2.0**-22, note="ann: counts by town")
    assert ledger.remaining("census") == (1.5, pytest.approx(1e-6 - 2.0**-22))
    with pytest.raises(BudgetError, match="at most what is left"):
        ledger.charge("census", epsilon=1.75)
    with pytest.raises(BudgetError):
        ledger.charge("census", epsilon=0.1, delta=1e-6)
    ledger.charge("census", epsilon=1.5)
    assert ledger.remaining("census")[0] == 0.0
    assert [e.action for e in ledger.log("census")] == ["create", "charge", "charge"]
    assert ledger.log()[1].detail["note"] == "ann: counts by town"
    assert ledger.verify() == ledger.generation == 3


@pytest.mark.parametrize(
    ("limit", "price", "left"),
    [
        ({"epsilon": 1.0}, {"epsilon": 0.25}, 0.75),
        ({"rho": 1.0}, {"rho": 0.25}, 0.75),
        ({"rho": 1.0, "delta": 0.5}, {"rho": 0.25, "delta": 0.25}, (0.75, 0.25)),
        ({"epsilon": 1.0, "delta": 0.5}, {"epsilon": 0.25}, (0.75, 0.5)),
    ],
)
def test_every_kind_of_price(ledger, limit, price, left):
    ledger.create("a", **limit)
    ledger.charge("a", **price)
    assert ledger.remaining("a") == left


def test_the_whole_limit_can_be_spent_at_once(ledger):
    ledger.create("a", epsilon=0.1, delta=1e-6)
    assert ledger.remaining("a") == (0.1, 1e-6)
    more = {"epsilon": math.nextafter(0.1, 1), "delta": 1e-6}
    with pytest.raises(BudgetError):
        ledger.charge("a", **more)
    ledger.charge("a", epsilon=0.1, delta=1e-7)
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=0.0, delta=1e-6)
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=5e-324)
    ledger.create("b", rho=0.3)
    ledger.charge_request("b", "monthly", "what", rho=0.3)
    assert ledger.charge_request("b", "monthly", "what", rho=0.3).number == ledger.generation
    assert ledger.remaining("b") == 0.0
    ledger.verify()


def test_prices_are_rounded_up_and_limits_down(ledger):
    ledger.create("a", epsilon=1.0 + 2.0**-50, delta=2.0**-63)
    assert ledger.remaining("a") == (1.0 + 2.0**-50, 0.0)
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=0.0, delta=2.0**-63)
    ledger.charge("a", epsilon=5e-324)
    assert ledger.remaining("a") == (1.0 - 2.0**-40, 0.0)
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=0.0, delta=5e-324)
    third = 1 / 3
    ledger.create("thirds", epsilon=1.0)
    for _ in range(3):
        if Fraction(third) * 3 <= 1:
            break
        ledger.charge("thirds", epsilon=third)
    spent = ledger.budget("thirds").spent.main
    assert spent == 0 or Fraction(spent, 2**40) >= 3 * Fraction(third)


@pytest.mark.parametrize(
    ("price", "words"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1e300}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": 0.1, "delta": -1e-9}, "delta"),
        ({"epsilon": 0.1, "delta": 2.0}, "delta"),
        ({"rho": 0.1}, "rho"),
        ({"epsilon": 0.1, "rho": 0.1}, "rho"),
        ({}, "epsilon"),
        ({"delta": 1e-9}, "epsilon"),
        ({"epsilon": 0.1, "note": "x" * 20_000}, "note"),
        ({"epsilon": 0.1, "note": 5}, "note"),
    ],
)
def test_bad_prices_charge_nothing(ledger, price, words):
    ledger.create("a", epsilon=1.0, delta=1e-6)
    before = ledger.generation
    with pytest.raises(ValueError, match=words):
        ledger.charge("a", **price)
    assert ledger.generation == before
    assert ledger.verify() == before


def test_bad_names_and_limits(ledger):
    for name in ("", "a/b", "../a", "a\n", "é" * 3, "x" * 101, 5, None, "a;b"):
        with pytest.raises(ValueError, match="name"):
            ledger.create(name, epsilon=1.0)
    for limit in ({}, {"epsilon": 1.0, "rho": 1.0}, {"delta": 1e-6}, {"epsilon": 0.0}):
        with pytest.raises(ValueError, match="epsilon"):
            ledger.create("a", **limit)
    with pytest.raises(ValueError, match="delta"):
        ledger.create("a", epsilon=1.0, delta=1.0)
    ledger.create("a", epsilon=1.0)
    with pytest.raises(ValueError, match="already"):
        ledger.create("a", epsilon=2.0)
    with pytest.raises(ValueError, match="no budget"):
        ledger.charge("b", epsilon=0.1)
    with pytest.raises(ValueError, match="no budget"):
        ledger.remaining("b")
    assert ledger.verify() == 1


def test_threads_cannot_spend_twice(ledger):
    ledger.create("a", epsilon=1.0)
    paid = []

    def spend():
        for _ in range(12):
            with contextlib.suppress(BudgetError):
                paid.append(ledger.charge("a", epsilon=1 / 16))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == len(set(paid)) == 16
    assert ledger.remaining("a") == 0.0
    ledger.verify()


@pytest.mark.process
def test_processes_cannot_spend_twice(ledger, address):
    ledger.create("a", epsilon=1.0)
    writers = Writers(address)
    writers.start(8)
    while writers.refused < 16 or writers.told < 1 << 40:
        writers.read()
    writers.end()
    assert writers.told == 1 << 40
    assert ledger.remaining("a") == 0.0
    ledger.verify()


@pytest.mark.process
def test_a_fork_in_the_middle(ledger):
    ledger.create("a", epsilon=1.0)
    ledger.charge("a", epsilon=0.25)
    child = os.fork()
    if not child:
        try:
            ledger.charge("a", epsilon=0.5)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    with pytest.raises(BudgetError):
        ledger.charge("a", epsilon=0.5)
    ledger.charge("a", epsilon=0.25)
    ledger.verify()


@pytest.mark.process
def test_killed_processes(address):
    """Prices of what was released <= charged <= limit, and the log is whole."""
    outcome = kill_spenders(address, 20)
    assert outcome.released >= 80
    assert outcome.overspent == 0


def test_a_request_is_charged_and_answered_once(ledger):
    ledger.create("a", epsilon=1.0)
    first = ledger.charge_request("a", "2026-11", "count", epsilon=0.5)
    assert first.answer is None
    # A crash before storing: the same charge, another draw; whoever stores first is believed.
    again = ledger.charge_request("a", "2026-11", "count", epsilon=0.5)
    assert again == first
    assert ledger.store_answer("a", "2026-11", b"41") == b"41"
    assert ledger.store_answer("a", "2026-11", b"43") == b"41"
    assert ledger.charge_request("a", "2026-11", "count", epsilon=0.5).answer == b"41"
    for question, price in (("sum", 0.5), ("count", 0.25)):
        with pytest.raises(ValueError, match="another question"):
            ledger.charge_request("a", "2026-11", question, epsilon=price)
    with pytest.raises(BudgetError):
        ledger.charge_request("a", "2026-12", "count", epsilon=0.75)
    assert ledger.charge_request("a", "2026-12", "count", epsilon=0.5).answer is None
    assert ledger.remaining("a") == 0.0
    ledger.verify()


def test_the_privacy_unit_is_fixed_once(ledger):
    ledger.create("a", epsilon=1.0)
    ledger.fix_unit("a", "SymmetricDistance() at 1")
    ledger.fix_unit("a", "SymmetricDistance() at 1")
    with pytest.raises(ValueError, match="first context"):
        ledger.fix_unit("a", "SymmetricDistance() at 2")
    ledger.verify()


@pytest.mark.process
def test_passwords_are_never_shown(postgres, tmp_path):
    secret = "postgresql://ann:pa55word@127.0.0.1:1/db?password=pa55word&sslkey=pa55word"
    assert "pa55word" not in without_password(secret)
    with pytest.raises(LedgerError) as caught:
        open_ledger(secret, timeout=1.0)
    assert "pa55word" not in repr(caught.value)
    assert caught.value.__context__ is None
    ledger = open_ledger(postgres)
    ledger.create("a", epsilon=1.0)
    shown = repr(ledger) + json.dumps([e.detail for e in ledger.log()])
    assert postgres.split("?")[-1] not in shown


@pytest.mark.process
def test_a_server_that_stops_at_once(server, postgres):
    """What was charged before an immediate shutdown is there after it; nothing is free."""
    ledger = open_ledger(postgres)
    ledger.create("a", epsilon=1000.0)
    released = []

    def spend():
        with contextlib.suppress(LedgerError):
            while True:
                released.append(ledger.charge("a", epsilon=1.0))

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(released) < 20:
        time.sleep(0.01)
    stop_at_once(server)
    for thread in threads:
        thread.join()
    start_again(server)
    again = open_ledger(postgres)
    assert 20 <= len(released) <= again.budget("a").spent.main >> 40
    again.verify()
    again.close()
    ledger.close()


class Accounts(RuleBasedStateMachine):
    """A ledger beside a plain model of it."""

    @initialize(limit=st.integers(1, 40))
    def begin(self, limit):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "budgets.db")
        self.ledger = open_ledger(self.path)
        self.ledger.create("a", epsilon=limit / 8, delta=limit / 2**20)
        self.limit, self.spent, self.delta, self.lines, self.answers = limit, 0, 0, 1, {}

    def price(self, eighths, parts):
        return {"epsilon": eighths / 8, "delta": parts / 2**20}

    @rule(eighths=st.integers(0, 12), parts=st.integers(0, 12))
    def charge(self, eighths, parts):
        fits = self.spent + eighths <= self.limit and self.delta + parts <= self.limit
        try:
            self.ledger.charge("a", **self.price(eighths, parts))
            assert fits
            self.spent, self.delta = self.spent + eighths, self.delta + parts
            self.lines += 1
        except BudgetError:
            assert not fits

    @rule(key=st.sampled_from("xyz"), eighths=st.integers(0, 6), answer=st.binary(max_size=4))
    def request(self, key, eighths, answer):
        known = self.answers.get(key)
        fits = self.spent + eighths <= self.limit
        try:
            stored = self.ledger.charge_request("a", key, "q", **self.price(eighths, 0))
        except BudgetError:
            assert known is None
            assert not fits
            return
        except ValueError:
            assert known is not None
            assert known[0] != eighths
            return
        if known is None:
            assert fits
            self.spent, self.lines = self.spent + eighths, self.lines + 2
            self.answers[key] = (eighths, self.ledger.store_answer("a", key, answer))
            assert self.answers[key][1] == answer
        else:
            assert (known[0], stored.answer) == (eighths, known[1])

    @rule()
    def reopen(self):
        self.ledger.close()
        self.ledger = open_ledger(self.path, at_least=self.lines)

    @invariant()
    def agrees(self):
        if hasattr(self, "ledger"):
            left = (self.limit - self.spent) / 8, (self.limit - self.delta) / 2**20
            assert self.ledger.remaining("a") == left
            assert self.ledger.verify() == self.lines

    def teardown(self):
        if hasattr(self, "ledger"):
            self.ledger.close()
            self.folder.cleanup()


Accounts.TestCase.settings = settings(max_examples=12, stateful_step_count=12, deadline=None)
TestAccounts = Accounts.TestCase

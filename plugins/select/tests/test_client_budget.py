"""A client's budget and its memory of questions, in a ledger that threads and processes share."""

import json
import os
import signal
import threading
import time

import pytest
from click.testing import CliRunner

from opendp_optimal.budget import BudgetError, open_ledger
from opendp_optimal_select import Catalogue, Client, FeatureClient, FeatureSpace, Request, Server
from opendp_optimal_select.commands import select
from opendp_optimal_select.parties import _Party

SERVER = Server(Catalogue(range(200), [f"page {i}" for i in range(200)]))


@pytest.fixture
def ledger(tmp_path):
    opened = open_ledger(tmp_path / "budgets.db")
    opened.create("me", epsilon=2.0)
    yield opened
    opened.verify()
    opened.close()


def spent(ledger, name="me"):
    return 2.0 - ledger.remaining(name)


def test_a_repeated_question_is_the_same_request_and_free(ledger):
    client = Client(0.5, 3, ledger=ledger, name="me")
    first = client.privatise(41.7, question="lunch")
    assert spent(ledger) == 0.5
    again = open_ledger(ledger.address)
    for value in (41.7, 41.8, -1e9):  # what is stored must not depend on the value asked about
        assert Client(0.5, 3, ledger=again, name="me").privatise(value, question="lunch") == first
    more = Client(0.5, 9, ledger=ledger, name="me").privatise(41.7, question="lunch")
    assert (more.signal, more.k) == (first.signal, 9)
    assert spent(ledger) == 0.5
    assert client.privatise(41.7, question="supper").signal != first.signal
    assert spent(ledger) == 1.0


def test_nothing_leaves_when_the_budget_is_exhausted(ledger):
    sent = []

    def transport(data):
        sent.append(data)
        return SERVER.handle(data)

    client = Client(0.8, 3, ledger=ledger, name="me")
    client.ask(41.7, transport, question="lunch")
    client.ask(41.7, transport)
    for question in (None, "supper"):
        with pytest.raises(BudgetError, match="must cost at most what is left"):
            client.ask(41.7, transport, question=question)
    assert len(sent) == 2
    client.ask(41.7, transport, question="lunch")  # an answered question stays answered
    assert sent[2] == sent[0]
    assert Client(0.25, 3, ledger=ledger, name="me").ask(41.7, transport)  # cheaper ones still run


def test_other_parameters_are_another_question(ledger):
    Client(0.5, 3, ledger=ledger, name="me").privatise(41.7, question="lunch")
    with pytest.raises(ValueError, match="was used for another question"):
        Client(0.25, 3, ledger=ledger, name="me").privatise(41.7, question="lunch")
    assert spent(ledger) == 0.5


def test_a_question_that_failed_on_the_way_is_asked_again_for_nothing(ledger):
    sent = []

    def broken(data):
        sent.append(data)
        raise ConnectionError("gone")

    client = Client(0.5, 3, ledger=ledger, name="me")
    with pytest.raises(ConnectionError):
        client.ask(41.7, broken, question="lunch")
    client.ask(41.7, lambda data: [sent.append(data), SERVER.handle(data)][1], question="lunch")
    assert sent[0] == sent[1]
    assert spent(ledger) == 0.5


def test_features_are_charged_in_rho(ledger):
    ledger.create("tastes", rho=0.25)
    client = FeatureClient(2.0, 9, 4, ledger=ledger, name="tastes")
    first = client.privatise([0.1, 0.2, 0.3, 0.4], question="films")
    assert client.privatise([0.0] * 4, question="films") == first
    assert ledger.remaining("tastes") == 0.125
    assert FeatureClient(2.0, 9, 4, ledger=ledger, name="tastes").privatise([0.0] * 4)
    with pytest.raises(BudgetError):
        client.privatise([0.0] * 4)
    space = FeatureSpace([[float(i), float(i * i), 0.0, 1.0] for i in range(20)], directions=1)
    asking = FeatureClient(2.0, 3, 4, ledger=ledger, name="tastes")
    assert asking.ask([0.0] * 4, Server(space).handle, question="films")


def test_bad_budgets_are_refused_and_nothing_is_charged(ledger):
    ledger.create("tastes", rho=0.25)
    for options, said in (
        ({"ledger": ledger}, "must be given together"),
        ({"name": "me"}, "must be given together"),
        ({"ledger": "budgets.db", "name": "me"}, "must be a Ledger"),
        ({"ledger": ledger, "name": "nobody"}, "no budget"),
        ({"ledger": ledger, "name": "tastes"}, "budget is rho"),
    ):
        with pytest.raises(ValueError, match=said):
            Client(0.5, 3, **options)
    with pytest.raises(ValueError, match="needs a ledger"):
        Client(0.5, 3).privatise(1.0, question="lunch")
    client = Client(0.5, 3, ledger=ledger, name="me")
    for value, question in ((float("nan"), "lunch"), (None, None), (1.0, ""), (1.0, 7)):
        with pytest.raises(ValueError, match=r"value must be a finite number|must be a text"):
            client.privatise(value, question=question)
    ledger.create("people", epsilon=2.0)
    ledger.fix_unit("people", "SymmetricDistance() at 1")
    with pytest.raises(ValueError, match="must be that of the first context"):
        Client(0.5, 3, ledger=ledger, name="people")
    assert spent(ledger) == 0.0


def test_the_ledger_does_not_know_the_value(ledger, tmp_path):
    client = Client(1.0, 3, ledger=ledger, name="me")
    request = client.privatise(41.71828182, question="lunch")
    ledger.close()
    stored = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert str(request.signal).encode() in stored
    assert b"41.71828182" not in stored
    logs = json.dumps([[e.detail, e.action] for e in ledger.log("me")])
    assert "41.7" not in logs


def test_threads_cannot_overspend_and_agree_on_a_question(ledger):
    client, got, refused = Client(0.3, 1, ledger=ledger, name="me"), [], []

    def run(own):
        got.append(client.privatise(41.7, question="lunch"))
        for i in range(3):
            try:
                client.privatise(41.7, question=f"{own} {i}" if i else None)
            except BudgetError:
                refused.append(own)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({request.signal for request in got}) == 1
    assert len(refused) == 12 - 5  # of six charges one was for lunch
    assert spent(ledger) == pytest.approx(1.8)


def test_a_crash_before_storing_draws_again_under_the_same_charge(ledger, monkeypatch):
    client = Client(0.5, 3, ledger=ledger, name="me")
    with monkeypatch.context() as patch:

        def crash(self, private):
            raise KeyboardInterrupt

        patch.setattr(_Party, "_draw", crash)
        with pytest.raises(KeyboardInterrupt):
            client.privatise(41.7, question="lunch")
    assert spent(ledger) == 0.5
    first = client.privatise(41.7, question="lunch")
    assert client.privatise(41.7, question="lunch") == first
    assert spent(ledger) == 0.5


def asking(address, path):
    """Ask question after question, and note each signal once it is there."""
    client = Client(1 / 32, 3, ledger=open_ledger(address), name="me")
    with path.open("w") as notes:
        for i in range(1000):
            try:
                signal = client.privatise(41.7, question=f"question {i}").signal
            except BudgetError:
                return
            print(i, signal, file=notes, flush=True)


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_killed_processes_agree_and_overspend_nothing(ledger, tmp_path):
    """Four processes ask the same questions; two are killed in the middle, and two go on."""
    paths = [tmp_path / f"{i}.txt" for i in range(4)]
    children = []
    for path in paths:
        children.append(os.fork())
        if not children[-1]:
            try:
                asking(ledger.address, path)
                os._exit(0)
            except BaseException:
                os._exit(1)
    for child, path in zip(children[:2], paths, strict=False):
        while not path.exists() or path.read_text().count("\n") < 10:
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
    assert [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children[2:]] == [0, 0]
    for child in children[:2]:
        os.waitpid(child, 0)
    answers = {}
    for path in paths:
        for number, drawn in (
            line.split() for line in path.read_text().splitlines(True) if line.endswith("\n")
        ):
            answers.setdefault(number, set()).add(drawn)
    assert all(len(found) == 1 for found in answers.values())
    assert len(answers) == 64 == round(spent(ledger) * 32)


def test_at_the_terminal(ledger, monkeypatch):
    sent = []

    def transport(url):
        return lambda data: [sent.append(Request.decode(data)), SERVER.handle(data)][1]

    monkeypatch.setattr("opendp_optimal_select.service.http_transport", transport)
    monkeypatch.setenv("OPENDP_OPTIMAL_LEDGER", "/nowhere/budgets.db")  # no name: not used

    def ask(*options):
        return CliRunner().invoke(select, ["ask", "--value", "41.7", "--json", *options])

    kept = ("--ledger", ledger.address, "--name", "me")
    assert ask().exit_code == 0
    assert [ask(*kept, "--question", "lunch").exit_code for _ in range(3)] == [0, 0, 0]
    assert len({request.signal for request in sent}) == 2
    assert ask(*kept).exit_code == 0
    assert spent(ledger) == 2.0
    count = len(sent)
    refused = ask(*kept, "--question", "supper")
    assert refused.exit_code == 2
    assert "must cost at most what is left" in refused.stderr
    assert "given together" in ask("--ledger", ledger.address).stderr
    assert "needs a ledger" in ask("--question", "lunch").stderr
    assert "folder that exists" in ask("--name", "me").stderr
    assert len(sent) == count

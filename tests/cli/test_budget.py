"""``opendp-optimal budget``: what it prints, and what it refuses."""

import json
from types import SimpleNamespace

import pytest

from opendp_optimal import cli
from opendp_optimal.budget import open_ledger


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command on a ledger."""
    monkeypatch.setenv("OPENDP_OPTIMAL_LEDGER", str(tmp_path / "budgets.db"))

    def budget(*words):
        code = cli.run(("budget", *words))
        told = capsys.readouterr()
        return SimpleNamespace(exit_code=code, stdout=told.out, output=told.out + told.err)

    return budget


def test_from_create_to_export(run, tmp_path):
    for look in ("show", "log", "verify", "export"):  # whoever looks makes no ledger
        assert "must be there" in run(look).output
    assert not (tmp_path / "budgets.db").exists()
    made = run("create", "census", "--epsilon", "2", "--delta", "1e-6", "--note", "why", "--json")
    told = json.loads(made.stdout)["budgets"][0]
    assert told["limit"] == told["remaining"] == [2.0, 1e-6]
    assert run("create", "visits", "--rho", "0.5").exit_code == 0
    with open_ledger(tmp_path / "budgets.db") as ledger:
        ledger.charge("census", epsilon=0.5, note="counts by town")
        ledger.columns("city").add("piece", b"x", seen=0, note="people")
    shown = json.loads(run("show", "census", "--json").stdout)
    assert shown["budgets"][0]["spent"] == [0.5, 0.0]
    lines = json.loads(run("log", "--json").stdout)
    assert [line["action"] for line in lines] == ["create", "create", "charge", "columns"]
    assert lines[2]["price"] == [0.5, 0.0]
    assert lines[3]["price"] is None
    assert "counts by town" in run("log", "census").stdout
    assert "city" in run("log").stdout
    assert json.loads(run("verify", "--json").stdout) == {"generation": 4, "whole": True}
    assert "generation 4" in run("verify").stdout
    exported = json.loads(run("export").stdout)
    assert [line["amount"]["main"] for line in exported["log"]] == [2 << 40, 1 << 39, 1 << 39, 0]
    assert run("show", "--plot", str(tmp_path / "spent.png")).exit_code == 0
    assert (tmp_path / "spent.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "words",
    [
        ("create", "a/b", "--epsilon", "1"),
        ("create", "a"),
        ("create", "a", "--epsilon", "nan"),
        ("show", "nobody"),
        ("log", "nobody"),
        ("show", "--ledger", "postgresql://ann:pa55@127.0.0.1:1/db"),
        ("verify", "--ledger", "host=x password=pa55"),
    ],
)
def test_what_is_refused(run, words):
    found = run(*words)
    assert found.exit_code not in (0, None)
    assert "pa55" not in found.output
    assert "Traceback" not in found.output


def test_a_note_is_neither_markup_nor_a_command_to_the_terminal(run):
    """What somebody wrote into the log is shown, and cannot hide or break what is beside it."""
    note = "[/x] [bold]y[/bold]\x1b[2J\nz"
    assert run("create", "census", "--epsilon", "1", "--note", note).exit_code == 0
    shown = run("log")
    assert shown.exit_code == 0
    assert "[/x] [bold]y[/bold] [2J z" in shown.stdout
    assert "\x1b[2J" not in shown.stdout
    assert json.loads(run("log", "--json").stdout)[0]["note"] == note


@pytest.mark.parametrize("address", ["ann:hunter2@host/db", "mysql://ann:hunter2@host/db"])
def test_a_password_in_an_odd_address_is_not_repeated(run, address):
    refused = run("show", "--ledger", address)
    assert refused.exit_code == 2
    assert "hunter2" not in refused.output

"""``opendp-optimal bayes``."""

import json

import pytest
from click.testing import CliRunner

from opendp_optimal_bayes.commands import bayes


def run(*arguments):
    return CliRunner().invoke(bayes, list(arguments))


def test_geometric(golden):
    done = run("geometric", "--n", "4", "--decay", "1/16", "--json")
    assert done.exit_code == 0
    assert json.loads(done.output) == golden["G_4"]["rows"]
    assert "3/20" in run("geometric", "--n", "2", "--decay", "1/16").output


def test_refine():
    assert "True, exactly" in run("refine").output
    found = json.loads(run("refine", "--n", "2", "--t", "4", "--json").output)
    assert found["holds"]
    assert found["residual"] == "0"
    assert not found["converse"]
    assert found["separated_by"] > 0


def test_trials():
    done = run("trials", "--count", "3", "--largest", "8", "--json")
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert found["holds"]
    assert len(found["legal"]) == len(found["theorem_14"]) == 3
    assert "ratio" in run("trials", "--count", "2", "--largest", "5").output


@pytest.fixture
def folder(tmp_path):
    """A small folder laid out like the data."""
    (tmp_path / "income").mkdir()
    rows = "\n".join(str(1000 * i) for i in range(150))
    (tmp_path / "income" / "pums_oregon_hincp.csv").write_text(f"HINCP\n{rows}\n")
    return tmp_path


def test_income(folder, tmp_path, monkeypatch):
    picture = tmp_path / "income.png"
    common = ("income", "--name", "oregon", "--steps", "2,8")
    done = run(*common, "--data", str(folder), "--plot", str(picture), "--json")
    assert done.exit_code == 0
    rows = json.loads(done.stdout)
    assert rows[0]["excess"] > rows[-1]["excess"]
    assert picture.stat().st_size > 1000
    monkeypatch.setenv("OPENDP_OPTIMAL_DATA", str(folder))
    assert "Laplace" in run(*common, "--loss", "l2").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["geometric", "--n", "2", "--decay", "x"], "must be a fraction"),
        (["geometric", "--n", "0", "--decay", "1/2"], "n (0) must be at least 1"),
        (["refine", "--n", "3", "--t", "4"], "must be a multiple"),
        (["income", "--data", "nowhere"], "must be a folder that holds"),
        (["income", "--data", ".", "--steps", "a"], "must be a folder"),
        (["income"], "give --data DIR"),
        (["trials", "--count", "0"], "count (0) must be at least 1"),
    ],
)
def test_bad_arguments(arguments, message, monkeypatch):
    monkeypatch.delenv("OPENDP_OPTIMAL_DATA", raising=False)
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output

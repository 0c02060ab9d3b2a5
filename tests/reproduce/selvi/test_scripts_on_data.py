"""Quick versions of the scripts about learning on real data; on made-up data: tests/docs."""

import runpy
import sys
from pathlib import Path

import pytest

from opendp_optimal_learn import uci

SCRIPTS = Path(__file__).resolve().parents[3] / "docs" / "reproduce"


def run(name, tmp_path, monkeypatch, *arguments):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--page", str(page), *arguments])
    runpy.run_path(str(SCRIPTS / name), run_name="__main__")
    text = page.read_text(encoding="utf-8")
    assert f"python docs/reproduce/{name}" in text
    assert list(tmp_path.glob("*.svg"))
    return text


@pytest.mark.parametrize("name", ["naive_bayes.py", "coordinate_descent.py", "honest_budget.py"])
def test_scripts_that_need_data(name, tmp_path, monkeypatch, data_directory):
    text = run(name, tmp_path, monkeypatch, "--data", str(data_directory))
    assert "| ecoli |" in text


def test_a_kept_run_is_not_repeated(tmp_path, monkeypatch, data_directory):
    kept = tmp_path / "kept.json"
    given = ("--data", str(data_directory), "--keep", str(kept))
    first = run("naive_bayes.py", tmp_path, monkeypatch, *given)
    assert run("naive_bayes.py", tmp_path, monkeypatch, *given) == first


def test_missing_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"uci/ecoli\.csv"):
        uci.load("ecoli", tmp_path)
    with pytest.raises(ValueError, match="name"):
        uci.load("iris", tmp_path)

"""Quick versions of the scripts about learning, on real data; on made-up data: test_pages."""

import importlib
import sys

import pytest

from docs.reproduce.selvi import uci


def run(name, tmp_path, monkeypatch, *arguments):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--page", str(page), *arguments])
    importlib.import_module(f"docs.reproduce.selvi.{name}").main()
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["naive_bayes", "coordinate_descent", "honest_budget"])
def test_scripts_that_need_data(name, tmp_path, monkeypatch, data_folder):
    text = run(name, tmp_path, monkeypatch, "--data", str(data_folder))
    assert "| ecoli |" in text


def test_a_kept_run_is_not_repeated(tmp_path, monkeypatch, small_data):
    kept = tmp_path / "kept.json"
    given = ("--data", str(small_data), "--keep", str(kept))
    first = run("naive_bayes", tmp_path, monkeypatch, *given)
    assert run("naive_bayes", tmp_path, monkeypatch, *given) == first


def test_missing_data_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"uci/ecoli\.csv"):
        uci.load("ecoli", tmp_path)
    with pytest.raises(ValueError, match="name"):
        uci.load("iris", tmp_path)

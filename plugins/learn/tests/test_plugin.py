"""Doctests, pages and commands run; conventions hold."""

import doctest
import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import opendp_optimal_learn
from opendp_optimal_learn.commands import learn

MODULES = sorted(m.name for m in pkgutil.iter_modules(opendp_optimal_learn.__path__))
HERE = Path(__file__).resolve().parent.parent
DOCS = HERE.parent.parent / "docs"
PAGES = [HERE / "README.md", *sorted(DOCS.glob("**/learn-*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(f"opendp_optimal_learn.{name}")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__page__"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, page.name, "exec"), scope)


def test_public_names_are_sorted_and_documented():
    names = opendp_optimal_learn.__all__
    assert names == sorted(names, key=lambda n: (not n.isupper(), n[0].islower(), n))
    for name in names:
        value = getattr(opendp_optimal_learn, name)
        assert inspect.getdoc(value)
        if inspect.isfunction(value):
            for parameter in inspect.signature(value).parameters:
                assert f":param {parameter}:" in value.__doc__, (name, parameter)


def test_the_command_prices_a_classifier():
    runner = CliRunner()
    done = runner.invoke(learn, ["budget", "--numerical", "2", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["releases"] == 10
    assert all(row["total_epsilon"] <= 1.000001 for row in said["noises"])
    text = runner.invoke(learn, ["budget", "--categorical", "3", "--per-statistic"])
    assert "8 releases" in text.output
    assert runner.invoke(learn, ["budget", "--epsilon", "-1"]).exit_code == 2
    assert runner.invoke(learn, ["budget", "--numerical", "-1"]).exit_code == 2
    assert "laplace" in runner.invoke(learn, ["budget", "--delta", "0"]).output

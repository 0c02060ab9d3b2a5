"""Doctests, the README and the documentation pages run; conventions hold."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import opendp_optimal_geo

MODULES = sorted(m.name for m in pkgutil.iter_modules(opendp_optimal_geo.__path__))
HERE = Path(__file__).resolve().parent.parent
DOCS = HERE.parent.parent / "docs"
PAGES = [HERE / "README.md", *sorted(DOCS.glob("**/geo-*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(f"opendp_optimal_geo.{name}")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "__page__"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, page.name, "exec"), scope)


def test_public_names_are_sorted_and_documented():
    names = opendp_optimal_geo.__all__
    assert names == sorted(names)
    for name in names:
        value = getattr(opendp_optimal_geo, name)
        assert inspect.getdoc(value)
        if inspect.isfunction(value):
            for parameter in inspect.signature(value).parameters:
                assert f":param {parameter}:" in value.__doc__, (name, parameter)

"""Mutants: every change is made once, and a bug put in is noticed."""

import ast
import types

import pytest

from tests.attacks import mutate
from tests.attacks.mutants import count, mutants

SOURCE_CODE = '''
def larger(a, b):
    """The larger of two."""
    if a > b:
        return a
    raise ValueError(f"no more than {b + 1}")
'''


def test_changes_are_distinct_and_all_made(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.attacks.mutants.SOURCE", tmp_path)
    path = tmp_path / "small.py"
    path.write_text(SOURCE_CODE)
    found = list(mutants(path))
    assert count(path) == len(found) == 3
    assert {m.change.partition(" in ")[0] for m in found} == {"Gt to GtE", "Gt to LtE", "dropped"}
    assert {m.function for m in found} == {"larger"}
    assert len({ast.unparse(m.build()) for m in found}) == 3


def test_a_mutant_put_in_is_what_others_call():
    module = types.ModuleType("small")
    module.__file__ = "small.py"
    exec(SOURCE_CODE, vars(module))
    held = module.larger  # as another module holds it that imported the function
    held.__module__ = "small"
    mutate.install(module, ast.parse(SOURCE_CODE.replace("a > b", "a < b")))
    assert held(1, 2) == 1
    with pytest.raises(ValueError, match="no more"):
        held(2, 1)

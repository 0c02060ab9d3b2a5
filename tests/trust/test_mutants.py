"""Mutants: survivors that are explained exist, and a bug put in is noticed."""

import ast
import types

import pytest

from tests.trust import mutate, mutate_apart
from tests.trust.mutants import SOURCE, count, mutants

SOURCE_CODE = '''
def larger(a, b):
    """The larger of two."""
    if a > b:
        return a
    raise ValueError(f"no more than {b + 1}")
'''


def test_every_explained_survivor_is_a_mutant():
    there = {
        mutant.key
        for path in (*mutate.APART, *(path for p in mutate.TESTS for path in mutate.forked(p)))
        for mutant in mutants(SOURCE / path)
    }
    assert set(mutate.explained()) <= there


def test_changes_are_distinct_and_all_made(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.trust.mutants.SOURCE", tmp_path)
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


FRAMES = "measure/frames.py"


def test_what_cannot_be_forked_runs_apart():
    assert mutate.parts(["sample", "measure"]) == ["sample", "measure", FRAMES]
    found = {path.name for path in (SOURCE / "measure").glob("*.py")}
    assert {f"measure/{name}" for name in found} == {
        "measure/__init__.py",
        FRAMES,
        *mutate.forked("measure"),
    }
    for tests in mutate_apart.APART.values():
        assert not set(tests) & set(mutate.TESTS["measure"])


def test_a_mutant_apart_is_killed_and_the_source_as_it_is_survives():
    pytest.importorskip("polars")
    every = mutants(SOURCE / FRAMES)
    (bug,) = [m for m in every if m.key == f"{FRAMES} make_frame_sum: min to max in `min`"]
    assert list(mutate_apart.try_apart([bug])) == [(bug, False)]  # raises if nothing survives


def test_tests_that_could_not_run_kill_nothing():
    with pytest.raises(RuntimeError, match="no tests run"):
        mutate_apart.survives(FRAMES, "not a mutant")

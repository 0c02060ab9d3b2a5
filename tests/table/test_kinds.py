"""The registry of kinds: found by problem and by the first bytes of a file, kept alike."""

import logging
import sys
import types
from dataclasses import replace

import pytest

from opendp_optimal import TableFormatError, solve, solve_bounded, solve_radial
from opendp_optimal.search.pair import solve_pair
from opendp_optimal.table import base
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE

KINDS = list(base.kinds())


@pytest.fixture(scope="module")
def tables():
    return {
        "noise": solve(0.77, 0.03, cells=3, gap=1.0, cache=False),
        "bounded": solve_bounded(1.0, 0.2, sensitivity=2, range=(0, 4), bins=4, cache=False),
        "pair": solve_pair(3.0, 0.1, gap=0.1, cache=False),
        "radial": solve_radial(0.77, 0.0, 2, norm="linf", cache=False),
    }


@pytest.mark.slow
def test_every_kind_is_told_from_the_others(tables):
    assert [kind.name for kind in KINDS] == list(base.KINDS) == list(tables)
    for part in ("magic", "suffix", "problem"):
        assert len({getattr(kind, part) for kind in KINDS}) == len(KINDS)
    assert all(len(kind.magic) == 8 for kind in KINDS)
    for data in (b"", b"ODP", b"ODPOTHER" + bytes(64)):
        with pytest.raises(TableFormatError, match="begin like a table"):
            base.kind_of(data)
    with pytest.raises(TypeError, match="tables for int are not kept"):
        base.kind_for(3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_keeps_its_tables(kind, tables):
    table = tables[kind.name]
    data = kind.encode(table)
    assert base.kind_for(table.problem) is kind
    assert base.kind_of(data) is kind
    assert kind.seal(*kind.unseal(data)) == data
    assert cache.load(table.problem) is None
    assert not cache.is_kept(table.problem)
    place = cache.keep(table)
    assert place is not None
    assert place.name == cache.file_name(table.problem)
    assert cache.is_kept(table.problem)
    assert cache.load(table.problem) == table
    assert cache.fault(place) == ""
    about = cache.describe(place)
    assert about["file"] == place.name
    told = table.summary()
    assert {key: about[key] for key in ("epsilon", "delta", "upper", "lower")} == {
        key: told[key] for key in ("epsilon", "delta", "upper", "lower")
    }
    assert place in cache.stored_files()
    assert place in cache.stored_files(kind)
    assert all(place not in cache.stored_files(other) for other in KINDS if other is not kind)
    assert cache.clear() == 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_table_of_more_privacy_answers(kind, tables):
    table = tables[kind.name]
    cache.keep(table)
    problem = table.problem
    for asked in (
        replace(problem, epsilon=1.5, delta=0.25),
        replace(problem, epsilon=problem.epsilon / 2),
        replace(problem, delta=problem.delta / 2),
    ):
        found = cache.dominating(asked)
        covered = asked.epsilon >= problem.epsilon and asked.delta >= problem.delta
        assert not covered or found.upper <= table.upper
        if found is not None:
            assert found.epsilon <= asked.epsilon
            assert found.delta <= asked.delta
            assert type(found) is type(table)
            assert found == table or kind.name != "bounded"  # of others some are in the wheel


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_files_of_another_kind_are_refused(kind, tables, caplog):
    table = tables[kind.name]
    other = next(other for other in KINDS if other is not kind)
    wrong = other.encode(tables[other.name])
    with pytest.raises(TableFormatError, match=f"does not begin like a {kind.name} table"):
        kind.decode(wrong)
    with pytest.raises(TableFormatError, match=f"does not begin like a {kind.name} table"):
        kind.peek(wrong)
    cache.write(cache.file_name(table.problem), wrong)
    with caplog.at_level(logging.WARNING):
        assert cache.load(table.problem) is None
    assert "is not used" in caplog.text


def test_a_new_kind_is_one_module(tables, monkeypatch):
    class Problem:
        fingerprint, loss = "f" * 8, tables["noise"].loss

    table = types.SimpleNamespace(problem=Problem(), loss=Problem.loss)
    kind = replace(NOISE, name="other", magic=b"ODPOTHER", problem=Problem)
    object.__setattr__(kind, "parts", lambda _: NOISE.parts(tables["noise"]))
    module = types.ModuleType("opendp_optimal.table.files.other")
    module.KIND = kind
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(base, "KINDS", (*base.KINDS, "other"))
    place = cache.keep(table)
    assert place is not None
    assert place.name == "ffffffff.other"
    assert cache.describe(place)["upper"] == tables["noise"].upper
    assert cache.fault(place) == ""
    assert cache.clear() == 1

"""Rows of evidence are about what their check imports, and are measured again when it changes."""

from pathlib import Path

import pytest

import opendp_optimal
from tests.attacks import evidence
from tests.attacks.evidence import Row

A_ROW = Row("audit", "a", 1000, "b", good=True)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Where the page is written."""
    monkeypatch.setattr(evidence, "PAGE", tmp_path / "page.md")
    return evidence.PAGE


@pytest.fixture
def stage(tmp_path, monkeypatch, page):
    """A stage of one row that counts how often it was run."""
    runs = []

    def measure(scale, part):
        runs.append(part)
        yield Row("audit", "a row", len(runs), "fine", good=True)

    monkeypatch.setattr(evidence, "FOLDER", tmp_path / "trust")
    monkeypatch.setitem(evidence.STAGES, "planted", measure)
    return runs


def test_what_a_check_imports():
    found = {path.relative_to(evidence.ROOT).as_posix() for path in evidence.imported()}
    assert Path(opendp_optimal.__file__).relative_to(evidence.ROOT).as_posix() in found
    assert "tests/attacks/evidence.py" in found
    assert not [name for name in found if name.startswith((".venv", "build"))]


def test_a_part_is_run_again_when_a_file_it_imports_changes(stage, tmp_path, monkeypatch):
    file = tmp_path / "tests" / "module.py"
    file.parent.mkdir()
    file.write_text("one = 1")
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "imported", lambda: [file])
    for wanted, change in [(1, None), (1, "one = 1"), (2, "one = 2"), (2, None)]:
        if change:
            file.write_text(change)
        (row,) = evidence.run_part("planted", "", 1.0, fresh=False)
        assert len(stage) == wanted == row.tries
    file.unlink()
    assert not evidence.measured("planted", "").current


def test_what_changes_during_a_run_is_not_what_was_measured(stage, tmp_path, monkeypatch):
    file = tmp_path / "tests" / "module.py"
    file.parent.mkdir()
    file.write_text("one = 1")

    def measure(scale, part):
        file.write_text("one = 2")
        yield A_ROW

    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "imported", lambda: [file])
    monkeypatch.setitem(evidence.STAGES, "planted", measure)
    evidence.run_part("planted", "", 1.0, fresh=False)
    assert not evidence.measured("planted", "").current
    file.write_text("one = 1")
    assert evidence.measured("planted", "").current


def test_a_quick_run_keeps_nothing(stage):
    evidence.run_part("planted", "", 0.01, fresh=False)
    assert not evidence.FOLDER.exists()
    (row,) = evidence.measured("planted", "").rows
    assert not row.good


def test_the_page_is_of_a_version():
    page = evidence.page({("planted", ""): evidence.Measured((A_ROW,), True)})
    assert "for version 0." in page
    assert "| planted | audit | a | 1,000 | b | good |" in page
    assert Path(evidence.PAGE).read_text().splitlines()[0] == page.splitlines()[0]


def test_what_the_page_has_stays_until_it_is_measured_here(stage, page):
    unit = ("planted", "")
    page.write_text(evidence.page({unit: evidence.Measured((A_ROW,), True)}))
    assert evidence.measured(*unit) == evidence.Measured((A_ROW,), False)
    assert evidence.known(*unit) is None
    evidence.run_part(*unit, 1.0, fresh=False)
    (row,) = evidence.measured(*unit).rows
    assert row.what == "a row"


@pytest.mark.parametrize("change", [("version ", "version 9"), ("| good |", "| **NO** |")])
def test_a_page_of_another_version_and_bad_rows_do_not_stay(change, stage, page):
    unit = ("planted", "")
    page.write_text(evidence.page({unit: evidence.Measured((A_ROW,), True)}).replace(*change))
    (row,) = evidence.measured(*unit).rows
    assert not row.good


def test_parts_do_not_mix(stage, page):
    page.write_text(evidence.page({("fuzz", "a"): evidence.Measured((A_ROW,), True)}))
    for unit in [("fuzz", ""), ("fuzz", "b"), ("planted", "")]:
        assert not evidence.measured(*unit).rows[0].good

"""Rows of evidence are about what their check imports, and are measured again when it changes."""

from pathlib import Path

import pytest

import opendp_optimal
from tests.attacks import evidence
from tests.attacks.evidence import Row


@pytest.fixture
def stage(tmp_path, monkeypatch):
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
    file = tmp_path / "module.py"
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


def test_a_quick_run_keeps_nothing(stage):
    evidence.run_part("planted", "", 0.01, fresh=False)
    assert not evidence.FOLDER.exists()
    (row,) = evidence.measured("planted", "").rows
    assert not row.good


def test_the_page_is_of_a_version():
    page = evidence.page([evidence.Measured((Row("audit", "a", 1000, "b", True),), True)])
    assert "for version 0." in page
    assert "| audit | a | 1,000 | b | good |" in page
    assert Path(evidence.PAGE).read_text().splitlines()[0] == page.splitlines()[0]

"""Every script in docs/reproduce runs in its quick version, on small made-up data."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reproduce"
PAPERS = ("fernandes", "goel", "liang", "posterior", "selvi")
MADE = re.compile(r"^(FROM_DATA|FROM_THEORY) := (.*)$", re.MULTILINE)
SCRIPTS = sorted(
    script
    for _, names in MADE.findall((ROOT / "Makefile").read_text(encoding="utf-8"))
    for script in names.split()
)
"""Paper and script, as ``make reproduce`` runs them."""
LINKED = re.compile(r"!\[[^]]*\]\(([^)]+)\)")


def page_of(script: str) -> Path:
    return FOLDER / f"{script.split('.')[1].replace('_', '-')}.md"


def source(script: str) -> str:
    return FOLDER.joinpath(*script.split(".")).with_suffix(".py").read_text(encoding="utf-8")


def test_every_script_is_made() -> None:
    """Scripts that write a page of this folder have ``main``; gains writes one elsewhere."""
    found = {
        f"{path.parent.name}.{path.stem}"
        for paper in PAPERS
        for path in (FOLDER / paper).glob("*.py")
        if "__main__" in path.read_text(encoding="utf-8")
    }
    assert found == {*SCRIPTS, "selvi.gains"}


@pytest.mark.parametrize("script", SCRIPTS)
def test_quick_version_writes_its_page(
    script: str, small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    words = [script, "--quick", "--page", str(page)]
    if "--data DIR" in source(script).split('"""')[1]:
        words += ["--data", str(small_data)]
    monkeypatch.setattr(sys, "argv", words)
    importlib.import_module(f"docs.reproduce.{script}").main()
    text = page.read_text(encoding="utf-8")
    assert f"python -m docs.reproduce.{script}" in text
    assert "--quick" in text
    pictures = LINKED.findall(text)
    assert pictures
    for name in pictures:
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")
    assert "nan" not in re.split(r"\W+", text)
    if "PARTS" in source(script):
        # The committed page has the same parts: it was written by this version of the script.
        committed = page_of(script).read_text(encoding="utf-8")
        assert re.findall("^## .*", text, re.M) == re.findall("^## .*", committed, re.M)


@pytest.mark.parametrize("script", SCRIPTS)
def test_committed_pages_are_whole(script: str) -> None:
    text = page_of(script).read_text(encoding="utf-8")
    assert f"python -m docs.reproduce.{script}" in text
    assert "--quick" not in text
    assert LINKED.findall(text)  # where they lead is tested with all pages
    assert f"python -m docs.reproduce.{script}" in (FOLDER / "README.md").read_text(
        encoding="utf-8"
    )
    assert f"({page_of(script).name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_part_is_in_the_index() -> None:
    """Each heading on a page with parts has its own command in the index."""
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    for script in SCRIPTS:
        for line in page_of(script).read_text(encoding="utf-8").splitlines():
            if line.startswith("    python") and "--only" in line:
                assert line.strip() in index


def test_no_picture_is_left_over() -> None:
    shown = {name for page in FOLDER.glob("*.md") for name in LINKED.findall(page.read_text())}
    assert {p.name for p in FOLDER.glob("*.svg")} == shown

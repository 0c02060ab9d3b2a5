"""Every script in docs/reproduce runs in its quick version, on small made-up data."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reproduce"
SCRIPTS = sorted(p.name for p in FOLDER.glob("[!_]*.py"))
LINKED = re.compile(r"!\[[^]]*\]\(([^)]+)\)")


def page_of(script: str) -> Path:
    return FOLDER / f"{script.removesuffix('.py').replace('_', '-')}.md"


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out like the real one."""
    pytest.importorskip("opendp_optimal_geo")
    pytest.importorskip("opendp_optimal_learn")
    from plugins.geo.tests import small_folder
    from tests.docs import small_uci

    folder = tmp_path_factory.mktemp("data")
    small_folder.write(folder)
    small_uci.write(folder)
    rows = "\n".join(str(900 * i) for i in range(200))
    (folder / "income" / "pums_oregon_hincp.csv").write_text(f"HINCP\n{rows}\n")
    return folder


@pytest.mark.parametrize("script", SCRIPTS)
def test_quick_version_writes_its_page(
    script: str, small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.md"
    words = [script, "--quick", "--page", str(page)]
    if "--data DIR" in (FOLDER / script).read_text(encoding="utf-8").split('"""')[1]:
        words += ["--data", str(small_data)]
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(FOLDER / script), run_name="__main__")
    text = page.read_text(encoding="utf-8")
    assert f"python docs/reproduce/{script}" in text
    assert "--quick" in text
    pictures = LINKED.findall(text)
    assert pictures
    for name in pictures:
        assert "<svg" in (tmp_path / name).read_text(encoding="utf-8")
    assert "nan" not in re.split(r"\W+", text)
    if "PARTS" in (FOLDER / script).read_text(encoding="utf-8"):
        # The committed page has the same parts: it was written by this version of the script.
        committed = page_of(script).read_text(encoding="utf-8")
        assert re.findall("^## .*", text, re.M) == re.findall("^## .*", committed, re.M)


@pytest.mark.parametrize("script", SCRIPTS)
def test_committed_pages_are_whole(script: str) -> None:
    text = page_of(script).read_text(encoding="utf-8")
    assert f"python docs/reproduce/{script}" in text
    assert "--quick" not in text
    assert LINKED.findall(text)  # where they lead is tested with all pages
    assert script.removesuffix(".py") in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"docs/reproduce/{script}" in (FOLDER / "README.md").read_text(encoding="utf-8")
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

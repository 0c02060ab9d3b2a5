"""The architecture page shows the imports as they are; pages name places that exist."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs import picture

ROOT = Path(__file__).parents[2]
CORE = ROOT / "opendp_optimal"
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")])
PLACE = re.compile(r"`([\w/.-]+/[\w.-]*\.(?:py|md|toml|json))`")
DOTTED = re.compile(r"\b(opendp_optimal(?:_\w+)?(?:\.[a-z_]\w*)+)")


def test_the_picture_is_current() -> None:
    page = picture.PAGE.read_text()
    assert page == picture.with_picture(page), "run: make reference"


def test_every_room_is_in_the_picture() -> None:
    found = picture.rooms()
    assert {room for arrow in picture.arrows(found) for room in arrow} == set(found)


def test_nobody_asks_a_loss_for_its_name() -> None:
    wheels = [*CORE.rglob("*.py"), *ROOT.glob("plugins/*/opendp_optimal_*/**/*.py")]
    for path in wheels:
        if path.parent.name == "losses":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            asked = [ast.unparse(side) for side in sides]
            assert not any(side.endswith("loss.name") for side in asked), (path, node.lineno)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    roots = [ROOT, CORE, page.parent, *ROOT.glob("plugins/*"), *ROOT.glob("plugins/*/opendp_*")]
    for place in PLACE.findall(page.read_text()):
        assert any((root / place).exists() for root in roots), place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_modules_exist(page: Path) -> None:
    for name in DOTTED.findall(page.read_text()):
        package, *inner = name.split(".")
        folder = CORE if package == "opendp_optimal" else _plugin(package)
        if (folder / inner[0]).is_dir() or (folder / f"{inner[0]}.py").exists():
            continue
        assert inner[0] in _public(folder), name


def _plugin(package: str) -> Path:
    return ROOT / "plugins" / package.removeprefix("opendp_optimal_") / package


def _public(folder: Path) -> set[str]:
    words = {"opendp_optimal", "hookimpl"}
    if (folder / "__init__.py").exists():
        words |= set(re.findall(r"\w+", (folder / "__init__.py").read_text()))
    return words


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or later."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_core_never_imports_the_prelude() -> None:
    """It loads scikit-learn where that is installed. (Contracts cannot look into a package.)"""
    for path in CORE.rglob("*.py"):
        assert "opendp.prelude" not in imports(path), path


def test_rooms_that_prove_load_no_optimiser() -> None:
    for room in ("certify", "table", "sample", "model", "problem", "losses", "exact"):
        for path in (CORE / room).rglob("*.py"):
            assert not {name for name in imports(path) if name.startswith("scipy.optimize")}, path


def test_the_second_proof_imports_nothing_of_the_package() -> None:
    found = imports(CORE / "testing" / "independent.py")
    assert not {name for name in found if name.startswith("opendp")}

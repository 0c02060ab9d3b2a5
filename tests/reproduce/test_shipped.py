"""No wheel needs the experiments, nor what only they need."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = [ROOT / "opendp_optimal", *sorted(ROOT.glob("plugins/*/opendp_optimal_*/"))]


def imported(path: Path) -> set[str]:
    """The packages that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", SHIPPED, ids=lambda path: path.name)
def test_shipped_modules_do_not_import_experiments(package: Path) -> None:
    for path in package.rglob("*.py"):
        assert not imported(path) & {"docs", "tests", "numba"}, path


def test_wheels_hold_their_package_alone() -> None:
    for manifest in [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]:
        found = tomllib.loads(manifest.read_text(encoding="utf-8"))
        wheel = found["tool"]["hatch"]["build"]["targets"]["wheel"]
        assert wheel == {"packages": [found["project"]["name"].replace("-", "_")]}

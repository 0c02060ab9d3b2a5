"""Public names of the core and of every plugin are sorted and documented."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import opendp_optimal

ROOT = Path(__file__).parents[2]
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
PACKAGES = [
    "opendp_optimal",
    "opendp_optimal.testing",
    *map("opendp_optimal_{}".format, PLUGINS),
]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_sorted_and_documented(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert names == sorted(names, key=lambda n: (not n.isupper(), n[0].islower(), n))
    for name in names:
        value = getattr(module, name)
        assert inspect.getdoc(value), name
        # A then_ function, or one that waits, takes what its make_ function takes, and names it.
        if inspect.isfunction(value) and not re.search(":func:`make_", inspect.getdoc(value) or ""):
            for parameter in inspect.signature(value).parameters:
                assert f":param {parameter}:" in (value.__doc__ or ""), (name, parameter)


def test_one_version_for_all() -> None:
    manifests = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    versions = {tomllib.loads(path.read_text())["project"]["version"] for path in manifests}
    assert versions == {opendp_optimal.__version__}
    assert f"## {opendp_optimal.__version__}\n" in (ROOT / "docs" / "changelog.md").read_text()

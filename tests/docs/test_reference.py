"""The pages that describe commands and hooks say what the code says."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", HERE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    return (HERE.parents[1] / "docs" / "reference" / name).read_text()


def test_the_command_line_page(reference: ModuleType) -> None:
    assert page("cli.md") == reference.cli_page(), "run: make reference"


def test_the_hooks_page(reference: ModuleType) -> None:
    assert page("hooks.md") == reference.hooks_page(), "run: make reference"


def test_every_hook_is_used_in_the_repository(reference: ModuleType) -> None:
    assert set(reference.hook_users()) == set(reference.hooks())

"""The pages that describe commands, hooks and the tools of plugins say what the code says."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from opendp_optimal import extend

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", HERE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "extend.md", "hooks.md"])
def test_the_page_is_what_the_code_says(reference: ModuleType, name: str) -> None:
    page = (HERE.parents[1] / "docs" / "reference" / name).read_text()
    assert page == reference.PAGES[name](), "run: make reference"


def test_everything_that_plugins_may_use_is_described(reference: ModuleType) -> None:
    page = reference.extend_page()
    for name in extend.__all__:
        (part,) = re.findall(rf"^### `{name}(?:\(.*\))?`\n\n(.+)", page, re.MULTILINE)
        assert part.strip(), name


def test_every_hook_is_used_in_the_repository(reference: ModuleType) -> None:
    assert set(reference.hook_users()) == set(reference.hooks())

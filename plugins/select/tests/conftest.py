import json
from pathlib import Path

import opendp.prelude as dp
import pytest


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib")


@pytest.fixture(scope="session")
def golden():
    """Numbers printed elsewhere, with where they are printed."""
    return json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


@pytest.fixture
def line():
    return dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

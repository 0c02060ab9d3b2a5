"""The same hostile rows on DuckDB, on a real PostgreSQL server, and in a Polars frame."""

import sys
from pathlib import Path

import pytest
from opendp.mod import enable_features

from opendp_optimal.budget import open_ledger
from tests.budget.ledger.conftest import server  # noqa: F401 (a fixture)

sys.path.insert(0, str(Path(__file__).parent))  # for warehouse_rows and its like


@pytest.fixture(autouse=True)
def _contrib():
    enable_features("contrib")


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "budgets.db") as opened:
        opened.create("census", epsilon=100.0, delta=0.01)
        opened.create("pure", epsilon=100.0)
        opened.create("rho", rho=100.0)
        yield opened

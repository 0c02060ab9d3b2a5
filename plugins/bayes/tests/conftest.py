import json
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import opendp.prelude as dp
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for posterior_tables


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib")


@pytest.fixture(autouse=True)
def _small_tables():
    """Small tables are hardly measured; where that matters, it is tested."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the total of the table")
        yield


@pytest.fixture(scope="session")
def golden():
    """Numbers printed elsewhere, with where they are printed."""
    return json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


@pytest.fixture
def exact():
    """Rows of fractions from rows of text."""
    return lambda rows: tuple(tuple(Fraction(v) for v in row) for row in rows)


@pytest.fixture
def integers():
    return dp.atom_domain(T=int), dp.absolute_distance(T=int)


@pytest.fixture
def line():
    return dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

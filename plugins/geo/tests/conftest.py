import sys
from pathlib import Path

import opendp.prelude as dp
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for geo_tails and people_processes


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture
def plane():
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2), dp.l2_distance(T=float)

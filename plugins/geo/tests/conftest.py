import os
import sys
from pathlib import Path

import opendp.prelude as dp
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for geo_tails


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture
def data_folder():
    """The folder with real data, named by OPENDP_OPTIMAL_DATA."""
    name = os.environ.get("OPENDP_OPTIMAL_DATA")
    if not name or not Path(name).is_dir():
        pytest.skip("OPENDP_OPTIMAL_DATA does not name a folder with the data sets")
    return Path(name)


@pytest.fixture
def plane():
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=2), dp.l2_distance(T=float)

import opendp.prelude as dp
import pytest


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture
def line():
    return dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

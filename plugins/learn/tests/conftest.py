import numpy as np
import opendp.prelude as dp
import pytest


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib")


@pytest.fixture(scope="session")
def mixed():
    """Two numbers, one category, three classes, everything informative."""
    rng = np.random.default_rng(5)
    y = rng.integers(3, size=3000)
    words = np.array(["red", "green", "blue"], dtype=object)
    told = np.where(rng.random(3000) < 0.8, y, rng.integers(3, size=3000))
    x = np.empty((3000, 3), dtype=object)
    x[:, 0] = np.clip(y + rng.normal(size=3000), -3, 5)
    x[:, 1] = words[told]
    x[:, 2] = np.clip(rng.normal(size=3000) - 2 * (y == 1), -5, 3)
    return x, y

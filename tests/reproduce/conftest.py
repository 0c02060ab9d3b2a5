"""The papers' experiments: small made-up data always, the real ones where they are."""

import os
from pathlib import Path

import opendp.prelude as dp
import pytest


@pytest.fixture(autouse=True)
def own_cache():
    """Tables are kept between these tests, as they are between runs."""


@pytest.fixture(autouse=True)
def _features():
    dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture(scope="session")
def data_folder():
    """Where the public data sets are."""
    named = os.environ.get("OPENDP_OPTIMAL_DATA")
    if not named or not Path(named).is_dir():
        pytest.skip("OPENDP_OPTIMAL_DATA does not name a folder with the data sets")
    return Path(named)


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """A folder laid out like the real one, with simulated data."""
    from tests.reproduce.liang import small_folder
    from tests.reproduce.selvi import small_uci

    folder = tmp_path_factory.mktemp("data")
    small_folder.write(folder)
    small_uci.write(folder)
    rows = "\n".join(str(900 * i) for i in range(200))
    (folder / "income" / "pums_oregon_hincp.csv").write_text(f"HINCP\n{rows}\n")
    return folder

"""Every test has an empty table cache of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"

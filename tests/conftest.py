"""Every test has an empty table cache of its own, and property tests no deadline."""

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENDP_OPTIMAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"

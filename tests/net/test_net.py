"""Signatures, commands, hooks and bundled tables are as recorded; a few tables are solved anew."""

import json

import pytest

from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE
from tests.net import record

RECORDED = json.loads(record.RECORDED.read_text())


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("part", ["signatures", "commands", "hooks", "bundled"])
def test_nothing_changed(part):
    """Run ``python -m tests.net.record --write`` for a change that is meant."""
    assert not list(record.differences(RECORDED[part], getattr(record, part)()))


@pytest.mark.slow
def test_every_bundled_table_verifies():
    places = [p for p in cache.bundled_directory().iterdir() if p.name.endswith(".noise")]
    assert len(places) == 352
    for place in places:
        NOISE.decode(place.read_bytes()).verify()


@pytest.mark.slow
def test_bundled_tables_of_other_kinds_verify():
    places = [p for p in cache.bundled_directory().iterdir() if p.suffix in (".pair", ".radial")]
    assert len(places) == 40
    for place in sorted(places)[::4]:
        assert cache.fault(place) == ""

"""Files: nothing half-written, nothing damaged used, several writers, no memory for liars."""

import hashlib
import json
import logging
import multiprocessing
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal import CertificateError, TableFormatError, solve
from opendp_optimal.losses.base import loss_of
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE
from tests.strategies import deltas, epsilons

ASKED = {"epsilon": 0.77, "delta": 0.03}


def small(**change):
    return solve(**{**ASKED, "cells": 3, "gap": 1.0, "cache": False, **change})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"loss": "l2"},
        {"loss": "pinball:0.8"},
        {"loss": "pinball:0.8", "symmetric": True},
        {"monotone": True},
        {"support": 4.5},
        {"support": 4.5, "impossible": 0.02},
        {"integer_sensitivity": 2, "cells": None},
        {"delta": 0.0, "cells": None},
    ],
    ids=str,
)
def test_round_trip(change):
    table = small(**change)
    again = NOISE.decode(NOISE.encode(table))
    assert again == table
    assert NOISE.encode(again) == NOISE.encode(table)
    assert NOISE.peek(NOISE.encode(table))["upper"] == table.upper


@given(epsilons, deltas)
@settings(max_examples=15)
def test_round_trip_of_any_target(epsilon, delta):
    table = solve(epsilon, delta, cells=2, gap=100.0, cache=False)
    assert NOISE.decode(NOISE.encode(table)) == table


def test_a_users_own_loss():
    def power(x):
        return abs(x) ** 1.5

    table = small(loss=power)
    data = NOISE.encode(table)
    assert NOISE.decode(data, loss_of(power)) == table
    alone = NOISE.decode(data)  # without the function it still proves itself
    assert alone.upper == table.upper
    with pytest.raises(TableFormatError):
        NOISE.decode(data, loss_of(lambda x: abs(x) ** 1.6))


def test_every_flipped_byte_is_detected():
    data = bytearray(NOISE.encode(small(integer_sensitivity=1, cells=None)))
    for place in range(len(data)):
        data[place] ^= 0x41
        with pytest.raises((TableFormatError, CertificateError)):
            NOISE.decode(bytes(data))
        data[place] ^= 0x41
    NOISE.decode(bytes(data))


@given(st.binary(max_size=300))
def test_noise_is_no_table(data):
    for candidate in (data, NOISE.magic + data, NOISE.magic + struct.pack("<I", len(data)) + data):
        with pytest.raises(TableFormatError):
            NOISE.decode(candidate)


def resealed(data, change):
    """Change the header and seal the file again, as a forger would."""
    (length,) = struct.unpack("<I", data[8:12])
    header = json.loads(data[12 : 12 + length])
    change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    body = NOISE.magic + struct.pack("<I", len(text)) + text + data[12 + length : -32]
    return body + hashlib.sha256(body).digest()


def set_in(*path):
    def change(header):
        at = header
        for key in path[:-2]:
            at = at[key]
        at[path[-2]] = path[-1]

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_in("version", 2),
        set_in("lower", (1.5).hex()),
        set_in("upper", (0.1).hex()),
        set_in("upper", "nan"),
        set_in("cells", 2),
        set_in("cells", 1 << 40),
        set_in("atom", -1),
        set_in("scale", 10**9),
        set_in("scale", -5),
        set_in("dual_cells", 0),
        set_in("mirrored", False),
        set_in("problem", "epsilon", (0.5).hex()),
        set_in("problem", "delta", (0.001).hex()),
        set_in("problem", "delta", (0.0).hex()),
        set_in("problem", "loss", "l3"),
        set_in("problem", "loss", "custom:x:00"),
        set_in("problem", "monotone", "yes"),
        set_in("arrays", "weights", "shape", [1 << 40]),
        set_in("arrays", "weights", "shape", [-1]),
        set_in("arrays", "slack", "shape", [1 << 20, 1 << 20]),
        set_in("arrays", "weights", "width", 3),
        set_in("arrays", "weights", "bytes", 10**12),
    ],
    ids=lambda c: str(c.__closure__[0].cell_contents),
)
def test_a_resealed_lie_is_refused(change):
    with pytest.raises((TableFormatError, CertificateError)):
        NOISE.decode(resealed(NOISE.encode(small()), change))


def test_a_bomb_is_not_inflated():
    bomb = zlib.compress(b"\0" * (1 << 26), 9)

    def change(header):
        header["arrays"] = {"weights": {"shape": [3], "width": 8, "bytes": len(bomb)}}

    data = resealed(NOISE.encode(small()), change)
    (length,) = struct.unpack("<I", data[8:12])
    body = data[: 12 + length] + bomb
    with pytest.raises(TableFormatError, match="size"):
        NOISE.decode(body + hashlib.sha256(body).digest())


def test_solve_stores_and_loads(own_cache):
    first = solve(**ASKED, gap=0.01)
    files = list(cache.cache_directory().iterdir())
    assert [f.name for f in files] == [cache.file_name(first.problem)]
    assert own_cache in files[0].parents
    steps = []
    assert solve(**ASKED, gap=0.01, progress=steps.append) == first
    assert steps == []
    better = solve(**ASKED, gap=1e-3)
    assert better.gap <= 1e-3
    assert cache.load(better.problem) == better


def test_damage_is_reported_and_repaired(caplog):
    table = solve(**ASKED, gap=0.01)
    place = cache.cache_directory() / cache.file_name(table.problem)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(bytes(data))
    with caplog.at_level(logging.WARNING):
        assert solve(**ASKED, gap=0.01) == table
    assert "damaged" in caplog.text
    assert NOISE.decode(place.read_bytes()) == table


def test_a_file_under_a_wrong_name_is_not_used(caplog):
    table = solve(**ASKED, gap=0.01)
    other = NoiseProblem(epsilon=0.78, delta=0.03)
    (cache.cache_directory() / cache.file_name(other)).write_bytes(NOISE.encode(table))
    with caplog.at_level(logging.WARNING):
        assert cache.load(other) is None
    assert "another" in caplog.text


def test_two_functions_of_one_name_are_told_apart():
    def near(x):
        return abs(x) if abs(x) < 1.0 else abs(x) + 1e-9 * (abs(x) - 1.0)

    def plain(x):
        return abs(x)

    plain.__name__ = near.__name__ = "mine"
    first = solve(1.0, 0.1, loss=plain, gap=0.05)
    second = solve(1.0, 0.1, loss=near, gap=0.05)
    assert first.problem.fingerprint != second.problem.fingerprint


def test_unwritable_and_missing_directories(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv(cache.ENVIRONMENT, str(blocked / "below"))
    table = solve(**ASKED, gap=0.01)
    assert table.gap <= 0.01
    assert cache.keep(table) is None
    assert cache.clear() == 0


def test_a_full_disk_leaves_nothing_half_written(monkeypatch):
    table = solve(**ASKED, gap=0.01, cache=False)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cache.keep(table) is None
    assert list(cache.cache_directory().iterdir()) == []
    monkeypatch.undo()


def test_an_interrupt_leaves_nothing_half_written(monkeypatch):
    table = solve(**ASKED, gap=0.01, cache=False)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.keep(table)
    assert list(cache.cache_directory().iterdir()) == []


@pytest.mark.process
def test_several_processes_write_at_once(own_cache):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        results = pool.starmap(_solve_for_real, [(0.77, 0.03)] * 8)
    assert len(set(results)) == 1
    files = list(cache.cache_directory().iterdir())
    assert len(files) == 1
    NOISE.decode(files[0].read_bytes())


def _solve_for_real(epsilon, delta):
    from opendp_optimal import solve

    return solve(epsilon, delta, gap=0.05).upper


@pytest.mark.process
def test_killed_writers_lose_nothing(own_cache):
    """Kill a process that stores tables without pause; the directory stays usable."""
    table = solve(**ASKED, gap=0.01)
    code = (
        "from opendp_optimal import solve\n"
        "from opendp_optimal.table import store as cache\n"
        f"table = solve({ASKED['epsilon']}, {ASKED['delta']}, gap=0.01)\n"
        "print('ready', flush=True)\n"
        "while True: cache.keep(table)\n"
    )
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        process.wait()
        process.stdout.close()
        assert cache.load(table.problem) == table
    assert cache.clear() == 1
    assert list(cache.cache_directory().iterdir()) == []


def test_dominating_table_without_solving():
    stored = solve(0.9, 0.01, gap=0.05)
    found = solve(1.0, 0.02, compute=False)
    assert found.epsilon <= 1.0
    assert found.delta <= 0.02
    assert found.upper <= stored.upper
    found.verify()
    with pytest.raises(LookupError, match="no stored table"):
        solve(1e-4, 1e-13, compute=False)
    with pytest.raises(LookupError):
        solve(1.0, 0.02, loss="pinball:0.9", compute=False)


def test_bundled_tables_are_there_and_prove_themselves():
    places = [p for p in cache.bundled_directory().iterdir() if p.name.endswith(".noise")]
    assert len(places) >= 300
    about = [NOISE.peek(p.read_bytes()) for p in places]
    assert {a["loss"] for a in about} == {"l1", "l2"}
    assert {a["integer_sensitivity"] for a in about} == {None, 1}
    assert min(a["epsilon"] for a in about) == 0.01
    assert max(a["epsilon"] for a in about) == 10
    assert min(a["delta"] for a in about) == 1e-10
    assert max(a["delta"] for a in about) == 1e-3
    rng = np.random.default_rng(0)
    for place in rng.choice(np.array(places, dtype=object), 40, replace=False):
        table = NOISE.decode(place.read_bytes())
        assert cache.file_name(table.problem) == place.name


@pytest.mark.process
def test_common_targets_need_no_solver():
    code = (
        "import sys, opendp_optimal as oo\n"
        "table = oo.solve(1.0, 1e-6)\n"
        "table.draw(3)\n"
        "assert not {'highspy', 'opendp_optimal.solvers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

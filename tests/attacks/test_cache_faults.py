"""Faults of the cache: kills, hostile sizes, missing and read-only directories, stray files."""

import hashlib
import json
import os
import resource
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

from opendp_optimal import CertificateError, NoiseTable, TableFormatError, make_optimal_noise, solve
from opendp_optimal.certify.noise import DualCertificate
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE
from tests.attacks.mechanisms import REAL
from tests.attacks.writers import Outcome, kill_warm, kill_writers, warm_command


def small(**change):
    return solve(
        **{"epsilon": 0.77, "delta": 0.03, "cells": 3, "gap": 1.0, "cache": False, **change}
    )


def forged(table: NoiseTable, header=None, arrays=None) -> bytes:
    """A file with a good seal and other content."""
    old, packed = NOISE.unseal(NOISE.encode(table))
    old.pop("arrays")
    return NOISE.seal({**old, **(header or {})}, {**packed, **(arrays or {})})


def test_killed_writers_lose_nothing():
    tables = [small(), small(integer_sensitivity=1, cells=None), small(loss="l2")]
    found = kill_writers(tables, 25)
    assert found.kills == 25
    assert (found.lost, found.wrong) == (0, 0)


def test_killed_warm_loses_nothing_and_goes_on_where_it_was():
    found = kill_warm(2)
    assert found == Outcome(kills=2, unfinished=found.unfinished)
    done = subprocess.run([*warm_command(), "--json"], capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)["counts"]
    assert counts["failed"] == 0
    assert counts["there"] >= 1
    assert counts["there"] + counts["solved"] == 12


# Findings of fuzzing and reading, each with a good seal: every one was accepted, or ended in an
# error that callers do not expect, before it was found.


def pure(**change):
    return solve(0.8, 0.0, cache=False, **change)


def test_an_endless_tail_needs_weights_with_a_middle():
    table = pure(integer_sensitivity=1)
    endless = np.array([table.tail.weight, table.tail.again, *table.tail.weights], np.int64)
    even = np.concatenate([table.weights, [0]])
    half = table.weights[: table.radius + 1].copy()
    mirrored = np.concatenate([half, half[::-1]])
    for change in (
        {"weights": even},
        {"weights": mirrored},
        {"weights": np.zeros(0, np.int64)},
        {"weights": table.weights[None, :]},
        {"endless": endless[:2]},
        {"endless": endless[:1]},
        {"endless": endless[:0]},
        {"endless": np.array([endless[0], 1 << 62], np.int64)},
    ):
        with pytest.raises((TableFormatError, CertificateError)):
            NOISE.decode(forged(table, arrays=change))


def test_pure_noise_has_no_atom():
    with pytest.raises(CertificateError, match="point mass"):
        NOISE.decode(forged(pure(), header={"atom": 1}))


def test_order_prices_prove_nothing_about_noise_of_any_shape():
    table = small(monotone=True)
    assert table.dual.order.any()
    problem = {**table.problem.describe(), "monotone": False}
    free = small()
    assert table.lower > free.lower
    with pytest.raises(CertificateError, match="order prices"):
        NOISE.decode(forged(table, header={"problem": problem}))


def test_one_tail_price_does_not_pay_for_two_ends():
    table = small(support=4.5, impossible=0.02)
    dual = table.dual
    for mirrored, prices in ((False, 1), (True, 2), (False, 3)):
        changed = DualCertificate(
            dual.cells,
            dual.shifts,
            dual.budget,
            dual.slack,
            mirrored,
            dual.order,
            np.ones(prices, np.int64),
            dual.scale,
        )
        with pytest.raises(CertificateError, match="shape"):
            changed.check()


@pytest.mark.parametrize("name", ["weights", "shifts", "budget", "slack", "order", "tail"])
@pytest.mark.parametrize("shape", [(0,), (0, 0), (1,), (1, 1), (3,), (3, 3), (2, 5)], ids=str)
def test_arrays_of_another_shape_are_refused_or_harmless(name, shape):
    data = forged(small(), arrays={name: np.zeros(shape, np.int64)})
    try:
        table = NOISE.decode(data)
    except (TableFormatError, CertificateError):
        return
    table.verify()
    table.draw(10)


@pytest.mark.parametrize(
    "header",
    [b"[" * 100_000, b"[]", b"null", b"3", b'"x"', b"{}", b'{"version":1,"arrays":[]}', b"\xff"],
    ids=lambda h: repr(h[:20]),
)
def test_headers_that_are_no_headers(header):
    body = NOISE.magic + struct.pack("<I", len(header)) + header
    for data in (body, body + hashlib.sha256(body).digest()):
        with pytest.raises(TableFormatError):
            NOISE.decode(data)
        with pytest.raises(TableFormatError):
            NOISE.peek(data)


@pytest.mark.parametrize("key", ["symmetric", "monotone"])
def test_flags_are_flags(key):
    table = small()
    problem = {**table.problem.describe(), key: "" if key == "monotone" else "yes"}
    with pytest.raises(TableFormatError):
        NOISE.decode(forged(table, header={"problem": problem}))


def test_costs_of_a_users_loss_are_divided_by_something():
    table = small(loss=lambda x: abs(x) ** 1.5)
    header, _ = NOISE.unseal(NOISE.encode(table))
    costs = header["costs"]
    for denominator in ("0", "-1"):
        changed = [{**cost, "denominator": denominator} for cost in costs]
        with pytest.raises((TableFormatError, CertificateError)):
            NOISE.decode(forged(table, header={"costs": changed}))


def test_many_arrays_do_not_exhaust_memory():
    # 200 arrays of 2^25 zeros would need 50 GB; they are 6 MB in the file.
    packed = zlib.compress(b"\0" * (1 << 25), 9)
    entry = {"shape": [1 << 25], "width": 1, "bytes": len(packed)}
    header = {"version": 1, "arrays": {str(i): entry for i in range(200)}}
    text = json.dumps(header).encode()
    body = NOISE.magic + struct.pack("<I", len(text)) + text + packed * 200
    data = body + hashlib.sha256(body).digest()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TableFormatError, match="large"):
        NOISE.decode(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_stray_files_do_not_stop_the_search():
    directory = cache.cache_directory()
    directory.mkdir(parents=True)
    real = small()
    header, _ = NOISE.unseal(NOISE.encode(real))
    for number, problem in enumerate(({}, {"epsilon": "0x1p0", "delta": "0x1p-9"}, None, 3)):
        text = json.dumps({**header, "problem": problem}).encode()
        place = directory / f"stray{number}.noise"
        place.write_bytes(NOISE.magic + struct.pack("<I", len(text)) + text)
    (directory / "deep.noise").write_bytes(NOISE.magic + struct.pack("<I", 90_000) + b"[" * 90_000)
    (directory / "folder.noise").mkdir()
    found = cache.dominating(real.problem)
    assert found is None or (found.epsilon <= 0.77 and found.delta <= 0.03)
    solve(0.77, 0.03, gap=0.5)


@pytest.mark.parametrize("place", ["missing/deep/down", "file/below", "/dev/null/x", "bad\nname"])
def test_any_directory_will_do_or_is_done_without(tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("not a folder")
    chosen = place if place.startswith("/") else str(tmp_path / place)
    monkeypatch.setenv(cache.ENVIRONMENT, chosen)
    measurement = make_optimal_noise(*REAL, 1.0, (0.713, 1e-3), gap=0.05)
    assert isinstance(measurement(1.0), float)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes")
def test_a_full_disk_leaves_no_half_file(tmp_path):
    # A limit on file sizes acts like a full disk: the write fails in the middle.
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "from opendp_optimal import solve; t = solve(0.7, 0.01, gap=0.5); t.draw(5);"
        "print('released')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, cache.ENVIRONMENT: str(tmp_path / "full")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "released"
    assert [p.name for p in (tmp_path / "full").rglob("*") if p.is_file()] == []

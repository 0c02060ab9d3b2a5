"""Kills: a process that writes tables, or warms the cache, is stopped without a word."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from opendp_optimal import CertificateError, NoiseTable, TableFormatError
from opendp_optimal.table import store as cache
from opendp_optimal.table.files.noise import KIND as NOISE


@dataclass
class Outcome:
    """What kills did: how many, how many left an unfinished file, what was lost or wrong."""

    kills: int = 0
    unfinished: int = 0
    lost: int = 0
    wrong: int = 0


def look(directory: Path, outcome: Outcome, before: set[str]) -> set[str]:
    """Check every file of a cache; return the names of the tables that are there."""
    there = set()
    for place in sorted(directory.glob("*")):
        if place.suffix == ".part":
            outcome.unfinished += 1
            place.unlink()
            continue
        try:
            NOISE.decode(place.read_bytes())
        except (TableFormatError, CertificateError):
            outcome.wrong += 1
        there.add(place.name)
    outcome.lost += len(before - there)
    return there


def kill_writers(tables: list[NoiseTable], kills: int, seed: int = 0) -> Outcome:
    """Fork a writer, let it write table after table, kill it at some moment; again and again."""
    rng = random.Random(seed)
    outcome = Outcome()
    directory = cache.cache_directory()
    there: set[str] = set()
    for table in tables:
        cache.keep(table)
    there = look(directory, outcome, there)
    data = [(cache.file_name(table.problem), NOISE.encode(table)) for table in tables]
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                while True:
                    for name, content in data:
                        cache.write(name, content)
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        outcome.kills += 1
        there = look(directory, outcome, there)
    return outcome


def warm_command(jobs: int = 1) -> list[str]:
    """A warm that solves several small tables."""
    return [
        sys.executable,
        "-c",
        "from opendp_optimal.cli import main; main()",
        "warm",
        "--epsilon",
        "0.61,0.62,0.63,0.64,0.65,0.66",
        "--delta",
        "0.01,0.02",
        "--integer",
        "1",
        "--no-real",
        "--gap",
        "0.05",
        "--jobs",
        str(jobs),
    ]


def kill_warm(kills: int, seed: int = 0) -> Outcome:
    """Kill ``opendp-optimal warm`` with all its workers as soon as it has begun to write."""
    rng = random.Random(seed)
    outcome = Outcome()
    directory = cache.cache_directory()
    there: set[str] = set()
    for _ in range(kills):
        for place in list(directory.glob("*"))[6:]:
            place.unlink()  # so that there is something left to do
        there = look(directory, outcome, set())
        process = subprocess.Popen(
            warm_command(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stderr is not None
        for _ in range(rng.randrange(1, 9)):
            process.stderr.readline()
        time.sleep(rng.uniform(0.0, 0.02))
        os.killpg(process.pid, signal.SIGKILL)
        process.stderr.close()
        process.wait()
        outcome.kills += 1
        there = look(directory, outcome, there)
    return outcome

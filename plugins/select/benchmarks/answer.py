"""Time per answer for catalogues of a million items, beside other ways to find nearest items.

Run it with ``python benchmarks/answer.py [--items N] [--json]``. Peers, in the same run: a scan of
the whole array with numpy, and a KD-tree of scipy asked for the same points without making the
answers distinct. Simulated positions; the server's work only, no noise.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from opendp_optimal_select import (
    Catalogue,
    FeatureSpace,
    Request,
    Server,
    VectorCatalogue,
    grid_offsets,
    offsets,
)


def microseconds(work: Callable[[], Any], answers: int, rounds: int = 5) -> float:
    """Return the median time per answer over some rounds, after one to warm up."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times) / answers


def line_rows(count: int, k: int, rng: np.random.Generator) -> dict[str, float]:
    """Time answers on a line."""
    positions = rng.normal(size=count) * 1000.0
    catalogue = Catalogue(positions, range(count))
    server = Server(catalogue)
    tree = cKDTree(positions[:, None])
    steps = offsets(k, epsilon=1.0)
    signals = rng.normal(size=100_000) * 1000.0
    few = signals[:500].tolist()
    requests = [Request(s, "laplace", 1.0, k).encode() for s in few]
    targets = signals[:, None] + np.array(steps)
    scanned = few[:20]

    def scan() -> None:
        for signal in scanned:
            for step in steps:
                int(np.abs(positions - (signal + step)).argmin())

    return {
        f"line, k={k}: one at a time": microseconds(
            lambda: [catalogue.answer(s, steps) for s in few], len(few)
        ),
        f"line, k={k}: whole message, decoded and encoded": microseconds(
            lambda: [server.handle(r) for r in requests], len(few)
        ),
        f"line, k={k}: batch": microseconds(
            lambda: catalogue.answer_batch(signals, steps), len(signals)
        ),
        f"line, k={k}: peer, scipy KD-tree batch": microseconds(
            lambda: tree.query(targets[..., None]), len(signals), 3
        ),
        f"line, k={k}: peer, numpy scan": microseconds(scan, len(scanned), 3),
    }


def feature_rows(count: int, rng: np.random.Generator) -> dict[str, float]:
    """Time answers in a feature space of 16 dimensions, projected on two."""
    points = rng.normal(size=(count, 16)) * np.geomspace(4.0, 0.1, 16)
    space = FeatureSpace(points, directions=2)
    signals = rng.normal(size=(5000, 16))
    grid = grid_offsets(1, 2, scale=0.5)
    full = cKDTree(np.asarray(points))
    lifted = signals[:50, None, :] + grid @ space.projection
    assert isinstance(space.projected, VectorCatalogue)
    few = signals[:300]
    return {
        "16 features, 9 answers: one at a time": microseconds(
            lambda: [space.answer(s, scale=0.5, per_side=1) for s in few], len(few)
        ),
        "16 features, 9 answers: batch": microseconds(
            lambda: space.answer_batch(signals, 0.5, 1), len(signals)
        ),
        "16 features, 9 answers: peer, scipy KD-tree without projection": microseconds(
            lambda: full.query(lifted), len(lifted), 1
        ),
    }


def main() -> None:
    """Run the benchmark and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    rows: dict[str, float] = {}
    for k in (1, 5, 20):
        print(f"line, k={k} ...", file=sys.stderr)
        rows |= line_rows(arguments.items, k, rng)
    print("features ...", file=sys.stderr)
    rows |= feature_rows(arguments.items, rng)
    if arguments.json:
        print(json.dumps({"items": arguments.items, "microseconds_per_answer": rows}, indent=2))
        return
    print(f"{arguments.items} items; microseconds per answer (median)")
    for name, value in rows.items():
        print(f"{value:12.1f}  {name}")


if __name__ == "__main__":
    main()

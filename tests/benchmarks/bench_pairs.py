"""Tables for a mean and its count: the certified gap of each usual target, and how long it takes.

    python tests/benchmarks/bench_pairs.py [--json]

``lower`` bounds all additive noise, ``whole lower`` that whose noise on the count is whole; the gap
is to the first. Ends with 1 if a gap is above 1 % or a table takes more than 20 seconds of
processor time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import warnings
from typing import Any

from opendp_optimal import solve_pair

EPSILONS, DELTAS, LOSSES = (0.5, 1.0, 2.0, 3.0, 4.0), (1e-6, 1e-3), ("l2", "l1")
GAP, LONGEST = 0.01, 20.0


def solved(epsilon: float, delta: float, loss: str) -> dict[str, Any]:
    """One table, solved afresh and verified."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = solve_pair(epsilon, delta, loss=loss, gap=GAP, cache=False)
    seconds = time.process_time() - started
    started = time.process_time()
    table.verify()
    return {
        "epsilon": epsilon,
        "delta": delta,
        "loss": loss,
        "cells": table.cells,
        "upper": table.upper,
        "lower": table.lower,
        "whole lower": table.whole_lower,
        "gap": table.gap,
        "seconds": seconds,
        "proof seconds": time.process_time() - started,
        "met": table.gap <= GAP and seconds <= LONGEST,
    }


def main() -> int:
    """Solve all, print a line for each, and say whether every target was met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    for asked in itertools.product(EPSILONS, DELTAS, LOSSES):
        result = solved(*asked)
        found.append(result)
        if not options.json:
            line = (
                f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}" for k, v in result.items()
            )
            print(", ".join(line), flush=True)
    if options.json:
        print(json.dumps(found))
    return 0 if all(result["met"] for result in found) else 1


if __name__ == "__main__":
    sys.exit(main())

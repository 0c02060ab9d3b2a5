"""Noise for vectors in steps of a linear programme, against the best other noise in the l2 norm.

    python tests/benchmarks/bench_steps.py [--json]

Losses are proved, times are processor times. Ends with 1 if steps are less good than they must be
or ever chosen where something else is better, if a design takes more than 5 s, if repeating its
proof takes more than 0.2 s, or if vectors of length 10 are drawn too slowly.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from typing import Any

from opendp_optimal import solve_radial
from opendp_optimal.losses.base import loss_of
from opendp_optimal.problem.radial import RadialProblem
from opendp_optimal.search import radial as search

ASKED = [
    *((1.0, 1e-3, 2, 0.01), (4.0, 1e-3, 5, 0.055), (8.0, 1e-3, 10, 0.13)),
    *((0.25, 0.1, 2, 0.1), (0.25, 0.1, 10, 0.02), (1.0, 0.5, 3, 0.04), (1.0, 0.1, 2, 0.06)),
    *((2.0, 1e-2, 2, 0.06), (2.0, 1e-3, 10, 0.0), (2.0, 1e-6, 5, 0.0), (4.0, 1e-2, 3, 0.1)),
    *((4.0, 1e-6, 5, 0.01), (8.0, 1e-6, 10, 0.07), (8.0, 1e-9, 10, 0.01), (8.0, 1e-3, 50, 0.0)),
    *((16.0, 1e-3, 20, 0.26), (16.0, 1e-9, 20, 0.09), (32.0, 1e-3, 10, 0.03)),
    *((32.0, 1e-9, 50, 0.25), (32.0, 1e-3, 200, 0.0), (1e-3, 0.99, 5, 0.5)),
]
"""Epsilon, delta, length, and how much less the squared error must be."""
LONGEST_DESIGN, LONGEST_PROOF, FASTEST = 5.0, 0.2, 20_000


def seconds(function: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def compared(epsilon: float, delta: float, size: int, less: float, loss: str) -> dict[str, Any]:
    problem = RadialProblem(epsilon=epsilon, delta=delta, size=size, loss=loss_of(loss))
    others = [search._decay(problem), search._staircase(problem), search._pure_decay(problem)]
    other = min((t for t in others if t is not None), key=lambda table: table.upper)
    design, table = seconds(
        lambda: solve_radial(epsilon, delta, size, loss=loss, bound=False, cache=False)
    )
    proof, _ = seconds(table.verify)
    found = {
        "epsilon": epsilon,
        "delta": delta,
        "size": size,
        "loss": loss,
        "other": other.shape,
        "other_loss": other.upper,
        "shape": table.shape,
        "upper": table.upper,
        "less": 1 - table.upper / other.upper,
        "design": design,
        "proof": proof,
    }
    if size == 10:
        draws, _ = seconds(lambda: table.draw(20_000))
        found["rate"] = 20_000 / draws
    found["passed"] = (
        found["less"] >= (less if loss == "l2" else 0.0)
        and design <= LONGEST_DESIGN
        and proof <= LONGEST_PROOF
        and found.get("rate", math.inf) >= FASTEST
    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    rows = [compared(*asked, loss) for loss in ("l2", "l1") for asked in ASKED]
    if wanted.json:
        print(json.dumps(rows))
    else:
        print("| loss | epsilon, delta | size | best other noise | chosen | less |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            print(
                f"| {row['loss']} | {row['epsilon']:g}, {row['delta']:g} | {row['size']} "
                f"| {row['other_loss']:.6g} ({row['other']}) | {row['upper']:.6g} ({row['shape']}) "
                f"| {row['less']:.1%} |" + ("" if row["passed"] else " MISSED")
            )
        slowest = max(row["design"] for row in rows), max(row["proof"] for row in rows)
        slow = min(row["rate"] for row in rows if "rate" in row)
        print(f"\nlongest design {slowest[0]:.2f} s, longest proof {slowest[1]:.3f} s,", end=" ")
        print(f"least {slow:,.0f} vectors of length 10 a second")
    return int(not all(row["passed"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

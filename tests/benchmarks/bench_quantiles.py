"""Quantiles of incomes: nine at once, and one at a time, beside OpenDP's exponential mechanism.

    python tests/benchmarks/bench_quantiles.py [--data DIR] [--repeats 40] [--bins 5000]
        [--only NAME] [--json]

The mean error of the ranks, at epsilon 1. OpenDP's mechanism has as candidates the ends of the same
bins; for nine quantiles each has a ninth of epsilon. One at a time is repeated ten times as often:
there the two differ by little. Made up are 5,000 incomes of a lognormal law in hundreds, four
times, 1,000 that are all different, and 200 that are far between.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp

from opendp_optimal import make_optimal_quantiles

NINE = [i / 10 for i in range(1, 10)]
BOUNDS = (0.0, 500_000.0)
EPSILON = 1.0


def incomes(data: Path | None) -> dict[str, np.ndarray]:
    """Columns of incomes."""
    drawn = np.random.default_rng(1)
    made = {
        "made up": np.rint(drawn.lognormal(10.5, 0.9, 5000) / 100) * 100,
        "different": np.clip(drawn.lognormal(10.5, 0.9, 1000), *BOUNDS),
        "sparse": drawn.uniform(*BOUNDS, 200),
    }
    for again in (2, 3, 4):
        more = np.random.default_rng(again).lognormal(10.5, 0.9, 5000)
        made[f"made up {again}"] = np.rint(more / 100) * 100
    if data is None:
        return made
    with (data / "income" / "pums_oregon_hincp.csv").open(newline="") as lines:
        oregon = [float(row["HINCP"]) for row in csv.DictReader(lines) if row["HINCP"]]
    with gzip.open(data / "income" / "cps_households.csv.gz", "rt", newline="") as lines:
        cps = [float(row["income"]) for row in csv.DictReader(lines)]
    return {"oregon": np.array(oregon), "cps": np.array(cps), **made}


def rank_error(ordered: np.ndarray, value: float, probability: float) -> float:
    """How far the wanted rank is from those of a value."""
    wanted = probability * len(ordered)
    below, until = (int(np.searchsorted(ordered, value, side)) for side in ("left", "right"))
    return max(0.0, below - wanted, wanted - until)


def errors(data: np.ndarray, asked: Any) -> dict[str, Any]:
    """Mean errors of ranks, for both mechanisms."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    ordered, rows = np.sort(data), data.tolist()
    candidates = np.linspace(*BOUNDS, asked.bins + 1).tolist()

    def native(probability: float, epsilon: float) -> Any:
        def make(scale: float) -> Any:
            return space >> dp.m.then_private_quantile(
                dp.max_divergence(), candidates=candidates, alpha=probability, scale=scale
            )

        return make(dp.binary_search_param(make, d_in=1, d_out=epsilon))

    def mean(releases: Any, probabilities: list[float]) -> float:
        times = asked.repeats * (10 if len(probabilities) == 1 else 1)
        found = [
            rank_error(ordered, value, probability)
            for _ in range(times)
            for value, probability in zip(releases(), probabilities, strict=True)
        ]
        return float(np.mean(found))

    def own(probabilities: list[float]) -> float:
        made = make_optimal_quantiles(*space, BOUNDS, probabilities, 1, EPSILON, bins=asked.bins)
        return mean(lambda: made(rows), probabilities)

    nine = [native(probability, EPSILON / 9) for probability in NINE]
    single = {p: native(p, EPSILON) for p in NINE}
    return {
        "records": len(data),
        "nine_exponential": mean(lambda: [m(rows) for m in nine], NINE),
        "nine": own(NINE),
        "one_exponential": float(
            np.mean([mean(lambda m=m: [m(rows)], [p]) for p, m in single.items()])
        ),
        "one": float(np.mean([own([p]) for p in NINE])),
    }


def main() -> None:
    """Print a line for each column."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--bins", type=int, default=5000)
    parser.add_argument("--only", help="one column: oregon, cps, or one that is made up")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    dp.enable_features("contrib")
    columns = incomes(asked.data)
    if asked.only:
        columns = {asked.only: columns[asked.only]}
    found = {name: errors(data, asked) for name, data in columns.items()}
    if asked.json:
        json.dump(found, sys.stdout, indent=2)
        return
    for name, row in found.items():
        print(f"{name}, {row['records']} records; mean errors of ranks")
        for asked_for in ("nine", "one"):
            own, other = row[asked_for], row[f"{asked_for}_exponential"]
            print(f"  {asked_for:<6}{own:8.2f}, exponential {other:8.2f}, ratio {own / other:.2f}")


if __name__ == "__main__":
    main()

"""What the posterior of a large table costs.

    python tests/benchmarks/bench_posterior.py [side]

A square grid of counts in which neighbours are alike, released with geometric noise. Exits with 1
if medians, means and intervals of a million cells take more than 2 s of processor time without
structure, 10 s with neighbours, or 2 GiB of memory; or if the time is not linear in the number of
distinct values.
"""

import math
import resource
import sys
import time
import warnings

import numpy as np

from opendp_optimal.extend import known
from opendp_optimal_bayes import PosteriorWarning, posterior

SIDE = 1000
MOST = {None: 2.0, "neighbours": 10.0}
MEMORY = 2.0
EPSILONS = (0.1, 1.0)
DISTINCT = (20_000, 80_000)
LINEAR = 1.5


def counts(side: int, rng: np.random.Generator) -> np.ndarray:
    """Cities of many sizes on an empty plain."""
    axes = np.meshgrid(np.arange(side), np.arange(side), indexing="ij", sparse=True)
    rate = np.full((side, side), 0.02)
    for size in 40.0 / np.arange(1, 31):
        x, y, wide = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(2, 20) * side / 1000
        rate += size * np.exp(-((axes[0] - x) ** 2 + (axes[1] - y) ** 2) / (2 * wide**2))
    return rng.poisson(rate)


def timed(released: np.ndarray, law: known.Law, like: str | None) -> float:
    """Processor time of all that is said of every cell."""
    began = time.process_time()
    found = posterior(released, law, like=like)
    found.median, found.mean, found.interval(0.9)
    return time.process_time() - began


def main() -> int:
    side = int(sys.argv[1]) if len(sys.argv) > 1 else SIDE
    warnings.simplefilter("ignore", PosteriorWarning)
    rng = np.random.default_rng(0)
    true, kept = counts(side, rng), True
    for epsilon in EPSILONS:
        p = -math.expm1(-epsilon)
        released = true + rng.geometric(p, true.shape) - rng.geometric(p, true.shape)
        for like, most in MOST.items():
            seconds = timed(released, known.Geometric(epsilon), like)
            kept &= seconds <= most or side != SIDE
            print(f"{true.size:,} cells, epsilon {epsilon:g}, like {like}: {seconds:.2f} s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    kept &= memory <= MEMORY
    print(f"peak memory {memory:.2f} GiB")
    each = []
    for distinct in DISTINCT:
        spread = np.exp(rng.uniform(0, np.log(1000.0 * distinct), 2 * distinct))
        released = spread + rng.laplace(0, 1, 2 * distinct)
        count = len(np.unique(np.rint(released * 32)))
        each.append(timed(released, known.Laplace(1.0), None) / count)
        print(f"{count:,} distinct values of sums: {each[-1] * 1e6:.1f} microseconds each")
    kept &= each[1] <= LINEAR * each[0]
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

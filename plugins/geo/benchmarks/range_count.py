"""A range count with ten doubling looks over many users, beside plain numpy normals in one run.

    python plugins/geo/benchmarks/range_count.py --users 10000000

Prints users x looks per second of processor time, the time numpy takes for as many standard
normals drawn in chunks of the same size, their ratio, and the largest memory the process held.
"""

import argparse
import json
import resource
import time

import numpy as np

from opendp_optimal_geo import Population, rectangle

CHUNK = 1 << 17


def normals(count: int) -> float:
    """Return processor seconds for drawing plain normals (a yardstick, not a release)."""
    rng = np.random.default_rng()
    begin = time.process_time()
    for start in range(0, count, CHUNK):
        rng.standard_normal(min(CHUNK, count - start))
    return time.process_time() - begin


def crowd(users: int) -> np.ndarray:
    """Return simulated points, 20 km around a city's centre."""
    rng = np.random.default_rng(0)
    points = np.empty((users, 2), np.float32)
    for start in range(0, users, CHUNK):
        part = points[start : start + CHUNK]
        part[:] = rng.standard_normal(part.shape) * 10_000.0
    return points


def run(users: int, method: str, budget: float, repeat: int) -> dict[str, object]:
    """Return what one range count costs: the run with the median ratio."""
    points = crowd(users)
    region = rectangle((2000.0, 1000.0), 8000.0, 5000.0, angle=30.0)
    numbers = 2 if method == "point" else 1
    normals(1 << 20)
    results = []
    for _ in range(repeat):
        people = Population(points, budget=budget)
        begin = time.process_time()
        answer = people.range_count(region, budget=budget, method=method, looks=("doubling", 10))
        seconds = time.process_time() - begin
        asked = sum(r.asked for r in answer.rounds)
        results.append((seconds, normals(asked * numbers)))
    results.sort(key=lambda pair: pair[0] / pair[1])
    seconds, yardstick = results[len(results) // 2]
    return {
        "users": users,
        "method": method,
        "budget": budget,
        "looks": len(answer.rounds),
        "users_x_looks": asked,
        "draws": asked * numbers,
        "seconds": round(seconds, 3),
        "users_x_looks_per_second": round(asked / seconds),
        "numpy_normals_seconds": round(yardstick, 3),
        "ratio": round(seconds / yardstick, 2),
        "ratios": [round(a / b, 2) for a, b in results],
        "saving": round(answer.saving, 4),
        "bytes_per_user_between_queries": people.bytes_per_user,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=10_000_000)
    parser.add_argument("--method", choices=["point", "distance", "both"], default="both")
    parser.add_argument("--budget", type=float, nargs="+", default=[1e-6, 1e-4])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    methods = ["distance", "point"] if options.method == "both" else [options.method]
    for budget in options.budget:
        for method in methods:
            result = run(options.users, method, budget, options.repeat)
            if options.json:
                print(json.dumps(result))
            else:
                print("  ".join(f"{name} {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()

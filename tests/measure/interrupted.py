"""Releases under a rain of SIGINT; run as a process of its own, which must come to its end.

Prints how many calls were interrupted and how many came through. A handler raises only while a
call is under way, so that the loop itself survives.
"""

import json
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import opendp.prelude as dp

import opendp_optimal  # noqa: F401 (enrols)
from opendp_optimal import make_joint, make_optimal_noise, then_optimal_noise
from opendp_optimal.extend import make_measurement, postprocess

dp.enable_features("contrib", "honest-but-curious")

under_way = False


def interrupt(*_: Any) -> None:
    if under_way:
        raise KeyboardInterrupt


def work() -> dict[str, Callable[[], Any]]:
    """What is interrupted: chains, so that everything goes through OpenDP's library."""
    numbers = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    total = numbers >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum()
    noisy = total >> then_optimal_noise(total.map(1), (1.0, 1e-6))
    words = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counts = words >> dp.t.then_count_by_categories(["a", "b", "c"])
    histogram = counts >> then_optimal_noise(counts.map(1), 1.0)
    slow = make_measurement(
        *total.output_space, dp.max_divergence(), lambda x: [x, sum(range(300))], float, "Vec<f64>"
    )
    chained = postprocess(total >> slow, lambda x: {"sum": x}, "ExtrinsicObject")
    plane = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=10), dp.l2_distance(T=float)
    away = make_optimal_noise(*plane, 1.0, (1.0, 1e-6), loss="l2")
    together = make_joint([total, numbers >> dp.t.then_count()], 1, (1.0, 1e-6))
    data, letters = [0.5] * 200, ["a", "b"] * 100
    return {
        "scalar": lambda: noisy(data),
        "vector": lambda: histogram(letters),
        "radial": lambda: away(data[:10]),
        "joint": lambda: together(data),
        "plugin": lambda: chained(data),
        "map": lambda: (noisy.map(1), histogram.map(1), chained.map(1)),
    }


def one(call: Callable[[], Any]) -> bool:
    global under_way
    try:
        under_way = True
        call()
        under_way = False
    except KeyboardInterrupt:
        under_way = False
        return False
    return True


def main(seconds: float) -> None:
    signal.signal(signal.SIGINT, interrupt)
    calls = work()
    seen = {name: [0, 0] for name in calls}
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, call in calls.items():
            try:
                seen[name][one(call)] += 1
            except KeyboardInterrupt:  # a second one, on the way out
                seen[name][0] += 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python resets handlers on its way out
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))

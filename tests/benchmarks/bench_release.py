"""What a release and an import cost beside OpenDP's own, on the same machine in the same run.

    python tests/benchmarks/bench_release.py

Exits with 1 if a target of the project is missed: a scalar release at most as expensive as native
``make_laplace``, a vector of a million at least 50 times cheaper, an import at most 0.3 s more than
that of OpenDP and without the solver.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import opendp.prelude as dp

from opendp_optimal import make_optimal_noise, then_optimal_noise

dp.enable_features("contrib", "honest-but-curious")

FLOAT = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
INT = dp.atom_domain(T=int), dp.absolute_distance(T=int)
FLOATS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
INTS = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
TARGET = (1.0, 1e-6)
VECTOR = 1_000_000
NATIVE_VECTOR = 50_000
"""Native vector noise is linear in the length; a twentieth of it is measured and scaled up."""

SAME = 1.05
"""Most of a chain's time is OpenDP's own and the same for both: this is what a run can tell."""


def alternate(functions: dict[str, Callable[[], Any]], rounds: int, inner: int) -> dict[str, float]:
    """Return the median seconds of one call, taking turns so that both see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            started = time.perf_counter()
            for _ in range(inner):
                function()
            times[name].append((time.perf_counter() - started) / inner)
    return {name: statistics.median(values) for name, values in times.items()}


def scalar(space: Any, value: Any) -> dict[str, float]:
    native = dp.m.make_laplace(*space, scale=1.0)
    gaussian = dp.m.make_gaussian(*space, scale=1.0)
    ours = make_optimal_noise(*space, value, TARGET)
    calls = {
        "laplace": lambda: native(value),
        "gaussian": lambda: gaussian(value),
        "optimal": lambda: ours(value),
    }
    return alternate(calls, rounds=30, inner=100)


def chained() -> dict[str, dict[str, float]]:
    """A count and a sum behind transformations: OpenDP's way there and back for both."""
    ints = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    floats = dp.vector_domain(FLOAT[0]), dp.symmetric_distance()
    count = ints >> dp.t.then_count()
    total = floats >> dp.t.then_clamp((0.0, 1.0)) >> dp.t.then_sum()
    out = {}
    for name, chain, data in (("count", count, [1, 2, 3]), ("sum", total, [0.1, 0.2, 0.3])):
        native = chain >> dp.m.then_laplace(scale=1.0)
        ours = chain >> then_optimal_noise(chain.map(1), TARGET)
        calls = {"laplace": partial(native, data), "optimal": partial(ours, data)}
        out[name] = alternate(calls, rounds=100, inner=50)
    return out


def vector(space: Any, dtype: Any) -> dict[str, float]:
    native = dp.m.make_laplace(*space, scale=1.0)
    ours = make_optimal_noise(*space, dtype(1).item(), TARGET, changed=1)
    short, long = np.zeros(NATIVE_VECTOR, dtype), np.zeros(VECTOR, dtype)
    found = alternate({"laplace": lambda: native(short)}, rounds=3, inner=1)
    found["laplace"] *= VECTOR / NATIVE_VECTOR
    return found | alternate({"optimal": lambda: ours(long)}, rounds=5, inner=1)


def imports(rounds: int = 7) -> dict[str, float]:
    """Return the median seconds of a fresh process that imports, one after the other."""

    def process(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    def both() -> dict[str, float]:
        opendp = process("import opendp.prelude")
        ours = process(
            "import opendp.prelude, opendp_optimal, sys; assert 'highspy' not in sys.modules"
        )
        return {"opendp": opendp, "opendp_optimal": ours}

    both()
    runs = [both() for _ in range(rounds)]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> int:
    missed = []
    for kind, space, value in (("float", FLOAT, 1.0), ("int", INT, 1)):
        times = scalar(space, value)
        shown = ", ".join(f"{name} {1e6 * t:.0f} us" for name, t in times.items())
        ratio = times["optimal"] / times["laplace"]
        print(f"scalar {kind}: {shown}; optimal / laplace {ratio:.2f}")
        if ratio > 1:
            missed.append(f"scalar {kind}")
    for name, times in chained().items():
        shown = ", ".join(f"{which} {1e6 * t:.0f} us" for which, t in times.items())
        ratio = times["optimal"] / times["laplace"]
        print(f"{name} in a chain: {shown}; optimal / laplace {ratio:.2f}")
        if ratio > SAME:
            missed.append(f"{name} in a chain")
    for kind, space, dtype in (("float", FLOATS, np.float64), ("int", INTS, np.int32)):
        times = vector(space, dtype)
        ratio = times["laplace"] / times["optimal"]
        print(
            f"vector of {VECTOR} {kind}: laplace {times['laplace']:.2f} s (scaled up from "
            f"{NATIVE_VECTOR}), optimal {times['optimal']:.3f} s; {ratio:.0f} times less"
        )
        if ratio < 50:
            missed.append(f"vector {kind}")
    times = imports()
    more = times["opendp_optimal"] - times["opendp"]
    print(
        f"import: opendp {times['opendp']:.2f} s, with opendp_optimal "
        f"{times['opendp_optimal']:.2f} s, {more:.2f} s more"
    )
    if more > 0.3:
        missed.append("import")
    for name in missed:
        print(f"target missed: {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

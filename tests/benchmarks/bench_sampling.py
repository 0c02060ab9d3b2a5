"""Time ``NoiseTable.draw`` against OpenDP's own vector Laplace measurement, and measure its memory.

    python tests/benchmarks/bench_sampling.py [--size 1000000] [--peer-size 20000] [--json]

Both run here, in one process on one core. The peer releases a vector of zeros, which is the only
way to get at its noise; its vector is shorter because it takes so long, and rates are per second.
Memory is the peak of what ``draw`` allocates, for requests of several sizes: it is linear when the
bytes per sample do not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is loaded


def rate(call: Callable[[], object], size: int, repeats: int) -> float:
    """Return samples per second, from the median time after one call to warm up."""
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return size / statistics.median(times)


def peer_rates(size: int, repeats: int) -> dict[str, float]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    rates = {}
    for name, kind, zero in (("float", float, 0.0), ("int", int, 0)):
        atom = dp.atom_domain(T=kind, nan=False) if kind is float else dp.atom_domain(T=kind)
        space = dp.vector_domain(atom), dp.l1_distance(T=kind)
        release = dp.m.make_laplace(*space, scale=1.0)
        values = [zero] * size
        rates[name] = rate(lambda m=release, v=values: m(v), size, repeats)
    return rates


def peak_bytes(draw: Callable[[int], object], size: int) -> int:
    tracemalloc.start()
    try:
        kept = draw(size)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del kept
    return peak


def measure(options: argparse.Namespace, report: Callable[[str], None]) -> dict[str, Any]:
    from opendp_optimal.search.noise import solve

    report("solving")
    integer = solve(epsilon=1.0, delta=1e-6, integer_sensitivity=1)
    real = solve(epsilon=1.0, delta=1e-6)
    steps = (1 << 20) + 1  # odd; a fine grid inside each cell, as when floats are released
    draws: dict[str, Callable[[int], object]] = {
        "integer": lambda n: integer.draw(n),
        "real, cells": lambda n: real.draw(n),
        "real, fine grid": lambda n: real.draw(n, steps=steps),
    }
    ours = {}
    for name, draw in draws.items():
        report(f"drawing: {name}")
        ours[name] = rate(lambda d=draw: d(options.size), options.size, options.repeats)
    report("OpenDP's vector Laplace")
    peer = peer_rates(options.peer_size, options.repeats)
    report("memory")
    memory = {
        name: {
            str(n): peak_bytes(draw, n) / n
            for n in (options.size // 10, options.size, 4 * options.size)
        }
        for name, draw in draws.items()
    }
    # At most linear: the largest request takes no more per sample than the smallest.
    per_size = [list(found.values()) for found in memory.values()]
    linear = all(values[-1] <= 1.25 * values[0] for values in per_size)
    return {
        "samples_per_second": ours,
        "peer_samples_per_second": peer,
        "least_ratio": min(ours.values()) / max(peer.values()),
        "ratio_real_to_float": ours["real, fine grid"] / peer["float"],
        "ratio_integer_to_int": ours["integer"] / peer["int"],
        "peak_bytes_per_sample": memory,
        "memory_linear": linear,
    }


def print_result(result: dict[str, Any]) -> None:
    for name, value in result["samples_per_second"].items():
        print(f"draw, {name:<17} {value:14,.0f} samples/s")
    for name, value in result["peer_samples_per_second"].items():
        print(f"OpenDP Laplace, {name:<7} {value:14,.0f} samples/s")
    print(f"real against float     {result['ratio_real_to_float']:13.0f}x")
    print(f"integer against int    {result['ratio_integer_to_int']:13.0f}x")
    print(f"slowest against fastest {result['least_ratio']:12.0f}x")
    for name, sizes in result["peak_bytes_per_sample"].items():
        listed = ", ".join(f"{value:.1f} at {int(n):,}" for n, value in sizes.items())
        print(f"peak bytes per sample, {name}: {listed}")
    print("memory is linear" if result["memory_linear"] else "memory is NOT linear")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000, help="samples of one draw")
    parser.add_argument("--peer-size", type=int, default=20_000, help="length of the peer's vector")
    parser.add_argument("--repeats", type=int, default=5, help="timed calls; the median counts")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        result = measure(options, lambda text: status.update(text))
    if options.json:
        json.dump(result, sys.stdout)
        print()
    else:
        print_result(result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

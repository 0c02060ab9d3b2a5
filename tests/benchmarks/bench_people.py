"""What a ledger adds to a range count over many people, on the same machine in the same run.

    python tests/benchmarks/bench_people.py [people]

Exits with 1 if a range count of ten doubling looks over 10 million people with a ledger costs more
than 1.5 times one without, in processor time or by the clock. Opening is shown beside: identifiers
are hashed, and people are looked up in the ledger, in the same order and in another.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from opendp_optimal.budget import open_ledger
from opendp_optimal_geo import Population, RangeCount, rectangle

PEOPLE = 10_000_000
MOST = 1.5
ROUNDS = 2
T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[T, float, float]:
    """Return what a function returns, its processor time and its time."""
    clock, processor = time.perf_counter(), time.process_time()
    value = function()
    return value, time.process_time() - processor, time.perf_counter() - clock


def main() -> int:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    rng = np.random.default_rng(0)
    homes, ids = rng.normal(0.0, 3000.0, (people, 2)), np.arange(people)
    query = RangeCount(rectangle((0, 0), 4000, 2000, angle=30))
    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(Path(folder) / "budgets.db")
        options: dict[str, Any] = {"budget": 1e-3}
        alone = Population(homes, **options)
        options |= {"ledger": ledger, "ids": ids}
        kept, *first = timed(lambda: Population(homes, **options))
        print(f"{'':28}{'processor':>10}{'clock':>10}")
        print(f"{'opened, everybody joins':28}{first[0]:>9.1f}s{first[1]:>9.1f}s")
        times: dict[str, list[tuple[float, float]]] = {"without": [], "with a ledger": []}
        for _ in range(ROUNDS):
            for name, who in (("without", alone), ("with a ledger", kept)):
                _, *spent = timed(lambda who=who: who.ask(query, budget=1e-4))
                times[name].append((spent[0], spent[1]))
        least = {name: [min(each) for each in zip(*t, strict=True)] for name, t in times.items()}
        for name, (processor, clock) in least.items():
            print(f"{'range count, ' + name:28}{processor:>9.1f}s{clock:>9.1f}s")
        ratios = [b / a for a, b in zip(least["without"], least["with a ledger"], strict=True)]
        print(f"{'ratio (at most 1.5)':28}{ratios[0]:>10.2f}{ratios[1]:>10.2f}")
        order = rng.permutation(people)
        again: dict[str, Any] = {**options, "ids": ids}
        for name, rows in (("in the same order", slice(None)), ("in another order", order)):
            again["ids"] = ids[rows]
            other, *spent = timed(lambda r=rows: Population(homes[r], **again))
            print(f"{'opened, ' + name:28}{spent[0]:>9.1f}s{spent[1]:>9.1f}s")
            assert (other.allowances.paid == kept.allowances.paid[rows]).all()
        _, *spent = timed(ledger.verify)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        print(f"{'verified':28}{spent[0]:>9.1f}s{spent[1]:>9.1f}s")
        print(f"ledger: {size / people:.1f} bytes for each person, {ledger.generation} lines")
        ledger.close()
    return int(max(ratios) > MOST)


if __name__ == "__main__":
    sys.exit(main())

"""Table 2 of Selvi, Liu, Wiesemann (2024): naive Bayes with private statistics on 13 UCI sets.

    python -m docs.reproduce.selvi.naive_bayes --data DIR [--quick] [--page PAGE]

Each statistic gets (1, 0.1). 100 random splits (80 % for training) and 1,000 draws of the noise
for each of them, fewer with --splits and --draws.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from docs.reproduce.report import CONSOLE, arguments, write
from docs.reproduce.selvi import uci, uci_bayes
from docs.reproduce.selvi.bayes_page import MANY, TARGET, VARIANTS, Found, page
from docs.reproduce.selvi.simulate_bayes import (
    LONGEST,
    BayesTask,
    Rules,
    errors,
    exact_errors,
    noise_sizes,
)

NOISES = (
    "gaussian",
    "analytic-gaussian",
    "truncated-laplace",
    "optimal",
    "optimal-bounded",
)
LEAST_DRAWS, QUICK_LONGEST = 50, 4
"""With fewer draws than this, only short tables of data-dependent noise are made."""
TRIAL = (20, 250)
"""Splits and draws for what is not part of the table."""
OTHERS, LARGE = 1000, 10_000
"""Other splits for errors without noise; a hundred for data sets with so many records."""
BATCH = 5


@dataclass(frozen=True)
class Job:
    """Some splits of one data set, for one process; ``variant`` is empty for the table itself."""

    name: str
    data: Path
    seeds: Sequence[int]
    draws: int
    longest: int
    variant: str = ""

    def run(self) -> tuple[list[list[list[float]]], float]:
        """Results of each split, and the seconds of processor time."""
        began = time.process_time()
        found = [one_split(self, seed) for seed in self.seeds]
        return found, time.process_time() - began


@lru_cache(maxsize=1)
def loaded(name: str, data: Path) -> uci.Mixed:
    """One data set, read once."""
    return uci_bayes.load(name, data)


def task_of(job: Job, rng: np.random.Generator, rules: Rules) -> BayesTask:
    """A random split."""
    data = loaded(job.name, job.data)
    train = np.ones(data.rows, dtype=bool)
    train[rng.permutation(data.rows)[: int(0.2 * data.rows)]] = False
    return BayesTask.of(data, train, rules, job.longest)


def one_split(job: Job, seed: int) -> list[list[float]]:
    """Means and deviations over draws of both errors, for every noise and without noise."""
    rng = np.random.default_rng([seed, 2])
    rules, noises = VARIANTS[job.variant] if job.variant else (Rules(), NOISES)
    task = task_of(job, rng, rules)
    found = errors(task, noises, *TARGET, job.draws, rng).tolist() if noises else []
    return [*found, [*exact_errors(task).tolist(), 0.0, 0.0]]


def sizes(job: Job) -> list[list[float]]:
    """Sizes of optimal noise and of data-dependent noise, on the first split."""
    rng = np.random.default_rng([0, 2])
    task = task_of(job, rng, Rules())
    found: list[list[float]] = noise_sizes(task, NOISES[3:], *TARGET, job.draws, rng).tolist()
    return found


def measure(pool: ProcessPoolExecutor, job: Job) -> tuple[list[list[list[float]]], float, float]:
    """All splits of one data set; seconds on the clock and of processor time."""
    began = time.perf_counter()
    seeds = [job.seeds[i : i + BATCH] for i in range(0, len(job.seeds), BATCH)]
    jobs = [Job(job.name, job.data, s, job.draws, job.longest, job.variant) for s in seeds]
    parts = list(pool.map(Job.run, jobs))
    splits = [split for part, _ in parts for split in part]
    return splits, time.perf_counter() - began, sum(seconds for _, seconds in parts)


def main() -> None:
    """Simulate and write or print the page."""
    parser = arguments(__doc__)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", action="append", choices=uci.NAMES, help="some data sets")
    parser.add_argument("--keep", type=Path, help="keep results here, and go on from there")
    given = parser.parse_args()
    splits, draws, workers, trial = given.splits, given.draws, given.workers, TRIAL
    names = tuple(given.only or uci.NAMES)
    if given.quick:
        splits, draws, workers, names = 3, 20, 1, ("post-operative", "breast-cancer", "ecoli")
    trial = min(trial[0], splits), min(trial[1], draws)
    longest = QUICK_LONGEST if draws < LEAST_DRAWS else LONGEST
    key = f"{splits} splits, {draws} draws"
    kept = json.loads(given.keep.read_text()) if given.keep and given.keep.exists() else {}
    store = {key: kept.get(key, {})}
    # One thread for each process: threads of the matrix products would wait for each other.
    with ProcessPoolExecutor(workers, initializer=threadpool_limits, initargs=(1,)) as pool:
        for name in track(names, description="data sets", console=CONSOLE):
            for variant in ("", *VARIANTS):
                if f"{name} {variant}" in store[key]:
                    continue
                seeds, times = range(splits), draws
                if variant == MANY:
                    others = OTHERS if loaded(name, given.data).rows < LARGE else splits
                    seeds = range(splits, splits + min(others, 10 * splits))
                elif variant:
                    seeds, times = range(trial[0]), trial[1]
                job = Job(name, given.data, seeds, times, longest, variant)
                store[key][f"{name} {variant}"] = measure(pool, job)
                if given.keep:
                    given.keep.write_text(json.dumps(store))
    command = f"python -m docs.reproduce.selvi.naive_bayes --data DIR{' --quick' * given.quick}"
    if (splits, draws) != (100, 1000) and not given.quick:
        command += f" --splits {splits} --draws {draws}"
    found = Found(
        {name: np.array(store[key][f"{name} "][0]) for name in names},
        {v: {n: np.array(store[key][f"{n} {v}"][0]) for n in names} for v in VARIANTS},
        {name: tuple(store[key][f"{name} "][1:]) for name in names},
        {
            name: np.array(sizes(Job(name, given.data, (), draws, longest)))
            for name in names
            if loaded(name, given.data).units
        },
        (splits, draws, workers),
        trial,
    )
    write(page(found, command, given.page), given.page)


if __name__ == "__main__":
    main()

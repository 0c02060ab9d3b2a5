"""How wide windows of the predictor should be, on tables that are nowhere else on the page."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from docs.reproduce import report
from docs.reproduce.posterior import tables, trials
from docs.reproduce.posterior.runs import Trials
from docs.reproduce.posterior.tables import BOTH, Counts, Floats, Like
from opendp_optimal.extend import known
from opendp_optimal_bayes.table_posterior import varying

SIZES = (400, 800, 1500, 3000)
DRAWS = 3


def _clients(folder: Path) -> Counts:
    """Clients of a bank by year of age and balance."""
    rows = tables.rows(folder, "uci/bank_full.csv.gz")
    age = np.array([float(row["age"]) for row in rows])
    balance = np.array([float(row["balance"]) for row in rows])
    low, high = np.quantile(balance, [0.005, 0.995])
    at = [np.clip(age - 18, 0, 69).astype(np.int64), tables._cut(balance, 100, low, high)]
    return tables._counted(np.ravel_multi_index(at, (70, 100)), (70, 100))


def _digits(folder: Path) -> Counts:
    """How often a pixel is dark, by digit, in eighths of the pictures."""
    read = [
        gzip.decompress((folder / "mnist" / name).read_bytes())
        for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    ]
    pictures = np.frombuffer(read[0], np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer(read[1], np.uint8, offset=8)
    dark = [(pictures[labels == digit] > 128).sum(axis=0) // 8 for digit in range(10)]
    return np.stack(dark, axis=2).astype(np.int64)


OTHERS: dict[str, Callable[[Path], tuple[Counts, tuple[Like, ...]]]] = {
    "clients of a bank by age and balance": lambda d: (
        _clients(d),
        ("margins", "neighbours", BOTH),
    ),
    "adult by occupation, relationship, education and race": lambda d: (
        tables.people(d, "occupation", "relationship", "education", "race"),
        ("margins",),
    ),
    "pixels of digits": lambda d: (_digits(d), ("margins", "neighbours")),
    "accidents on a grid of 80 x 80": lambda d: (tables.accidents(d, 80), ("neighbours", BOTH)),
    "and 140 x 140": lambda d: (tables.accidents(d, 140), ("neighbours",)),
    "collisions on a grid of 80 x 80": lambda d: (tables.collisions(d, 80, 1), ("neighbours",)),
    "and 25 x 25 by 12 times of the day": lambda d: (
        tables.collisions(d, 25, 12),
        ("margins", "neighbours"),
    ),
    "pickups on a grid of 75 x 75": lambda d: (tables.pickups(d, 75), ("neighbours",)),
}


def _made_up(folder: Path) -> tuple[Counts, tuple[Like, ...]]:
    return tables.accidents(folder, 48), ("neighbours",)


def _errors(true: Counts, likes: Sequence[Like], epsilon: float, draw: int) -> dict[str, Any]:
    """Mean absolute errors for each width, and of strata last, by likeness."""
    released = trials.release(true, epsilon, [9001, draw, int(100 * epsilon), true.size])
    law, usual, out = known.Geometric(epsilon), varying.ENOUGH, {}
    for like in likes:
        errors = []
        try:
            for varying.ENOUGH in SIZES:
                found = trials.quietly(released, law, like=like)
                errors.append(float(np.abs(found.median - true).mean()))
        finally:
            varying.ENOUGH = usual
        if found.predictor is not None:
            strata = trials.strata(released, law, found.predictor)
            out[trials.named(like)] = [*errors, float(np.abs(strata - true).mean())]
    return out


def windows(runs: Trials) -> list[str]:
    """Errors over those of strata, on average over tables and likenesses."""
    quick = runs.given.quick
    chosen = {"made-up": _made_up} if quick else OTHERS
    found: dict[float, list[Floats]] = {}
    for name, make in chosen.items():
        true, likes = make(runs.given.data)
        for epsilon in runs.epsilons:
            every = [
                runs.store.get(
                    f"windows {name} {epsilon} {draw}",
                    partial(_errors, true, likes, epsilon, draw),
                )[0]
                for draw in range(1 if quick else DRAWS)
            ]
            for like in every[0]:
                mean = np.mean([each[like] for each in every], axis=0)
                found.setdefault(epsilon, []).append(mean[:-1] / mean[-1])
    lines = [
        [epsilon, f"{len(each)}", *(f"{v:.3f}" for v in np.mean(each, axis=0))]
        for epsilon, each in [
            *((f"{e:g}", each) for e, each in found.items()),
            ("all", [ratio for each in found.values() for ratio in each]),
        ]
    ]
    note = (
        f"Mean errors over those of sixteen strata of the same predictor, {DRAWS} releases each of "
        f"{len(OTHERS)} tables that are nowhere else on this page: {', '.join(OTHERS)}. Windows "
        "hold so many cells; 1,500 is the default."
    )
    head = ["epsilon", "cases", *(f"{size:,} cells" for size in SIZES)]
    return [note, "", *report.markdown(head, lines)]

"""What was measured of each table, and how it is summed up."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from docs.reproduce import report
from docs.reproduce.posterior import tables, trials

FEW_DRAWS = 100
CLOSE_DRAWS = 100
EPSILONS = (0.1, 0.5, 1.0)
LIKES = ("margins", "neighbours", "both")


class Trials:
    """What was measured, and what still has to be."""

    def __init__(self, given: argparse.Namespace) -> None:
        """Take up earlier results."""
        self.given = given
        self.store = report.Results(given.results)
        self.draws = 2 if given.quick else given.draws
        self.epsilons = (0.5,) if given.quick else EPSILONS

    @cache  # noqa: B019
    def counts(self, table: tables.Table) -> tables.Counts:
        """The true counts of a table."""
        return table.make(self.given.data)

    def of(self, name: str, table: tables.Table, epsilon: float) -> list[Any]:
        """All trials of a table."""

        def one(draw: int) -> Any:
            seed = seed_of(name, epsilon, draw)
            return trials.trial(self.counts(table), epsilon, table.likes, seed)

        return [
            self.store.get(f"trial {name} {epsilon} {draw}", partial(one, draw))[0]
            for draw in range(self.draws)
        ]

    def close(self, name: str, table: tables.Table, epsilon: float, way: str) -> list[Any]:
        """Errors beside those of strata in further releases, for a close call."""
        like = next(like for like in table.likes if trials.named(like) == way)
        return [
            self.store.get(
                f"close {name} {epsilon} {way} {draw}",
                partial(
                    trials.strata_trial,
                    self.counts(table),
                    epsilon,
                    like,
                    seed_of(name, epsilon, draw),
                ),
            )[0]
            for draw in range(self.draws, self.draws if self.given.quick else CLOSE_DRAWS)
        ]

    def few(self, name: str, table: tables.Table, epsilon: float) -> dict[str, float]:
        """All trials of a small table."""
        count = 5 if self.given.quick else FEW_DRAWS
        seeds = [seed_of(name, epsilon, draw) for draw in range(count)]
        found: dict[str, float] = self.store.get(
            f"few {name} {epsilon} {count}",
            lambda: trials.few_trial(self.counts(table), epsilon, seeds),
        )[0]
        return found

    def sums(self, name: str, table: tables.Table, epsilon: float) -> dict[str, Any]:
        """All trials of sums: for each kind of region the lists of what was measured."""
        found: dict[str, Any] = {}
        for draw in range(self.draws):
            seed = seed_of(name, epsilon, draw)
            one = self.store.get(
                f"sums {name} {epsilon} {draw}",
                partial(trials.sum_trial, self.counts(table), epsilon, seed),
            )[0]
            for kind, values in one.items():
                found.setdefault(kind, []).append(values)
        return found


def seed_of(name: str, epsilon: float, draw: int) -> list[int]:
    """The seed of a release."""
    return [sum(map(ord, name)), int(100 * epsilon), draw]


def _quick() -> tables.Table:
    return tables.Table("made up, 24 x 24", lambda folder: tables.accidents(folder, 24), LIKES[1:2])


def chosen(given: argparse.Namespace, all_tables: Mapping[str, tables.Table]) -> Any:
    """The tables of a part; one of its own in the quick version."""
    return {"made-up": _quick()} if given.quick else all_tables


def values(found: Sequence[Any], way: str, what: str) -> Any:
    """One number of all trials that have it."""
    return np.array([t[way][what] for t in found if way in t and what in t[way]])


def ratio_of_means(over: Any, under: Any) -> tuple[float, float]:
    """A ratio of means, and its standard error."""
    out = float(over.mean() / under.mean())
    spread = (over - out * under).std(ddof=1) / math.sqrt(len(over)) / under.mean()
    return out, float(spread)


def ratio(found: Sequence[Any], way: str, base: str, what: str = "absolute") -> tuple[float, float]:
    """The ratio of two ways, and its standard error."""
    return ratio_of_means(values(found, way, what), values(found, base, what))


def shown(pair: tuple[float, float]) -> str:
    """A number and its standard error."""
    return f"{pair[0]:.3f} ± {pair[1]:.3f}"

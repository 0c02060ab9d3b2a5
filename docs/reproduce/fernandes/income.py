"""Truncated Laplace approaches the optimum on real priors: household incomes.

For each number of steps N the prior is gathered onto {0, 1/N, ..., 1}; the least possible loss is
certified by the channel programme where it is small enough, and equals that of the geometric
mechanism after the best remap; truncated Laplace loses a little more, ever less as N grows.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from opendp_optimal.extend import Floats, known, positive, whole
from opendp_optimal_bayes.constructions import laplace_excess_bound
from opendp_optimal_bayes.optimal import optimal_channel

FILES = {
    "cps": ("income/cps_households.csv.gz", "income", "weight_x100"),
    "oregon": ("income/pums_oregon_hincp.csv", "HINCP", None),
}
LOSSES: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "l1": (np.abs, 1.0),
    "l2": (np.square, 2.0),
}
STEPS = (2, 4, 8, 16, 32, 64)
LARGEST_PROGRAMME = 32
PIXELS = 2048
# What reading a damaged file may raise on the way.
_MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    csv.Error,
    zlib.error,
    gzip.BadGzipFile,
)


@dataclass(frozen=True)
class Row:
    """Losses at one number of steps, for answers scaled to [0, 1].

    :param n: number of steps
    :param lower: certified lower bound of every private mechanism; None where not solved for
    :param upper: certified loss of the best channel; None where not solved for
    :param geometric: loss of the geometric mechanism after the best remap
    :param laplace: loss of truncated Laplace after the best remap
    :param bound: what Theorem 14 allows laplace to exceed the optimum by
    """

    n: int
    lower: float | None
    upper: float | None
    geometric: float
    laplace: float
    bound: float

    @property
    def excess(self) -> float:
        """What truncated Laplace loses beyond the optimum."""
        return self.laplace - self.geometric

    @property
    def ratio(self) -> float:
        """The part of Theorem 14's bound that is used."""
        return self.excess / self.bound


def read_incomes(data: str | Path, name: str) -> tuple[Floats, Floats]:
    """Incomes and their weights from a folder laid out like the project's data.

    :param data: the folder
    :param name: "cps" or "oregon"
    """
    if name not in FILES:
        raise ValueError(f"name ({name!r}) must be one of {', '.join(FILES)}")
    place, column, weight = FILES[name]
    path = Path(data) / place
    if not path.is_file():
        raise ValueError(f"data ({str(data)!r}) must be a folder that holds {place}")
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as lines:
            rows = [
                (float(row[column]), float(row[weight]) if weight else 1.0)
                for row in csv.DictReader(lines)
                if row[column]
            ]
    except _MALFORMED as error:
        raise ValueError(f"{path.name} must be a CSV file with numbers: {error}") from None
    values = np.array(rows).reshape(-1, 2)
    if not len(values) or not np.isfinite(values).all() or (values[:, 1] < 0).any():
        raise ValueError(f"{path.name} must hold finite incomes and weights of at least 0")
    return values[:, 0], values[:, 1]


def prior_of(incomes: Floats, weights: Floats, n: int, top: float) -> Floats:
    """The chance of each n-th part of [0, top], gathered on its left end; nothing on the right.

    :param incomes: clipped to [0, top]
    :param weights: of the incomes
    :param n: number of steps
    :param top: the largest answer
    """
    place = np.minimum((np.clip(incomes, 0.0, top) / top * n).astype(int), n - 1)
    counted = np.bincount(place, weights=weights, minlength=n + 1)
    return np.asarray(counted / counted.sum())


def consumer_loss(prior: Floats, rows: Floats, table: Floats) -> float:
    """The expected loss of a rational consumer.

    :param prior: chances of the answers
    :param rows: the channel
    :param table: loss[w, x]
    """
    return float((table @ (prior[:, None] * rows)).min(axis=0).sum())


def step_rows(n: int, epsilon: float) -> Floats:
    """The n-step geometric mechanism, in floats.

    :param n: number of steps
    :param epsilon: privacy loss from 0 to 1
    """
    at = np.arange(n + 1, dtype=np.float64)
    cuts = known.Geometric(epsilon / n).cdf(at[None, :-1] + 0.5 - at[:, None])
    return np.column_stack([cuts[:, 0], np.diff(cuts, axis=1), 1 - cuts[:, -1]])


def laplace_rows(n: int, epsilon: float, pixels: int) -> Floats:
    """Truncated Laplace on n-step answers, in so many pixels and the two end points.

    :param n: number of steps
    :param epsilon: privacy loss from 0 to 1
    :param pixels: a multiple of n
    """
    x = np.arange(n + 1)[:, None] / n
    cuts = known.Laplace(epsilon).cdf(np.arange(pixels + 1)[None, :] / pixels - x)
    return np.column_stack([cuts[:, 0], np.diff(cuts, axis=1), 1 - cuts[:, -1]])


def compare(
    incomes: Floats,
    weights: Floats,
    *,
    epsilon: float,
    loss: str = "l1",
    top: float = 200_000.0,
    steps: Sequence[int] = STEPS,
) -> Iterator[Row]:
    """Yield the losses for each number of steps.

    :param incomes: the answers that the prior is made of
    :param weights: of the incomes
    :param epsilon: privacy loss from the smallest to the largest answer
    :param loss: "l1" or "l2", of answers scaled to [0, 1]
    :param top: incomes are clipped to [0, top]
    :param steps: numbers of steps
    """
    epsilon, top = positive("epsilon", epsilon), positive("top", top)
    if loss not in LOSSES:
        raise ValueError(f"loss ({loss!r}) must be one of {', '.join(LOSSES)}")
    function, slope = LOSSES[loss]
    for n in steps:
        n = whole("steps", n)
        at = np.arange(n + 1) / n
        table = function(at[:, None] - at)
        prior = prior_of(incomes, weights, n, top)
        lower = upper = None
        if n <= LARGEST_PROGRAMME:
            best = optimal_channel(
                prior=prior.tolist(),
                loss=table.tolist(),
                epsilon=epsilon,
                metric=[[Fraction(abs(x - z), n) for z in range(n + 1)] for x in range(n + 1)],
            )
            lower, upper = best.lower, best.upper
        pixels = n * math.ceil(PIXELS / n)
        yield Row(
            n,
            lower,
            upper,
            consumer_loss(prior, step_rows(n, epsilon), table),
            consumer_loss(prior, laplace_rows(n, epsilon, pixels), table),
            laplace_excess_bound(n, epsilon, slope),
        )

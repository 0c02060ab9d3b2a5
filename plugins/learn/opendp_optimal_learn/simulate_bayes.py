"""Naive Bayes with simulated noise, many draws at a time: Table 2 of the paper.

For simulation only, and not private: sensitivities use the true class counts, and a category
that a class never has in training keeps the count 0, both as the paper's numbers suggest. Draws
come from a seeded generator. The estimator does neither and releases through measurements.

The logarithm of each class's probability is linear in (1, x, x^2, indicators of categories), so
that one product of matrices scores all records under all draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opendp_optimal_learn.laws import STEPS, bounded_law, law, part_of_range
from opendp_optimal_learn.uci import Mixed

__all__ = ["BayesTask", "errors", "exact_errors"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_IMPOSSIBLE = 1e14
"""What a category that a class never has costs: more than all else together."""
_LEAST_COUNT = 1e-3
_CHUNK = 250
_LARGE = 10_000
"""Data sets with more rows than this are scored in single precision."""


@dataclass(frozen=True)
class BayesTask:
    """One split of a data set, and the statistics of its training part.

    ``least`` is the smallest standard deviation, for features scaled to [0, 1]; ``longest`` the
    longest range, in sensitivities, for which tables of data-dependent noise are used.
    """

    data: Mixed
    train: npt.NDArray[np.bool_]
    design: npt.NDArray[np.floating[Any]]
    counts: Floats
    tallies: Floats
    means: Floats
    deviations: Floats
    least: float = 1e-5
    longest: int = STEPS[-1]

    @staticmethod
    def of(data: Mixed, train: npt.NDArray[np.bool_], least: float = 1e-5) -> BayesTask:
        """Compute what the classifier needs to know.

        :param data: all records
        :param train: which of them are for training
        :param least: the smallest standard deviation
        """
        labels = data.labels[train]
        classes = range(data.classes)
        indicators = [np.eye(size)[data.codes[:, j]] for j, size in enumerate(data.sizes)]
        hot = np.hstack(indicators) if indicators else np.zeros((data.rows, 0))
        tallies = np.array([hot[train][labels == c].sum(axis=0) for c in classes])
        counts = np.bincount(labels, minlength=data.classes).astype(float)
        at_least_one = np.maximum(counts, 1.0)[:, None]
        numbers = data.numbers[train]
        means = np.array([numbers[labels == c].sum(axis=0) for c in classes]) / at_least_one
        squares = np.array([(numbers[labels == c] ** 2).sum(axis=0) for c in classes])
        deviations = np.sqrt(np.maximum(squares / at_least_one - means**2, 0.0))
        design = np.hstack([np.ones((data.rows, 1)), data.numbers, data.numbers**2, hot])
        return BayesTask(
            data,
            train,
            design.astype(np.float32 if data.rows > _LARGE else np.float64),
            counts,
            tallies,
            means,
            deviations,
            least,
        )


def errors(
    task: BayesTask,
    noise: str,
    epsilon: float,
    delta: float,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Mean in-sample and out-of-sample error over draws, and the deviations of both.

    :param task: a split and its statistics
    :param noise: a name of :data:`~opendp_optimal_learn.laws.LAWS`, or "optimal-bounded"
    :param epsilon: privacy loss of each statistic
    :param delta: probability of a larger loss, of each statistic
    :param draws: how often to add noise
    :param rng: where the noise comes from
    """
    found = []
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        perturbed = (_bounded if noise == "optimal-bounded" else _additive)(
            task, noise, epsilon, delta, size, rng
        )
        found.append(_errors(task, *perturbed))
    wrong = np.hstack(found)
    return np.concatenate([wrong.mean(axis=1), wrong.std(axis=1)])


def exact_errors(task: BayesTask) -> Floats:
    """In-sample and out-of-sample error without noise.

    :param task: a split and its statistics
    """
    parts = (task.counts, task.tallies, task.means, task.deviations)
    return _errors(task, *(p[..., None] for p in parts))[:, 0]


def _additive(
    task: BayesTask, noise: str, epsilon: float, delta: float, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    sample = law(noise, epsilon, delta).sample
    size = np.maximum(task.counts, 1.0)[:, None, None]

    def noisy(exact: Floats, sensitivity: Floats | float = 1.0) -> Floats:
        return exact[..., None] + sensitivity * sample(rng, (*exact.shape, draws))

    return (
        noisy(task.counts),
        noisy(task.tallies),
        noisy(task.means, 1 / size),
        noisy(task.deviations, 1 / np.sqrt(size)),
    )


def _bounded(
    task: BayesTask, noise: str, epsilon: float, delta: float, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats, Floats]:
    counts, tallies, means, deviations = _additive(task, "optimal", epsilon, delta, draws, rng)
    rows = float(task.train.sum())
    means, deviations = np.clip(means, 0.0, 1.0), np.clip(deviations, 0.0, 0.5)
    for c, size in enumerate(np.maximum(task.counts, 1.0)):
        for out, exact, top, ratio in (
            (means, task.means, 1.0, size),
            (deviations, task.deviations, 0.5, 0.5 * np.sqrt(size)),
        ):
            length = part_of_range(float(ratio), task.longest)
            if length:
                scaled = np.repeat(exact[c][:, None] * (length / top), draws, axis=1)
                released = bounded_law(epsilon, delta, length).release(rng, scaled)
                out[c] = released * (top / length)
    return np.clip(counts, 0, rows), np.clip(tallies, 0, rows), means, deviations


def _errors(
    task: BayesTask, counts: Floats, tallies: Floats, means: Floats, deviations: Floats
) -> Floats:
    """Errors in and out of sample, one column for each draw."""
    counts = np.maximum(counts, 0.5)
    spread = np.maximum(deviations, task.least)
    fits = -0.5 / spread**2
    constant = np.log(counts) * (1 - len(task.data.sizes))
    constant = constant + (fits * means**2 - np.log(spread)).sum(axis=1)
    possible = task.tallies[..., None] > 0
    chances = np.where(possible, np.log(np.maximum(tallies, _LEAST_COUNT)), -_IMPOSSIBLE)
    weights = np.concatenate([constant[:, None], -2 * fits * means, fits, chances], axis=1)
    truth, kind = task.data.labels, task.design.dtype
    if task.data.classes == 2:
        # In a tie of impossible classes the first one wins: it must never lose for that reason.
        weights[1][weights[1] == -_IMPOSSIBLE] *= 1e3
        scores = task.design @ (weights[1] - weights[0]).astype(kind)
        wrong = (scores > 0) != (truth == 1)[:, None]
    else:
        scored = np.stack([task.design @ w.astype(kind) for w in weights])
        scored[scored < -_IMPOSSIBLE / 2] = -np.inf
        wrong = scored.argmax(axis=0) != truth[:, None]
    return np.array([wrong[task.train].mean(axis=0), wrong[~task.train].mean(axis=0)])

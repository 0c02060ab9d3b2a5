"""Naive Bayes with simulated noise, many draws at a time: Table 2 of the paper.

For simulation only, and not private: sensitivities use true class counts, and a category that a
class never has in training keeps the count 0. Draws come from a seeded generator. The estimator
does none of this and releases through measurements.

What the paper does not say is done as the authors' program does it, see :class:`Rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docs.reproduce.selvi.bayes_scores import Records, Statistics, count_errors
from docs.reproduce.selvi.laws import bounded_law, fine_part_of_range, law
from docs.reproduce.selvi.uci import Mixed

__all__ = ["BayesTask", "Rules", "errors", "exact_errors", "noise_sizes"]

Floats = npt.NDArray[np.float64]

LONGEST = 30
"""Ranges of more sensitivities than this have little to gain from data-dependent noise."""
_CHUNK = 250
"""Draws at a time: scores of a block of records for so many draws stay in the cache."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the paper leaves open, as it is in the authors' public program.

    :param whole_units: sensitivities of means and deviations are rounded up to whole units of the
        data, and use class counts of all records and not only of those for training
    :param least_deviation: the smallest standard deviation, in units of the data
    :param least_count: the smallest count
    :param underflow: a density below the smallest positive double is 0, which rules the class
        out; when all classes are ruled out, the first in the file is predicted
    """

    whole_units: bool = True
    least_deviation: float = 1.0
    least_count: float = 1e-6
    underflow: bool = True


@dataclass(frozen=True)
class BayesTask:
    """One split of a data set: its records, its statistics, and how far these may change.

    ``longest`` is the longest range, in sensitivities, for which tables of data-dependent noise
    are used.
    """

    records: Records
    exact: Statistics
    mean_steps: Floats
    deviation_steps: Floats
    least: Floats
    least_count: float
    longest: int = LONGEST

    @staticmethod
    def of(
        data: Mixed,
        train: npt.NDArray[np.bool_],
        rules: Rules | None = None,
        longest: int = LONGEST,
    ) -> BayesTask:
        """Compute what the classifier needs to know.

        :param data: all records
        :param train: which of them are for training
        :param rules: what to do where the paper does not say
        :param longest: the longest range of data-dependent noise
        """
        rules = rules or Rules()
        place = np.argsort(data.order) if data.order else np.arange(data.classes)
        labels = place[data.labels]
        units = np.array(data.units or [1.0] * data.numbers.shape[1])
        least = rules.least_deviation / units
        exact = _statistics(data, labels, train, least)
        counted = labels if rules.whole_units else labels[train]
        sizes = np.maximum(np.bincount(counted, minlength=data.classes), 1.0)[:, None]
        steps = [units / sizes, units / np.sqrt(sizes)]
        if rules.whole_units:
            steps = [np.ceil(step) for step in steps]
        return BayesTask(
            Records.of(data, labels, train, exact.tallies, units if rules.underflow else None),
            exact,
            steps[0] / units,
            steps[1] / units,
            least,
            rules.least_count,
            longest,
        )


def _statistics(
    data: Mixed, labels: npt.NDArray[np.int64], train: npt.NDArray[np.bool_], least: Floats
) -> Statistics:
    """Counts, and the means and deviations of numbers, of each class in training."""
    chosen = np.eye(data.classes)[labels[train]].T
    counts = chosen.sum(axis=1)
    tallies = [chosen @ np.eye(size)[data.codes[train, j]] for j, size in enumerate(data.sizes)]
    at_least_one = np.maximum(counts, 1.0)[:, None]
    numbers = data.numbers[train]
    means = chosen @ numbers / at_least_one
    squares = chosen @ numbers**2 / at_least_one - means**2
    return Statistics(
        counts,
        np.hstack(tallies) if tallies else np.zeros((data.classes, 0)),
        means,
        np.maximum(np.sqrt(np.maximum(squares, 0.0)), least),
    )


def errors(
    task: BayesTask,
    noises: Sequence[str],
    epsilon: float,
    delta: float,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Errors in and out of sample of each noise (first axis): both means and both deviations.

    All noises are quantiles of the same uniform numbers, which makes their differences more
    precise and changes no mean.

    :param task: a split and its statistics
    :param noises: names of :data:`~docs.reproduce.selvi.laws.LAWS`, or "optimal-bounded"
    :param epsilon: privacy loss of each statistic
    :param delta: probability of a larger loss, of each statistic
    :param draws: how often to add noise
    :param rng: where the noise comes from
    """
    found: dict[str, list[Floats]] = {noise: [] for noise in noises}
    for noise, noisy in _released(task, noises, epsilon, delta, draws, rng):
        found[noise].append(count_errors(task.records, noisy))
    wrong = np.array([np.hstack(found[noise]) for noise in noises])
    return np.concatenate([wrong.mean(axis=2), wrong.std(axis=2)], axis=1)


def noise_sizes(
    task: BayesTask,
    noises: Sequence[str],
    epsilon: float,
    delta: float,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """By how much each noise (first axis) changes means and deviations, in sensitivities.

    :param task: a split and its statistics, with numbers
    :param noises: as for :func:`errors`
    :param epsilon: privacy loss of each statistic
    :param delta: probability of a larger loss, of each statistic
    :param draws: how often to add noise
    :param rng: where the noise comes from
    """
    total = dict.fromkeys(noises, np.zeros(2))
    for noise, noisy in _released(task, noises, epsilon, delta, draws, rng):
        off = [
            np.abs(released - exact[..., None]).sum(axis=2) / step
            for released, exact, step in (
                (noisy.means, task.exact.means, task.mean_steps),
                (noisy.deviations, task.exact.deviations, task.deviation_steps),
            )
        ]
        total[noise] = total[noise] + [part.mean() for part in off]
    return np.array([total[noise] for noise in noises]) / draws


def exact_errors(task: BayesTask) -> Floats:
    """In-sample and out-of-sample error without noise.

    :param task: a split and its statistics
    """
    one_draw = Statistics(*(part[..., None] for part in task.exact.parts))
    return count_errors(task.records, _usable(task, one_draw))[:, 0]


def _released(
    task: BayesTask,
    noises: Sequence[str],
    epsilon: float,
    delta: float,
    draws: int,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Statistics]]:
    """Noisy statistics, some draws at a time, each noise from the same uniform numbers."""
    parts = task.exact.parts
    for start in range(0, draws, _CHUNK):
        size = min(_CHUNK, draws - start)
        uniform = Statistics(*(rng.random((*part.shape, size)) for part in parts))
        shifts = [rng.random((*part.shape, size)) for part in parts[2:]]
        for noise in noises:
            bounded = noise == "optimal-bounded"
            noisy = _additive(task, "optimal" if bounded else noise, epsilon, delta, uniform)
            if bounded:
                noisy = _within_ranges(task, noisy, epsilon, delta, uniform, shifts)
            yield noise, _usable(task, noisy)


def _usable(task: BayesTask, known: Statistics) -> Statistics:
    """Counts and deviations that are not below the least ones."""
    return Statistics(
        np.maximum(known.counts, task.least_count),
        np.maximum(known.tallies, task.least_count),
        known.means,
        np.maximum(known.deviations, task.least[:, None]),
    )


def _additive(
    task: BayesTask, noise: str, epsilon: float, delta: float, uniform: Statistics
) -> Statistics:
    quantile, exact = law(noise, epsilon, delta).quantile, task.exact
    return Statistics(
        exact.counts[..., None] + quantile(uniform.counts),
        exact.tallies[..., None] + quantile(uniform.tallies),
        exact.means[..., None] + task.mean_steps[..., None] * quantile(uniform.means),
        exact.deviations[..., None]
        + task.deviation_steps[..., None] * quantile(uniform.deviations),
    )


def _within_ranges(
    task: BayesTask,
    noisy: Statistics,
    epsilon: float,
    delta: float,
    uniform: Statistics,
    shifts: list[Floats],
) -> Statistics:
    """Data-dependent noise where ranges are short, and releases within the range elsewhere."""
    rows = float(task.records.sizes[0])
    out = [np.clip(noisy.means, 0.0, 1.0), np.clip(noisy.deviations, 0.0, 0.5)]
    together: tuple[tuple[Floats, Floats, Floats, float, Floats, Floats], ...] = (
        (out[0], task.exact.means, task.mean_steps, 1.0, uniform.means, shifts[0]),
        (out[1], task.exact.deviations, task.deviation_steps, 0.5, uniform.deviations, shifts[1]),
    )
    for released, exact, step, top, draw, shift in together:
        for place in np.ndindex(exact.shape):
            length = fine_part_of_range(top / float(step[place]), task.longest)
            if length:
                answer = min(float(exact[place]), top) * (length / top)
                drawn = bounded_law(epsilon, delta, length).quantile(
                    draw[place], np.full(draw.shape[-1], answer), shift[place]
                )
                released[place] = drawn * (top / length)
    return Statistics(
        np.clip(noisy.counts, 0, rows), np.clip(noisy.tallies, 0, rows), out[0], out[1]
    )

"""Proximal coordinate descent with simulated noise, many draws at a time: Table 3 of the paper.

For simulation only: draws come from a seeded generator. All noises of a draw start at the same
random place, update the same coordinates and use the same random numbers, each through its own
quantile function: they are compared as sharply as can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import sgemm, sger

from opendp_optimal_learn.laws import bounded_law, fine_part_of_range, law

__all__ = ["Descent", "data_dependent", "descend"]

Floats = npt.NDArray[np.float64]
Step = Callable[[int, Floats], Floats]
"""What is released in a step of the sums that it has found."""
Release = Callable[[Floats, Floats], Step]

SENSITIVITY = 2.0
"""Terms of a derivative are within [-1, 1]."""
_LONGEST = 15
"""Sensitivities of a range up to which a table of noise that depends on the answer is used."""
_SPREAD = 0.2
"""Derivatives are taken for normal about 0, with this part of their range as deviation."""
_PARTS = 40
_CELLS = 1 << 20
"""Margins that are held at a time: many, but not so many that they leave the cache."""


@dataclass(frozen=True)
class Descent:
    """Training and test data with labels -1 and +1, and how to descend.

    :param train: features in [-1, 1]
    :param signs: labels of the training data
    :param test: features of the test data
    :param truth: labels of the test data
    :param iterations: how many means of steps to take
    :param penalty: weight of the l1 norm
    :param louder: what the noise is multiplied by; 1 for the noise that is asked for
    """

    train: Floats
    signs: Floats
    test: Floats
    truth: Floats
    iterations: int = 100
    penalty: float = 1e-8
    louder: float = 1.0

    @property
    def updates(self) -> int:
        """Coordinates that an iteration updates, one after the other."""
        width: int = self.train.shape[1]
        return math.ceil(width / 4)

    @property
    def work(self) -> int:
        """Logistic functions to evaluate for one draw of one noise."""
        return self.iterations * self.updates * len(np.unique(self.train, axis=0))


def data_dependent(task: Descent) -> float:
    """How many sensitivities the range of a derivative has, if there is a table; else 0.

    :param task: the data, whose number is what counts
    """
    return fine_part_of_range(2 * len(task.train) / (task.louder * SENSITIVITY), _LONGEST)


def descend(
    task: Descent,
    noises: Sequence[str | None],
    epsilon: float,
    delta: float,
    draws: int,
    seed: Sequence[int],
) -> Floats:
    """Mean in-sample and out-of-sample error of each noise over draws.

    :param task: the data
    :param noises: names of :data:`~opendp_optimal_learn.laws.LAWS`, "optimal-bounded", or None
        for no noise
    :param epsilon: privacy loss of each derivative
    :param delta: probability of a larger loss, of each derivative
    :param draws: how often to descend
    :param seed: of everything random
    """
    rows = _Rows.of(task)
    alike = [_alike(task, noise, epsilon, delta) for noise in noises]
    distinct = list(dict.fromkeys(alike))
    releases = [_release(task, noise, epsilon, delta) for noise in distinct]
    block = max(1, _CELLS // (len(noises) * len(rows.distinct)))
    wrong = np.zeros((len(distinct), 2))
    for start in range(0, draws, block):
        count = min(block, draws - start)
        rng = np.random.default_rng([*seed, start])
        weights = _block(task, rows, releases, count, rng).astype(np.float32)
        for side, (features, signs) in enumerate(
            ((task.train, task.signs), (task.test, task.truth))
        ):
            said = features.astype(np.float32) @ weights >= 0
            missed = (said != (signs > 0)[:, None]).mean(axis=0)
            wrong[:, side] += missed.reshape(len(distinct), count).sum(axis=1)
    return wrong[[distinct.index(noise) for noise in alike]] / draws


@dataclass(frozen=True)
class _Rows:
    """Training records, those with the same features together.

    The sum over records of a derivative is, for features x with n records of which p are positive,
    the sum over x of x_j (n sigma(m) - p) = x_j (n tanh(m / 2) / 2 + n / 2 - p).
    """

    distinct: npt.NDArray[np.float32]
    halves: npt.NDArray[np.float32]
    fixed: Floats

    @staticmethod
    def of(task: Descent) -> _Rows:
        distinct, place = np.unique(task.train, axis=0, return_inverse=True)
        count = np.bincount(place.ravel())
        positive = np.bincount(place.ravel(), weights=task.signs > 0)
        fixed = distinct.T @ (count / 2 - positive)
        halves = (distinct * (count / 2)[:, None]).T
        return _Rows(
            np.asfortranarray(distinct, dtype=np.float32),
            np.ascontiguousarray(halves, dtype=np.float32),
            np.asarray(fixed, dtype=np.float64),
        )


def _alike(task: Descent, noise: str | None, epsilon: float, delta: float) -> str | None:
    """The noise whose releases are the same: clamping does nothing to those that never get so far.

    Whatever the weights, the derivative of a record is between those of certain right and wrong.
    """
    if noise != "optimal-bounded" or data_dependent(task):
        return noise
    right, wrong = np.where(task.signs > 0, -1.0, 0.0), np.where(task.signs > 0, 0.0, 1.0)
    ends = task.train * right[:, None], task.train * wrong[:, None]
    sums = np.maximum(*ends).sum(axis=0).max(), -np.minimum(*ends).sum(axis=0).min()
    farthest = np.abs(law("optimal", epsilon, delta).quantile(np.array([0.0, 1.0]))).max()
    most = max(sums) + task.louder * SENSITIVITY * farthest
    return "optimal" if most < 0.999 * len(task.train) else noise


def _release(task: Descent, noise: str | None, epsilon: float, delta: float) -> Release:
    """What is released of sums of derivatives, from numbers in (0, 1) for all steps."""
    if noise is None:
        return lambda uniform, shifts: lambda step, sums: sums
    most, unit = len(task.train), task.louder * SENSITIVITY
    length = data_dependent(task) if noise == "optimal-bounded" else 0
    if length:
        middle = (np.arange(_PARTS) + 0.5) / _PARTS - 0.5
        shape = np.exp(-(middle**2) / (2 * _SPREAD**2))
        table = bounded_law(epsilon, delta, length, tuple((shape / shape.sum()).tolist()))
        per = 2 * most / length

        def within(uniform: Floats, shifts: Floats) -> Step:
            return lambda step, sums: (
                table.quantile(uniform[step], (sums + most) / per, shifts[step]) * per - most
            )

        return within
    quantile = law(noise.removesuffix("-bounded"), epsilon, delta).quantile
    clamped = noise == "optimal-bounded"

    def added(uniform: Floats, shifts: Floats) -> Step:
        drawn = unit * quantile(uniform)
        if clamped:
            return lambda step, sums: np.clip(sums + drawn[step], -most, most)
        return lambda step, sums: sums + drawn[step]

    return added


def _block(
    task: Descent, rows: _Rows, releases: Sequence[Release], draws: int, rng: np.random.Generator
) -> Floats:
    """Weights where the descents end: a column for each draw of the first noise, and so on."""
    width, noises, updates = task.train.shape[1], len(releases), task.updates
    weights = np.tile(rng.uniform(-1, 1, (width, draws)), (1, noises))
    margins: Any = (weights / 2).astype(np.float32).T @ rows.distinct.T
    slopes = np.empty_like(margins)
    for _ in range(task.iterations):
        chosen = rng.permutation(width)[:updates]
        uniform, shifts = rng.random((2, updates, draws))
        steps = [release(uniform, shifts) for release in releases]
        back = np.empty((updates, noises * draws), np.float32, order="F")
        for step, j in enumerate(chosen):
            np.tanh(margins, out=slopes)
            sums = (slopes @ rows.halves[j]).astype(np.float64) + rows.fixed[j]
            noisy = [
                at(step, part) for at, part in zip(steps, sums.reshape(noises, draws), strict=True)
            ]
            moved = weights[j] - np.concatenate(noisy) / len(task.train)
            after = np.sign(moved) * np.maximum(np.abs(moved) - task.penalty, 0.0)
            change = after - weights[j]
            sger(0.5, rows.distinct[:, j], change, a=margins.T, overwrite_a=True)
            # The iteration ends with the mean of its steps, and no coordinate moves twice.
            weights[j] += change * ((updates - step) / updates)
            back[step] = change * (step / updates)
        sgemm(-0.5, rows.distinct[:, chosen], back, 1.0, margins.T, overwrite_c=True)
    return weights

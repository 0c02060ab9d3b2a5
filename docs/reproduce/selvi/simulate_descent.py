"""Proximal coordinate descent with simulated noise, many draws at a time: Table 3 of the paper.

For simulation only: draws come from a seeded generator. All noises of a draw start at the same
random place, update the same coordinates and use the same random numbers, each through its own
quantile function: they are compared as sharply as can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from docs.reproduce.selvi.descent_kernel import Table, walk
from docs.reproduce.selvi.laws import bounded_law, fine_part_of_range, law

__all__ = ["Descent", "data_dependent", "descend"]

Floats = npt.NDArray[np.float64]

SENSITIVITY = 2.0
"""Terms of a derivative are within [-1, 1]."""
_LONGEST = 15
"""Sensitivities of a range up to which a table of noise that depends on the answer is used."""
_SPREAD = 0.2
"""Derivatives are taken for normal about 0, with this part of their range as deviation."""
_PARTS = 40
_CELLS = 1 << 20
"""Margins of the descents whose random numbers are drawn at a time."""
_NOWHERE = 1e300
"""Where sums are clamped that are not: compiled code takes all numbers for finite."""


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
    :param noises: names of :data:`~docs.reproduce.selvi.laws.LAWS`, "optimal-bounded", or None
        for no noise
    :param epsilon: privacy loss of each derivative
    :param delta: probability of a larger loss, of each derivative
    :param draws: how often to descend
    :param seed: of everything random
    """
    rows = _Rows.of(task)
    alike = [_alike(task, noise, epsilon, delta) for noise in noises]
    distinct = list(dict.fromkeys(alike))
    made = [_noise(task, noise, epsilon, delta) for noise in distinct]
    table = _table(task, epsilon, delta)
    block = max(1, _CELLS // (len(noises) * rows.features.shape[1]))
    wrong = np.zeros((len(distinct), 2))
    for start in range(0, draws, block):
        count = min(block, draws - start)
        rng = np.random.default_rng([*seed, start])
        weights = _block(task, rows, made, table, count, rng).astype(np.float32)
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

    features: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32]
    fixed: Floats

    @staticmethod
    def of(task: Descent) -> _Rows:
        distinct, place = np.unique(task.train, axis=0, return_inverse=True)
        count = np.bincount(place.ravel())
        positive = np.bincount(place.ravel(), weights=task.signs > 0)
        fixed = distinct.T @ (count / 2 - positive)
        # Nobody's features, so that rows of the kernel begin where lines of the cache do.
        extra = -len(count) % 16
        features = np.pad(distinct.T.astype(np.float32, order="C"), ((0, 0), (0, extra)))
        counts = np.pad((count / 2).astype(np.float32), (0, extra))
        return _Rows(features, counts, np.asarray(fixed, dtype=np.float64))


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


@dataclass(frozen=True)
class _Noise:
    """How numbers in (0, 1) become noise, and where sums with it are clamped; 0 for a table."""

    quantile: Callable[[Floats], Floats]
    limit: float


def _noise(task: Descent, name: str | None, epsilon: float, delta: float) -> _Noise:
    """Noise for sums of derivatives."""
    if name is None:
        return _Noise(np.zeros_like, _NOWHERE)
    if name == "optimal-bounded" and data_dependent(task):
        return _Noise(lambda uniform: uniform, 0.0)
    unit, base = task.louder * SENSITIVITY, law(name.removesuffix("-bounded"), epsilon, delta)
    limit = len(task.train) if name == "optimal-bounded" else _NOWHERE
    return _Noise(lambda uniform: unit * base.quantile(uniform), limit)


def _table(task: Descent, epsilon: float, delta: float) -> Table:
    """Noise that depends on the sum, for the kernel; empty if there is none."""
    most, length = float(len(task.train)), data_dependent(task)
    if not length:
        return Table(most)
    middle = (np.arange(_PARTS) + 0.5) / _PARTS - 0.5
    shape = np.exp(-(middle**2) / (2 * _SPREAD**2))
    found = bounded_law(epsilon, delta, length, tuple((shape / shape.sum()).tolist()))
    return Table(
        most=most,
        per=2 * most / length,
        cumulated=found.cumulated,
        length=length,
        start=found.start,
        step=found.step,
        rows=found.rows,
        revealing=int(found.revealing),
    )


def _block(
    task: Descent,
    rows: _Rows,
    noises: Sequence[_Noise],
    table: Table,
    draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Weights where the descents end: a column for each draw of the first noise, and so on."""
    width, updates = task.train.shape[1], task.updates
    weights = np.tile(rng.uniform(-1, 1, (width, draws)), (1, len(noises)))
    chosen = np.empty((task.iterations, updates), np.int64)
    random = np.empty((2, task.iterations, updates, draws))
    for iteration in range(task.iterations):
        chosen[iteration] = rng.permutation(width)[:updates]
        random[:, iteration] = rng.random((2, updates, draws))
    uniform, shifts = random
    drawn = np.stack([noise.quantile(uniform) for noise in noises], axis=2)
    limits = np.array([noise.limit for noise in noises])
    walk(
        weights,
        rows.features,
        rows.counts,
        rows.fixed,
        chosen,
        drawn,
        shifts,
        limits,
        table,
        task.penalty,
    )
    return weights

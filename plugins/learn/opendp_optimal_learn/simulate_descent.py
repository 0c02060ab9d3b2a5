"""Proximal coordinate descent with simulated noise, many draws at a time: Table 3 of the paper.

For simulation only: draws come from a seeded generator. All draws of a split share the order in
which coordinates are updated, so that one product of a matrix and a row serves all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from opendp_optimal_learn.laws import law

__all__ = ["Descent", "descend"]

Floats = npt.NDArray[np.float64]

_SENSITIVITY = 2.0


@dataclass(frozen=True)
class Descent:
    """Training and test data with labels -1 and +1, and how to descend.

    :param train: features in [-1, 1]
    :param signs: labels of the training data
    :param test: features of the test data
    :param truth: labels of the test data
    :param iterations: how many means of steps to take
    :param penalty: weight of the l1 norm
    """

    train: Floats
    signs: Floats
    test: Floats
    truth: Floats
    iterations: int = 100
    penalty: float = 1e-8


def descend(
    task: Descent,
    noise: str | None,
    epsilon: float,
    delta: float,
    draws: int,
    rng: np.random.Generator,
    order: np.random.Generator,
) -> Floats:
    """Mean in-sample and out-of-sample error over draws of the noise.

    :param task: the data
    :param noise: a name of :data:`~opendp_optimal_learn.laws.LAWS`, or None for no noise
    :param epsilon: privacy loss of each derivative
    :param delta: probability of a larger loss, of each derivative
    :param draws: how often to descend; once without noise
    :param rng: where the noise comes from
    :param order: where the start and the order of coordinates come from
    """
    rows, width = task.train.shape
    updates = math.ceil(width / 4)
    draws = draws if noise else 1
    sample = law(noise, epsilon, delta).sample if noise else None
    signed = (task.train * task.signs[:, None]).astype(np.float32)
    weights = np.zeros((width, draws), dtype=np.float32)
    for _ in range(task.iterations):
        margins = signed @ weights
        total = np.zeros_like(weights)
        for chosen in order.choice(width, updates, replace=False):
            column = signed[:, chosen]
            sums = -(column @ expit(-margins)).astype(np.float64)
            if sample is not None:
                sums += _SENSITIVITY * sample(rng, (draws,))
            moved = weights[chosen] - sums / rows
            after = np.sign(moved) * np.maximum(np.abs(moved) - task.penalty, 0.0)
            margins += np.outer(column, (after - weights[chosen]).astype(np.float32))
            weights[chosen] = after
            total += weights
        weights = total / updates
    return np.array(
        [
            ((task.train @ weights > 0) != (task.signs > 0)[:, None]).mean(),
            ((task.test @ weights > 0) != (task.truth > 0)[:, None]).mean(),
        ]
    )

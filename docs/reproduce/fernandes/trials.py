"""The theorems, tried on random consumers: what is claimed and what is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from docs.reproduce.fernandes.income import consumer_loss, laplace_rows, step_rows
from opendp_optimal.extend import Floats, whole
from opendp_optimal_bayes.constructions import geometric_channel, laplace_excess_bound
from opendp_optimal_bayes.optimal import optimal_channel

EPSILONS = (0.05, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class Trial:
    """One random consumer of an integer in 0..n.

    :param n: largest answer
    :param epsilon: privacy loss for each step
    :param lower: certified lower bound of every private mechanism
    :param upper: certified loss of the best channel
    :param geometric: loss of the geometric mechanism after the best remap
    """

    n: int
    epsilon: float
    lower: float
    upper: float
    geometric: float

    @property
    def gap(self) -> float:
        """The certified relative gap."""
        return (self.upper - self.lower) / self.lower

    @property
    def excess(self) -> float:
        """By what part of the lower bound the geometric mechanism exceeds it."""
        return (self.geometric - self.lower) / self.lower


def legal_loss(rng: np.random.Generator, n: int) -> Floats:
    """A random loss that grows with the distance of action and answer, differently for each answer.

    :param rng: for the experiment; nothing is released
    :param n: largest answer
    """
    steps = np.cumsum(rng.exponential(size=(n + 1, n + 1)), axis=0)
    steps -= steps[0]
    at = np.arange(n + 1)
    return np.asarray(steps[np.abs(at[:, None] - at), at[None, :]])


def random_trials(count: int, *, largest: int = 30, seed: int = 0) -> Iterator[Trial]:
    """Random priors and legal losses: the geometric mechanism with a remap is optimal.

    :param count: how many
    :param largest: the largest answer is drawn up to this
    :param seed: of the experiment
    """
    rng = np.random.default_rng(seed)
    for _ in range(whole("count", count)):
        n = int(rng.integers(2, whole("largest", largest, least=2) + 1))
        epsilon = float(rng.choice(EPSILONS))
        prior = rng.dirichlet(np.full(n + 1, rng.choice([0.3, 1.0, 5.0])))
        loss = legal_loss(rng, n)
        best = optimal_channel(prior=prior.tolist(), loss=loss.tolist(), epsilon=epsilon)
        geometric = geometric_channel(n, epsilon=epsilon).expected_loss(prior.tolist(), loss)
        yield Trial(n, epsilon, best.lower, best.upper, geometric)


def illegal_trial() -> Trial:
    """A consumer for whom the geometric mechanism is not optimal: she wants to know the parity.

    Her loss falls again with the distance, so that no theorem speaks of her.
    """
    n, epsilon = 3, 1.0
    loss = [[int((w - x) % 2 != 0) for x in range(n + 1)] for w in range(2)]
    prior = [0.25] * 4
    best = optimal_channel(prior=prior, loss=loss, epsilon=epsilon)
    geometric = geometric_channel(n, epsilon=epsilon).expected_loss(prior, loss)
    return Trial(n, epsilon, best.lower, best.upper, geometric)


@dataclass(frozen=True)
class Excess:
    """What truncated Laplace loses beyond the optimum, and what Theorem 14 allows.

    :param n: number of steps
    :param epsilon: privacy loss from 0 to 1
    :param measured: difference of expected losses
    :param bound: Theorem 14
    """

    n: int
    epsilon: float
    measured: float
    bound: float

    @property
    def ratio(self) -> float:
        """The part of the bound that is used."""
        return self.measured / self.bound


def laplace_excesses(count: int, *, largest: int = 30, seed: int = 0) -> Iterator[Excess]:
    """Random priors on {0, 1/n, ..., 1}, l1 loss: Theorem 14's bound and the measured difference.

    :param count: how many
    :param largest: the number of steps is drawn up to this
    :param seed: of the experiment
    """
    rng = np.random.default_rng(seed)
    for _ in range(whole("count", count)):
        n = int(rng.integers(2, whole("largest", largest, least=2) + 1))
        epsilon = float(rng.choice([0.5, 1.0, 2.0, 4.0, 8.0]))
        prior = rng.dirichlet(np.full(n + 1, rng.choice([0.3, 1.0, 5.0])))
        at = np.arange(n + 1) / n
        table = np.abs(at[:, None] - at)
        pixels = n * max(1, 1024 // n)
        measured = consumer_loss(prior, laplace_rows(n, epsilon, pixels), table)
        measured -= consumer_loss(prior, step_rows(n, epsilon), table)
        yield Excess(n, epsilon, measured, laplace_excess_bound(n, epsilon))

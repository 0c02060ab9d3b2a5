"""A lower bound on a privacy loss, from numbers that two inputs released."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opendp_optimal.arrays import Floats


@dataclass(frozen=True)
class AuditReport:
    """What an audit of a privacy loss found.

    :param claimed: the loss claimed between the two inputs
    :param proven: the loss is at least this, except with probability ``false_alarm``
    :param draws: releases of each input
    :param false_alarm: probability, at most, of refuting a claim that is true
    """

    claimed: float
    proven: float
    draws: int
    false_alarm: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.proven > self.claimed


def clopper_low(hits: int, count: int, alarm: float) -> float:
    """The exact lower confidence bound on a probability.

    >>> round(clopper_low(100, 100, 1e-6), 4)
    0.871
    """
    from scipy.stats import beta

    return 0.0 if hits == 0 else float(beta.ppf(alarm, hits, count - hits + 1))


def clopper_high(hits: int, count: int, alarm: float) -> float:
    """The exact upper confidence bound on a probability.

    >>> round(clopper_high(0, 100, 1e-6), 4)
    0.129
    """
    from scipy.stats import beta

    return 1.0 if hits == count else float(beta.isf(alarm, hits + 1, count - hits))


def clopper_pearson(hits: int, draws: int, alpha: float) -> tuple[float, float]:
    """Return exact lower and upper bounds on a probability, each wrong at most ``alpha`` often.

    :param hits: how often the event happened
    :param draws: out of how many
    :param alpha: error rate of each bound

    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0295)
    """
    return clopper_low(hits, draws, alpha), clopper_high(hits, draws, alpha)


def log_ratio(often: float, seldom: float) -> float:
    """Return the loss of pure privacy that tells two chances apart.

    :param often: the larger chance.
    :param seldom: the smaller chance.
    """
    return math.log(often / seldom)


def proven_loss(
    low: Floats,
    high: Floats,
    thresholds: Iterable[float],
    false_alarm: float,
    loss: Callable[[float, float], float] = log_ratio,
) -> float:
    """Return what the loss is at least, from the events "above" and "not above" each threshold.

    :param low: what the input with the smaller releases released
    :param high: as many releases of the other input
    :param thresholds: fixed without looking at these releases
    :param false_alarm: probability, at most, that the bound is above the loss
    :param loss: turns a chance at least, and the other input's at most, into a loss
    """
    thresholds = list(thresholds)
    draws, alpha = len(low), false_alarm / (4 * len(thresholds))
    proven = -math.inf
    for threshold in thresholds:
        above = int((low > threshold).sum()), int((high > threshold).sum())
        below = draws - above[0], draws - above[1]
        for seldom, often in (above, (below[1], below[0])):
            top, bottom = clopper_low(often, draws, alpha), clopper_high(seldom, draws, alpha)
            if top > 0.0 and bottom < 1.0:
                proven = max(proven, loss(top, bottom))
    return proven

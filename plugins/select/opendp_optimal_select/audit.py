"""A statistical audit of the signal, through the whole chain, with exact binomial tails.

Two private values are released many times. For a handful of events fixed beforehand, exact
(Clopper-Pearson) bounds on both probabilities give a lower bound on the privacy loss. If it
exceeds the loss that was claimed, the claim is false, except with a probability of at most
``false_alarm``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from opendp_optimal_select._checks import finite_float, positive_float, positive_integer
from opendp_optimal_select.noise import FloatArray

Release = Callable[[float], Sequence[float]]
"""One release: from a private value to its answers."""


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    :param claimed: the privacy loss that was claimed between the two values
    :param proven: the loss is at least this much, except with probability ``false_alarm``
    :param draws: releases of each value
    :param false_alarm: probability, at most, that an honest mechanism is reported
    """

    claimed: float
    proven: float
    draws: int
    false_alarm: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.proven > self.claimed


def clopper_pearson(hits: int, draws: int, alpha: float) -> tuple[float, float]:
    """Return exact lower and upper bounds on a probability, each wrong at most ``alpha`` often.

    :param hits: how often the event happened
    :param draws: out of how many
    :param alpha: error rate of each bound

    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0295)
    """
    low = 0.0 if hits == 0 else float(betaincinv(hits, draws - hits + 1, alpha))
    high = 1.0 if hits == draws else float(betaincinv(hits + 1, draws - hits, 1.0 - alpha))
    return low, high


def audit_signal(
    release: Release,
    *,
    claimed: float,
    values: tuple[float, float],
    draws: int,
    false_alarm: float = 1e-6,
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """Return a lower bound on the privacy loss between two values, from releases of both.

    The signal is read off as the mean of the answers: optimal offsets add up to 0. The events are
    "above" and "below" either value and their middle.

    :param release: the measurement, e.g. the result of ``make_multi_selection``
    :param claimed: the loss claimed between the two values: ``measurement.map(distance)``
    :param values: the two private values
    :param draws: releases of each value
    :param false_alarm: probability, at most, of refuting a claim that is true
    :param progress: called with the number of releases done, now and then

    >>> import opendp.prelude as dp
    >>> from opendp_optimal_select import then_multi_selection
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> meas = space >> then_multi_selection(epsilon=1.0, k=3)
    >>> audit_signal(meas, claimed=meas.map(1.0), values=(0.0, 1.0), draws=500).violated
    False
    """
    claimed = finite_float("claimed", claimed)
    draws = positive_integer("draws", draws)
    false_alarm = positive_float("false_alarm", false_alarm)
    low, high = sorted(finite_float("values", v) for v in values)
    if low == high:
        raise ValueError(f"values ({values}) must differ")
    signals = [_signals(release, v, draws, i * draws, progress) for i, v in enumerate((low, high))]
    thresholds = (low, 0.5 * (low + high), high)
    alpha = false_alarm / (4 * len(thresholds))
    proven = -math.inf
    for threshold in thresholds:
        above = [int(np.count_nonzero(s > threshold)) for s in signals]
        below = [int(np.count_nonzero(s < threshold)) for s in signals]
        for often, seldom in ((above[1], above[0]), (below[0], below[1])):
            top = clopper_pearson(often, draws, alpha)[0]
            bottom = clopper_pearson(seldom, draws, alpha)[1]
            if top > 0.0:
                proven = max(proven, math.log(top / bottom))
    return AuditReport(claimed, proven, draws, false_alarm)


def _signals(
    release: Release, value: float, draws: int, done: int, progress: Callable[[int], None] | None
) -> FloatArray:
    signals = np.empty(draws)
    for i in range(draws):
        signals[i] = math.fsum(answers := release(value)) / len(answers)
        if progress is not None and i % 100 == 0:
            progress(done + i)
    return signals

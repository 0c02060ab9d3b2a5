"""A statistical audit of the signal, through the whole chain, with exact binomial tails.

Two private values are released many times. For a handful of events fixed beforehand, exact
(Clopper-Pearson) bounds on both probabilities give a lower bound on the privacy loss. If it
exceeds the loss that was claimed, the claim is false, except with a probability of at most
``false_alarm``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from opendp_optimal.extend import finite, positive, whole
from opendp_optimal.testing import AuditReport, proven_loss

Release = Callable[[float], Sequence[float]]
"""One release: from a private value to its answers."""


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
    >>> dp.enable_features("contrib")
    >>> space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> meas = space >> then_multi_selection(epsilon=1.0, k=3)
    >>> audit_signal(meas, claimed=meas.map(1.0), values=(0.0, 1.0), draws=500).violated
    False
    """
    claimed = finite("claimed", claimed)
    draws = whole("draws", draws)
    false_alarm = positive("false_alarm", false_alarm)
    low, high = sorted(finite("values", v) for v in values)
    if low == high:
        raise ValueError(f"values ({values}) must differ")
    signals = np.empty((2, draws))
    for i, value in enumerate((low, high)):
        for j in range(draws):
            signals[i, j] = fmean(release(value))
            if progress is not None and j % 100 == 0:
                progress(i * draws + j)
    thresholds = (low, 0.5 * (low + high), high)
    proven = proven_loss(signals[0], signals[1], thresholds, false_alarm)
    return AuditReport(claimed, proven, draws, false_alarm)

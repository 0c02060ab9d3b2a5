"""A statistical audit of released looks, with exact binomial tails.

Users at two places release what they release; for thresholds fixed beforehand, exact bounds on
both error rates of telling the places apart are compared with what the claim allows. A claim is
refuted when even the bounds contradict it; a true claim is refuted with probability at most
``false_alarm``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from opendp_optimal.extend import Floats, choice, positive, share, whole
from opendp_optimal.testing import AuditReport, log_ratio, proven_loss
from opendp_optimal_geo.elimination import KeepAll
from opendp_optimal_geo.population import Population
from opendp_optimal_geo.score import DistanceTo


def audit_looks(
    first: Any, second: Any, *, claimed: float, gaussian: bool, false_alarm: float = 1e-6
) -> AuditReport:
    """Audit releases from two places, reduced to one number each.

    :param first: a number for each release of one place, smaller on the whole
    :param second: as many of the other place
    :param claimed: epsilon between the places (Laplace), or ``distance * sqrt(2 rho)``: the number
        of standard deviations that a Gaussian release of price rho keeps them apart
    :param gaussian: whether ``claimed`` is that of Gaussian noise
    :param false_alarm: probability, at most, of refuting a true claim

    >>> rng = np.random.default_rng(0)  # simulated, not a release
    >>> a, b = rng.normal(0, 1, 5000), rng.normal(1, 1, 5000)
    >>> audit_looks(a, b, claimed=1.0, gaussian=True).violated
    False
    >>> audit_looks(a, b, claimed=0.5, gaussian=True).violated
    True
    """
    claimed, false_alarm = positive("claimed", claimed), share("false_alarm", false_alarm)
    low: Floats = np.asarray(first, np.float64)
    high: Floats = np.asarray(second, np.float64)
    if low.ndim != 1 or low.shape != high.shape or len(low) < 20:
        raise ValueError(f"first (shape {low.shape}) and second must be as long, 20 at least")
    # The thresholds come from one half of the releases, the counts from the other.
    half = len(low) // 2
    thresholds = np.quantile(np.concatenate([low[:half], high[:half]]), np.linspace(0.05, 0.95, 19))
    low, high = low[half:], high[half:]
    loss = _gaussian_loss if gaussian else log_ratio
    proven = proven_loss(low, high, thresholds.tolist(), false_alarm, loss)
    return AuditReport(claimed, proven, len(low), false_alarm)


def _gaussian_loss(often: float, seldom: float) -> float:
    return float(ndtri(often) - ndtri(seldom))


def audit_population(
    distance: float,
    price: float,
    *,
    privacy: str = "cgp",
    method: str = "point",
    looks: Any = ("doubling", 4),
    draws: int = 200_000,
    false_alarm: float = 1e-6,
) -> AuditReport:
    """Audit what users of a population release over several looks, all of them together.

    Two populations stand ``distance`` apart; the looks of each user, weighted as an analyst who
    wants to tell the places apart would weight them, are compared.

    :param distance: between the places
    :param price: of all looks together
    :param privacy: "cgp" or "gp"
    :param method: "point" or "distance"
    :param looks: how the price is split
    :param draws: users at each place
    :param false_alarm: probability, at most, of refuting a true claim

    >>> audit_population(100.0, 1e-4, draws=2000).violated
    False
    """
    distance, price = positive("distance", distance), positive("price", price)
    gaussian = choice("privacy", privacy, ("cgp", "gp")) == "cgp"
    statistics = []
    for x in (0.0, distance):
        people = Population(
            np.tile([x, 0.0], (whole("draws", draws, least=40), 1)), budget=price, privacy=privacy
        )
        plan = people._plan(DistanceTo((-1e4, 0.0)), price, method, looks, False, "data")
        state, _, _ = people._take_looks(plan, KeepAll())
        averages = np.concatenate([block.averages() for block in state.blocks])
        statistics.append(averages if averages.ndim == 1 else averages[:, 0])
    exact = float(np.round(distance / people.grid) * people.grid)
    claimed = exact * math.sqrt(2.0 * price) if gaussian else exact * price
    return audit_looks(*statistics, claimed=claimed, gaussian=gaussian, false_alarm=false_alarm)


def gaussian_power(mu: float, alpha: float) -> float:
    """Return the best detection rate at false-positive rate ``alpha`` against a Gaussian release.

    :param mu: distance of the places in standard deviations
    :param alpha: false-positive rate

    >>> round(gaussian_power(0.0, 0.05), 6)
    0.05
    """
    return float(ndtr(ndtri(alpha) + mu))

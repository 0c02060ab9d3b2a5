"""How much each of several releases may cost, so that all together stay within the budget.

Pure and approximate mechanisms of which nothing else is used: the optimal composition theorem of
Kairouz, Oh and Viswanath. Laplace and discrete Gaussian noise: their privacy loss distributions,
composed by ``dp-accounting`` (an extra; without it the theorem serves for Laplace, and concentrated
privacy for the discrete Gaussian). Gaussian noise: a closed form, since k releases are one with
the scale divided by sqrt(k). All answers are on the safe side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from opendp_optimal import known
from opendp_optimal.budget import theorems
from opendp_optimal.exact.halving import largest
from opendp_optimal.exact.numbers import float_down

SHARE = 0.5
"""The part of delta that is divided among (epsilon, delta)-private releases."""
MOST_TIGHT = 2000
"""Up to so many releases privacy loss distributions are composed; beyond, the theorems serve."""
MOST_LISTED = 1 << 16
"""Up to this sensitivity the losses of discrete Laplace noise are listed."""
_CLOSE = 1e-4
"""To what part of itself a share is found."""


@lru_cache(maxsize=4096)
def share(epsilon: float, delta: float, count: int) -> tuple[float, float]:
    """The (epsilon, delta) of each of ``count`` releases of which only that is known.

    >>> share(1.0, 0.0, 4)
    (0.25, 0.0)
    """
    if count == 1:
        return epsilon, delta
    rest = SHARE * delta / count
    return epsilon_share(epsilon, delta, count, rest), rest


@lru_cache(maxsize=4096)
def epsilon_share(epsilon: float, delta: float, count: int, each_delta: float = 0.0) -> float:
    """The largest epsilon of each of ``count`` releases that keeps to the total.

    :param epsilon: of all together
    :param delta: of all together
    :param count: how many releases
    :param each_delta: of each; 0 where they are pure

    >>> epsilon_share(1.0, 0.0, 3) * 3 <= 1.0 < epsilon_share(1.0, 1e-2, 300) * 300
    True
    """
    if count == 1:
        return epsilon
    least = float_down(Fraction(epsilon) / count)
    if delta == 0:
        return least

    def fits(each: float) -> bool:
        return theorems.composed_delta(epsilon, each, each_delta, count) <= delta

    return largest(fits, least, epsilon, close=_CLOSE)


@lru_cache(maxsize=4096)
def laplace_share(epsilon: float, delta: float, count: int, sensitivity: int | None) -> float:
    """The epsilon of each of ``count`` Laplace releases, by their privacy loss distribution.

    :param sensitivity: of integer queries, for discrete Laplace noise; None for real ones
    """
    start = epsilon_share(epsilon, delta, count)
    if count == 1 or delta == 0 or count > MOST_TIGHT or (pld := _library()) is None:
        return start
    step = 2.0 ** math.floor(math.log2(epsilon / 2000))

    def fits(each: float) -> bool:
        if sensitivity is None or sensitivity > MOST_LISTED:
            # Losses of discrete noise are a step of 2 each / sensitivity apart, and between two of
            # them its delta is a chord: real noise whose largest loss is a step more loses more.
            most = each if sensitivity is None else each * (1 + 2 / sensitivity) * (1 + 1e-15)
            one = pld.from_laplace_mechanism(1 / most, value_discretization_interval=step)
        else:
            one = pld.from_discrete_laplace_mechanism(
                each / sensitivity, sensitivity, value_discretization_interval=step
            )
        return float(one.self_compose(count).get_delta_for_epsilon(epsilon)) <= delta

    return largest(fits, start, epsilon, close=_CLOSE)


@lru_cache(maxsize=4096)
def gaussian_scale(epsilon: float, delta: float, count: int) -> float:
    """The standard deviation of each of ``count`` Gaussian releases at sensitivity 1."""
    scale = known.gaussian_sigma(epsilon, delta)
    while theorems.gaussian_delta_above(scale, epsilon) > delta:
        scale *= 1 + 1e-8
    return scale * math.sqrt(count) * (1 + 1e-15)


@lru_cache(maxsize=4096)
def discrete_gaussian_scale(epsilon: float, delta: float, count: int, sensitivity: int) -> float:
    """The scale of each of ``count`` discrete Gaussian releases.

    One release: Canonne, Kamath, Steinke 2020, Theorem 7.
    """
    near = gaussian_scale(epsilon, delta, count) * sensitivity
    pld = None if count == 1 or count > MOST_TIGHT else _library()
    # Rounding adds up over the releases: the more of them, the finer.
    step = 2.0 ** -(12 + math.ceil(math.log2(count) / 2))

    def fits(inverse: float) -> bool:
        sigma = 1 / inverse
        if count == 1:
            return theorems.DiscreteGaussianDelta(sigma, sensitivity)(epsilon) <= delta
        if pld is None:
            rho = count * (sensitivity / sigma) ** 2 / 2
            return theorems.concentrated_delta(rho, epsilon) <= delta
        one = pld.from_discrete_gaussian_mechanism(
            sigma, sensitivity, value_discretization_interval=step
        )
        return float(one.self_compose(count).get_delta_for_epsilon(epsilon)) <= delta

    low = 1 / near
    while not fits(low):
        low /= 1.05
    return 1 / largest(fits, low, 1.2 / near, close=_CLOSE)


@lru_cache(maxsize=4096)
def concentrated_share(epsilon: float, delta: float, count: int) -> float:
    """The rho of each of ``count`` releases under zCDP, by the conversion that OpenDP makes.

    0 where its orders do not reach so small an epsilon. Canonne, Kamath, Steinke 2020,
    Corollary 13.
    """

    def fits(rho: float) -> bool:
        return theorems.concentrated_delta(rho, epsilon) <= delta

    low = 1e-4 * min(epsilon, epsilon**2)
    if not fits(low):
        return 0.0
    return largest(fits, low, epsilon, close=1e-6) / count * (1 - 1e-12)


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:  # pragma: no cover (an extra)
        return None
    return privacy_loss_distribution

"""How much each of several releases may cost, so that all together stay within the budget.

Pure and approximate mechanisms of which nothing else is used: the optimal composition theorem of
Kairouz, Oh and Viswanath. Laplace and discrete Gaussian noise: their privacy loss distributions,
composed by ``dp-accounting`` (an extra; without it the theorem serves for Laplace, and concentrated
privacy for the discrete Gaussian). Gaussian noise: a closed form, since k releases are one with
the scale divided by sqrt(k). All answers are on the safe side, to the accuracy of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from opendp_optimal.known import real as baselines

SHARE = 0.5
"""The part of delta that is divided among (epsilon, delta)-private releases."""
MOST_TIGHT = 2000
"""Up to so many releases privacy loss distributions are composed; beyond, the theorems serve."""
_SAFE = 1 + 1e-9
_LOGARITHM = 2e-14
"""The logarithms of binomial coefficients are off by less than this part of their size."""
_WIDE = 40.0
"""So many standard deviations from the mean the chances of a binomial count as a rest."""
_STEPS = 60
_CLOSE = 1e-4


def composed_delta(each: float, count: int, epsilon: float) -> float:
    """The delta at ``epsilon`` of ``count`` releases that are ``each``-private (Theorem 3.3).

    >>> composed_delta(0.5, 2, 1.0)
    0.0
    """
    from scipy.special import gammaln

    if each * count <= epsilon:
        return 0.0
    most = min(count, math.floor((count - epsilon / each) / 2 + 1e-12))
    # The terms are binomial chances: only those near their mean, or near the last, count.
    mean = count / (1 + math.exp(each))
    width = _WIDE * (1 + math.sqrt(mean))
    if most > mean + width:
        return 1.0
    start = max(0, math.floor(min(most, mean) - width))
    at = np.arange(start, most + 1, dtype=np.float64)
    choose = gammaln(count + 1) - gammaln(at + 1) - gammaln(count - at + 1)
    base = count * np.logaddexp(0.0, each)
    first = choose + (count - at) * each - base
    second = choose + epsilon + at * each - base
    terms = np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))
    # Below the mean each term is at most this part of the next: a geometric series.
    part = start * math.exp(each) / (count - start + 1)
    before = math.exp(first[0]) * part / (1 - part) if start else 0.0
    return min(1.0, (float(terms.sum()) + before) * (_SAFE + _LOGARITHM * count))


@lru_cache(maxsize=4096)
def share(epsilon: float, delta: float, count: int) -> tuple[float, float]:
    """The (epsilon, delta) of each of ``count`` releases of which only that is known.

    >>> share(1.0, 0.0, 4)
    (0.25, 0.0)
    """
    if count == 1:
        return epsilon, delta
    if delta == 0:
        return epsilon / count, 0.0
    # 1 - (1 - count * a)(1 - b) is at most count * a + b.
    return _pure_share(epsilon, (1 - SHARE) * delta, count), SHARE * delta / count


@lru_cache(maxsize=4096)
def pure_share(epsilon: float, delta: float, count: int) -> float:
    """The epsilon of each of ``count`` pure releases."""
    if count == 1:
        return epsilon
    return epsilon / count if delta == 0 else _pure_share(epsilon, delta, count)


def _pure_share(epsilon: float, delta: float, count: int) -> float:
    def fits(each: float) -> bool:
        return composed_delta(each, count, epsilon) <= delta

    return largest(fits, epsilon / count, epsilon)


def largest(fits: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value that fits, to a part in 10^4, from one that does."""
    if fits(high):
        return high
    for _ in range(_STEPS):
        if high <= low * (1 + _CLOSE):
            break
        middle = math.sqrt(low * high)
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


@lru_cache(maxsize=4096)
def laplace_share(epsilon: float, delta: float, count: int, sensitivity: int | None) -> float:
    """The epsilon of each of ``count`` Laplace releases, by their privacy loss distribution.

    :param sensitivity: of integer queries, for discrete Laplace noise; None for real ones
    """
    start = pure_share(epsilon, delta, count)
    pld = _library()
    if count == 1 or delta == 0 or count > MOST_TIGHT or pld is None:
        return start
    step = 2.0 ** math.floor(math.log2(epsilon / 2000))

    def fits(each: float) -> bool:
        if sensitivity is None:
            one = pld.from_laplace_mechanism(1 / each, value_discretization_interval=step)
        else:
            one = pld.from_discrete_laplace_mechanism(
                each / sensitivity, sensitivity, value_discretization_interval=step
            )
        return float(one.self_compose(count).get_delta_for_epsilon(epsilon)) <= delta

    return largest(fits, start, epsilon)


@lru_cache(maxsize=4096)
def gaussian_scale(epsilon: float, delta: float, count: int) -> float:
    """The standard deviation of each of ``count`` Gaussian releases at sensitivity 1."""
    return baselines.analytic_gaussian_sigma(epsilon, delta) * math.sqrt(count)


@lru_cache(maxsize=4096)
def discrete_gaussian_scale(epsilon: float, delta: float, count: int, sensitivity: int) -> float:
    """The scale of each of ``count`` discrete Gaussian releases.

    One release: Canonne, Kamath, Steinke 2020, Theorem 7.
    """
    near = gaussian_scale(epsilon, delta, count) * sensitivity
    pld = _library()
    # Rounding adds up over the releases: the more of them, the finer.
    step = 2.0 ** -(12 + math.ceil(math.log2(count) / 2))

    def fits(inverse: float) -> bool:
        sigma = 1 / inverse
        if count == 1:
            return _discrete_gaussian_delta(sigma, epsilon, sensitivity) <= delta
        if pld is None or count > MOST_TIGHT:
            return _concentrated_delta(count * (sensitivity / sigma) ** 2 / 2, epsilon) <= delta
        one = pld.from_discrete_gaussian_mechanism(
            sigma, sensitivity, value_discretization_interval=step
        )
        return float(one.self_compose(count).get_delta_for_epsilon(epsilon)) <= delta

    low = 1 / near
    while not fits(low):
        low /= 1.05
    return 1 / largest(fits, low, 1.2 / near)


def _discrete_gaussian_delta(sigma: float, epsilon: float, sensitivity: int) -> float:
    reach = math.ceil(sensitivity + 14 * sigma) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    middle = epsilon * sigma**2 / sensitivity
    total = weights.sum()
    above = weights[x > middle - sensitivity / 2].sum()
    below = weights[x > middle + sensitivity / 2].sum()
    return float(max(0.0, above - math.exp(epsilon) * below) / total) * _SAFE


def _concentrated_delta(rho: float, epsilon: float) -> float:
    """From rho-concentrated privacy to (epsilon, delta): the best order of a fine grid."""
    if epsilon <= rho:
        return 1.0
    order = 1 + np.geomspace(1e-3, 1e4, 4000)
    exponent = (order - 1) * (order * rho - epsilon) + order * np.log1p(-1 / order)
    return float(np.exp(np.min(exponent - np.log(order - 1))))


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:  # pragma: no cover (an extra)
        return None
    return privacy_loss_distribution

"""Theorems on what releases cost, each once, rounded up: every bound holds for the real numbers.

Floats are used where their errors are bounded by a count of the operations, and the bound is added;
what is left is exact, or decimal with many digits.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from operator import index

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.exact.numbers import float_up

_UNIT = 2.0**-53
_VANISHED = 2.0**-1000
"""Chances below this part of the largest one are taken for it: smaller floats are imprecise."""
_SPECIAL = 2.0**-42
"""More than the relative error of the special functions."""
_WIDE = 40.0
"""So many standard deviations around the mean the chances of a binomial are computed one by one."""
_MOST_RELEASES = 10**9
"""Many more would need more memory than there is."""
_SAFE = 1 + 1e-9
"""More than floats lose in a formula of a few operations."""


def composed_delta(epsilon: float, each_epsilon: float, each_delta: float, releases: int) -> float:
    """The delta at a total epsilon of so many (each_epsilon, each_delta)-private releases.

    Kairouz, Oh and Viswanath 2015, Theorem 3.3: the best possible knowing no more. Releases may be
    chosen one after the other. Never below the truth, and above it by less than 1e-8 of it for a
    million releases.

    :param epsilon: total privacy loss
    :param each_epsilon: privacy loss of each release
    :param each_delta: probability of a larger loss, of each release
    :param releases: how many

    >>> composed_delta(1.0, 1.0, 1e-6, 1)
    1e-06
    >>> composed_delta(4.0, 0.1, 0.0, 100) < 1e-3  # the sum of epsilons is 10
    True
    """
    if not 0 <= epsilon < math.inf:
        raise ValueError(f"epsilon ({epsilon!r}) must be finite and not negative")
    if not 0 <= each_epsilon < math.inf:
        raise ValueError(f"each_epsilon ({each_epsilon!r}) must be finite and not negative")
    if not 0 <= each_delta <= 1:
        raise ValueError(f"each_delta ({each_delta!r}) must be in [0, 1]")
    if not 1 <= index(releases) <= _MOST_RELEASES:
        raise ValueError(f"releases ({releases!r}) must be in [1, {_MOST_RELEASES}]")
    beyond = _beyond(Fraction(epsilon), Fraction(each_epsilon), index(releases))
    if beyond == 0 and (each_delta == 0 or releases == 1):
        return float(each_delta)
    return _either(beyond, float(each_delta), index(releases))


def _beyond(epsilon: Fraction, each: Fraction, releases: int) -> float:
    """The delta of randomised responses, each of which tells the truth with odds exp(each) to 1.

    With i lies the loss is (releases - 2 i) each; those above epsilon count, by how far they are.
    """
    if releases * each <= epsilon:
        return 0.0
    last = math.ceil((releases - epsilon / each) / 2) - 1
    nearest = float_up((releases - 2 * last) * each - epsilon)
    first, chances = _chances(float(each), releases)
    lies = np.arange(first, min(last + 1, first + len(chances)))
    counted = -np.expm1(-(nearest + 2.0 * float(each) * (last - lies)))
    part = float((np.maximum(chances[: len(lies)], _VANISHED) * counted).sum())
    # Chances fall on both sides: each of the others is at most the one at the end.
    before, after = min(first, last + 1), max(0, last + 1 - first - len(chances))
    part += before * max(float(chances[0]), _VANISHED) + after * max(float(chances[-1]), _VANISHED)
    whole = float(chances[chances >= _VANISHED].sum())
    # At most 5 roundings for each step from the largest chance, in both sums, and those of adding.
    return min(1.0, part / whole * (1 + 16 * (len(chances) + 8) * _UNIT))


def _chances(each: float, releases: int) -> tuple[int, Floats]:
    """The chances of so many lies and more as parts of the largest one, all that count."""
    lie = math.exp(-each)
    top = min(releases, int((releases + 1) * lie / (1 + lie)))
    width = math.ceil(_WIDE * (1 + math.sqrt(min(top, releases - top) + 1)))
    first, last = max(0, top - width), min(releases, top + width)
    lies = np.arange(first + 1.0, last + 1.0)
    grown = (releases + 1 - lies) / lies * lie  # from one lie less
    down = np.cumprod(1 / grown[: top - first][::-1])[::-1]
    return first, np.concatenate([down, [1.0], np.cumprod(grown[top - first :])])


def _either(beyond: float, each_delta: float, releases: int) -> float:
    """The chance that one of the deltas happens, or the rest is beyond, rounded up."""
    if beyond >= 1 or each_delta >= 1:
        return 1.0
    least = min(x for x in (beyond, each_delta) if x > 0)
    digits = 40 - math.floor(math.log10(least))
    exact = Context(prec=digits, Emin=-999999, Emax=999999)
    none = exact.power(exact.subtract(Decimal(1), Decimal(each_delta)), releases)
    kept = exact.multiply(none, exact.subtract(Decimal(1), Decimal(beyond)))
    room = Fraction(releases + 8, 10 ** (digits - 2))
    return min(1.0, float_up(1 - Fraction(kept) + room))


def gaussian_delta_above(sigma: float, epsilon: float) -> float:
    """The delta of Gaussian noise at sensitivity 1, rounded up.

    The formula is evaluated for a little less noise and a little less epsilon, which makes up for
    the roundings of its arguments, and the errors of its two terms are added.

    :param sigma: standard deviation
    :param epsilon: privacy loss
    """
    from scipy.special import erfcx, ndtr

    sigma, epsilon = sigma * (1 - 1e-8), epsilon * (1 - 1e-9)
    above, below = epsilon * sigma - 0.5 / sigma, epsilon * sigma + 0.5 / sigma
    # exp(epsilon) is folded into the second term: phi(below) exp(epsilon) = phi(above).
    peak = 0.5 * math.exp(-(above**2) / 2)
    first = float(ndtr(-above)) if above < 0 else peak * float(erfcx(above / math.sqrt(2)))
    second = peak * float(erfcx(below / math.sqrt(2)))
    error = (first + second) * (1 + above**2) * _SPECIAL
    return min(1.0, max(first - second, 0.0) + error + _VANISHED)


def laplace_delta(total: float, epsilon: float, step: float) -> float:
    """The delta of Laplace noise on a grid, on one number or on vectors under l1, rounded up.

    Of neighbours ``total`` apart, the loss is one of ``total - m step``, where the delta is
    ``1 - exp(-m step / 2)`` as that of continuous noise; between these it is a chord in
    exp(epsilon). A vector whose numbers differ by d1 and d2 costs no more than one number that
    differs by d1 + d2: its delta at such a point is ``1 - exp(-m step / 2) (1 + c)``, c >= 0
    (summed over the loss of the second number, the smaller one).

    :param total: the largest loss: the distance of neighbours over the scale
    :param epsilon: privacy loss, at least 0
    :param step: between losses: twice the step of the grid over the scale

    >>> laplace_delta(1.0, 0.0, 1e-9) >= 1 - math.exp(-0.5)
    True
    >>> laplace_delta(1.0, 1.0, 2.0)
    0.0
    """
    if epsilon >= total:
        return 0.0
    short = (total - epsilon) * (1 + 1e-15)
    if step < 1e-9 * short:
        return min(1.0, -math.expm1(-(short + step) / 2) * (1 + 1e-15))
    below = math.floor(short / step)
    least, most = -math.expm1(-below * step / 2), -math.expm1(-(below + 1) * step / 2)
    part = min(1.0, math.expm1(-max(0.0, short - below * step)) / math.expm1(-step))
    return min(1.0, (least + part * (most - least)) * (1 + 1e-12))


class DiscreteGaussianDelta:
    """The delta of discrete Gaussian noise (Canonne, Kamath, Steinke 2020, Theorem 7), rounded up.

    :param sigma: the scale
    :param sensitivity: of integers
    """

    def __init__(self, sigma: float, sensitivity: int) -> None:
        """Sum the chances once."""
        reach = math.ceil(sensitivity + 20 * sigma) + 2
        chances = np.exp(-0.5 * (np.arange(-reach, reach + 1, dtype=np.float64) / sigma) ** 2)
        self._sigma, self._sensitivity, self._first = sigma, sensitivity, -reach
        self._above = np.append(np.cumsum(chances[::-1])[::-1], 0.0)

    def __call__(self, epsilon: float) -> float:
        """The delta at an epsilon, rounded up; 1 where floats end."""
        if epsilon > 700:
            return 1.0
        # Any threshold gives a delta that is not above the truth, and the best one the truth: near
        # it the two that floats cannot tell apart are both tried.
        middle = epsilon * self._sigma**2 / self._sensitivity - self._sensitivity / 2
        delta = 0.0
        for threshold in (math.floor(middle) - 1, math.floor(middle), math.floor(middle) + 1):
            above, below = self._beyond(threshold), self._beyond(threshold + self._sensitivity)
            lost = (above + math.exp(epsilon) * below) * (len(self._above) + 64) * 4 * _UNIT
            delta = max(delta, above - math.exp(epsilon) * below + lost)
        total = float(self._above[0])
        # What is beyond the reach is less than 1e-80 of the whole.
        return min(1.0, (delta / total + 1e-80) * _SAFE)

    def _beyond(self, threshold: int) -> float:
        place = min(max(threshold + 1 - self._first, 0), len(self._above) - 1)
        return float(self._above[place])


def concentrated_delta(rho: float, epsilon: float) -> float:
    """The delta of rho-zCDP at an epsilon, rounded up: the best order of a fine grid.

    Canonne, Kamath, Steinke 2020, Corollary 13.

    :param rho: loss
    :param epsilon: privacy loss
    """
    if rho == 0:
        return 0.0
    if not epsilon > rho:
        return 1.0
    order = 1 + np.geomspace(1e-3, 1e4, 4000)
    exponent = (order - 1) * (order * rho - epsilon) + order * np.log1p(-1 / order)
    return min(1.0, float(np.exp(np.min(exponent - np.log(order - 1)))) * _SAFE + _VANISHED)

"""What releases cost together, rounded up: every bound here holds for the real numbers.

Floats are used where their errors are bounded by a count of the operations, and the bound is added;
what is left is exact, or decimal with many digits.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from operator import index

import numpy as np
from scipy.special import erfcx, ndtr

__all__ = ["composed_delta", "float_above", "gaussian_delta_above"]

_UNIT = 2.0**-53
_VANISHED = 2.0**-1000
"""Chances below this part of the largest one are taken for it: smaller floats are imprecise."""
_SPECIAL = 2.0**-42
"""More than the relative error of the special functions."""


def float_above(value: Fraction) -> float:
    """The smallest float that is not below a number.

    :param value: an exact number, not negative
    """
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def composed_delta(epsilon: float, each_epsilon: float, each_delta: float, releases: int) -> float:
    """The delta at a total epsilon of so many (each_epsilon, each_delta)-private releases.

    Never below the truth, and above it by less than 1e-8 of it for a million releases.

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
    if index(releases) < 1:
        raise ValueError(f"releases ({releases!r}) must be at least 1")
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
    nearest = float_above((releases - 2 * last) * each - epsilon)
    chances = _chances(float(each), releases)
    lies = np.arange(last + 1)
    counted = -np.expm1(-(nearest + 2.0 * float(each) * (last - lies)))
    part = float((np.maximum(chances[: last + 1], _VANISHED) * counted).sum())
    whole = float(chances[chances >= _VANISHED].sum())
    # At most 5 roundings for each step from the largest chance, in both sums, and those of adding.
    return min(1.0, part / whole * (1 + 16 * (releases + 8) * _UNIT))


def _chances(each: float, releases: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The chances of 0, 1, ... lies as parts of the largest one."""
    lie = math.exp(-each)
    top = min(releases, int((releases + 1) * lie / (1 + lie)))
    lies = np.arange(1.0, releases + 1)
    grown = (releases + 1 - lies) / lies * lie  # from one lie less
    down = np.cumprod(1 / grown[:top][::-1])[::-1]
    return np.concatenate([down, [1.0], np.cumprod(grown[top:])])


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
    return min(1.0, float_above(1 - Fraction(kept) + room))


def gaussian_delta_above(sigma: float, epsilon: float) -> float:
    """The delta of Gaussian noise at sensitivity 1, rounded up.

    The formula is evaluated for a little less noise and a little less epsilon, which makes up for
    the roundings of its arguments, and the errors of its two terms are added.

    :param sigma: standard deviation
    :param epsilon: privacy loss
    """
    sigma, epsilon = sigma * (1 - 1e-8), epsilon * (1 - 1e-9)
    above, below = epsilon * sigma - 0.5 / sigma, epsilon * sigma + 0.5 / sigma
    # exp(epsilon) is folded into the second term: phi(below) exp(epsilon) = phi(above).
    peak = 0.5 * math.exp(-(above**2) / 2)
    first = float(ndtr(-above)) if above < 0 else peak * float(erfcx(above / math.sqrt(2)))
    second = peak * float(erfcx(below / math.sqrt(2)))
    error = (first + second) * (1 + above**2) * _SPECIAL
    return min(1.0, max(first - second, 0.0) + error + _VANISHED)

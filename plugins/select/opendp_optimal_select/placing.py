"""The best offsets for Laplace noise: closed forms, and a recursion for any disutility.

The signal is ``s = u + Y`` with ``Y`` Laplace of scale ``1/epsilon``; the server answers
``s + a_1, ..., s + a_k``. With ``Y`` exponential on either side of 0, memorylessness gives a
recursion over the number of answers on one side. Write ``D_b`` for the best cost when the first
of ``b`` answers sits at the start of the exponential. Setting the derivative of the recursion to
zero leaves a single monotone equation for half of the next gap ``x``:

    integral_0^x exp(epsilon t) dh(t) = D_b,     D_{b+1} = integral_0^x exp(-epsilon t) dh(t).

The same ``x`` (for ``b = k/2``) is the first offset for even ``k``, whose cost is ``h(x)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from scipy.integrate import quad
from scipy.optimize import brentq

from opendp_optimal.extend import positive, whole
from opendp_optimal_select.disutility import Disutility, check_disutility
from opendp_optimal_select.noise import MOST_OFFSETS, mirrored

_PANELS = (0.0, 1.0, 3.0, 8.0, 20.0, 50.0, 140.0, 700.0)


def offsets(k: int, *, epsilon: float, disutility: Disutility | None = None) -> tuple[float, ...]:
    """Return the ``k`` offsets, in ascending order, that minimise the expected disutility.

    With ``disutility=None`` (the distance itself) the closed forms of Theorem B.3 are used, with
    the slip in its first line for odd ``k`` put right.

    :param k: number of answers
    :param epsilon: privacy per unit of distance; the noise is Laplace of scale ``1/epsilon``
    :param disutility: cost as a function of distance; ``None`` for the distance itself

    >>> [round(a, 4) for a in offsets(3, epsilon=1.0)]
    [-1.3863, 0.0, 1.3863]
    >>> [round(a, 4) for a in offsets(3, epsilon=1.0, disutility=lambda t: t)]
    [-1.3863, 0.0, 1.3863]
    """
    k = whole("k", k, most=MOST_OFFSETS)
    epsilon = positive("epsilon", epsilon)
    if disutility is not None:
        return recursion(k, epsilon=epsilon, disutility=disutility).offsets
    if not math.isfinite(2.0 * math.log(k + 1) / epsilon):
        raise ValueError(f"epsilon ({epsilon}) must be large enough for finite offsets")
    half = k // 2
    most, first = (half + 1, 0.0) if k % 2 else (half, math.log1p(1.0 / half) / epsilon)
    return mirrored((first + 2.0 * math.log(most / i) / epsilon for i in range(half, 0, -1)), k)


def cost(k: int, *, epsilon: float, disutility: Disutility | None = None) -> float:
    """Return the expected disutility of the best of ``k`` answers at their optimal offsets.

    For the distance itself: ``1/(b epsilon)`` for ``k = 2b - 1``, ``ln(1 + 2/k)/epsilon`` for even
    ``k``.

    :param k: number of answers
    :param epsilon: privacy per unit of distance; the noise is Laplace of scale ``1/epsilon``
    :param disutility: cost as a function of distance; ``None`` for the distance itself

    >>> cost(3, epsilon=1.0)
    0.5
    >>> round(cost(2, epsilon=1.0), 4)
    0.6931
    """
    k, epsilon = whole("k", k), positive("epsilon", epsilon)
    if disutility is not None:
        return recursion(k, epsilon=epsilon, disutility=disutility).cost
    value = 2.0 / (k + 1) / epsilon if k % 2 else math.log1p(2.0 / k) / epsilon
    if not math.isfinite(value):
        raise ValueError(f"epsilon ({epsilon}) must be large enough for a finite cost")
    return value


@dataclass(frozen=True)
class Placement:
    """Offsets together with the expected disutility they reach."""

    offsets: tuple[float, ...]
    cost: float


def recursion(k: int, *, epsilon: float, disutility: Disutility) -> Placement:
    """Return the optimal offsets and cost for any valid disutility.

    :param k: number of answers
    :param epsilon: privacy per unit of distance
    :param disutility: cost as a function of distance; checked by
        :func:`~opendp_optimal_select.disutility.check_disutility`

    >>> round(recursion(1, epsilon=1.0, disutility=lambda t: t**2).cost, 9)
    2.0
    """
    k = whole("k", k, most=MOST_OFFSETS)
    epsilon = positive("epsilon", epsilon)
    check_disutility(disutility, epsilon=epsilon)
    sides = (k + 1) // 2
    try:
        halves, one_sided = _unroll(sides, epsilon, disutility)
    except (RuntimeError, OverflowError, ZeroDivisionError):
        raise ValueError(
            f"epsilon ({epsilon}) must be one at which the disutility can be integrated"
        ) from None
    gaps = [2.0 * x for x in reversed(halves[: sides - 1])]
    if k % 2:
        return Placement(mirrored(accumulate(gaps), k), one_sided[sides - 1])
    first = halves[sides - 1]
    return Placement(mirrored(accumulate([first, *gaps]), k), float(disutility(first)))


@lru_cache(maxsize=64)
def _unroll(
    sides: int, epsilon: float, disutility: Disutility
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return half gaps ``x_1..x_sides`` and costs ``D_1..D_{sides+1}`` of the recursion."""
    panels = [(a / epsilon, b / epsilon) for a, b in pairwise(_PANELS)]
    costs = [sum(_weighted(disutility, a, b, -epsilon) for a, b in panels)]
    halves: list[float] = []
    upper = 1.0 / epsilon
    while _slope(upper, epsilon, disutility) < costs[0]:
        upper *= 2.0

    def excess(x: float, wanted: float) -> float:
        return _slope(x, epsilon, disutility) - wanted

    for _ in range(sides):
        wanted = (costs[-1],)
        x = float(brentq(excess, 0.0, upper, args=wanted, xtol=1e-15 / epsilon, rtol=1e-14))
        halves.append(x)
        inner = _weighted(disutility, 0.0, x, -epsilon)
        costs.append(inner + math.exp(-epsilon * x) * float(disutility(x)))
        upper = x
    return tuple(halves), tuple(costs)


def _slope(x: float, epsilon: float, disutility: Disutility) -> float:
    """Return ``integral_0^x exp(epsilon t) dh(t)``, written without the derivative of ``h``."""
    if x <= 0.0:
        return 0.0
    outer = float(disutility(x)) * math.exp(epsilon * x)
    return outer - _weighted(disutility, 0.0, x, epsilon)


def _weighted(disutility: Disutility, low: float, high: float, rate: float) -> float:
    """Return ``integral_low^high h(t) |rate| exp(rate t) dt``.

    With ``t = v**2`` a square root at 0 becomes smooth, and powers below 1 become harmless.
    """

    def integrand(v: float) -> float:
        t = v * v
        return 2.0 * v * float(disutility(t)) * abs(rate) * math.exp(rate * t)

    ends = math.sqrt(low), math.sqrt(high)
    return float(quad(integrand, *ends, epsabs=0.0, epsrel=2e-14, limit=200, full_output=1)[0])

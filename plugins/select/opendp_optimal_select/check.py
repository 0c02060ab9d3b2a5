"""A slow, independent check: integrate the definition and minimise over all offsets at once.

Nothing here knows of the closed forms, of the recursion or of symmetry.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize, root

from opendp_optimal.extend import Floats, finite, positive, whole
from opendp_optimal_select.disutility import Disutility, check_disutility
from opendp_optimal_select.noise import MOST_OFFSETS
from opendp_optimal_select.placing import Placement

_TAIL_LENGTH = 60.0


def expected_cost(
    offsets: Sequence[float], *, epsilon: float, disutility: Disutility | None = None
) -> float:
    """Return the expected disutility of the best answer for any offsets, by integration.

    :param offsets: the offsets, in any order
    :param epsilon: privacy per unit of distance; the noise is Laplace of scale ``1/epsilon``
    :param disutility: cost as a function of distance; ``None`` for the distance itself

    >>> round(expected_cost([-math.log(4.0), 0.0, math.log(4.0)], epsilon=1.0), 12)
    0.5
    """
    points = np.sort([finite("offsets", a) for a in offsets])
    if points.size == 0:
        raise ValueError("offsets (an empty sequence) must hold at least one number")
    unit, size = _in_units(disutility, positive("epsilon", epsilon))
    return size * _cost(points * epsilon, unit)


def minimise_cost(k: int, *, epsilon: float, disutility: Disutility | None = None) -> Placement:
    """Return offsets and cost found by plain numerical minimisation over ``k`` free offsets.

    Meant for checking :func:`~opendp_optimal_select.placing.offsets`; use that one for work.

    :param k: number of answers
    :param epsilon: privacy per unit of distance
    :param disutility: cost as a function of distance; ``None`` for the distance itself

    >>> [round(a, 6) for a in minimise_cost(2, epsilon=1.0).offsets]
    [-0.693147, 0.693147]
    """
    k = whole("k", k, most=MOST_OFFSETS)
    unit, size = _in_units(disutility, positive("epsilon", epsilon))
    if not math.isfinite(2.0 * math.log(k + 1) / epsilon):
        raise ValueError(f"epsilon ({epsilon}) must be large enough for finite offsets")
    tails = (np.arange(k) + 0.5) / k
    start = np.sign(tails - 0.5) * -np.log1p(-np.abs(2.0 * tails - 1.0))

    def value(points: Floats) -> float:
        return _cost(np.sort(points), unit)

    def gradient(points: Floats) -> Floats:
        order = np.argsort(points)
        slopes = np.empty(k)
        slopes[order] = _gradient(points[order], unit)
        return slopes

    rough: Any = minimize(
        value, start, jac=gradient, method="BFGS", options={"gtol": 1e-5, "maxiter": 400}
    )
    fine: Any = root(gradient, rough.x, method="hybr", options={"xtol": 1e-15})
    best = np.sort(min((rough.x, fine.x), key=lambda found: float(np.abs(gradient(found)).max())))
    return Placement(tuple((best / epsilon).tolist()), size * _cost(best, unit))


def _in_units(disutility: Disutility | None, epsilon: float) -> tuple[Disutility, float]:
    """Return the disutility in units of the noise and of its own size there, and that size."""
    if disutility is None:
        return float, 1.0 / epsilon
    check_disutility(disutility, epsilon=epsilon)
    size = float(disutility(1.0 / epsilon)) or 1.0
    return lambda t: float(disutility(t / epsilon)) / size, size


def _cells(points: Floats) -> list[tuple[float, float, float]]:
    """Return ``(offset, low, high)`` pieces on which noise and distance keep their signs."""
    end = _TAIL_LENGTH + float(np.abs(points).max())
    middles = 0.5 * (points[1:] + points[:-1])
    lows, highs = np.append(-end, middles), np.append(middles, end)
    pieces = []
    for a, low, high in zip(points, lows, highs, strict=True):
        cuts = sorted({float(low), float(high), *(c for c in (0.0, float(a)) if low < c < high)})
        pieces += [(float(a), x, y) for x, y in itertools.pairwise(cuts)]
    return pieces


def _cost(points: Floats, disutility: Disutility) -> float:
    return math.fsum(_piece(*piece, disutility) for piece in _cells(points))


def _piece(a: float, low: float, high: float, disutility: Disutility) -> float:
    """Return the integral of ``h(|x - a|)`` against the Laplace density over one piece."""
    if disutility is float:  # the distance itself has an antiderivative
        if low + high < 0.0:
            a, low, high = -a, -high, -low
        ends = [(x - a + 1.0) * math.exp(-x) for x in (low, high)]
        return 0.5 * abs(ends[0] - ends[1])
    near, far = sorted((abs(low - a), abs(high - a)))
    direction = 1.0 if low + high > 2.0 * a else -1.0

    def integrand(v: float) -> float:
        t = v * v
        return v * float(disutility(t)) * math.exp(-abs(a + direction * t))

    # A far tail is cut into panels so that adaptive quadrature cannot overlook its mass.
    start, end = math.sqrt(near), math.sqrt(far)
    cuts = np.linspace(start, end, max(1, math.ceil((end - start) / 2.0)) + 1)
    return math.fsum(
        quad(integrand, x, y, epsabs=0.0, epsrel=1e-13, limit=200, full_output=1)[0]
        for x, y in itertools.pairwise(cuts)
    )


def _gradient(points: Floats, disutility: Disutility) -> Floats:
    slopes = np.zeros(points.size)
    index = {float(a): j for j, a in enumerate(points)}
    for a, low, high in _cells(points):
        sign = 1.0 if low + high > 0.0 else -1.0
        slopes[index[a]] -= sign * _piece(a, low, high, disutility)
    for j, edge in enumerate(0.5 * (points[1:] + points[:-1])):
        density = 0.5 * math.exp(-abs(edge))
        for i, sign in ((j, -1.0), (j + 1, 1.0)):
            slopes[i] += sign * density * float(disutility(abs(edge - points[i])))
    return slopes

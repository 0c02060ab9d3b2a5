"""Noise for vectors whose density falls with a norm: expected losses, privacy and design in floats.

Two laws, at sensitivity 1 in the norm and length ``d``:

*staircase*
    The density falls by e^-epsilon with every unit of the norm, first at ``gamma``. It is
    epsilon-private in every norm and dimension, by the triangle inequality.

*decay*
    The density exp(-c r - k r^2) in the l2 norm: Gaussian noise for c = 0, spherical Laplace noise
    for k = 0. In prolate coordinates x = r + r', y = r' - r, with r' the distance from the answer
    of a neighbour, the two densities are exp(-c x/2 - k (x^2 + y^2)/4 +- (c + k x) y/2) and the
    volume is (x^2 - y^2) ((x^2 - 1)(1 - y^2))^((d - 3)/2) dx dy, so that delta is a smooth integral
    over y within one over x.

These numbers propose candidates; what is proved is in :mod:`~opendp_optimal.certify.radial`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from opendp_optimal.arrays import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_GONE = 50.0
"""Parts of an integral smaller by e to this are left out."""


def coordinate_factor(norm: str, size: int) -> float:
    """E sum_i z_i^2 over E r^2, for a vector spread evenly over spheres of a norm.

    :param norm: "l1", "l2" or "linf"
    :param size: of the vectors

    >>> coordinate_factor("linf", 10), coordinate_factor("l2", 3)
    (4.0, 1.0)
    """
    return {"l1": 2 / (size + 1), "l2": 1.0, "linf": (size + 2) / 3}[norm]


def staircase_moment(epsilon: float, size: int, power: int, gamma: float) -> float:
    """E r^power of a staircase in any norm, of sensitivity 1.

    :param epsilon: what a step falls by
    :param size: of the vectors
    :param power: at least 0
    :param gamma: where the first step ends, in (0, 1]

    >>> round(staircase_moment(1.0, 1, 1, 1 / (1 + math.exp(0.5))), 6)
    0.959517
    """
    top = (size + power) / epsilon
    reach = 12.0 * math.sqrt(size + power) / epsilon + 60.0 / epsilon
    step = np.arange(max(0.0, math.floor(top - reach)), math.ceil(top + reach) + 3.0)
    ends = step + gamma

    def mean(exponent: int) -> float:
        logs = exponent * np.log(ends) - epsilon * step
        peak = float(logs.max())
        # A mixture of balls: of weight e^(-epsilon m) times the volume.
        return peak + math.log(float(np.exp(logs - peak).sum()))

    return size / (size + power) * math.exp(mean(size + power) - mean(size))


_SMOOTH = 4e-3
"""Below this epsilon a staircase has the moments of exp(-epsilon r), to a part of epsilon^2."""


@lru_cache(maxsize=512)
def best_staircase(epsilon: float, size: int, power: int) -> tuple[float, float]:
    """The staircase of least E r^power: (the moment, gamma).

    :param epsilon: what a step falls by
    :param size: of the vectors
    :param power: of the loss

    >>> round(best_staircase(1.0, 2, 2)[0], 3)
    5.956
    """
    if epsilon < _SMOOTH:
        return math.prod(range(size, size + power)) / epsilon**power, 0.5
    places = np.concatenate(
        [np.exp(-epsilon * np.linspace(1.0, 0.05, 20)), np.linspace(0.02, 1, 40)]
    )
    places.sort()
    tried = [(staircase_moment(epsilon, size, power, g), g) for g in places.tolist()]
    where = int(np.argmin([moment for moment, _ in tried]))
    low = float(places[max(where - 1, 0)])
    high = float(places[min(where + 1, len(places) - 1)])
    for _ in range(40):
        one, two = low + 0.382 * (high - low), low + 0.618 * (high - low)
        first = staircase_moment(epsilon, size, power, one)
        second = staircase_moment(epsilon, size, power, two)
        low, high = (low, two) if first <= second else (one, high)
    return min([*tried, (staircase_moment(epsilon, size, power, high), high)])


def _spread(logs: Floats, at: Floats) -> tuple[float, float]:
    """Where a function, given by logarithms, has all that counts of its integral."""
    used = np.flatnonzero(logs > logs.max() - _GONE)
    low, high = max(int(used[0]) - 1, 0), min(int(used[-1]) + 1, len(at) - 1)
    return float(at[low]), float(at[high])


def _log_integral(size: int, power: float, c: float, k: float) -> float:
    """log of the integral of r^(size - 1 + power) exp(-c r - k r^2)."""
    exponent = size - 1 + power

    def logs(r: Floats) -> Floats:
        return exponent * np.log(r) - c * r - k * r * r

    # The mode solves exponent / r = c + 2 k r.
    mode = max(2 * exponent / (c + math.sqrt(c * c + 8 * k * exponent)), 1e-3)
    wide = np.geomspace(mode * 1e-4, mode * 1e3, 2001)
    low, high = _spread(logs(wide), wide)
    low = 0.0 if exponent < 30 else low
    r = low + (high - low) * (_NODES + 1) / 2
    values = logs(r) + np.log(_WEIGHTS * (high - low) / 2)
    peak = float(values.max())
    return peak + math.log(float(np.exp(values - peak).sum()))


def decay_moment(c: float, k: float, size: int, power: float) -> float:
    """E r^power of the density exp(-c r - k r^2).

    >>> round(decay_moment(2.0, 0.0, 3, 2), 6), round(decay_moment(0.0, 0.5, 3, 2), 6)
    (3.0, 3.0)
    """
    return math.exp(_log_integral(size, power, c, k) - _log_integral(size, 0.0, c, k))


def decay_delta(c: float, k: float, size: int, epsilon: float) -> float:
    """The delta of the density exp(-c r - k r^2) for moves of l2 length 1.

    :param c: at least 0
    :param k: at least 0, not both 0
    :param size: of the vectors, at least 2
    :param epsilon: at least 0

    >>> round(decay_delta(0.0, 0.5, 4, 1.0), 6)  # standard Gaussian noise
    0.126937
    """
    # x = cosh s beyond the place from which on a neighbour can be told: c + k x > epsilon.
    first = max(1.0, (epsilon - c) / k) if k > 0 else 1.0
    if c + k * first < epsilon and k == 0:
        return 0.0
    top = 2 * math.exp(_log_integral(size, 1.0, c, k) - _log_integral(size, 0.0, c, k)) + 2
    start = math.acosh(first)
    wide = np.linspace(start, max(start, math.acosh(max(top, first))) + 6.0, 4001)[1:]

    def outer(s: Floats) -> Floats:
        x = np.cosh(s)
        logs = -c * x / 2 - k * x * x / 4 + (size - 2) * np.log(np.sinh(s)) + 2 * np.log(x)
        # What a neighbour's move can do at best there, to see where the integral lies.
        tell = np.minimum(epsilon / (c + k * x), 1.0)
        return np.asarray(
            logs + (c + k * x) * tell / 2 + 0.5 * size * np.log1p(-tell * tell * 0.999)
        )

    low, high = _spread(outer(wide), wide)
    low = start if low <= float(wide[1]) else low
    s = low + (high - low) * (_NODES + 1) / 2
    x = np.cosh(s)
    gamma = c + k * x
    told = np.minimum(epsilon / gamma, 1.0)
    begin = np.arcsin(told)[:, None]
    # The part of y that counts: the cosine falls like exp(-size tan(begin) y).
    fall = np.maximum((size - 2) * np.tan(np.minimum(begin, 1.57)) - gamma[:, None], 0.5)
    width = np.minimum(math.pi / 2 - begin, (_GONE + 10) / fall)
    angle = begin + width * (_NODES + 1) / 2
    y = np.sin(angle)
    g = gamma[:, None]
    shift = g * told[:, None] / 2 + (size - 2) * np.log(np.cos(begin) + 1e-300)
    logs = g * y / 2 - k * y * y / 4 + (size - 2) * np.log(np.cos(angle) + 1e-300) - shift
    inner = np.exp(logs) * -np.expm1(epsilon - g * y) * _WEIGHTS * width / 2
    h0, h2 = inner.sum(axis=1), (inner * y * y).sum(axis=1)
    logs_out = -c * x / 2 - k * x * x / 4 + (size - 2) * np.log(np.sinh(s)) + shift[:, 0]
    peak = float(logs_out.max())
    total = float((np.exp(logs_out - peak) * (x * x * h0 - h2) * _WEIGHTS).sum()) * (high - low) / 2
    if total <= 0:
        return 0.0
    sphere = math.lgamma(size / 2) - math.lgamma((size - 1) / 2) - 0.5 * math.log(math.pi)
    log_delta = math.log(total) + peak + sphere - size * math.log(2.0)
    return min(1.0, math.exp(min(log_delta - _log_integral(size, 0.0, c, k), 0.0)))


def _rates(shape: float, scale: float, size: int) -> tuple[float, float]:
    """(c, k) of the law of a shape in [0, 1], from spherical Laplace to Gaussian, and a scale."""
    return (1 - shape) / scale, shape / (scale * scale * size)


def _scale_for(shape: float, size: int, epsilon: float, delta: float, near: float) -> float:
    """The scale at which a shape spends delta, by false position on logarithms."""

    def excess(log_scale: float) -> float:
        spent = decay_delta(*_rates(shape, math.exp(log_scale), size), size, epsilon)
        return math.log(max(spent, 1e-300) / delta)

    low = high = math.log(near)
    above = below = excess(low)
    step = 0.02
    while above <= 0:
        high, below = low, above
        low, step = low - step, 2 * step
        above = excess(low)
    step = 0.02
    while below > 0:
        low, above = high, below
        high, step = high + step, 2 * step
        below = excess(high)
    for turn in range(60):
        if high - low < 1e-10 or below > -1e-9:
            break
        share = above / (above - below) if turn % 3 < 2 and below > -600 else 0.5
        middle = low + (high - low) * min(max(share, 0.02), 0.98)
        found = excess(middle)
        if found <= 0:
            high, below = middle, found
        else:
            low, above = middle, found
    return math.exp(high)


@lru_cache(maxsize=512)
def best_decay(epsilon: float, delta: float, size: int, power: int) -> tuple[float, float, float]:
    """The decay of least E r^power that is (epsilon, delta)-private: (the moment, c, k).

    :param epsilon: at least 0
    :param delta: above 0
    :param size: of the vectors, at least 2
    :param power: of the loss

    >>> round(best_decay(1.0, 1e-6, 10, 2)[0], 1)
    92.0
    """

    near = 1.0 / epsilon

    def at(shape: float) -> tuple[float, float, float]:
        nonlocal near
        near = _scale_for(shape, size, epsilon, delta, near)
        c, k = _rates(shape, near, size)
        return decay_moment(c, k, size, power), c, k

    found = {shape: at(shape) for shape in (0.0, 0.02, 0.08, 0.3, 1.0)}
    best = min(found, key=lambda shape: found[shape][0])
    for _ in range(5):
        places = sorted(found)
        where = places.index(best)
        for other in places[max(where - 1, 0) : where + 2]:
            if other != best:
                found[(best + other) / 2] = at((best + other) / 2)
        best = min(found, key=lambda shape: found[shape][0])
    return found[best]


_AS_GOOD, _LONG = 0.8, 1e4
"""Of two laws neither of which has less than this part of the other's loss both count, unless a
staircase has so many steps."""


def near_density(epsilon: float, delta: float, size: int, power: int) -> Callable[[Floats], Floats]:
    """The logarithm of the density of the better law, or of both, in units of the unit ball.

    :param epsilon: above 0
    :param delta: above 0
    :param size: of the vectors, at least 2
    :param power: of the loss
    """
    smooth, c, k = best_decay(epsilon, delta, size, power)
    whole = _log_integral(size, 0.0, c, k) + math.log(size)

    def decay(r: Floats) -> Floats:
        return np.asarray(-c * r - k * r * r - whole)

    if size + 60 > _LONG * epsilon:
        return decay
    stepped, gamma = best_staircase(epsilon, size, power)
    ball = np.arange(math.ceil((size + 8 * math.sqrt(size) + 60) / epsilon) + 4)
    logs = size * np.log(gamma + ball) - epsilon * ball
    steps = float(np.logaddexp.reduce(logs)) + math.log(-math.expm1(-epsilon))

    def staircase(r: Floats) -> Floats:
        return np.asarray(-epsilon * np.ceil(np.maximum(r - gamma, 0.0)) - steps)

    if smooth < _AS_GOOD * stepped:
        return decay
    if stepped < _AS_GOOD * smooth:
        return staircase
    return lambda r: np.asarray(np.logaddexp(decay(r), staircase(r)))

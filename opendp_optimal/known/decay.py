"""Where noise exp(-c r - k r^2) for vectors is, and what tells neighbours apart: guesses.

They say where a proof looks. Whatever they say, what it proves there is true.
"""

from __future__ import annotations

import math

import numpy as np

DEEP = 44.0
"""What is smaller by e to this hardly counts."""
_CELLS = 32
_PLACES, _SHARES = np.polynomial.legendre.leggauss(24)


def mode(c: float, k: float, exponent: int) -> float:
    """Where r^exponent exp(-c r - k r^2) is largest."""
    return 2 * exponent / (c + math.sqrt(c * c + 8 * k * exponent)) if exponent else 0.0


def far(c: float, k: float, size: int) -> int:
    """A radius that the noise hardly ever exceeds, even by less than 1."""

    def logs(r: float) -> float:
        return (size - 1) * math.log(r) - c * r - k * r * r

    peak = max(mode(c, k, size - 1), 1.0)
    high = 2 * peak + 2
    while logs(high) > logs(peak) - 2 * DEEP:
        high *= 1.25
    low = peak
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if logs(middle) > logs(peak) - 2 * DEEP else (low, middle)
    return math.ceil(high) + 2


def edges(c: float, k: float, size: int, epsilon: float, last: float) -> list[float]:
    """Where the cells of x end; any places prove something, good ones nearly all.

    The error of chords is least where cells are as dense as the cube root of what they bend.
    """
    first = max(1.0, (epsilon - c) / k) if k > 0 else last
    if not first < last:
        return []
    x = first + (last - first) * np.linspace(0.0, 1.0, 1025)[1:] ** 2
    g = c + k * x
    begin = np.arcsin(np.minimum(epsilon / g, 1.0))[:, None]
    fall = np.maximum((size - 2) * np.tan(np.minimum(begin, 1.57)) - g[:, None], 0.5)
    width = np.minimum(math.pi / 2 - begin, DEEP / fall)
    angle = begin + width * (_PLACES + 1) / 2
    shift = (size - 2) * np.log(np.cos(begin) + 1e-300)
    bent = np.exp((size - 2) * np.log(np.cos(angle) + 1e-300) - shift) * np.sin(angle) ** 2
    bent *= np.sinh(np.clip(g[:, None] * np.sin(angle) - epsilon, 0.0, 300.0) / 2)
    inner = np.log((bent * _SHARES * width).sum(axis=1) + 1e-300) + shift[:, 0]
    logs = inner - c * x / 2 - k * x * x / 4 + 0.5 * (size - 3) * np.log(x * x - 1) + 2 * np.log(x)
    dense = np.exp((logs - logs.max()) / 3) + 1e-9
    filled = np.cumsum(dense * np.gradient(x))
    places = np.interp(np.arange(1, _CELLS) / _CELLS, filled / filled[-1], x)
    # What grows fast is not left to one long chord at the end.
    end = float(places[-1])
    beyond = [end + (end - first) * (2.0**i - 1) / 8 for i in range(1, 12)]
    found = {first, *places.tolist(), *(place for place in beyond if place < last)}
    return sorted(found - {1.0, last})

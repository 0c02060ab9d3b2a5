"""One number of a vector of noise that is spread evenly over balls of a random radius."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.known.law import Tabulated

_MOST_RADII = 2048
_MOST_LISTED = 1 << 26
"""Whole numbers times radii: where there are more, numbers stand for many."""
_MOST_PLACES = 1 << 19
"""Of real noise, on a side."""
_BLOCK = 1 << 10
"""Places looked at together."""
_FINE = 64.0
"""Lattice points in a standard deviation of the number."""
_RARE = 1e-34
_GONE = 80.0
"""Parts of a density smaller by e to this are left out."""
_WIDE = 4.0
"""Noise of this spread is so smooth that rounding adds the variance of a uniform error."""
_FAR = 64
"""Spreads beyond which nothing is left of the noise."""


def decay_radii(c: float, k: float, size: int) -> tuple[Floats, Floats]:
    """Radii of balls, and their weights, that mix to the density exp(-c r - k r^2) in a norm.

    :param c: at least 0
    :param k: at least 0, not both 0
    :param size: of the vectors
    """

    def logs(r: Floats) -> Floats:
        return np.asarray(size * np.log(r) + np.log(c + 2 * k * r) - c * r - k * r * r)

    middle = 2 * (size + 1) / (c + math.sqrt(c * c + 8 * k * (size + 1)))
    wide = middle * np.exp(np.linspace(-math.log(1e3), math.log(1e3), 4096))
    found = logs(wide)
    used = wide[found > found.max() - _GONE]
    radii = np.linspace(used[0], used[-1], 2 * _MOST_RADII)
    found = logs(radii)
    return radii, np.exp(found - found.max())


def coordinate_law(
    norm: str, size: int, radii: Floats, weights: Floats, unit: float, *, whole: bool
) -> Tabulated:
    """The law of one number of a uniform point of a ball of a random radius.

    :param norm: of the balls: "l1", "l2" or "linf"
    :param size: of the vectors
    :param radii: of the balls, ascending; for whole numbers 2 m + 1, where they reach to m
    :param weights: of the radii
    :param unit: what the noise is multiplied by
    :param whole: whether the vectors are of integers, in the norm linf

    >>> law = coordinate_law("linf", 3, np.array([2.0]), np.array([1.0]), 1.0, whole=False)
    >>> law.cdf([-2.1, 0.0, 1.0]).round(3).tolist()
    [0.0, 0.5, 0.75]
    """
    radii, weights = _grouped(radii, weights / weights.sum())
    if whole:
        reach = (radii - 1) / 2  # after grouping no longer whole, which is far below the noise
        last = np.flatnonzero(np.cumsum(weights[::-1])[::-1] > _RARE)[-1]
        count = math.ceil(float(reach[last])) + 1
        if count * len(radii) > _MOST_LISTED:  # so wide that only 0 differs from real noise
            sure = float(weights[0]) if reach[0] == 0 else 0.0
            start = 1 if sure else 0
            law = coordinate_law(norm, size, reach[start:], weights[start:], unit, whole=False)
            return replace(law, chances=law.chances * (1 - sure), atom=sure)
        above = _tails(
            np.arange(count, dtype=np.float64),
            lambda at: np.maximum(reach - at, 0.0) / (2 * reach + 1) @ weights,
        )
        return _law(above, 1.0, math.sqrt(float(weights @ reach**2)) + 1.0, integer=True)
    share = {"l1": 2 / (size + 1) / (size + 2), "l2": 1 / (size + 2), "linf": 1 / 3}[norm]
    deviation = math.sqrt(share * float(weights @ radii**2))
    step = max(deviation / _FINE, float(radii[-1]) / _MOST_PLACES)
    above = _tails(
        np.arange(0.5, math.ceil(float(radii[-1]) / step) + 1, dtype=np.float64) * step,
        lambda at: _above(norm, size, np.maximum(1 - at / radii, 0.0)) @ weights,
    )
    return _law(above, step * unit, deviation * unit, integer=False)


def _tails(places: Floats, chances: Callable[[Floats], Floats]) -> Floats:
    """The chance of more than each place, up to where it is rare."""
    found = []
    for start in range(0, len(places), _BLOCK):
        found.append(chances(places[start : start + _BLOCK, None]))
        if found[-1][-1] < _RARE:
            break
    return np.concatenate(found)


def beyond(norm: str, size: int, radii: Floats, weights: Floats, places: Floats) -> Floats:
    """The chance that one number of a uniform point of a ball of a random radius is larger.

    :param norm: of the balls: "l1", "l2" or "linf"
    :param size: of the vectors
    :param radii: of the balls, ascending
    :param weights: of the radii
    :param places: larger than what, at least 0
    """
    radii, weights = _grouped(radii, weights / weights.sum())
    return _above(norm, size, np.maximum(1 - places[:, None] / radii, 0.0)) @ weights


def rounded_moment(beyond: Callable[[Floats], Floats], real: float, power: int) -> float:
    """The mean power of symmetric noise after it was rounded to integers.

    :param beyond: the chance that the noise is larger, for each place
    :param real: its mean power before
    :param power: 1 or 2

    >>> sure = lambda places: 0.5 * (places < 1.2)  # noise of 1.2 or -1.2
    >>> rounded_moment(sure, 1.44, 2)
    1.0
    """
    spread = real ** (1 / power)
    if spread > _WIDE:
        return real + (1 / 12 if power == 2 else 0.0)
    whole = np.arange(1.0, math.ceil(_FAR * spread) + 8)
    return 2 * float((whole**power - (whole - 1) ** power) @ beyond(whole - 0.5))


def _law(above: Floats, step: float, width: float, *, integer: bool) -> Tabulated:
    """Symmetric noise from the chances of more than each place of a side, the first around 0."""
    side = -np.diff(above, append=0.0)
    chances = np.concatenate([side[::-1], [1 - 2 * float(above[0])], side])
    return Tabulated(chances, step, width, integer=integer, dependent=True)


def _above(norm: str, size: int, rest: Floats) -> Floats:
    """The chance of a number beyond a share of the radius.

    :param rest: 1 minus the share
    """
    if norm == "l2":
        from scipy.special import betainc

        half = (size + 1) / 2
        return np.asarray(betainc(half, half, rest / 2))
    return np.asarray(rest**size / 2 if norm == "l1" else rest / 2)


def _grouped(radii: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Neighbouring radii taken together, where there are very many."""
    if len(radii) <= _MOST_RADII:
        return radii, weights
    starts = np.unique(np.linspace(0, len(radii), _MOST_RADII + 1).astype(np.intp)[:-1])
    total = np.add.reduceat(weights, starts)
    middle = np.add.reduceat(radii, starts) / np.diff(starts, append=len(radii))
    return middle, total

"""One number of a vector of noise that is spread evenly over balls of a random radius."""

from __future__ import annotations

import math

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.known.law import Tabulated

__all__ = ["coordinate_law", "decay_radii"]

_MOST_RADII = 2048
_FINE = 64.0
"""Lattice points in a standard deviation of the number."""
_RARE = 1e-34
_GONE = 80.0
"""Parts of a density smaller by e to this are left out."""


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
        points = np.arange(math.ceil(float(reach[-1])) + 1)
        above = np.maximum(reach - points[:, None], 0.0) / (2 * reach + 1) @ weights
        side = -np.diff(above, append=0.0)[:-1]
        width = math.sqrt(float(weights @ reach**2)) + 1.0
        return _law(side, 1 - 2 * float(above[0]), 1.0, width, integer=True)
    share = {"l1": 2 / (size + 1) / (size + 2), "l2": 1 / (size + 2), "linf": 1 / 3}[norm]
    deviation = math.sqrt(share * float(weights @ radii**2))
    step = deviation / _FINE
    count = math.ceil(float(radii[-1]) / step) + 1
    tails = []
    for start in range(0, count, 1 << 10):
        at = (np.arange(start, min(start + (1 << 10), count)) + 0.5) * step
        tails.append(_above(norm, size, np.maximum(1 - at[:, None] / radii, 0.0)) @ weights)
        if tails[-1][-1] < _RARE:
            break
    above = np.concatenate([*tails, [0.0]])
    middle, wide = 1 - 2 * float(above[0]), deviation * unit
    return _law(-np.diff(above), middle, step * unit, wide, integer=False)


def _law(side: Floats, middle: float, step: float, width: float, *, integer: bool) -> Tabulated:
    chances = np.concatenate([side[::-1], [middle], side])
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

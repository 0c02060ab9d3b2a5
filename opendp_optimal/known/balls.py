"""The law of one number of a vector whose noise is even on balls of a norm, of random radius."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc

from opendp_optimal.arrays import Floats
from opendp_optimal.known.law import Symmetric, Tabulated
from opendp_optimal.known.radial import coordinate_factor

__all__ = ["BallMixture", "decay_balls"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(400)
_MOST_LISTED = 1 << 20
_LEAST = 1e-17


@dataclass(frozen=True, eq=False)
class BallMixture(Symmetric):
    """One number of a point that is even on a ball.

    :param norm: of the balls
    :param size: of the vectors
    :param radii: of the balls
    :param chances: of each radius
    :param integer: for whole numbers under linf: a radius of 2 t + 1 holds the integers to t
    """

    norm: str
    size: int
    radii: Floats
    chances: Floats
    integer: bool = False

    @property
    def spread(self) -> float:
        """The mean of the absolute value, or more."""
        return max(self.moment(1), 1.0 if self.integer else 0.0)

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        at = np.atleast_1d(np.asarray(x, float))
        found = np.array([float(self.chances @ self._beyond(one)) for one in at.ravel()])
        return found.reshape(np.shape(x))

    def _beyond(self, x: float) -> Floats:
        if self.integer:
            top = (self.radii - 1) / 2
            return np.asarray(np.maximum(top - math.floor(x), 0.0) / self.radii)
        share = np.minimum(x / self.radii, 1.0)
        if self.norm == "l2":
            return np.asarray(betainc((self.size + 1) / 2, 0.5, (1 - share) * (1 + share)) / 2)
        return np.asarray((1 - share) ** (self.size if self.norm == "l1" else 1) / 2)

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        if self.integer:
            each = (self.radii**2 - 1) / (12 if power == 2 else 4 * self.radii)
            return float(self.chances @ each)
        of_ball = coordinate_factor(self.norm, self.size, power) / (self.size + power)
        return float(self.chances @ self.radii**power) * of_ball

    def scaled(self, unit: float) -> BallMixture:
        """The noise times a number."""
        return replace(self, radii=self.radii * unit)

    def rounded(self) -> BallMixture | Tabulated:
        """The noise rounded to integers; as it is, where there are too many of them to list."""
        likely = self.radii[self.chances > _LEAST]
        radius = math.ceil(float(likely.max())) + 1
        if self.integer or radius * len(likely) > _MOST_LISTED:
            return self
        chances = np.diff(self.cdf(np.arange(-radius, radius + 2) - 0.5))
        return Tabulated(chances, 1.0, max(1.0, self.spread), integer=True)


def decay_balls(norm: str, size: int, c: float, k: float) -> BallMixture:
    """Noise of density exp(-c r - k r^2) as balls, of chances (c + 2 k r) r^size times that.

    >>> round(decay_balls("l2", 3, 2.0, 0.0).moment(2), 6)  # a third of the mean of r^2
    1.0
    """
    mode = max(2 * size / (c + math.sqrt(c * c + 8 * k * size)), 1e-3)
    wide = np.geomspace(mode * 1e-4, mode * 1e3, 4001)

    def logs(r: Floats) -> Floats:
        return np.asarray(size * np.log(r) + np.log(c + 2 * k * r) - c * r - k * r * r)

    used = wide[logs(wide) > float(logs(wide).max()) - 50]
    low, high = float(used[0]), float(used[-1])
    radii = low + (high - low) * (_NODES + 1) / 2
    values = logs(radii)
    chances = np.exp(values - values.max()) * _WEIGHTS
    return BallMixture(norm, size, radii, chances / chances.sum())

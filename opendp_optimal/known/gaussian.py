"""Gaussian noise: its law, its exact delta and the scale that a target needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.exact.halving import least
from opendp_optimal.known.law import Symmetric


@dataclass(frozen=True)
class Gaussian(Symmetric):
    """Gaussian noise.

    :param scale: standard deviation
    """

    scale: float
    margin_in_spreads = 5.0  # standard deviations

    @property
    def spread(self) -> float:
        """The scale."""
        return self.scale

    def tail(self, x: Floats) -> Floats:
        """The chance of more than x, for x >= 0."""
        from scipy.special import ndtr

        return np.asarray(ndtr(-x / self.scale))

    def moment(self, power: int) -> float:
        """The mean of |noise| (1) or of its square (2)."""
        return self.scale * math.sqrt(2.0 / math.pi) if power == 1 else self.scale**2


def gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return the exact delta of Gaussian noise at epsilon (Balle, Wang 2018, Theorem 8).

    :param sigma: standard deviation at sensitivity 1
    :param epsilon: at least 0

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if not 0.0 < sigma < math.inf:
        raise ValueError(f"sigma ({sigma!r}) must be positive and finite")
    if not 0.0 <= epsilon < math.inf:
        raise ValueError(f"epsilon ({epsilon!r}) must be finite and at least 0")
    half, shift = 0.5 / sigma, epsilon * sigma
    if half - shift > 5.0:
        from scipy.special import log_ndtr, ndtr

        second = math.exp(epsilon + float(log_ndtr(-half - shift)))
        return max(0.0, float(ndtr(half - shift)) - second)
    # Both terms are the density at half - shift times a Mills ratio m; where the ratios are close,
    # their difference is the integral of -m'(x) = 1 - x m(x), in which nothing cancels.
    if half > 1.0:
        difference = float(_mills(shift - half) - _mills(shift + half))
    else:
        nodes, weights = np.polynomial.legendre.leggauss(24)
        x = shift + half * nodes
        difference = half * float(weights @ (1.0 - x * _mills(x)))
    return difference * math.exp(-0.5 * (half - shift) ** 2) / math.sqrt(2.0 * math.pi)


def _mills(x: Any) -> Any:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2.0) * erfcx(np.asarray(x) / math.sqrt(2.0))


def gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the least standard deviation of (epsilon, delta)-private noise at sensitivity 1.

    Balle, Wang 2018. The bracket is halved until its ends are neighbouring floats; the private
    end is returned.

    >>> round(gaussian_sigma(1.0, 0.2), 4)
    0.836
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta ({delta!r}) must be in (0, 1): Gaussian noise is never pure")
    low = high = 1.0
    while gaussian_delta(high, epsilon) > delta:
        high *= 2.0
    while gaussian_delta(low, epsilon) <= delta:
        low /= 2.0
    return least(lambda sigma: gaussian_delta(sigma, epsilon) <= delta, low, high)


def classical_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return ``sqrt(2 ln(1.25/delta)) / epsilon``, which is proved for epsilon < 1 only.

    Dwork, Roth 2014, appendix A.

    >>> round(classical_gaussian_sigma(1.0, 0.2) * 360, 2)
    689.21
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta ({delta!r}) must be in (0, 1): Gaussian noise is never pure")
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon

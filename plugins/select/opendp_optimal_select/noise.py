"""Symmetric log-concave noises: the half-line survival function and its first moment."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import erfc, erfcinv

from opendp_optimal.extend import Floats, largest, positive

MOST_OFFSETS = 1_000_000
"""More answers than anybody sends; many more would take all memory."""


def mirrored(upper: Iterable[float], k: int) -> tuple[float, ...]:
    """Return ``k`` offsets in ascending order from those above 0; the middle one of odd ``k`` is 0.

    :param upper: the offsets above 0, in ascending order
    :param k: number of offsets
    """
    side = tuple(float(a) for a in upper)
    return (*(-a for a in reversed(side)), *([0.0] if k % 2 else []), *side)


class SymmetricNoise(ABC):
    """A noise ``Y`` symmetric about 0, described through ``X = |Y|`` on the half line.

    A subclass gives the density of ``X``, ``survival(x) = P(X >= x)``, its inverse, and
    ``upper_moment(x) = E[X; X >= x]``. All of them take and return arrays.
    """

    @abstractmethod
    def density(self, x: Floats) -> Floats:
        """Return the density of ``|Y|`` at ``x >= 0``."""

    @abstractmethod
    def survival(self, x: Floats) -> Floats:
        """Return ``P(|Y| >= x)`` for ``x >= 0``."""

    @abstractmethod
    def upper_moment(self, x: Floats) -> Floats:
        """Return ``E[|Y|; |Y| >= x]`` for ``x >= 0``."""

    @abstractmethod
    def quantile(self, probability: Floats) -> Floats:
        """Return the ``x`` at which :meth:`survival` equals ``probability``, in (0, 1]."""


@dataclass(frozen=True)
class LaplaceNoise(SymmetricNoise):
    """Laplace noise of scale ``1/epsilon``.

    :param epsilon: privacy per unit of distance
    """

    epsilon: float

    def __post_init__(self) -> None:
        """Check the argument."""
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def density(self, x: Floats) -> Floats:
        """Return the density of ``|Y|`` at ``x``."""
        return self.epsilon * np.exp(-self.epsilon * x)

    def survival(self, x: Floats) -> Floats:
        """Return ``P(|Y| >= x)``."""
        return np.exp(-self.epsilon * x)

    def upper_moment(self, x: Floats) -> Floats:
        """Return ``E[|Y|; |Y| >= x]``."""
        return (x + 1.0 / self.epsilon) * np.exp(-self.epsilon * x)

    def quantile(self, probability: Floats) -> Floats:
        """Return the ``x`` with ``survival(x) = probability``."""
        return -np.log(probability) / self.epsilon


@dataclass(frozen=True)
class GaussianNoise(SymmetricNoise):
    """Gaussian noise of standard deviation ``scale``.

    :param scale: standard deviation
    """

    scale: float

    def __post_init__(self) -> None:
        """Check the argument."""
        object.__setattr__(self, "scale", positive("scale", self.scale))

    def density(self, x: Floats) -> Floats:
        """Return the density of ``|Y|`` at ``x``."""
        return math.sqrt(2.0 / math.pi) / self.scale * np.exp(-0.5 * (x / self.scale) ** 2)

    def survival(self, x: Floats) -> Floats:
        """Return ``P(|Y| >= x)``."""
        return np.asarray(erfc(x / (self.scale * math.sqrt(2.0))), dtype=np.float64)

    def upper_moment(self, x: Floats) -> Floats:
        """Return ``E[|Y|; |Y| >= x]``."""
        return self.scale**2 * self.density(x)

    def quantile(self, probability: Floats) -> Floats:
        """Return the ``x`` with ``survival(x) = probability``."""
        return np.asarray(erfcinv(probability) * self.scale * math.sqrt(2.0), dtype=np.float64)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PANELS = 512


@dataclass(frozen=True)
class LogConcaveNoise(SymmetricNoise):
    """Any symmetric log-concave noise, from its log density on the half line.

    The density need not be normalised. Monotonicity and log-concavity are checked on a grid.

    :param log_density: natural logarithm of the density at a distance ``x >= 0`` from the centre;
        ``-inf`` beyond the end of a bounded noise
    :param scale: a typical size of the noise, the unit in which the tail is looked for

    >>> noise = LogConcaveNoise(lambda x: -x, scale=1.0)
    >>> round(float(noise.survival(np.array([math.log(2.0)]))[0]), 12)
    0.5
    """

    log_density: Callable[[float], float]
    scale: float = 1.0
    _edges: Floats = field(init=False, repr=False, compare=False)
    _suffixes: Floats = field(init=False, repr=False, compare=False)
    _shift: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the density, find where its tail ends and integrate it panel by panel."""
        if not callable(self.log_density):
            raise ValueError(f"log_density ({self.log_density!r}) must be a function of a distance")
        object.__setattr__(self, "scale", positive("scale", self.scale))
        at_zero = float(self.log_density(0.0))
        if not math.isfinite(at_zero):
            raise ValueError(f"log_density ({at_zero} at 0) must be finite at 0")
        end = self.scale
        for _ in range(200):
            if float(self.log_density(end)) < at_zero - 80.0:
                break
            end *= 1.5
        else:
            raise ValueError("log_density must fall without bound")
        # No panel may reach across the end of a bounded noise.
        end = largest(
            lambda x: float(self.log_density(x)) > -math.inf, math.nextafter(0.0, 1.0), end
        )
        object.__setattr__(self, "_edges", np.linspace(0.0, end, _PANELS + 1))
        object.__setattr__(self, "_shift", at_zero)
        self._check_shape()
        parts = self._between(self._edges[:-1], self._edges[1:])
        total = float(parts[0].sum())
        object.__setattr__(self, "_shift", at_zero + math.log(total))
        sums = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1] / total
        object.__setattr__(self, "_suffixes", np.column_stack([sums, np.zeros(2)]))

    def _check_shape(self) -> None:
        logs = np.array([float(self.log_density(float(x))) for x in self._edges])
        logs = logs[logs > -math.inf]
        steps = np.diff(logs)
        slack = 1e-9 * (1.0 + np.abs(logs).max())
        if np.any(np.isnan(logs)) or np.any(steps > slack) or np.any(np.diff(steps) > slack):
            raise ValueError("log_density must be concave and must not increase from 0 on")

    def _between(self, low: Floats, high: Floats) -> Floats:
        """Return mass and moment from each ``low`` to its ``high``."""
        half = 0.5 * (high - low)
        points = 0.5 * (high + low)[:, None] + half[:, None] * _NODES
        values = self.density(points)
        return np.asarray(half * (np.stack([values, values * points]) @ _WEIGHTS))

    def _beyond(self, x: Floats) -> Floats:
        """Return mass and moment beyond each ``x``."""
        x = np.minimum(np.asarray(x, dtype=np.float64), self._edges[-1])
        panel = np.minimum((x / self._edges[1]).astype(np.int64), _PANELS - 1)
        rest = self._between(x.ravel(), self._edges[panel + 1].ravel())
        return np.asarray(self._suffixes[:, panel + 1] + rest.reshape(2, *x.shape))

    def density(self, x: Floats) -> Floats:
        """Return the density of ``|Y|`` at ``x``."""
        logs = np.array([float(self.log_density(float(t))) for t in np.ravel(x)])
        return np.exp(logs - self._shift).reshape(np.shape(x))

    def survival(self, x: Floats) -> Floats:
        """Return ``P(|Y| >= x)``."""
        return np.asarray(self._beyond(x)[0])

    def upper_moment(self, x: Floats) -> Floats:
        """Return ``E[|Y|; |Y| >= x]``."""
        return np.asarray(self._beyond(x)[1])

    def quantile(self, probability: Floats) -> Floats:
        """Return the ``x`` with ``survival(x) = probability``, by bisection."""
        low = np.zeros_like(probability)
        high = np.full_like(probability, self._edges[-1])
        for _ in range(70):
            middle = 0.5 * (low + high)
            above = self.survival(middle) > probability
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return 0.5 * (low + high)

"""Geographic privacy whose loss is a function of distance other than ``epsilon * distance``.

For an increasing convex ``g`` with ``g(0) = 0`` and ``g'(0) > 0``, loss at most
``epsilon * g(d)`` between any two values at distance ``d`` is equivalent to loss at most
``epsilon * g'(0) * d`` (section 3.1): small steps add up to large ones. So Laplace noise of rate
``epsilon * g'(0)`` stays optimal, also when ``g`` is infinite beyond a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from opendp_optimal.extend import finite, float_down, positive

_TINY = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3)


@dataclass(frozen=True)
class GeographicPrivacy:
    """An allowed privacy loss ``bound(distance)``, and its slope at 0.

    The slope is given, not estimated: a numerical derivative of a convex function is never too
    small, so it would promise a little more privacy than is kept.

    :param bound: allowed loss at a distance, per unit of epsilon; may be ``inf`` from some
        distance on
    :param slope: the derivative of ``bound`` at 0
    :param reach: distance up to which the shape of ``bound`` is checked

    >>> GeographicPrivacy(math.sinh, slope=1.0).slope
    1.0
    >>> GeographicPrivacy(lambda d: d / 2, slope=1.0)
    Traceback (most recent call last):
    ...
    ValueError: slope (1.0) must be the derivative of bound at 0: bound(1e-12) is 5e-13, below it
    """

    bound: Callable[[float], float]
    slope: float
    reach: float = 10.0

    def __post_init__(self) -> None:
        """Check the bound on a grid."""
        if not callable(self.bound):
            raise ValueError(f"bound ({self.bound!r}) must be a function of a distance")
        object.__setattr__(self, "slope", positive("slope", self.slope))
        object.__setattr__(self, "reach", positive("reach", self.reach))
        if finite("bound at 0", self.bound(0.0)) != 0.0:
            raise ValueError(f"bound ({self.bound(0.0)} at 0) must be 0 at 0")
        for d in _TINY:
            if self._at(d) < self.slope * d * (1.0 - 1e-9):
                raise ValueError(
                    f"slope ({self.slope}) must be the derivative of bound at 0: bound({d}) is "
                    f"{self._at(d)}, below it"
                )
        grid = np.linspace(0.0, self.reach, 513)
        values = [self._at(float(d)) for d in grid]
        for d, left, middle, right in zip(grid[1:], values, values[1:], values[2:], strict=False):
            if middle < left:
                raise ValueError(f"bound (falls just before {d}) must increase")
            bent = math.isinf(middle) or 2.0 * middle > (left + right) * (1.0 + 1e-12)
            if bent and math.isfinite(right):
                raise ValueError(f"bound (not convex near {d}) must be convex")

    def _at(self, distance: float) -> float:
        value = float(self.bound(distance))
        if math.isnan(value):
            raise ValueError(f"bound (nan at {distance}) must be a number")
        return value


def up_to(distance: float) -> GeographicPrivacy:
    """Return the privacy that is promised only between values closer than ``distance``.

    Chained small steps carry the promise further, so it costs the same as promising it everywhere.

    :param distance: values further apart than this are promised nothing

    >>> up_to(2.0).slope
    1.0
    """
    limit = positive("distance", distance)
    return GeographicPrivacy(
        lambda d: d if d <= limit else math.inf, slope=1.0, reach=min(2.0 * limit, 1e300)
    )


def rate(epsilon: float, privacy: GeographicPrivacy | None) -> float:
    """Return the loss per unit of distance that ``privacy`` scaled by ``epsilon`` amounts to.

    :param epsilon: multiplies the bound
    :param privacy: the bound; ``None`` for the distance itself
    """
    epsilon = positive("epsilon", epsilon)
    if privacy is None:
        return epsilon
    if not isinstance(privacy, GeographicPrivacy):
        raise ValueError(f"privacy ({privacy!r}) must be a GeographicPrivacy, or None")
    return positive("epsilon * slope", float_down(Fraction(epsilon) * Fraction(privacy.slope)))

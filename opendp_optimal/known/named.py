"""Known noise by name, and its expected loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from numpy.typing import ArrayLike

from opendp_optimal.arrays import Floats
from opendp_optimal.known.gaussian import Gaussian, classical_gaussian_sigma, gaussian_sigma
from opendp_optimal.known.integer import Canonical, Geometric
from opendp_optimal.known.law import Law
from opendp_optimal.known.real import Laplace, Staircase, TruncatedLaplace, Tulap, UniformBernoulli
from opendp_optimal.losses.base import Loss, loss_of

_EPSILON_RANGE: Final = (1e-5, 700.0)  # e**epsilon stays finite, canonical tables stay in memory

_Make = Callable[[float, float, Loss], Law]
_REAL: Final[dict[str, _Make]] = {
    "laplace": lambda epsilon, delta, loss: Laplace(epsilon),
    "staircase": lambda epsilon, delta, loss: Staircase(epsilon, loss.staircase_step(epsilon)),
    "uniform_bernoulli": lambda epsilon, delta, loss: UniformBernoulli.best(delta, loss),
    "truncated_laplace": lambda epsilon, delta, loss: TruncatedLaplace(epsilon, delta),
    "tulap": lambda epsilon, delta, loss: Tulap(epsilon, delta),
    "analytic_gaussian": lambda epsilon, delta, loss: Gaussian(gaussian_sigma(epsilon, delta)),
    "classical_gaussian": lambda epsilon, delta, loss: Gaussian(
        classical_gaussian_sigma(epsilon, delta)
    ),
}
_INTEGER: Final[dict[str, _Make]] = {
    "discrete_laplace": lambda epsilon, delta, loss: Geometric(epsilon),
    "discrete_canonical": lambda epsilon, delta, loss: (
        Canonical(epsilon, delta) if delta else Geometric(epsilon)
    ),
}
_NEVER_PURE: Final = ("uniform_bernoulli", "analytic_gaussian", "classical_gaussian")

REAL_NAMES: Final = tuple(_REAL)
"""Noise for real queries."""
INTEGER_NAMES: Final = tuple(_INTEGER)
"""Noise for integer queries of sensitivity 1."""
NAMES: Final = REAL_NAMES + INTEGER_NAMES


def law_named(name: str, epsilon: float, delta: float, loss: str | Loss = "l1") -> Law:
    """Return a known noise for sensitivity 1.

    ``loss`` chooses the shape where the mechanism has one (staircase, uniform_bernoulli). Laplace
    and staircase ignore ``delta``, uniform_bernoulli ignores ``epsilon``.
    """
    low, high = _EPSILON_RANGE
    if not low <= epsilon <= high:
        raise ValueError(f"epsilon ({epsilon!r}) must be in [{low:g}, {high:g}]")
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta ({delta!r}) must be in [0, 1)")
    if name not in NAMES:
        raise ValueError(f"name ({name!r}) must be one of {', '.join(NAMES)}")
    return (_REAL | _INTEGER)[name](epsilon, delta, loss_of(loss))


def expected_loss(
    name: str, epsilon: float, delta: float, loss: str | Loss = "l1", *, unit: float = 1.0
) -> float:
    """Return the expected loss of a known mechanism at sensitivity ``unit``.

    Infinite where the mechanism offers no (epsilon, delta) guarantee: Gaussian and (0, delta)
    noise at ``delta = 0``, and the classical Gaussian from ``epsilon = 1`` on, where its
    calibration is not proved.

    >>> round(expected_loss("staircase", 1.0, 1e-6), 5)
    0.95952
    """
    if (delta == 0.0 and name in _NEVER_PURE) or (name == "classical_gaussian" and epsilon >= 1.0):
        law_named("laplace", epsilon, delta, loss)
        return math.inf
    return law_named(name, epsilon, delta, loss).expected_loss(loss_of(loss), unit)


def cdf(
    name: str, epsilon: float, delta: float, x: ArrayLike, *, loss: str | Loss = "l1"
) -> Floats:
    """Return P(noise <= x) of a noise for real queries, for each x.

    ``loss`` chooses the shape where the mechanism has one (staircase, uniform_bernoulli). Every
    one of them is symmetric: for cell weights with accurate tails, take differences for ``x <=
    0`` and mirror them.

    >>> cdf("uniform_bernoulli", 1.0, 0.75, [-1.0, -0.5, 0.0, 1.0]).tolist()
    [0.0, 0.125, 0.75, 1.0]
    """
    if name not in REAL_NAMES:
        raise ValueError(f"name ({name!r}) must be one of {', '.join(REAL_NAMES)}")
    return law_named(name, epsilon, delta, loss).cdf(x)

"""Known mechanisms in closed form: what optimised noise is compared with, and falls back on.

Everything is for sensitivity 1 (real noise scales linearly with the sensitivity) and in plain
floating point. These numbers are for comparison and for proposing candidates; they prove nothing
by themselves.

>>> round(expected_loss("truncated_laplace", 1.0, 0.2, "l1"), 4)
0.612
>>> min(REAL_NAMES, key=lambda name: expected_loss(name, 1.0, 0.2, "l1"))
'tulap'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, gammainc, ndtr

__all__ = [
    "INTEGER_NAMES",
    "NAMES",
    "REAL_NAMES",
    "analytic_gaussian_delta",
    "analytic_gaussian_sigma",
    "cdf",
    "classical_gaussian_sigma",
    "discrete_canonical_pmf",
    "discrete_laplace_loss",
    "discrete_laplace_pmf",
    "expected_loss",
    "staircase_step",
    "truncated_laplace_radius",
    "uniform_bernoulli_shape",
]

Loss = Literal["l1", "l2"]
FloatArray = NDArray[np.float64]

_EPSILON_RANGE: Final = (1e-5, 700.0)  # e**epsilon stays finite, canonical tables stay in memory


# -- checks --------------------------------------------------------------------------------------


def _check(epsilon: float, delta: float = 0.0, loss: str = "l1") -> None:
    low, high = _EPSILON_RANGE
    if not low <= epsilon <= high:
        raise ValueError(f"epsilon ({epsilon!r}) must be in [{low:g}, {high:g}]")
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta ({delta!r}) must be in [0, 1)")
    if loss not in ("l1", "l2"):
        raise ValueError(f"loss ({loss!r}) must be 'l1' or 'l2'")


# -- Laplace and its discrete form ---------------------------------------------------------------


def _laplace_loss(epsilon: float, delta: float, loss: str) -> float:
    return 1.0 / epsilon if loss == "l1" else 2.0 / epsilon**2


def discrete_laplace_loss(epsilon: float, loss: Loss = "l1", *, sensitivity: int = 1) -> float:
    """Return the loss of the two-sided geometric noise for integer queries.

    Ghosh, Roughgarden, Sundararajan 2009. The weight of ``k`` is proportional to ``exp(-epsilon
    |k| / sensitivity)``.

    >>> discrete_laplace_loss(1.0) < discrete_laplace_loss(1.0, sensitivity=2)
    True
    """
    _check(epsilon, loss=loss)
    scaled = epsilon / _check_sensitivity(sensitivity)
    if loss == "l1":
        return 1.0 / math.sinh(scaled)
    return 0.5 / math.sinh(scaled / 2.0) ** 2


def discrete_laplace_pmf(epsilon: float, radius: int, *, sensitivity: int = 1) -> FloatArray:
    """Return the two-sided geometric weights at ``-radius .. radius``, the rest left out.

    >>> discrete_laplace_pmf(1.0, 1).round(4).tolist()
    [0.17, 0.4621, 0.17]
    """
    _check(epsilon)
    if radius < 0:
        raise ValueError(f"radius ({radius!r}) must be at least 0")
    scaled = epsilon / _check_sensitivity(sensitivity)
    k = np.abs(np.arange(-radius, radius + 1, dtype=np.float64))
    return math.tanh(scaled / 2.0) * np.exp(-scaled * k)


def _check_sensitivity(sensitivity: int) -> int:
    if sensitivity < 1 or sensitivity != int(sensitivity):
        raise ValueError(f"sensitivity ({sensitivity!r}) must be an integer of at least 1")
    return int(sensitivity)


def _discrete_laplace_loss(epsilon: float, delta: float, loss: str) -> float:
    return discrete_laplace_loss(epsilon, "l1" if loss == "l1" else "l2")


# -- staircase -----------------------------------------------------------------------------------


def staircase_step(epsilon: float, loss: Loss = "l1") -> float:
    """Return gamma, where in each unit the density drops by ``exp(-epsilon)``, chosen for the loss.

    Geng, Viswanath 2014 (the optimal (epsilon, 0) mechanism); the cubic root for l2 is rearranged
    so that it does not cancel for small epsilon.

    >>> round(staircase_step(1.0), 4), round(staircase_step(1e-4, "l2"), 4)
    (0.3775, 0.5)
    """
    _check(epsilon, loss=loss)
    if loss == "l1":
        return 1.0 / (1.0 + math.exp(epsilon / 2.0))
    b = math.exp(-epsilon)
    root = math.cbrt(b * (1.0 + b) / 2.0)
    return b * (1.0 + 2.0 * b) / (2.0 * (root**2 + root * b + b**2))


def _staircase_loss(epsilon: float, delta: float, loss: str) -> float:
    if loss == "l1":
        return 0.5 / math.sinh(epsilon / 2.0)
    b = math.exp(-epsilon)
    return (math.cbrt(b * (1.0 + b) / 2.0) ** 2 + b) / math.expm1(-epsilon) ** 2


def _staircase_tail(x: FloatArray, epsilon: float, delta: float, loss: str) -> FloatArray:
    gamma = staircase_step(epsilon, "l1" if loss == "l1" else "l2")
    b = math.exp(-epsilon)
    unit = np.floor(x)
    into = x - unit
    # Mass of one unit above x, relative to a full unit; a full unit and all after it carry
    # b**unit / 2.
    flat = np.maximum(gamma - into, 0.0) + b * (1.0 - np.maximum(into, gamma))
    share = flat / (gamma + b * (1.0 - gamma))
    tail: FloatArray = 0.5 * np.exp(-epsilon * unit) * (b - math.expm1(-epsilon) * share)
    return tail


# -- epsilon = 0: uniform times Bernoulli --------------------------------------------------------


def uniform_bernoulli_shape(delta: float, loss: Loss = "l1") -> tuple[float, float]:
    """Return (atom, radius): the best (0, delta) noise is 0 or uniform on [-radius, radius].

    Geng, Ding, Guo, Kumar 2019. With the atom ``a`` the density may be ``delta - a`` high;
    minimising over ``a`` leaves no atom below ``delta = 1/2`` (l1) or ``2/3`` (l2).

    >>> uniform_bernoulli_shape(0.25)
    (0.0, 2.0)
    >>> uniform_bernoulli_shape(0.75)
    (0.5, 1.0)
    """
    _check(1.0, delta, loss)
    if delta == 0.0:
        raise ValueError("delta (0.0) must be above 0: no noise is (0, 0)-private")
    atom = max(0.0, 2.0 * delta - 1.0 if loss == "l1" else 3.0 * delta - 2.0)
    return atom, (1.0 - atom) / (2.0 * (delta - atom))


def _uniform_bernoulli_loss(epsilon: float, delta: float, loss: str) -> float:
    if delta == 0.0:
        return math.inf
    atom, radius = uniform_bernoulli_shape(delta, "l1" if loss == "l1" else "l2")
    return (1.0 - atom) * (radius / 2.0 if loss == "l1" else radius**2 / 3.0)


def _uniform_bernoulli_tail(x: FloatArray, epsilon: float, delta: float, loss: str) -> FloatArray:
    atom, radius = uniform_bernoulli_shape(delta, "l1" if loss == "l1" else "l2")
    return np.asarray((1.0 - atom) * np.maximum(0.5 - 0.5 * x / radius, 0.0))


# -- truncated Laplace ---------------------------------------------------------------------------


def truncated_laplace_radius(epsilon: float, delta: float) -> float:
    """Return the half-width of the truncated Laplace density, infinite for ``delta = 0``.

    Geng, Ding, Guo, Kumar 2020.

    >>> round(truncated_laplace_radius(1.0, 0.2), 4)
    1.6669
    """
    _check(epsilon, delta)
    return math.inf if delta == 0.0 else math.log1p(math.expm1(epsilon) / (2.0 * delta)) / epsilon


def _truncated_laplace_loss(epsilon: float, delta: float, loss: str) -> float:
    # An exponential cut at t has moments in incomplete gamma functions; the textbook form 1 -
    # log(1+q)/q cancels.
    power = 1 if loss == "l1" else 2
    cut = epsilon * truncated_laplace_radius(epsilon, delta)
    kept = -math.expm1(-cut)
    return float(math.factorial(power) * gammainc(power + 1, cut) / kept / epsilon**power)


def _truncated_laplace_tail(x: FloatArray, epsilon: float, delta: float, loss: str) -> FloatArray:
    cut = epsilon * truncated_laplace_radius(epsilon, delta)
    beyond = np.minimum(epsilon * x, cut) - cut
    scale = 0.5 * math.exp(-cut) / -math.expm1(-cut)
    return np.asarray(scale * np.expm1(-beyond)) if scale > 0.0 else 0.5 * np.exp(-epsilon * x)


# -- canonical noise: Tulap on the reals, its rounding on the integers ---------------------------


def _canonical_tails(epsilon: float, delta: float) -> FloatArray:
    """Return P(X > k + 1/2) for k = 0, 1, ... while positive; needs delta > 0.

    The recursion G(k) = exp(-epsilon) (G(k-1) - delta) from its fixed start (1 - delta)/(1 +
    e**epsilon) has this solution; writing it with expm1 keeps the last, smallest entries
    accurate.
    """
    unit = delta / math.expm1(epsilon)
    length = math.log1p((1.0 - delta) * math.tanh(epsilon / 2.0) / delta) / epsilon
    k = np.arange(math.ceil(length), dtype=np.float64)
    tails: FloatArray = unit * np.expm1(epsilon * (length - k))
    return tails[tails > 0.0]


def _tulap_last_width(epsilon: float, delta: float, last: float) -> float:
    return last / (last * -math.expm1(-epsilon) + delta * math.exp(-epsilon))


def _tulap_loss(epsilon: float, delta: float, loss: str) -> float:
    """Integrate the tail, which is linear between half-integers (Awan, Vadhan 2023)."""
    if delta == 0.0:
        whole = _discrete_laplace_loss(epsilon, delta, loss)
        return whole + math.tanh(epsilon / 2.0) / 4.0 if loss == "l1" else whole + 1.0 / 12.0
    g = _canonical_tails(epsilon, delta)
    width = _tulap_last_width(epsilon, delta, g[-1])
    inner = (g[:-1] + g[1:]) / 2.0
    if loss == "l1":
        return float(2.0 * ((0.5 + g[0]) / 4.0 + inner.sum() + g[-1] * width / 2.0))
    j = np.arange(1, len(g), dtype=np.float64)
    first = 1.0 / 8.0 - (1.0 - 2.0 * g[0]) / 12.0
    middle = (2.0 * j * inner).sum() + (g[-1] - g[0]) / 6.0
    last = g[-1] * width * (len(g) - 0.5 + width / 3.0)
    return float(2.0 * (first + middle + last))


def _tulap_tail(x: FloatArray, epsilon: float, delta: float, loss: str) -> FloatArray:
    if delta == 0.0:
        unit = np.floor(x + 0.5)
        full = np.exp(-epsilon * unit) / (1.0 + math.exp(-epsilon))
        partial = 1.0 + math.expm1(-epsilon) * (x + 0.5 - unit)
        tail: FloatArray = np.where(unit > 0, full * partial, 0.5 - math.tanh(epsilon / 2.0) * x)
        return tail
    g = _canonical_tails(epsilon, delta)
    end = len(g) - 0.5 + _tulap_last_width(epsilon, delta, g[-1])
    knots = np.concatenate([[0.0], np.arange(len(g)) + 0.5, [end]])
    return np.asarray(np.interp(x, knots, np.concatenate([[0.5], g, [0.0]])))


def discrete_canonical_pmf(epsilon: float, delta: float) -> FloatArray:
    """Return the canonical integer noise for sensitivity 1 at ``-K .. K``, for ``delta > 0``.

    Awan, Vadhan 2023; Awan, Ramasethu 2024: no (epsilon, delta)-private integer noise is
    stochastically smaller, so it minimises every loss that grows with the distance from 0.

    >>> discrete_canonical_pmf(1.0, 0.2).round(4).tolist()
    [0.0056, 0.2096, 0.5697, 0.2096, 0.0056]
    """
    _check(epsilon, delta)
    if delta == 0.0:
        raise ValueError("delta (0.0) must be above 0, or the support is infinite")
    g = _canonical_tails(epsilon, delta)
    # Away from the end the weights are exactly geometric; differences of tails would lose digits
    # for large supports.
    first = g[0] * -math.expm1(-epsilon) + delta * math.exp(-epsilon)
    side = first * np.exp(-epsilon * np.arange(len(g), dtype=np.float64))
    side[-1] = g[-1]
    centre = delta + (1.0 - delta) * math.tanh(epsilon / 2.0)
    return np.concatenate([side[::-1], [centre], side])


def _discrete_canonical_loss(epsilon: float, delta: float, loss: str) -> float:
    if delta == 0.0:
        return _discrete_laplace_loss(epsilon, delta, loss)
    g = _canonical_tails(epsilon, delta)
    weight = 1.0 if loss == "l1" else 2.0 * np.arange(len(g), dtype=np.float64) + 1.0
    return float(2.0 * (weight * g).sum())


# -- Gaussian ------------------------------------------------------------------------------------


def analytic_gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return the exact delta of Gaussian noise at epsilon (Balle, Wang 2018, Theorem 8).

    >>> round(analytic_gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    _check(epsilon)
    if not 0.0 < sigma < math.inf:
        raise ValueError(f"sigma ({sigma!r}) must be positive and finite")
    above, below = epsilon * sigma - 0.5 / sigma, epsilon * sigma + 0.5 / sigma
    if above < 0.0:
        # e**epsilon is folded into the scaled tail: phi(below) e**epsilon = phi(above).
        rest = 0.5 * math.exp(-(above**2) / 2.0) * erfcx(below / math.sqrt(2.0))
        return float(ndtr(-above) - rest)
    scaled = erfcx(above / math.sqrt(2.0)) - erfcx(below / math.sqrt(2.0))
    return float(0.5 * math.exp(-(above**2) / 2.0) * scaled)


def analytic_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation of (epsilon, delta)-private Gaussian noise.

    Balle, Wang 2018. The bracket is halved until its ends are neighbouring floats; the private
    end is returned.

    >>> round(analytic_gaussian_sigma(1.0, 0.2), 4)
    0.836
    """
    _check(epsilon, delta)
    if delta == 0.0:
        raise ValueError("delta (0.0) must be above 0: Gaussian noise is never pure")
    low = high = 1.0
    while analytic_gaussian_delta(high, epsilon) > delta:
        high *= 2.0
    while analytic_gaussian_delta(low, epsilon) <= delta:
        low /= 2.0
    while low < (middle := math.sqrt(low * high)) < high:
        if analytic_gaussian_delta(middle, epsilon) > delta:
            low = middle
        else:
            high = middle
    return high


def classical_gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return ``sqrt(2 ln(1.25/delta)) / epsilon``, which is proved for epsilon < 1 only.

    Dwork, Roth 2014, appendix A.

    >>> round(classical_gaussian_sigma(1.0, 0.2) * 360, 2)
    689.21
    """
    _check(epsilon, delta)
    if delta == 0.0:
        raise ValueError("delta (0.0) must be above 0: Gaussian noise is never pure")
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def _gaussian_loss(sigma: float, loss: str) -> float:
    return sigma * math.sqrt(2.0 / math.pi) if loss == "l1" else sigma**2


def _analytic_gaussian_loss(epsilon: float, delta: float, loss: str) -> float:
    if delta == 0.0:
        return math.inf
    return _gaussian_loss(analytic_gaussian_sigma(epsilon, delta), loss)


def _classical_gaussian_loss(epsilon: float, delta: float, loss: str) -> float:
    if delta == 0.0 or epsilon >= 1.0:
        return math.inf
    return _gaussian_loss(classical_gaussian_sigma(epsilon, delta), loss)


# -- the uniform interface -----------------------------------------------------------------------

_LossFunction = Callable[[float, float, str], float]
_REAL: Final[dict[str, _LossFunction]] = {
    "laplace": _laplace_loss,
    "staircase": _staircase_loss,
    "uniform_bernoulli": _uniform_bernoulli_loss,
    "truncated_laplace": _truncated_laplace_loss,
    "tulap": _tulap_loss,
    "analytic_gaussian": _analytic_gaussian_loss,
    "classical_gaussian": _classical_gaussian_loss,
}
_INTEGER: Final[dict[str, _LossFunction]] = {
    "discrete_laplace": _discrete_laplace_loss,
    "discrete_canonical": _discrete_canonical_loss,
}

REAL_NAMES: Final = tuple(_REAL)
"""Noise for real queries."""
INTEGER_NAMES: Final = tuple(_INTEGER)
"""Noise for integer queries of sensitivity 1."""
NAMES: Final = REAL_NAMES + INTEGER_NAMES


def expected_loss(name: str, epsilon: float, delta: float, loss: Loss = "l1") -> float:
    """Return the expected |noise| (l1) or noise squared (l2) of a known mechanism at sensitivity 1.

    Infinite where the mechanism offers no (epsilon, delta) guarantee: Gaussian and (0, delta)
    noise at ``delta = 0``, and the classical Gaussian from ``epsilon = 1`` on, where its
    calibration is not proved. Laplace and staircase ignore ``delta``, uniform_bernoulli ignores
    ``epsilon``.

    >>> round(expected_loss("staircase", 1.0, 1e-6), 5)
    0.95952
    """
    _check(epsilon, delta, loss)
    try:
        function = (_REAL | _INTEGER)[name]
    except KeyError:
        raise ValueError(f"name ({name!r}) must be one of {', '.join(NAMES)}") from None
    return function(epsilon, delta, loss)


_TailFunction = Callable[[FloatArray, float, float, str], FloatArray]
_TAILS: Final[dict[str, _TailFunction]] = {
    "laplace": lambda x, epsilon, delta, loss: 0.5 * np.exp(-epsilon * x),
    "staircase": _staircase_tail,
    "uniform_bernoulli": _uniform_bernoulli_tail,
    "truncated_laplace": _truncated_laplace_tail,
    "tulap": _tulap_tail,
    "analytic_gaussian": lambda x, epsilon, delta, loss: np.asarray(
        ndtr(-x / analytic_gaussian_sigma(epsilon, delta))
    ),
    "classical_gaussian": lambda x, epsilon, delta, loss: np.asarray(
        ndtr(-x / classical_gaussian_sigma(epsilon, delta))
    ),
}


def cdf(name: str, epsilon: float, delta: float, x: ArrayLike, *, loss: Loss = "l1") -> FloatArray:
    """Return P(noise <= x) of a noise for real queries, for each x.

    ``loss`` chooses the shape where the mechanism has one (staircase, uniform_bernoulli). Every
    one of them is symmetric: for cell weights with accurate tails, take differences for ``x <=
    0`` and mirror them.

    >>> cdf("uniform_bernoulli", 1.0, 0.75, [-1.0, -0.5, 0.0, 1.0]).tolist()
    [0.0, 0.125, 0.75, 1.0]
    """
    _check(epsilon, delta, loss)
    if name not in _TAILS:
        raise ValueError(f"name ({name!r}) must be one of {', '.join(_TAILS)}")
    points = np.asarray(x, dtype=np.float64)
    tail = _TAILS[name](np.abs(points), epsilon, delta, loss)
    return np.asarray(np.where(points < 0.0, tail, 1.0 - tail))

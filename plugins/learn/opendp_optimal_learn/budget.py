"""How a budget is shared by many releases, and what they cost together.

Two facts are used. Any k releases that are each (e, d)-private, chosen one after the other, are
together (epsilon, delta)-private for every point of the curve of Kairouz, Oh and Viswanath
(2015), which is the best possible knowing e and d alone. And k Gaussian releases are as private as
one whose noise is smaller by a factor of sqrt(k).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from opendp_optimal import compose
from opendp_optimal.budget import composed_delta, epsilon_share, gaussian_delta_above
from opendp_optimal.extend import (
    MAX_EPSILON,
    MIN_EPSILON,
    choice,
    float_up,
    known,
    least,
    positive,
    require_features,
    whole,
)

__all__ = ["BUDGETS", "NOISES", "Plan", "composed_delta", "least_noise", "plan"]

NOISES = (
    "optimal",
    "optimal-bounded",
    "truncated-laplace",
    "gaussian",
    "analytic-gaussian",
    "laplace",
)
BUDGETS = ("total", "per-statistic")

_GAUSSIAN = ("gaussian", "analytic-gaussian")
_WIDER = 1 + 1e-6
"""Safety factor of Gaussian noise: its formula is for noise off the grid."""


@dataclass(frozen=True)
class Plan:
    """What each release gets.

    :param noise: one of :data:`NOISES`
    :param epsilon: privacy loss of each release (of its design, for Gaussian noise)
    :param delta: probability of a larger loss, of each release
    :param releases: how many releases one person can touch
    :param total: what was asked for together; None for a budget per statistic
    :param sigma: deviation of Gaussian noise at sensitivity 1
    """

    noise: str
    epsilon: float
    delta: float
    releases: int
    total: tuple[float, float] | None = None
    sigma: float | None = None

    @property
    def error(self) -> float:
        """Mean size of the noise of one release, in sensitivities.

        Of optimal noise a bound is known without solving: truncated Laplace noise is no better.
        """
        if self.sigma is not None:
            return self.sigma * math.sqrt(2 / math.pi)
        if self.delta == 0:
            return 1 / self.epsilon
        return known.expected_loss("truncated_laplace", self.epsilon, self.delta)

    def spent(
        self, delta: float | None = None, tables: tuple[Any, ...] = ()
    ) -> tuple[float, float]:
        """The (epsilon, delta) of all releases together, rounded up.

        :param delta: the total delta to state it at; by default that of the plan, or the sum
        :param tables: the noise tables behind the releases, one for each, where there are any:
            their exact profiles are composed. That these are the tables is taken on trust, so
            OpenDP's feature "honest-but-curious" is needed
        """
        if tables:
            require_features("honest-but-curious")
        return self.spent_by(delta, tables)

    def spent_by(self, delta: float | None, tables: tuple[Any, ...]) -> tuple[float, float]:
        """The same for tables that are known to be those of the releases.

        :param delta: the total delta to state it at; by default that of the plan, or the sum
        :param tables: the noise tables behind the releases
        """
        if tables and len(tables) != self.releases:
            raise ValueError(f"tables ({len(tables)} of them) must be {self.releases} in number")
        if delta is None:
            if self.total is None:
                return self._sum(self.epsilon), min(1.0, self._sum(self.delta))
            delta = self.total[1]
        if not 0 <= delta <= 1:
            raise ValueError(f"delta ({delta!r}) must be in [0, 1]")
        epsilon = self._epsilon_at(delta)
        if tables and math.isfinite(epsilon):
            epsilon = min(epsilon, compose(tables, delta=delta)[0])
        return epsilon, delta

    def concentrated(self) -> tuple[float, float]:
        """The (rho, delta) of all releases together, rounded up.

        Of Gaussian noise rho is half the square of its distance. Noise that is (e, d)-private is
        that of randomised response but for a chance of d (Kairouz, Oh and Viswanath), which has
        a rho of half of e^2 (Bun and Steinke 2016).
        """
        if self.sigma is not None:
            each = Fraction(_WIDER) ** 2 / (2 * Fraction(self.sigma) ** 2)
            return float_up(self.releases * each), 0.0
        return self._sum(float_up(Fraction(self.epsilon) ** 2 / 2)), self._sum(self.delta)

    def _sum(self, each: float) -> float:
        return float_up(self.releases * Fraction(each))

    def _epsilon_at(self, delta: float) -> float:
        if self.releases == 0 or delta >= 1:
            return 0.0
        if self.sigma is not None:
            if delta == 0:
                return math.inf
            sigma = self.sigma / math.sqrt(self.releases) / _WIDER

            return least(lambda e: gaussian_delta_above(sigma, e) <= delta, 0.0, 1000.0)

        def holds(e: float) -> bool:
            return composed_delta(e, self.epsilon, self.delta, self.releases) <= delta

        most = self._sum(self.epsilon)
        if self.total is not None and holds(self.total[0]):
            most = min(most, self.total[0])
        return least(holds, 0.0, most, close=1e-12)


@lru_cache(maxsize=512)
def plan(noise: str, epsilon: float, delta: float, releases: int, budget: str = "total") -> Plan:
    """Share a budget among releases.

    :param noise: one of :data:`NOISES`
    :param epsilon: privacy loss, of all together or of each
    :param delta: probability of a larger loss, of all together or of each
    :param releases: how many releases one person can touch
    :param budget: "total", or "per-statistic"

    >>> few, many = plan("optimal", 1.0, 1e-6, 1), plan("optimal", 1.0, 1e-6, 400)
    >>> many.epsilon > few.epsilon / 400  # better than dividing
    True
    """
    _check(noise, epsilon, delta, releases, budget)
    sigma = _sigma(noise, epsilon, delta) if noise in _GAUSSIAN else None
    if budget == "per-statistic":
        return Plan(noise, epsilon, 0.0 if noise == "laplace" else delta, releases, None, sigma)
    total, root = (epsilon, delta), math.sqrt(releases)
    if sigma is not None:
        each = min(1.0, epsilon / root)
        return Plan(noise, each, delta / releases, releases, total, sigma * root)
    if noise == "laplace":
        return Plan(noise, epsilon_share(epsilon, delta, releases), 0.0, releases, total)
    # Noise from tables, which there are for some range of epsilons only.
    each_delta = delta if releases == 1 else delta / (2 * releases)
    each = min(epsilon_share(epsilon, delta, releases, each_delta), MAX_EPSILON)
    if each < MIN_EPSILON:
        raise ValueError(
            f"epsilon ({epsilon!r}) is too small for {releases} releases: it leaves {each:.2g} for "
            f"each, and tables begin at {MIN_EPSILON:g}"
        )
    return Plan(noise, each, each_delta, releases, total)


def least_noise(epsilon: float, delta: float, releases: int, budget: str = "total") -> Plan:
    """The plan whose noise is smallest: of optimal noise, or Gaussian noise for many releases.

    Nothing but public numbers decides.

    :param epsilon: privacy loss, of all together or of each
    :param delta: probability of a larger loss, of all together or of each
    :param releases: how many releases one person can touch
    :param budget: "total", or "per-statistic"

    >>> least_noise(1.0, 1e-6, 3).noise, least_noise(1.0, 1e-6, 300).noise
    ('optimal', 'analytic-gaussian')
    """
    if delta == 0:
        return plan("optimal", epsilon, delta, releases, budget)
    gaussian = plan("analytic-gaussian", epsilon, delta, releases, budget)
    try:
        optimal = plan("optimal", epsilon, delta, releases, budget)
    except ValueError:  # no table for so small a share
        return gaussian
    return optimal if optimal.error <= gaussian.error else gaussian


def _sigma(noise: str, epsilon: float, delta: float) -> float:
    needed = known.gaussian_sigma(epsilon, delta)
    if noise == "gaussian":
        # The classical formula is proved below epsilon = 1 only; never less than what is needed.
        needed = max(needed, known.classical_gaussian_sigma(epsilon, delta))
    needed *= 1 + 1e-7
    while gaussian_delta_above(needed, epsilon) > delta:
        needed *= _WIDER
    return needed * _WIDER * (1 + 1e-12)


def _check(noise: str, epsilon: float, delta: float, releases: int, budget: str) -> None:
    choice("noise", noise, NOISES)
    choice("budget", budget, BUDGETS)
    positive("epsilon", epsilon)
    whole("releases", releases)
    if not (isinstance(delta, int | float) and 0 <= delta < 1):
        raise ValueError(f"delta ({delta!r}) must be in [0, 1)")
    if delta == 0 and noise in (*_GAUSSIAN, "truncated-laplace"):
        raise ValueError(f"delta ({delta!r}) must be above 0 for {noise} noise")

"""Privacy filters: may one more mechanism of this price be run on this person's data?

A filter keeps the exact sum of the prices it let through and compares it with a capacity that was
rounded down: nothing is ever under-counted. Every filter is fully adaptive: mechanism and price may
depend on all answers so far, of all users.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from opendp_optimal import known
from opendp_optimal.checks import fraction, moderate, positive, share
from opendp_optimal.errors import BudgetError
from opendp_optimal.exact.halving import largest, least

_charging = threading.Lock()
"""Held while a price is compared with what is left and charged."""

_MARGIN = 1.0 - 1e-9
"""Far more than floats lose in computing a capacity."""


class Filter:
    """Lets mechanisms through as long as the sum of their prices stays within a capacity.

    :param capacity: the largest sum, an exact number
    :param total: what was charged before
    """

    unit = "price"
    gaussian_only = False

    def __init__(self, capacity: Any, total: Any = 0) -> None:
        """Start where it was left."""
        self.capacity = fraction("capacity", capacity, above=0)
        self._total = fraction("total", total, least=0)
        self._process = os.getpid()
        if self._total > self.capacity:
            raise ValueError(f"total ({total!r}) must be at most the capacity")

    @property
    def total(self) -> Fraction:
        """The exact sum of the prices let through."""
        return self._total

    @property
    def remaining(self) -> Fraction:
        """The largest price that would still be let through, exactly."""
        return self.capacity - self.total

    def accepts(self, price: Any, *, gaussian: bool = False) -> bool:
        """Say whether a mechanism of this price may run; nothing is charged.

        :param price: loss per unit of distance (GP) or per squared unit (CGP)
        :param gaussian: whether the mechanism is a Gaussian one (its rounding included)
        """
        exact = fraction("price", price, least=0)
        if self.gaussian_only and not gaussian and exact > 0:
            raise ValueError(
                "gaussian (False) must be True: this filter prices Gaussian noise only"
            )
        return self.total + exact <= self.capacity

    def charge(self, price: Any, *, gaussian: bool = False) -> bool:
        """Charge a price if it fits; say whether it did. Charge first, run the mechanism then.

        :param price: loss per unit of distance (GP) or per squared unit (CGP)
        :param gaussian: whether the mechanism is a Gaussian one (its rounding included)
        """
        if os.getpid() != self._process:
            raise BudgetError("a filter must stay in the process that made it: use a ledger")
        with _charging:
            if not self.accepts(price, gaussian=gaussian):
                return False
            self._total += fraction("price", price, least=0)
            return True

    def __reduce__(self) -> Any:
        """Refuse to be copied: both copies would be spent."""
        raise TypeError("a filter cannot be copied: its budget would be spent twice")

    def __repr__(self) -> str:
        """Show the state."""
        return (
            f"{type(self).__name__}(capacity={float(self.capacity):.6g}, "
            f"total={float(self.total):.6g})"
        )


class GpFilter(Filter):
    """Pure geo-privacy: losses per unit of distance add up to at most ``budget``.

    :param budget: epsilon per unit of distance

    >>> f = GpFilter(1.0)
    >>> f.charge(0.75), f.charge(0.5), f.charge(0.25)
    (True, False, True)
    """

    unit = "epsilon per unit of distance"

    def __init__(self, budget: Any) -> None:
        """Start with nothing charged."""
        super().__init__(fraction("budget", budget, above=0))


class CgpFilter(Filter):
    """Concentrated geo-privacy: prices per squared unit of distance add up to at most ``budget``.

    :param budget: rho per squared unit of distance

    >>> CgpFilter(0.5).accepts(0.5)
    True
    """

    unit = "rho per squared unit of distance"

    def __init__(self, budget: Any) -> None:
        """Start with nothing charged."""
        super().__init__(fraction("budget", budget, above=0))


class _ReachFilter(Filter):
    """Approximate geo-privacy (budget, delta, reach) from CGP prices."""

    unit = "rho per squared unit of distance"

    def __init__(self, budget: Any, *, delta: Any, reach: Any) -> None:
        """Work out the capacity."""
        self.budget = moderate("budget", budget)
        self.delta = share("delta", delta)
        if self.delta < 2.0**-1000:  # its inverse is a float
            raise ValueError(f"delta ({delta!r}) must be at least 2^-1000")
        self.reach = moderate("reach", reach)
        super().__init__(Fraction(_largest(self._fits, self.budget / self.reach) * _MARGIN))

    def _fits(self, total: float) -> bool:
        """Whether prices of such a sum keep the promise."""
        raise NotImplementedError


class ApproxGpFilter(_ReachFilter):
    """Approximate geo-privacy (budget, delta, reach) from CGP prices, by equation (10).

    Equation (10) accepts a sum T iff some ``1 < s < 2/delta - 1`` has
    ``s/(s-1) * 2 * sqrt(T ln(2/((s+1) delta))) <= budget`` and ``s * reach * T <= budget``. (The
    bound on s is not printed; beyond it the logarithm is negative.) The left sides rise with T, so
    the filter is a capacity, computed once.

    :param budget: epsilon per unit of distance
    :param delta: probability of a larger loss
    :param reach: the largest distance that is protected

    >>> f = ApproxGpFilter(1.0, delta=1e-6, reach=1.0)
    >>> approximate_loss(f.capacity, delta=1e-6, reach=1.0) <= 1.0
    True
    """

    def _fits(self, total: float) -> bool:
        return approximate_loss(total, delta=self.delta, reach=self.reach) <= self.budget


class GaussianFilter(_ReachFilter):
    """Approximate geo-privacy (budget, delta, reach) when every mechanism is Gaussian.

    Gaussian releases of total price T tell two points apart exactly as well as one of variance
    1/(2T) does, also when prices are chosen adaptively; the noise of this package is that release,
    rounded. The delta at loss ``budget * d`` rises with the distance d (its derivative is
    ``phi(m/2 - c) (1 - c * Mills(m/2 + c)) > 0``, m = d/sigma, c = budget * sigma), so the largest
    distance decides.

    :param budget: epsilon per unit of distance
    :param delta: probability of a larger loss
    :param reach: the largest distance that is protected

    >>> loose = ApproxGpFilter(1.0, delta=1e-6, reach=1.0)
    >>> GaussianFilter(1.0, delta=1e-6, reach=1.0).capacity > loose.capacity
    True
    """

    gaussian_only = True

    def _fits(self, total: float) -> bool:
        return gaussian_delta(self.budget, total, distance=self.reach) <= self.delta


def check_filter(name: str, kept: Any, *, pure: bool, distance: float = 1.0) -> None:
    """Refuse what is no fresh filter of the right kind for neighbours so far apart.

    :param name: what the argument is called
    :param kept: a filter
    :param pure: whether prices are epsilons; otherwise they are rhos
    :param distance: between neighbours
    """
    kinds = (GpFilter,) if pure else (CgpFilter, ApproxGpFilter, GaussianFilter)
    if not isinstance(kept, kinds):
        wanted = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} ({kept!r}) must be a filter of {wanted}")
    reach = getattr(kept, "reach", math.inf)
    if reach < distance:
        raise ValueError(f"{name} (reach {reach:g}) must reach to distance {distance:g} at least")
    if kept.total > 0:
        raise ValueError(f"{name} ({kept!r}) must be fresh: a part of it is already spent")


def approximate_loss(total: Any, *, delta: float, reach: float) -> float:
    """Return the left side of equation (10): epsilon per unit of distance for a CGP total.

    :param total: sum of the CGP prices
    :param delta: probability of a larger loss
    :param reach: the largest distance that is protected

    >>> approximate_loss(0.02, delta=1e-6, reach=1.0) < simple_loss(0.02, delta=1e-6, reach=1.0)
    True
    """
    total = float(fraction("total", total, least=0))
    delta, reach = share("delta", delta), positive("reach", reach)
    if total == 0.0:
        return 0.0

    def sides(s: float) -> tuple[float, float]:
        root = math.sqrt(total * max(0.0, math.log(2.0 / ((s + 1.0) * delta))))
        return s / (s - 1.0) * 2.0 * root, s * reach * total

    # The first side falls with s, to 0 at the end of the range, and the second one rises: the
    # smallest maximum is where they cross. Any s of the range gives a valid loss.
    def crossed(s: float) -> bool:
        first, second = sides(s) if s > 1.0 else (math.inf, 0.0)
        return first <= second

    end = 2.0 / delta - 1.0
    return max(sides(min(end, least(crossed, 1.0, end))))


def simple_loss(total: Any, *, delta: float, reach: float) -> float:
    """Return ``T * reach + 2 sqrt(T ln(1/delta))`` (Corollary 4.2, with T where rho is printed).

    :param total: sum of the CGP prices
    :param delta: probability of a larger loss
    :param reach: the largest distance that is protected

    >>> round(simple_loss(0.02, delta=1e-6, reach=1.0), 4)
    1.0713
    """
    exact = float(fraction("total", total, least=0))
    delta, reach = share("delta", delta), positive("reach", reach)
    return exact * reach + 2.0 * math.sqrt(exact * math.log(1.0 / delta))


def gaussian_delta(epsilon: float, total: float, *, distance: float) -> float:
    """Return the exact delta of Gaussian releases of a total CGP price.

    :param epsilon: loss per unit of distance
    :param total: sum of the CGP prices: variance 1/(2 total)
    :param distance: between the two values

    >>> round(gaussian_delta(1.0, 0.5, distance=1.0), 6)
    0.126937
    """
    if total <= 0.0 or distance <= 0.0:
        return 0.0
    return known.gaussian_delta(math.sqrt(0.5 / total) / distance, epsilon * distance)


def _largest(fits: Callable[[float], bool], guess: float) -> float:
    """Return the largest number for which a falling condition holds, from below."""
    low, high = guess, guess
    while fits(high):
        low, high = high, 2.0 * high
    while not fits(low):
        low /= 2.0
    return largest(fits, low, high)

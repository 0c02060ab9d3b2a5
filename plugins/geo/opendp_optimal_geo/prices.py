"""What has been paid: whole ticks per user, so that sums are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.spec.exact import float_down, float_up

Ticks = NDArray[np.int64]
Users = NDArray[np.intp]
FloatArray = NDArray[np.float64]

WHOLE = 1 << 40
"""Ticks in a whole budget."""


@dataclass
class Ledger:
    """The budgets of many users, in ticks of ``capacity / 2**40``.

    Ticks are integers, so totals are exact. A price in other units is rounded up to ticks, an
    allotment down.

    :param capacity: what each user may spend, exactly
    :param size: number of users

    >>> ledger = Ledger(Fraction(1), 2)
    >>> ledger.charge(np.array([0]), np.array([WHOLE])).tolist()
    [True]
    >>> ledger.charge(np.array([0, 1]), np.array([1, 1])).tolist()
    [False, True]
    >>> ledger.halted.tolist()
    [True, False]
    """

    capacity: Fraction
    size: int
    paid: Ticks = field(init=False, repr=False)
    halted: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start with nothing paid."""
        self.paid = np.zeros(self.size, np.int64)
        self.halted = np.zeros(self.size, np.bool_)

    @property
    def tick(self) -> Fraction:
        """What one tick is worth."""
        return self.capacity / WHOLE

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge users, or halt them for good; return who was charged.

        A halted user is not charged. A price of 0 is free and changes nothing. A user who cannot
        pay is halted, is charged nothing, and answers nothing from now on.

        :param users: indices, each at most once
        :param ticks: the price for each, at least 0
        """
        alive = ~self.halted[users]
        paid = self.paid[users]
        affordable = ticks <= WHOLE - paid
        charged = alive & affordable & (ticks > 0)
        self.halted[users[alive & ~affordable]] = True
        self.paid[users] = paid + np.where(charged, ticks, 0)
        return charged

    def spent(self) -> FloatArray:
        """What each user has paid, rounded up."""
        return _scaled(self.paid, float_up(self.tick), math.inf)

    def remaining(self) -> FloatArray:
        """What each user has left, rounded down."""
        return _scaled(WHOLE - self.paid, float_down(self.tick), 0.0)

    def allotment(self, budget: float | FloatArray) -> Ticks:
        """Return budgets as ticks, rounded down.

        :param budget: one for all users, or one for each
        """
        down = float_down(1 / self.tick)
        share = np.asarray(budget, np.float64) * down * (1.0 - 2.0**-51)
        if share.ndim == 0:
            # Exactly, so that the whole budget is the whole budget.
            exact = Fraction(float(np.asarray(budget))) / self.tick
            return np.full(self.size, min(math.floor(exact), 1 << 50), np.int64)
        return np.minimum(np.floor(share), 2.0**50).astype(np.int64)


def _scaled(ticks: Ticks, tick: float, direction: float) -> FloatArray:
    product = ticks.astype(np.float64) * tick
    return np.where(ticks == 0, 0.0, np.nextafter(product, direction))

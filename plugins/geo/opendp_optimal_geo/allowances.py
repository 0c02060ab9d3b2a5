"""What has been paid: whole ticks per user, so that sums are exact."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.exact.numbers import float_down, float_up

Ticks = NDArray[np.int64]
Users = NDArray[np.intp]
FloatArray = NDArray[np.float64]

WHOLE = 1 << 40
"""Ticks in a whole budget."""


_charging = threading.Lock()
"""Held while payments are compared with what is left and changed."""


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
        self._any_halted = False

    @property
    def tick(self) -> Fraction:
        """What one tick is worth."""
        return self.capacity / WHOLE

    def charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        """Charge users, or halt them for good; return who was charged.

        A halted user is not charged. A price of 0 is free and changes nothing. A user who cannot
        pay is halted, is charged nothing, and answers nothing from now on.

        :param users: indices in rising order, each at most once
        :param ticks: the price for each, at least 0
        """
        with _charging:
            return self._charge(users, ticks)

    def _charge(self, users: Users, ticks: Ticks) -> NDArray[np.bool_]:
        paid = pick(self.paid, users)
        same = ticks.strides == (0,)
        if not self._any_halted and len(users) and (ticks[:1] if same else ticks).min() > 0:
            total = paid + (ticks[0] if same else ticks)
            if total.max() <= WHOLE:
                put(self.paid, users, total)
                return np.ones(len(users), np.bool_)
        alive = ~self.halted[users]
        affordable = ticks <= WHOLE - paid
        charged = alive & affordable & (ticks > 0)
        self.halted[users[alive & ~affordable]] = True
        self._any_halted = bool(self.halted.any())
        self.paid[users] = paid + np.where(charged, ticks, 0)
        return charged

    def reserve(self, ticks: int) -> bool:
        """Charge everybody if everybody can pay; say whether it was done.

        :param ticks: the price
        """
        with _charging:
            if not self.can_all_pay(ticks):
                return False
            self.paid += ticks
            return True

    def give_back(self, kinds: NDArray[np.uint16], ticks: Ticks) -> int:
        """Take back a part of what :meth:`reserve` charged; return how many ticks in all.

        :param kinds: for each user which of the amounts
        :param ticks: amounts, at most what was reserved
        """
        total = 0
        for begin in range(0, self.size, 1 << 16):
            block = slice(begin, begin + (1 << 16))
            back = ticks.take(kinds[block])
            with _charging:
                self.paid[block] -= back
            total += int(back.sum())
        return total

    def can_all_pay(self, ticks: int) -> bool:
        """Say whether nobody has halted and everybody has so much left.

        :param ticks: a price
        """
        return not self._any_halted and int(self.paid.max(initial=0)) + ticks <= WHOLE

    def restore(self, paid: Ticks, halted: NDArray[np.bool_]) -> None:
        """Go on from what was paid before.

        :param paid: ticks of each user
        :param halted: who answers no more
        """
        self.paid, self.halted = paid.copy(), halted.astype(np.bool_)
        self._any_halted = bool(self.halted.any())

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
            return np.broadcast_to(np.int64(min(math.floor(exact), 1 << 50)), (self.size,))
        return np.minimum(np.floor(share), 2.0**50).astype(np.int64)


def _run(users: Users) -> slice | None:
    """Return sorted indices without gaps as a slice: reading and writing it is much faster."""
    if len(users) and users[-1] - users[0] == len(users) - 1:
        return slice(int(users[0]), int(users[-1]) + 1)
    return None


def pick(values: NDArray[Any], users: Users) -> NDArray[Any]:
    """Return the values of sorted users; maybe a view.

    :param values: one (or one row) per user
    :param users: indices in rising order
    """
    run = _run(users)
    return np.take(values, users, axis=0) if run is None else values[run]


def put(values: NDArray[Any], users: Users, new: NDArray[Any]) -> None:
    """Set the values of sorted users.

    :param values: one per user
    :param users: indices in rising order
    :param new: one for each of the users
    """
    run = _run(users)
    values[users if run is None else run] = new


def _scaled(ticks: Ticks, tick: float, direction: float) -> FloatArray:
    product = ticks.astype(np.float64) * tick
    return np.where(ticks == 0, 0.0, np.nextafter(product, direction))

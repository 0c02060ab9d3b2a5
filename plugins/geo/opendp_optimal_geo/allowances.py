"""What each person has paid, in whole ticks, so that sums are exact; how one query is paid for."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import float_down, float_up

Ticks = NDArray[np.int64]
Users = NDArray[np.intp]
Mask = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Price = int | Ticks
"""Ticks: one number that is the same for everybody, or one for each."""

WHOLE = 1 << 40
"""Ticks in a whole budget."""
BLOCK = 1 << 16
"""Users handled at a time."""


_charging = threading.Lock()
"""Held while payments are compared with what is left and changed."""


@dataclass
class Allowances:
    """The budgets of many users, in ticks of ``capacity / 2**40``.

    Ticks are integers, so totals are exact. A price in other units is rounded up to ticks, an
    allotment down.

    :param capacity: what each user may spend, exactly
    :param size: number of users

    >>> allowances = Allowances(Fraction(1), 2)
    >>> allowances.charge(np.array([0]), WHOLE).tolist()
    [True]
    >>> allowances.charge(np.array([0, 1]), np.array([1, 1])).tolist()
    [False, True]
    >>> allowances.halted.tolist()
    [True, False]
    """

    capacity: Fraction
    size: int
    paid: Ticks = field(init=False, repr=False)
    halted: Mask = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Start with nothing paid."""
        self.paid = np.zeros(self.size, np.int64)
        self.halted = np.zeros(self.size, np.bool_)
        self._any_halted = False

    @property
    def tick(self) -> Fraction:
        """What one tick is worth."""
        return self.capacity / WHOLE

    def charge(self, users: Users, price: Price) -> Mask:
        """Charge users, or halt them for good; return who was charged.

        A halted user is not charged. A price of 0 is free and changes nothing. A user who cannot
        pay is halted, is charged nothing, and answers nothing from now on.

        :param users: indices in rising order, each at most once
        :param price: in ticks, at least 0
        """
        with _charging:
            return self._charge(users, price)

    def _charge(self, users: Users, price: Price) -> Mask:
        paid = pick(self.paid, users)
        if not self._any_halted and len(users) and np.min(price) > 0:
            total = paid + price
            if total.max() <= WHOLE:
                put(self.paid, users, total)
                return np.ones(len(users), np.bool_)
        alive = ~self.halted[users]
        affordable = price <= WHOLE - paid
        charged = alive & affordable & (np.asarray(price) > 0)
        self.halted[users[alive & ~affordable]] = True
        self._any_halted = bool(self.halted.any())
        self.paid[users] = paid + np.where(charged, price, 0)
        return charged

    def reserve(self, ticks: int) -> bool:
        """Charge everybody if nobody has halted and everybody can pay; say whether it was done.

        :param ticks: the price
        """
        with _charging:
            if self._any_halted or int(self.paid.max(initial=0)) + ticks > WHOLE:
                return False
            self.paid += ticks
            return True

    def give_back(self, kinds: NDArray[np.uint16], ticks: Ticks) -> int:
        """Take back a part of what :meth:`reserve` charged; return how many ticks in all.

        :param kinds: for each user which of the amounts
        :param ticks: amounts, at most what was reserved
        """
        total = 0
        for begin in range(0, self.size, BLOCK):
            block = slice(begin, begin + BLOCK)
            back = ticks.take(kinds[block])
            with _charging:
                self.paid[block] -= back
            total += int(back.sum())
        return total

    def restore(self, paid: Ticks, halted: Mask) -> None:
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

    def allotment(self, budget: float | FloatArray) -> Price:
        """Return budgets as ticks, rounded down.

        :param budget: one for all users, or one for each
        """
        if isinstance(budget, np.ndarray):
            shares = budget * float_down(1 / self.tick) * (1.0 - 2.0**-51)
            return np.minimum(np.floor(shares), 2.0**50).astype(np.int64)
        # Exactly, so that the whole budget is the whole budget.
        return min(math.floor(Fraction(budget) / self.tick), 1 << 50)


class Payment:
    """How one query is paid for: every look that was begun, whatever happens then.

    Users are charged look by look. Where everybody pays the same and can pay for all looks, they
    do so at once, which is faster, and get back in the end what they were not asked for.

    :param allowances: who has paid what
    :param allotment: what the query may cost
    :param at_once: whether it may be paid for at once
    """

    def __init__(self, allowances: Allowances, allotment: Price, *, at_once: bool) -> None:
        """Charge for everything at once, if possible."""
        self._allowances, self._allotment = allowances, allotment
        self._reserved = at_once and isinstance(allotment, int) and allowances.reserve(allotment)
        self._spent: Price = (
            0 if isinstance(allotment, int) else np.zeros(allowances.size, np.int64)
        )

    def charge(self, users: Users, price: Price) -> Mask | None:
        """Charge users for a look; return who may be asked, None for everybody.

        :param users: indices in rising order, each at most once
        :param price: of the look
        """
        if self._reserved:
            return None
        charged = self._allowances.charge(users, price)
        if isinstance(self._spent, int):
            self._spent += int(price) * int(np.count_nonzero(charged))
        else:
            self._spent[users] += np.where(charged, price, 0)
        return None if charged.all() else charged

    def settle(self, decided_at: NDArray[np.uint16], prices: Sequence[Any], begun: int) -> None:
        """Give back what was paid for looks that a user was not asked for.

        :param decided_at: for each user the last look asked for; 0 means every look begun
        :param prices: of all looks
        :param begun: how many were begun
        """
        if not self._reserved or not isinstance(self._allotment, int):
            return
        unused = self._allotment - np.cumsum([0, *prices], dtype=np.int64)
        unused[0] = unused[begun]
        back = self._allowances.give_back(decided_at, unused)
        self._spent = self._allotment * self._allowances.size - back

    @property
    def saving(self) -> float:
        """The mean share of the allotments that was not spent."""
        if isinstance(self._allotment, int):
            whole = self._allotment * self._allowances.size
            return 1.0 - int(self._spent) / whole if whole else 1.0
        shares, asked = 0.0, 0
        for begin in range(0, self._allowances.size, BLOCK):
            block = slice(begin, begin + BLOCK)
            given = self._allotment[block]
            used = np.asarray(self._spent)[block][given > 0]
            shares += float((used / given[given > 0]).sum())
            asked += len(used)
        return 1.0 - shares / asked if asked else 1.0


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

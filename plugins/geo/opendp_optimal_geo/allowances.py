"""What each person has paid, in whole ticks, so that sums are exact; how one query is paid for."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.budget import BudgetError
from opendp_optimal.extend import Booleans, Floats, Indices, Integers, float_down, float_up

Ticks = Integers
Users = Indices
Mask = Booleans
Price = int | Ticks
"""Ticks: one number that is the same for everybody, or one for each."""
Blocks = Sequence[Users]
"""Blocks of indices in rising order, everybody at most once."""
Prices = Sequence[Price]
"""For each block, in ticks, at least 0."""
Asked = list[Mask | None]
"""For each block who was charged; None for everybody."""

WHOLE = 1 << 40
"""Ticks in a whole budget."""
BLOCK = 1 << 16
"""Users handled at a time."""


class Allowances:
    """The budgets of many users, in ticks of ``capacity / 2**40``, in the memory of one process.

    Ticks are integers, so totals are exact. A price in other units is rounded up to ticks, an
    allotment down.

    :param capacity: what each user may spend, exactly
    :param size: number of users

    >>> allowances = Allowances(Fraction(1), 2)
    >>> allowances.charge([np.array([0])], [WHOLE])
    [None]
    >>> allowances.charge([np.array([0, 1])], [1])[0].tolist()
    [False, True]
    >>> allowances.halted.tolist()
    [True, False]
    """

    generation: int | None = None
    """Of the ledger at the last charge, if there is one."""

    def __init__(self, capacity: Fraction, size: int) -> None:
        """Start with nothing paid."""
        self.capacity, self.size = capacity, size
        self.places: Users | None = None
        self._lock, self._process = threading.RLock(), os.getpid()
        self._begin(size)

    def _begin(self, people: int) -> None:
        """Start with columns in which nobody has paid."""
        self._paid, self._halted = np.zeros(people, np.int64), np.zeros(people, np.bool_)
        self._most, self._any_halted = 0, False

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: both copies would be spent."""
        raise TypeError("budgets cannot be copied, they would be spent twice: use a ledger")

    @property
    def tick(self) -> Fraction:
        """What one tick is worth."""
        return self.capacity / WHOLE

    @property
    def paid(self) -> Ticks:
        """What each user has paid, in ticks."""
        with self._reading():
            return self.rows(self._paid)

    @property
    def halted(self) -> Mask:
        """Who was asked for more than was left, and answers no more."""
        with self._reading():
            return self.rows(self._halted)

    def spent(self) -> Floats:
        """What each user has paid, rounded up."""
        return _scaled(self.paid, float_up(self.tick), math.inf)

    def remaining(self) -> Floats:
        """What each user has left, rounded down."""
        return _scaled(WHOLE - self.paid, float_down(self.tick), 0.0)

    def allotment(self, budget: float | Floats) -> Price:
        """Return budgets as ticks, rounded down.

        :param budget: one for all users, or one for each
        """
        if isinstance(budget, np.ndarray):
            shares = budget * float_down(1 / self.tick) * (1.0 - 2.0**-51)
            return np.minimum(np.floor(shares), 2.0**50).astype(np.int64)
        # Exactly, so that the whole budget is the whole budget.
        return min(math.floor(Fraction(budget) / self.tick), 1 << 50)

    def charge(self, users: Blocks, prices: Prices, note: str = "") -> Asked:
        """Charge users for a look, or halt them for good; return who was charged.

        A halted user is not charged. A price of 0 is free and changes nothing. A user who cannot
        pay is halted, is charged nothing, and answers nothing from now on.

        :param users: blocks of indices in rising order, everybody at most once
        :param prices: for each block, in ticks, at least 0
        :param note: what for
        :returns: for each block who was charged; None for everybody
        """
        with self._reading():
            while True:
                asked, halting = self._quote(users, prices)
                if self._write(users, prices, asked, halting, note):
                    return asked

    def _write(
        self, users: Blocks, prices: Prices, asked: Asked, halting: Sequence[Any], note: str
    ) -> bool:
        """Write down who pays what for a look, and who halts; return False if it was too late."""
        self._most += _largest(prices)  # first: a bound that is too large does no harm
        for some, price, mask in zip(users, prices, asked, strict=True):
            self._paid[self._at(some)] += price if mask is None else np.where(mask, price, 0)
        self._halt(halting)
        return True

    def settle(self) -> None:
        """Do what is to be done after a query."""

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Let one thread at a time work with the columns, in the process that they are of."""
        if os.getpid() != self._process:
            raise BudgetError(
                "budgets without a ledger must stay in the process that made them: both would "
                "spend them"
            )
        with self._lock:
            yield

    def _quote(self, users: Blocks, prices: Prices) -> tuple[Asked, list[Any]]:
        """Say who can pay, and who is to be halted; nothing is changed."""
        asked: Asked = [None] * len(users)
        free = any(not np.min(price, initial=1) for price in prices)
        if not free and not self._any_halted:
            largest = _largest(prices)
            if self._most + largest > WHOLE:  # a bound that was not brought up to date
                self._most = int(self._paid.max(initial=0))
            if self._most + largest <= WHOLE:
                return asked, []
        halting = []
        for block, (some, price) in enumerate(zip(users, prices, strict=True)):
            at = self._at(some)
            alive, affordable = ~self._halted[at], price <= WHOLE - self._paid[at]
            charged = alive & affordable & (np.asarray(price) > 0)
            if not charged.all():
                asked[block] = charged
            if len(out := some[alive & ~affordable]):
                halting.append(self._at(out))
        return asked, halting

    def _halt(self, places: Sequence[Any]) -> None:
        for some in places:
            self._halted[some] = self._any_halted = True

    def _at(self, users: Users) -> Any:
        """Return where users stand in the columns: a slice where possible, which is faster."""
        return run(users) if self.places is None else self.places[users]

    def rows(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a column in the order of the users.

        :param column: one number for each person
        """
        return column[: self.size].copy() if self.places is None else column[self.places]


class Payment:
    """How one query is paid for: every look that was begun, whatever happens then.

    :param allowances: who has paid what
    :param allotment: what the query may cost
    """

    def __init__(self, allowances: Allowances, allotment: Price) -> None:
        """Begin with nothing paid."""
        self._allowances, self._allotment = allowances, allotment
        self._spent: Any = 0 if isinstance(allotment, int) else np.zeros_like(allotment)

    def charge(self, users: Blocks, prices: Prices, note: str) -> Asked:
        """Charge users for a look; return for each block who may be asked, None for everybody.

        :param users: blocks of indices in rising order, everybody at most once
        :param prices: of the look, for each block
        :param note: what for
        """
        asked = self._allowances.charge(users, prices, note)
        for some, price, mask in zip(users, prices, asked, strict=True):
            if isinstance(price, int):
                self._spent += price * (len(some) if mask is None else int(mask.sum()))
            else:
                self._spent[some] += price if mask is None else np.where(mask, price, 0)
        return asked

    @property
    def saving(self) -> float:
        """The mean share of the allotments that was not spent."""
        if isinstance(self._allotment, int):
            whole = self._allotment * self._allowances.size
            return 1.0 - self._spent / whole if whole else 1.0
        shares, asked = 0.0, 0
        for begin in range(0, self._allowances.size, BLOCK):
            block = slice(begin, begin + BLOCK)
            given = self._allotment[block]
            used = self._spent[block][given > 0]
            shares += float((used / given[given > 0]).sum())
            asked += len(used)
        return 1.0 - shares / asked if asked else 1.0


def _largest(prices: Prices) -> int:
    return max((int(np.max(price, initial=0)) for price in prices), default=0)


def run(users: Users) -> Any:
    """Return sorted indices without gaps as a slice: reading and writing it is much faster.

    :param users: indices in rising order
    """
    if len(users) and users[-1] - users[0] == len(users) - 1:
        return slice(int(users[0]), int(users[-1]) + 1)
    return users


def pick(values: NDArray[Any], users: Users) -> NDArray[Any]:
    """Return the values of sorted users; maybe a view.

    :param values: one (or one row) per user
    :param users: indices in rising order
    """
    at = run(users)
    return values[at] if isinstance(at, slice) else np.take(values, users, axis=0)


def _scaled(ticks: Ticks, tick: float, direction: float) -> Floats:
    product = ticks.astype(np.float64) * tick
    return np.where(ticks == 0, 0.0, np.nextafter(product, direction))

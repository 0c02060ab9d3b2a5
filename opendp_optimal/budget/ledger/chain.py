"""Whole units, rounded against ourselves, and a log of which each line vouches for the last."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

try:  # Python's own, as in its module random: OpenSSL takes longer to begin than to digest a line
    from _sha2 import sha256  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found, unused-ignore]  # 3.11
    except ImportError:
        from hashlib import sha256

from opendp_optimal.checks import fraction
from opendp_optimal.exact.numbers import float_down, float_up

MAIN_UNITS = 1 << 40
"""Units in an epsilon, or a rho, of 1."""
DELTA_UNITS = 1 << 62
"""Units in a delta of 1: fine enough for a delta of 1e-12 to cost no more than itself."""
UNITS = MAIN_UNITS, DELTA_UNITS
LARGEST = 1 << 22
"""The largest epsilon or rho: its units and their sums stay within 64 bits."""
BEGINNING = "0" * 64


@dataclass(frozen=True)
class Kind:
    """A notion of privacy loss that a budget is kept in.

    :param name: as it is stored
    :param main: "epsilon" or "rho"
    :param delta: whether there is a delta, too
    """

    name: str
    main: str
    delta: bool

    def limit(self, given: dict[str, Any]) -> Amount:
        """A limit in whole units, rounded down."""
        amount = self._amount(given, math.floor)
        if amount.main == 0:
            raise ValueError(f"{self.main} ({given[self.main]!r}) must be at least 2**-40")
        return amount

    def exactly(self, given: dict[str, Any]) -> str:
        """Numbers as they were given: fractions with a space between them."""
        numbers = (fraction(name, given[name], least=0) for name in self.names)
        return " ".join(f"{number.numerator}/{number.denominator}" for number in numbers)

    def price(self, given: dict[str, Any]) -> Amount:
        """A price in whole units, rounded up."""
        return self._amount(given, math.ceil)

    def _amount(self, given: dict[str, Any], rounded: Any) -> Amount:
        main, delta = given.get(self.main), given.get("delta")
        if main is None or len(given) > 1:
            self._check_names(given)
        units = rounded(_scaled(self.main, main, MAIN_UNITS))
        if units > LARGEST * MAIN_UNITS:
            raise ValueError(f"{self.main} ({main!r}) must be at most 2**22")
        if delta is None:
            return Amount(units, 0)
        parts = _scaled("delta", delta, DELTA_UNITS)
        if parts > DELTA_UNITS or (parts == DELTA_UNITS and rounded is math.floor):
            raise ValueError(f"delta ({delta!r}) must be below 1")
        return Amount(units, rounded(parts))

    def _check_names(self, given: dict[str, Any]) -> None:
        for name, value in given.items():
            if value is not None and name not in self.names:
                raise ValueError(f"{name} ({value!r}) must be left out: the budget is {self.told}")
        if given.get(self.main) is None:
            raise ValueError(f"{self.main} must be given: the budget is {self.told}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a price is given by."""
        return (self.main, "delta") if self.delta else (self.main,)

    @property
    def told(self) -> str:
        """In words."""
        return " and ".join(self.names)

    def floats(self, amount: Amount, *, up: bool) -> float | tuple[float, float]:
        """An amount as the numbers that OpenDP uses, rounded one way."""
        one = float_up if up else float_down
        main = one(Fraction(amount.main, MAIN_UNITS))
        return (main, one(Fraction(amount.delta, DELTA_UNITS))) if self.delta else main


def _scaled(name: str, value: Any, units: int) -> float | Fraction:
    """A number in units, exactly: powers of two change no digit of a float."""
    if type(value) is float and 0.0 <= value <= LARGEST:
        return value * units
    return fraction(name, value, least=0) * units


KINDS = {
    kind.name: kind
    for kind in (
        Kind("epsilon", "epsilon", False),
        Kind("epsilon-delta", "epsilon", True),
        Kind("rho", "rho", False),
        Kind("rho-delta", "rho", True),
    )
}


class Amount(NamedTuple):
    """A privacy loss in whole units."""

    main: int
    delta: int

    def plus(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(self.main + other.main, self.delta + other.delta)

    def minus(self, other: Amount) -> Amount:
        """What is left."""
        return Amount(self.main - other.main, self.delta - other.delta)

    def within(self, limit: Amount) -> bool:
        """Whether it is no more than a limit, in both parts."""
        return self.main <= limit.main and self.delta <= limit.delta


@dataclass(frozen=True)
class Entry:
    """A line of the log.

    :param number: 1, 2, 3, ... over all data sets: the generation of the ledger after it
    :param time: when, in UTC
    :param name: the data set
    :param action: "create", "unit", "charge", "answer" or "columns"
    :param amount: the limit or the price; nothing otherwise
    :param detail: what else belongs to it: the kind of a budget, the privacy unit, a note, a
        request with the digest of its question, the digest of an answer or of a piece of columns
    :param link: the digest of this line and of the one before
    """

    number: int
    time: str
    name: str
    action: str
    amount: Amount
    detail: dict[str, Any]
    link: str = ""

    def digest(self, before: str) -> str:
        """The digest of this line after another."""
        parts = self.number, self.time, self.name, self.action, *self.amount
        return link_of(before, *parts, as_text(self.detail))


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_quoted = json.encoder.encode_basestring_ascii


def as_text(detail: dict[str, Any]) -> str:
    """The detail of a line as text, always the same for the same detail.

    >>> as_text({"note": "é", "by": "ann"})
    '{"by":"ann","note":"\\\\u00e9"}'
    """
    if len(detail) == 2 and type(note := detail.get("note")) is type(by := detail.get("by")) is str:
        return f'{{"by":{_quoted(by)},"note":{_quoted(note)}}}'  # of every charge
    return _encode(detail)


def link_of(
    before: str, number: int, time: str, name: str, action: str, main: int, delta: int, detail: str
) -> str:
    """The digest of a line after another; no part but the last can hold a line's end."""
    line = f"{before}\n{number}\n{time}\n{name}\n{action}\n{main}\n{delta}\n{detail}"
    digest: str = sha256(line.encode()).hexdigest()
    return digest

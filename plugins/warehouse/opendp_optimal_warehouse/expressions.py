"""Columns and what may be done with them: total operations, and nothing else.

A total operation gives an answer, or a missing value, for every row there can be, on every engine.
So no row can make a query fail, and whether an error appears says nothing about anybody. An
expression is a plain value. Its kind is found out when it meets the columns of a table
(:mod:`~opendp_optimal_warehouse.kinds`); what is not on the list is refused there, or when it is
written down.

Missing values: nulls and NaN are the same, everywhere. What is computed from a missing value is
missing; a comparison with one is neither true nor false, and ``where`` keeps what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from keyword import iskeyword
from typing import Any, NoReturn

from opendp_optimal_warehouse.given import constant, constants

_TOTAL = "is not on the list of operations that no row can make fail"


class Expression:
    """A column, or something computed from columns. Made by :func:`col`."""

    __hash__: Any = None
    _text = ""

    def __repr__(self) -> str:
        """As it is written."""
        return self._text.format(**vars(self))

    def clamp(self, low: int, high: int) -> Expression:
        """A number rounded to the nearest whole number (halves down), and brought into a range.

        :param low: the least
        :param high: the largest
        """
        return Clamp(self, _whole("low", low), _whole("high", high))

    def bins(self, edges: Iterable[float]) -> Expression:
        """How many of some edges a number has reached: 0 below the first.

        :param edges: rising numbers
        """
        found = tuple(_number("edges", edge) for edge in constants("edges", edges))
        if any(a >= b for a, b in pairwise(found)):
            raise ValueError(f"edges ({list(found)!r}) must rise")
        return Bins(self, found)

    def isin(self, values: Iterable[Any]) -> Expression:
        """Whether it is one of some constants.

        :param values: the constants
        """
        return IsIn(self, constants("values", values))

    def between(self, low: Any, high: Any) -> Expression:
        """Whether it is at least one constant and at most another."""
        return Both(self >= low, self <= high)

    def is_missing(self) -> Expression:
        """Whether it is null or NaN."""
        return IsMissing(self)

    def lookup(self, values: Mapping[Any, int]) -> Expression:
        """A whole number from a public table; missing where the table has no such key.

        :param values: from the constants that may be there to whole numbers
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"values ({values!r}) must be a dictionary")
        keys = constants("values", values)
        return Lookup(self, keys, tuple(_whole("values", values[key]) for key in keys))

    def year(self) -> Expression:
        """The year of a date or time; missing outside the years 1 to 9999, as all parts are."""
        return Part(self, "year")

    def month(self) -> Expression:
        """The month of a date or time, 1 to 12."""
        return Part(self, "month")

    def day(self) -> Expression:
        """The day of the month of a date or time, 1 to 31."""
        return Part(self, "day")

    def weekday(self) -> Expression:
        """The day of the week of a date or time, Monday is 0."""
        return Part(self, "weekday")

    def hour(self) -> Expression:
        """The hour of a time, 0 to 23."""
        return Part(self, "hour")

    def minute(self) -> Expression:
        """The minute of a time, 0 to 59."""
        return Part(self, "minute")

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        """Equal to a constant, or to another whole number."""
        return Compare("==", self, _operand(other))

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        """Not equal."""
        return Compare("!=", self, _operand(other))

    def __lt__(self, other: Any) -> Expression:
        """Below."""
        return Compare("<", self, _operand(other))

    def __le__(self, other: Any) -> Expression:
        """At most."""
        return Compare("<=", self, _operand(other))

    def __gt__(self, other: Any) -> Expression:
        """Above."""
        return Compare(">", self, _operand(other))

    def __ge__(self, other: Any) -> Expression:
        """At least."""
        return Compare(">=", self, _operand(other))

    def __and__(self, other: Any) -> Expression:
        """And."""
        return Both(self, _predicate(other))

    def __or__(self, other: Any) -> Expression:
        """Or."""
        return Either(self, _predicate(other))

    def __invert__(self) -> Expression:
        """Not."""
        return Not(self)

    def __add__(self, other: Any) -> Expression:
        """A sum."""
        return Arithmetic("+", self, _term(other))

    def __radd__(self, other: Any) -> Expression:
        """A sum."""
        return Arithmetic("+", _term(other), self)

    def __sub__(self, other: Any) -> Expression:
        """A difference."""
        return Arithmetic("-", self, _term(other))

    def __rsub__(self, other: Any) -> Expression:
        """A difference."""
        return Arithmetic("-", _term(other), self)

    def __mul__(self, other: Any) -> Expression:
        """A product."""
        return Arithmetic("*", self, _term(other))

    def __rmul__(self, other: Any) -> Expression:
        """A product."""
        return Arithmetic("*", _term(other), self)

    def __neg__(self) -> Expression:
        """The negative."""
        return Arithmetic("-", Constant(0), self)

    def __floordiv__(self, other: Any) -> Expression:
        """Divided by a constant, rounded down."""
        return Divide(self, _divisor(other))

    def __mod__(self, other: Any) -> Expression:
        """What is left by such a division."""
        return Remainder(self, _divisor(other))

    def __truediv__(self, other: Any) -> NoReturn:
        """Refused."""
        raise ValueError(f"division (/) {_TOTAL}; // and % by a constant are")

    def __pow__(self, other: Any) -> NoReturn:
        """Refused."""
        raise ValueError(f"a power (**) {_TOTAL}; multiply")

    def __bool__(self) -> NoReturn:
        """Refused."""
        raise ValueError("an expression has no truth value: write & for and, | for or, ~ for not")

    def __iter__(self) -> NoReturn:
        """Refused."""
        raise ValueError("an expression has no parts to go through")

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what is not on the list."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"{name} {_TOTAL}")


@dataclass(frozen=True, eq=False, repr=False)
class Column(Expression):
    """A column of the table."""

    name: str

    def __repr__(self) -> str:
        """Its name, or where that could be read as something else, as it is written."""
        plain = self.name.isidentifier() and not iskeyword(self.name)
        return self.name if plain and self.name not in ("inf", "nan") else f"col({self.name!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Constant(Expression):
    """A constant."""

    value: Any

    def __repr__(self) -> str:
        """As it is written."""
        return repr(self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Clamp(Expression):
    """A number made whole and brought into a range."""

    of: Expression
    low: int
    high: int

    _text = "{of}.clamp({low}, {high})"


@dataclass(frozen=True, eq=False, repr=False)
class Bins(Expression):
    """The number of edges that were reached."""

    of: Expression
    edges: tuple[float, ...]

    def __repr__(self) -> str:
        """As it is written."""
        return f"{self.of}.bins({list(self.edges)})"


@dataclass(frozen=True, eq=False, repr=False)
class IsIn(Expression):
    """Membership in a list of constants."""

    of: Expression
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        """As it is written."""
        return f"{self.of}.isin({', '.join(map(repr, self.values))})"


@dataclass(frozen=True, eq=False, repr=False)
class IsMissing(Expression):
    """Null or NaN."""

    of: Expression

    _text = "{of}.is_missing()"


@dataclass(frozen=True, eq=False, repr=False)
class Lookup(Expression):
    """A public table of unique keys."""

    of: Expression
    keys: tuple[Any, ...]
    values: tuple[int, ...]

    def __repr__(self) -> str:
        """As it is written."""
        return f"{self.of}.lookup({dict(zip(self.keys, self.values, strict=True))})"


@dataclass(frozen=True, eq=False, repr=False)
class Part(Expression):
    """A part of a date or time."""

    of: Expression
    part: str

    _text = "{of}.{part}()"


@dataclass(frozen=True, eq=False, repr=False)
class Compare(Expression):
    """A comparison with a constant, or of two whole numbers."""

    sign: str
    left: Expression
    right: Expression

    _text = "({left} {sign} {right})"


@dataclass(frozen=True, eq=False, repr=False)
class Both(Expression):
    """And."""

    left: Expression
    right: Expression

    _text = "({left} & {right})"


@dataclass(frozen=True, eq=False, repr=False)
class Either(Expression):
    """Or."""

    left: Expression
    right: Expression

    _text = "({left} | {right})"


@dataclass(frozen=True, eq=False, repr=False)
class Not(Expression):
    """Not."""

    of: Expression

    _text = "~{of}"


@dataclass(frozen=True, eq=False, repr=False)
class Arithmetic(Expression):
    """A sum, difference or product of whole numbers."""

    sign: str
    left: Expression
    right: Expression

    _text = "({left} {sign} {right})"


@dataclass(frozen=True, eq=False, repr=False)
class Divide(Expression):
    """A whole number divided by a constant, rounded down."""

    of: Expression
    by: int

    _text = "({of} // {by})"


@dataclass(frozen=True, eq=False, repr=False)
class Remainder(Expression):
    """What is left by such a division, from 0 on."""

    of: Expression
    by: int

    _text = "({of} % {by})"


def col(name: str) -> Expression:
    """A column of a table, to compare and compute with.

    :param name: of the column

    >>> (col("age") >= 18) & ~col("town").isin(["Bern", "Basel"])
    ((age >= 18) & ~town.isin('Bern', 'Basel'))
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name ({name!r}) must be the name of a column")
    return Column(name)


def _whole(name: str, value: Any) -> int:
    plain = constant(name, value)
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise ValueError(f"{name} ({value!r}) must be a whole number")
    return plain


def _number(name: str, value: Any) -> float:
    plain = constant(name, value)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise ValueError(f"{name} ({value!r}) must be a number")
    return plain


def _operand(value: Any) -> Expression:
    return value if isinstance(value, Expression) else Constant(constant("a constant", value))


def _predicate(value: Any) -> Expression:
    if not isinstance(value, Expression):
        raise ValueError(f"{value!r} must be a comparison of columns")
    return value


def _term(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    return Constant(_whole("a term", value))


def _divisor(value: Any) -> int:
    if isinstance(value, Expression):
        raise ValueError(f"division by a column {_TOTAL}")
    divisor = _whole("a divisor", value)
    if not 1 <= divisor < 1 << 31:
        raise ValueError(f"a divisor ({value!r}) must be in [1, 2^31)")
    return divisor

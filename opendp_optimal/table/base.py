"""What every table says of itself, and which kinds of tables are kept in files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from opendp_optimal.arrays import Frozen, html_rows
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError, TableFormatError
from opendp_optimal.losses.base import Loss
from opendp_optimal.problem.base import Problem

if TYPE_CHECKING:
    from opendp_optimal.table.files.container import Kind

T = TypeVar("T")

KINDS = ("noise", "bounded", "pair", "radial")
"""Kinds of tables that are kept: each has a module of its name in ``table/files``."""


def proving(verify: Callable[[T], None]) -> Callable[[T], None]:
    """A method that proves: whatever else it raises says that a field is not what it should be."""

    @wraps(verify)
    def proved(table: T) -> None:
        try:
            verify(table)
        except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError) as error:
            raise CertificateError(f"a table has parts that are not its own: {error}") from None

    return proved


class Certified(Frozen):
    """A certified interval around the least expected loss."""

    upper: float
    lower: float

    @property
    def gap(self) -> float:
        """The certified relative gap (upper - lower) / lower; infinite if lower is not positive."""
        return (self.upper - self.lower) / self.lower if self.lower > 0 else math.inf

    @property
    def _interval(self) -> str:
        return f"upper={self.upper:.6g}, lower={self.lower:.6g}, gap={self.gap:.3%}"

    @proving
    def verify(self) -> None:
        """Repeat both proofs from the stored data alone; raises CertificateError if one fails."""
        self._check_bounds(*self._proved())

    def _proved(self) -> tuple[float, float]:
        """Prove everything but the bounds that are stated; returns those that follow."""
        raise NotImplementedError

    def _bounded(self, upper: float, lower: float) -> Self:
        """The table with its bounds, before anybody has seen it."""
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "lower", lower)
        self._check_bounds(upper, lower)
        return self

    def _check_bounds(self, upper: float, lower: float) -> None:
        """Raise unless the bounds that are stated are those that follow from the data."""
        if type(self.upper) is not float or type(self.lower) is not float:
            raise CertificateError("the bounds of a table are not floats")
        if self.upper != upper:
            raise CertificateError(f"upper ({self.upper}) is not the expected loss ({upper})")
        if self.lower != lower:
            raise CertificateError(f"lower ({self.lower}) is not what the prices prove ({lower})")
        if not lower <= upper:
            raise CertificateError(f"lower ({lower}) is above upper ({upper})")

    @property
    def total(self) -> int:
        """What the weights (of each row), an atom and tails add up to."""
        return TOTAL


class Table(Certified):
    """The answer to a problem that states a privacy target and a loss."""

    problem: Any

    def __eq__(self, other: object) -> bool:
        """Equal content."""
        return NotImplemented if type(other) is not type(self) else _same(self, other)

    def __hash__(self) -> int:
        """By problem and bounds."""
        return hash((self.problem.fingerprint, self.upper, self.lower))

    @property
    def epsilon(self) -> float:
        """The guarantee holds for exactly this float."""
        return float(self.problem.epsilon)

    @property
    def delta(self) -> float:
        """The guarantee holds for exactly this float."""
        return float(self.problem.delta)

    @property
    def loss(self) -> Loss:
        """The loss whose expectation is minimised."""
        loss: Loss = self.problem.loss
        return loss

    @property
    def kind(self) -> str:
        """ "real" or "integer"."""
        return str(self.problem.kind)

    def summary(self) -> dict[str, Any]:
        """The facts that a person or a script wants to see, as plain values."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "loss": self.loss.name,
            "kind": self.kind,
            **self._sizes(),
            "upper": self.upper,
            "lower": self.lower,
            "gap": self.gap,
        }

    def _repr_html_(self) -> str:
        """The facts as a table, for notebooks."""
        facts = self.summary().items()
        return html_rows((k, f"{v:.6g}" if isinstance(v, float) else str(v)) for k, v in facts)

    def _sizes(self) -> dict[str, Any]:
        """The facts that only this kind of table has."""
        raise NotImplementedError


def _same(one: Any, other: Any) -> bool:
    """Whether two values, arrays, problems, or dataclasses of them are equal."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, Problem):
        return bool(one.fingerprint == other.fingerprint)
    if is_dataclass(one) and type(one) is type(other):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)


def kinds() -> Iterator[Kind[Any]]:
    """All kinds of tables that are kept in files, each loaded when it is reached."""
    for name in KINDS:
        yield import_module(f"opendp_optimal.table.files.{name}").KIND


def kind_for(problem: Any) -> Kind[Any]:
    """The kind of the tables that answer a problem."""
    for kind in kinds():
        if isinstance(problem, kind.problem):
            return kind
    raise TypeError(f"tables for {type(problem).__name__} are not kept in files")


def kind_of(data: bytes) -> Kind[Any]:
    """The kind of table that the bytes of a file begin like.

    :raises TableFormatError: if they begin like none
    """
    for kind in kinds():
        if data[:8] == kind.magic:
            return kind
    raise TableFormatError("the file does not begin like a table")

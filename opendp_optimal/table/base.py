"""What every table says of itself, and which kinds of tables are kept in files."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from opendp_optimal.arrays import Frozen
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import TableFormatError
from opendp_optimal.losses.base import Loss

if TYPE_CHECKING:
    from opendp_optimal.table.files.container import Kind

__all__ = ["KINDS", "Certified", "Table", "kind_for", "kind_of", "kinds"]

KINDS = ("noise", "bounded", "pair")
"""Kinds of tables that are kept: each has a module of its name in ``table/files``."""


class Certified(Frozen):
    """A certified interval around the least expected loss."""

    upper: float
    lower: float

    @property
    def gap(self) -> float:
        """The certified relative gap (upper - lower) / lower; infinite if lower is not positive."""
        return (self.upper - self.lower) / self.lower if self.lower > 0 else math.inf

    @property
    def total(self) -> int:
        """What the weights (of each row), an atom and tails add up to."""
        return TOTAL


class Table(Certified):
    """The answer to a problem that states a privacy target and a loss."""

    problem: Any

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

    def _sizes(self) -> dict[str, Any]:
        """The facts that only this kind of table has."""
        raise NotImplementedError


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

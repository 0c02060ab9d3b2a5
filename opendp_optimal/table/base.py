"""What every table that is drawn from can say of itself."""

from __future__ import annotations

import math
from typing import Any

from opendp_optimal.arrays import Frozen, frozen_array
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.losses.base import Loss

__all__ = ["Certified", "Frozen", "Table", "frozen_array"]


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

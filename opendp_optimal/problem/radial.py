"""What is asked of noise for vectors: a privacy target, a norm, a length and a loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from opendp_optimal.checks import choice, positive, whole
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.base import Problem
from opendp_optimal.problem.noise import take_target

NORMS = ("l1", "l2", "linf")
LONGEST = 1 << 20
"""Vectors are at most this long."""
LARGEST_SENSITIVITY = 1 << 30
_MOST_APART = 1e12


@dataclass(frozen=True, kw_only=True)
class RadialProblem(Problem):
    """Find noise for vectors, falling with a norm, of least expected loss.

    :param epsilon: privacy parameter, in [1e-4, 32]
    :param delta: privacy parameter, 0 (pure) or in [1e-14, 1)
    :param size: length of the vectors
    :param norm: that neighbours are at most a sensitivity apart in: "l1", "l2" or "linf"
    :param loss: "l1" or "l2": the sum over coordinates is minimised in expectation
    :param integer_sensitivity: None for real vectors of sensitivity 1; n for integers (linf)
    :param weights: what the loss of each coordinate counts (linf); all the same by default
    """

    epsilon: float
    delta: float
    size: int
    norm: str = "l2"
    loss: Loss = field(default_factory=lambda: loss_of("l2"))
    integer_sensitivity: int | None = None
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        take_target(self)
        object.__setattr__(self, "size", whole("size", self.size, most=LONGEST))
        if self.integer_sensitivity is not None:
            moved = whole("integer_sensitivity", self.integer_sensitivity, most=LARGEST_SENSITIVITY)
            object.__setattr__(self, "integer_sensitivity", moved)
        choice("norm", self.norm, NORMS)
        if not isinstance(self.loss, Loss) or not self.loss.endless:
            shown = getattr(self.loss, "name", self.loss)
            raise ValueError(f"loss ({shown}) must be l1 or l2 for vectors")
        if self.integer_sensitivity is not None and self.norm != "linf":
            raise ValueError(
                f"integer_sensitivity ({self.integer_sensitivity}) is for the norm linf: in others "
                "use noise for real vectors, scaled, and round the sum"
            )
        if self.weights is not None:
            self._check_weights(self.weights)

    def _check_weights(self, weights: Any) -> None:
        if self.norm != "linf" or not isinstance(weights, Sequence) or len(weights) != self.size:
            raise ValueError(
                f"weights ({weights!r}) must be a number for each coordinate, in the norm linf"
            )
        checked = tuple(positive("weights", weight) for weight in weights)
        if max(checked) > _MOST_APART * min(checked):
            raise ValueError(f"weights ({weights!r}) must be less far apart")
        object.__setattr__(self, "weights", None if set(checked) == {1.0} else checked)

    @cached_property
    def runs(self) -> tuple[tuple[float, int], ...]:
        """The different weights of coordinates, and how many have each."""
        return tuple(Counter(self.weights or (1.0,) * self.size).items())

    @property
    def power(self) -> int:
        """Of the loss: 1 or 2."""
        return int(self.loss.power)

    @property
    def has_bound(self) -> bool:
        """Whether a bound below every additive noise can be proved: lengths alone count."""
        return self.norm == "l2" and self.power == 2 and self.size >= 2

    @cached_property
    def kind(self) -> str:
        """ "real" or "integer"."""
        return "real" if self.integer_sensitivity is None else "integer"

    def describe(self) -> dict[str, Any]:
        """The problem as plain values, in a fixed order."""
        plain = super().describe()
        if self.weights is None:
            del plain["weights"]
        return {"radial": plain.pop("norm"), **plain}

    @classmethod
    def _values(cls, described: dict[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in described.items() if name != "radial"}
        return {"norm": described["radial"], **super()._values(plain)}

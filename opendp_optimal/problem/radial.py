"""What is asked of noise for vectors: a privacy target, a norm, a length and a loss."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property

from opendp_optimal.losses.base import Loss, parse
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON, _number

__all__ = ["LARGEST_SENSITIVITY", "LONGEST", "NORMS", "RadialProblem"]

NORMS = ("l1", "l2", "linf")
LONGEST = 1 << 20
"""Vectors are at most this long."""
LARGEST_SENSITIVITY = 1 << 30


@dataclass(frozen=True, kw_only=True)
class RadialProblem:
    """Find noise for vectors, falling with a norm, of least expected loss.

    :param epsilon: privacy parameter, in [1e-4, 32]
    :param delta: privacy parameter, 0 (pure) or in [1e-14, 1)
    :param size: length of the vectors
    :param norm: that neighbours are at most a sensitivity apart in: "l1", "l2" or "linf"
    :param loss: "l1" or "l2": the sum over coordinates is minimised in expectation
    :param integer_sensitivity: None for real vectors of sensitivity 1; n for integers (linf)
    """

    epsilon: float
    delta: float
    size: int
    norm: str = "l2"
    loss: Loss = field(default_factory=lambda: parse("l2"))
    integer_sensitivity: int | None = None

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        epsilon, delta = _number("epsilon", self.epsilon), _number("delta", self.delta)
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise ValueError(
                f"epsilon ({self.epsilon}) must be in [{MIN_EPSILON}, {MAX_EPSILON:g}]"
            )
        if not (delta == 0 or MIN_DELTA <= delta < 1):
            raise ValueError(f"delta ({self.delta}) must be 0 or in [{MIN_DELTA}, 1)")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        for name, most in (("size", LONGEST), ("integer_sensitivity", LARGEST_SENSITIVITY)):
            value = getattr(self, name)
            if value is None and name != "size":
                continue
            number = _number(name, value)
            if not (1 <= number <= most and number == int(number)):
                raise ValueError(f"{name} ({value!r}) must be an integer in [1, {most}]")
            object.__setattr__(self, name, int(number))
        if self.norm not in NORMS:
            raise ValueError(f"norm ({self.norm!r}) must be one of {', '.join(NORMS)}")
        if not isinstance(self.loss, Loss) or self.loss.name not in ("l1", "l2"):
            raise ValueError(f"loss ({self.loss!r}) must be l1 or l2 for vectors")
        if self.integer_sensitivity is not None and self.norm != "linf":
            raise ValueError(
                f"integer_sensitivity ({self.integer_sensitivity}) is for the norm linf: in others "
                "use noise for real vectors, scaled, and round the sum"
            )

    @property
    def power(self) -> int:
        """Of the loss: 1 or 2."""
        return int(self.loss.power)

    @cached_property
    def kind(self) -> str:
        """ "real" or "integer"."""
        return "real" if self.integer_sensitivity is None else "integer"

    def describe(self) -> dict[str, object]:
        """The problem as plain values, in a fixed order."""
        return {
            "radial": self.norm,
            "size": self.size,
            "epsilon": self.epsilon.hex(),
            "delta": self.delta.hex(),
            "loss": self.loss.fingerprint,
            "integer_sensitivity": self.integer_sensitivity,
        }

    @property
    def fingerprint(self) -> str:
        """The address of the problem's table: a digest of everything that was asked."""
        text = json.dumps(self.describe(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

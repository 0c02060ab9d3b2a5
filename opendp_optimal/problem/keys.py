"""What is asked of noise on the counts of keys that are secret themselves."""

from __future__ import annotations

from dataclasses import dataclass

from opendp_optimal.checks import finite, whole
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON

MOST_MOVE = 64
"""Counts that move by more are counted in larger units."""


@dataclass(frozen=True, kw_only=True)
class KeyProblem:
    """Release keys with their counts, so that no key appears, moves or vanishes visibly.

    :param epsilon: privacy parameter for one key, in [1e-4, 32]
    :param delta: privacy parameter for one key, in [1e-14, 1)
    :param move: how far neighbours can be apart in the count of a key, in [1, 64]
    """

    epsilon: float
    delta: float
    move: int = 1

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, finite(name, getattr(self, name)))
        if not MIN_EPSILON <= self.epsilon <= MAX_EPSILON:
            raise ValueError(
                f"epsilon ({self.epsilon}) must be in [{MIN_EPSILON:g}, {MAX_EPSILON:g}]"
            )
        if not MIN_DELTA <= self.delta < 1:
            raise ValueError(
                f"delta ({self.delta}) must be in [{MIN_DELTA:g}, 1): without it no key that a "
                f"single person has can ever be released"
            )
        object.__setattr__(self, "move", whole("move", self.move, least=1, most=MOST_MOVE))

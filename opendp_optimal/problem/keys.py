"""What is asked of noise on the counts of keys that are secret themselves."""

from __future__ import annotations

from dataclasses import dataclass

from opendp_optimal.checks import whole
from opendp_optimal.problem.noise import take_target

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
        why = ": without it no key that a single person has can ever be released"
        take_target(self, pure=False, why=why)
        object.__setattr__(self, "move", whole("move", self.move, least=1, most=MOST_MOVE))

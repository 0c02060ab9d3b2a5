"""What is asked of noise on a mean and its count."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.losses.pairs import PairLoss
from opendp_optimal.problem.base import Problem
from opendp_optimal.problem.noise import MIN_EPSILON, take_target

LEAST_EPSILON = 2000 * MIN_EPSILON
"""Below it noise in a box is as good, and much easier to find."""


@dataclass(frozen=True, kw_only=True)
class PairProblem(Problem):
    """Find the noise on a centred sum and a count that leaves the mean the least expected loss.

    A record moves the count by 1 and the centred sum by at most 1/2, both up or both down or one
    of each. The loss is that of the mean's error times the count, on average over all means.

    :param epsilon: privacy parameter, in [0.2, 32]
    :param delta: privacy parameter, in [1e-14, 1)
    :param loss: "l1" or "l2"
    """

    epsilon: float
    delta: float
    loss: Loss = field(default_factory=lambda: loss_of("l2"))

    kind = "pair"
    LABEL = "pair"

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        take_target(self, least=LEAST_EPSILON, pure=False)
        if not isinstance(self.loss, Loss) or self.loss.pairs is None:
            raise ValueError(f"loss ({self.loss!r}) must be l1 or l2 for a mean and its count")

    @property
    def costs(self) -> PairLoss:
        """What noise on the pair costs."""
        assert self.loss.pairs is not None
        return self.loss.pairs

    @cached_property
    def reach(self) -> int:
        """The largest noise on the count that programmes allow.

        There, noise that falls like exp(-epsilon r), r = max(|c|, 2 |a|), may end: its last shell,
        which a move may push beyond the end, fits into delta. A little more is better.
        """
        farthest = math.ceil((40 - math.log(self.delta)) / self.epsilon) + 2
        distance = np.arange(farthest + 1.0)
        shells = np.maximum(4 * distance, 1) * np.exp(-self.epsilon * distance)
        fits = shells <= 0.9 * self.delta * np.cumsum(shells)
        return int(np.argmax(fits)) + math.ceil(2 / self.epsilon)

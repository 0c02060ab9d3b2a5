"""The best chance that any private mechanism has to release a secret key."""

from __future__ import annotations

import math
from functools import lru_cache

from opendp_optimal.arrays import Floats, frozen_array


@lru_cache(maxsize=64)
def best_chances(epsilon: float, delta: float) -> Floats:
    """The best possible chances of release for the counts 0, 1, ..., up to the first that is 1.

    A key that nobody has is never released. From there a mechanism that hides a move of 1 has

        chance(n + 1) <= min(e^epsilon chance(n) + delta, 1 - e^-epsilon (1 - chance(n) - delta), 1)

    (Desfontaines, Voss, Gipson and Mandayam 2020). Where a move is m, a count of n has the chance
    of n / m, rounded up.

    :param epsilon: privacy parameter
    :param delta: privacy parameter, above 0

    >>> best_chances(math.log(2), 0.1).round(3).tolist()
    [0.0, 0.1, 0.3, 0.7, 0.9, 1.0]
    """
    chances, fall = [0.0], math.exp(-epsilon)
    while chances[-1] < 1:
        grown = chances[-1] / fall + delta
        held_back = fall * max(1 - chances[-1] - delta, 0.0)
        chances.append(min(grown, 1 - held_back, 1.0))
    return frozen_array(chances)

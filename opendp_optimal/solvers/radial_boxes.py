"""Boxes whose mixture is pure noise for vectors, of little loss where coordinates weigh unlike.

Box j reaches ``j + h_i`` sensitivities in coordinate i and has weight e^(-epsilon j) times its
volume, so that the density falls by e^epsilon from one box to the next. With a larger h the boxes
are longer in a coordinate, and their volume, the product of all sides, grows less from one to the
next: radii are smaller. That is worth it where a coordinate's own error counts little. The best h
is found on the closed form of the loss, with its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from opendp_optimal.arrays import Floats

_SMOOTH = 0.05
"""Below this epsilon the best boxes are those of this epsilon, longer by the ratio."""
_ROUNDS = 200


def best_halves(epsilon: float, runs: Sequence[tuple[float, int]], power: int) -> Floats:
    """How far box 0 reaches in the coordinates of each weight, in sensitivities.

    :param epsilon: what the density falls by from one box to the next
    :param runs: the weights of coordinates in the loss, and how many have each
    :param power: of the loss: 1 or 2

    >>> best_halves(1.0, [(3.0, 1), (1.0, 9)], 2).round().tolist()
    [0.0, 3.0]
    """
    near = max(epsilon, _SMOOTH)
    weights, counts = (np.array(part, np.float64) for part in zip(*runs, strict=True))
    size = float(counts.sum())
    reach = (size + power + 12.0 * math.sqrt(size + power) + 60.0) / near
    box = np.arange(math.ceil(reach) + 3.0)

    def loss(logs: Floats) -> tuple[float, Floats]:
        """The logarithm of the loss, and its slopes, at logarithms of the halves."""
        halves = np.exp(logs)
        sides = box[:, None] + halves
        shares = np.log(sides) @ counts - near * box
        shares = np.exp(shares - shares.max())
        shares /= shares.sum()
        costs = sides**power @ (weights * counts)
        mean = float(shares @ costs)
        own = power * weights * counts * (shares @ sides ** (power - 1))
        by_volume = counts * ((shares * (costs - mean)) @ (1 / sides))
        return math.log(mean), (own + by_volume) * halves / mean

    # The lighter a coordinate weighs, the longer its boxes: that far, or hardly.
    light = 1 - np.sqrt(weights / weights.max())
    starts = [np.log(0.4 + part * size / near * light) for part in (0.0, 0.5)]
    limits = [(math.log(1e-3), math.log(4 * reach))] * len(counts)
    found = [
        minimize(loss, s, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": _ROUNDS})
        for s in starts
    ]
    best = min(found, key=lambda one: float(one.fun))
    return np.asarray(np.exp(best.x) * (near / epsilon))

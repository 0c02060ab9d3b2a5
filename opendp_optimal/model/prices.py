"""Prices of the largest shift alone, in closed form: a bound for problems too large to solve.

For noise on the lattice the terms [p_i - e^epsilon p_(i-k)]+ of the one shift k = cells, at points
i <= 0 and 0 < i < k, suffice to bound the loss. Dual feasibility with equality is a recurrence,
which is run from a radius inwards: there it forgets its errors. Where epsilon is small the largest
shift is nearly all that matters, and the bound is close.
"""

from __future__ import annotations

import math

import numpy as np

from opendp_optimal.model.noise import Floats, LatticeSolution


def largest_shift_prices(
    cost: Floats, cells: int, epsilon: float, delta: float, blocks: int
) -> LatticeSolution:
    """Prices for a symmetric cost, 0 beyond so many sensitivities.

    :param cost: costs of the points -radius..radius for a radius of (blocks + 1) * cells
    :return: a solution without weights; each price stands for itself and its mirror image
    """
    growth = math.exp(epsilon)
    middle = len(cost) // 2
    right = (cost[middle:] + cost[middle::-1])[: (blocks + 1) * cells] / 2
    steps = right.reshape(-1, cells)  # row q has the points q * cells and on
    fall = np.exp(-epsilon * np.arange(blocks + 1))
    share = 2 * fall
    share[0] = 1.0
    least = float(share @ steps[:, 0] / share.sum())
    prices = np.zeros((blocks + 1, cells))
    for q in range(blocks - 1, -1, -1):
        ahead = prices[q + 1] + 2 * (steps[q + 1] - least)
        prices[q] = np.maximum(ahead, 0.0) / growth
    outer = prices.ravel()[: blocks * cells + 1]
    # Between 0 and k points share their prices with those on the other side of 0.
    need = 2 * (least - steps[0, 1:]) - prices[0, 1:]
    inner = np.maximum(0.0, -(need + growth * need[::-1]) / (growth**2 - 1))
    slack = np.zeros(2 * len(outer) - 1)
    slack[: len(outer)] = outer[::-1]
    slack[len(outer) : len(outer) + cells - 1] = inner
    none = np.zeros(0)
    budget = float(slack.max(initial=0.0))
    return LatticeSolution(
        weights=none,
        atom=0.0,
        shifts=np.array([cells]),
        budget_price=np.array([budget]),
        slack_price=slack[None, :],
        order_price=none,
        tail_price=none,
        primal=least,
        dual=least - delta * budget,
        status="closed form",
        iterations=0,
    )

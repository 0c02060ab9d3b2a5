"""How fine a lattice a problem needs: a guess from closed forms, to be corrected by the result."""

from __future__ import annotations

import math

from opendp_optimal.model.build import lattice_radii
from opendp_optimal.spec.problem import NoiseProblem

_MOST_TERMS = 500_000


def most_cells(problem: NoiseProblem) -> int:
    """The finest lattice whose programme stays within bounds of time and memory."""
    count = 1
    while count < 4096:
        following = count + max(1, count // 8)
        _, radius = lattice_radii(problem, following)
        sides = 1 if problem.folded else 4
        if sides * following * (radius + following) > _MOST_TERMS:
            break
        count = following
    return count


def first_cells(problem: NoiseProblem, gap: float) -> int:
    """Cells per sensitivity at which the gap is probably met.

    The certified gap of the absolute loss is (density at 0) * b^2 / 4, that of the squared loss
    b^2 / 3, with b the width of a cell.
    """
    e, d = problem.epsilon, problem.delta
    growth = math.exp(min(e, 50.0))
    q = math.expm1(min(e, 50.0)) / (2 * d)
    laplace_top = e / 2 * (1 + 1 / q)
    gamma = 1 / (1 + math.exp(e / 2))
    stair_top = (1 - 1 / growth) / (2 * (gamma + (1 - gamma) / growth))
    laplace_1 = (1 - math.log1p(q) / q) / e
    stair_1 = math.exp(e / 2) / math.expm1(e)
    loss_1 = max(1e-6, min(laplace_1, stair_1) * (1 - min(0.9, d)))
    if problem.loss.name == "l2":
        laplace_2 = 2 / e**2 * (1 - (math.log1p(q) + math.log1p(q) ** 2 / 2) / q)
        constant = 1 / (3 * max(1e-9, min(laplace_2, 0.35 if e > 1 else math.inf)))
    else:
        constant = max(laplace_top, min(stair_top, 2 * e)) / (4 * loss_1)
    return max(1, math.ceil(math.sqrt(constant / (0.85 * gap))))

"""Noise that is the same for all answers, as an answer to a bounded problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction

from opendp_optimal.engine import solve
from opendp_optimal.errors import GapWarning
from opendp_optimal.spec import moments
from opendp_optimal.spec.bounded import BoundedProblem
from opendp_optimal.spec.exact import float_up
from opendp_optimal.spec.loss import Loss
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.clamped import in_sensitivities

_TERMS = 400
_LARGEST_SENSITIVITY = 4096


def least_loss(problem: BoundedProblem) -> Fraction:
    """A number that no such noise's loss is below, to see at once that it is of no use.

    One side of 0 has at least half of the mass. With g_k the mass from k sensitivities on,
    privacy says g_k >= exp(-epsilon) (g_(k-1) - delta), and the loss is at least the sum of the
    g_k times what the loss grows by in the k-th sensitivity.
    """
    fall, mass, before, total = math.exp(-problem.epsilon), 0.5, Fraction(0), Fraction(0)
    for k in range(1, _TERMS):
        mass = fall * (mass - problem.delta) * (1 - 1e-12)
        if mass <= 0 or k * problem.reach > problem.width:
            break
        sides = (moments.exact(problem.loss, side * k * problem.reach) for side in (-1, 1))
        now = min(sides)
        total += Fraction(mass) * max(Fraction(0), now - before)
        before = max(now, before)
    return total * (1 - Fraction(1, 1 << 30))


def noise_for(problem: BoundedProblem, gap: float, progress: Callable[[str], None]) -> NoiseTable:
    """The best noise for the problem's sensitivity and loss; pure noise is that for l1 or l2.

    It is not kept: bounded tables hold their own.
    """
    loss: str | Loss = problem.loss
    if problem.delta == 0 and (problem.loss.custom or problem.loss.name not in ("l1", "l2")):
        loss = "l1"
    elif problem.loss.custom and not problem.integer:
        loss = in_sensitivities(problem.loss, float_up(problem.reach))
    whole = math.floor(problem.reach) if problem.integer else None
    if whole is not None and whole > _LARGEST_SENSITIVITY:
        raise ValueError(f"sensitivity ({whole}) must be at most {_LARGEST_SENSITIVITY}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        return solve(
            problem.epsilon,
            problem.delta,
            loss=loss,
            integer_sensitivity=whole,
            gap=gap,
            cache=False,
            progress=progress,
        )

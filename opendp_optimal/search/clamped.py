"""Noise that is the same for all answers, as an answer to a bounded problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from opendp_optimal.exact.numbers import float_up
from opendp_optimal.losses.base import Loss, parse
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.search.noise import refine
from opendp_optimal.search.options import SearchOptions
from opendp_optimal.table import NoiseTable
from opendp_optimal.table import store as tables

_TERMS = 400
_SECONDS = 2.0
"""What programmes for such noise may take: it is one candidate of several."""


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
        sides = (problem.loss.exact(side * k * problem.reach) for side in (-1, 1))
        now = min(sides)
        total += Fraction(mass) * max(Fraction(0), now - before)
        before = max(now, before)
    return total * (1 - Fraction(1, 1 << 30))


def noise_for(
    problem: BoundedProblem, gap: float, progress: Callable[[str], None], cache: bool
) -> NoiseTable:
    """The best noise for the problem's sensitivity and loss; pure noise is that for l1 or l2.

    :param problem: what is asked
    :param gap: largest acceptable relative gap of the noise's own bounds
    :param progress: called with a line of text at each step
    :param cache: take a stored table where there is one; what is solved is not stored, bounded
        tables hold their own
    """
    loss: Loss = problem.loss
    if problem.delta == 0 and not loss.endless:
        loss = parse("l1")
    elif not problem.integer:
        loss = loss.scaled(float_up(problem.reach))
    asked = NoiseProblem(
        epsilon=problem.epsilon,
        delta=problem.delta,
        loss=loss,
        integer_sensitivity=math.floor(problem.reach) if problem.integer else None,
    )
    stored: NoiseTable | None = tables.load(asked, gap) if cache else None
    if stored is not None and stored.gap <= gap:
        return stored
    options = SearchOptions(kind="noise", gap=gap, seconds=_SECONDS, progress=progress)
    return refine(asked, options)

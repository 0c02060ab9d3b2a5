"""Noise that is the same for all answers, as an answer to a bounded problem."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.search.noise import fits, refine
from opendp_optimal.search.options import SearchOptions
from opendp_optimal.table import NoiseTable
from opendp_optimal.table import store as tables
from opendp_optimal.table.clamped import law

_TERMS = 400
_MOVED = 4
"""Moving releases into the range divides losses by three at most, where all answers are alike."""


def least_loss(problem: BoundedProblem) -> Fraction:
    """A number that such noise's loss is hardly below, to see at once that it is of no use.

    One side of 0 has at least half of the mass. With g_k the mass from k sensitivities on,
    privacy says g_k >= exp(-epsilon) (g_(k-1) - delta), and the loss is at least the sum of the
    g_k times what the loss grows by in the k-th sensitivity.
    """
    fall, mass, before, total = math.exp(-problem.epsilon), 0.5, Fraction(0), Fraction(0)
    for k in range(1, _TERMS):
        mass = fall * (mass - problem.delta) * (1 - 1e-12)
        if mass <= 0 or k * problem.reach > problem.width:
            break
        now = min(problem.loss.exact(side * k * problem.reach) for side in (-1, 1))
        total += Fraction(mass) * max(Fraction(0), now - before)
        before = max(now, before)
    return total / _MOVED


def noise_for(problem: BoundedProblem, options: SearchOptions) -> NoiseTable:
    """The noise that :func:`opendp_optimal.solve` gives for the problem's sensitivity and loss.

    Pure noise is that for l1 or l2.

    :param problem: what is asked
    :param options: how to search; what is solved is not stored, bounded tables hold their own
    """
    loss: Loss = problem.loss
    if problem.delta == 0 and not loss.endless:
        loss = loss_of("l1")
    elif not problem.integer:
        loss = loss.scaled(float_up(problem.reach))
    asked = NoiseProblem(
        epsilon=problem.epsilon,
        delta=problem.delta,
        loss=loss,
        integer_sensitivity=math.floor(problem.reach) if problem.integer else None,
    )
    if not fits(asked):
        # So long that whole numbers make no difference: real noise, in cells of some integers.
        asked = replace(asked, integer_sensitivity=None, loss=loss.scaled(float_up(problem.reach)))
    stored: NoiseTable | None = tables.load(asked, options.gap) if options.cache else None
    if stored is not None and stored.gap <= options.gap:
        return stored
    return refine(asked, options)


def integer_rows(problem: BoundedProblem, noise: NoiseTable) -> Floats:
    """Chances of releases for each integer of a range, with what leaves it moved to its ends."""
    size, reach = int(problem.width), math.floor(problem.reach)
    places, chances = law(noise)
    if noise.kind == "real":
        steps = -(-reach // noise.cells) // 2 * 2 + 1
        within = np.arange(steps) - steps // 2
        places = (places[:, None] * steps + within).ravel()
        chances = np.repeat(chances / steps, steps)
        places, chances = np.append(places, 0), np.append(chances, noise.atom / TOTAL)
    moved = np.clip(places, -size, size).astype(int) + size
    each = np.bincount(moved, chances, 2 * size + 1)
    each = each / each.sum()
    below = np.concatenate([[0.0], np.cumsum(each)])
    x, y = np.arange(size + 1)[:, None], np.arange(size + 1)[None, :]
    rows = each[y - x + size]
    rows[:, 0] = below[size + 1 - np.arange(size + 1)]
    rows[:, -1] = below[-1] - below[2 * size - np.arange(size + 1)]
    return np.asarray(rows)

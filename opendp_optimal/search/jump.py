"""Noise that falls on each side of 0, for an uneven loss: its density jumps at 0.

A lattice whose cells lie around its points cannot jump there, and comes close only as fast as its
cells shrink. So cells are made of an odd number of finer ones and moved, all of them, until 0 is
the outermost fine cell of theirs: the programme is that of the coarse lattice with the costs of
the moved cells, the table is one on the fine lattice.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.losses.base import Loss
from opendp_optimal.model.noise import LatticeProgram, floats
from opendp_optimal.problem.noise import NoiseProblem

_FINEST, _FINEST_CUSTOM = 4096, 256
_MOST_POINTS = 100_000
_PART = 0.25
"""Fine cells are this part of the gap wide: what lies beyond 0 costs less than the gap."""


def cheap_side(loss: Loss) -> int:
    """The side of 0 on which an uneven loss is smaller, 1 or -1; 0 if there is none."""
    right, left = loss(1.0), loss(-1.0)
    return int(right < left) - int(left < right)


def fine_parts(problem: NoiseProblem, program: LatticeProgram, gap: float) -> int:
    """Into how many parts cells are divided: an odd number, 1 where nothing jumps at 0."""
    plain = problem.support is None and problem.impossible is None
    uneven = problem.kind == "real" and not problem.folded and cheap_side(problem.loss) != 0
    if not (problem.monotone and plain and uneven):
        return 1
    finest = _FINEST_CUSTOM if problem.loss.by_samples else _FINEST
    wanted = min(finest, max(64, _PART / gap)) / program.cells
    return max(1, int(min(wanted, _MOST_POINTS / (2 * program.radius))) | 1)


def moved_costs(problem: NoiseProblem, program: LatticeProgram, parts: int) -> LatticeProgram:
    """The programme with its cells moved to the side where the loss is small."""
    half, radius = parts // 2, program.radius
    cost = problem.cost(program.cells * parts, radius * parts + 2 * half)
    fine = floats(cost.upper, cost.denominator)
    start = half + cheap_side(problem.loss) * half
    moved = fine[start : start + (2 * radius + 1) * parts].reshape(-1, parts).mean(axis=1)
    return replace(program, cost=moved)


def divided(weights: Floats, problem: NoiseProblem, parts: int) -> Floats:
    """Weights of the moved cells on the fine lattice."""
    half = parts // 2
    before = half + cheap_side(problem.loss) * half
    return np.pad(np.repeat(weights / parts, parts), (before, 2 * half - before))

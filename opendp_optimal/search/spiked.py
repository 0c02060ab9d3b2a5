"""Staircases at a large epsilon, whose highest step is a spike narrower than any cell.

The first step after the spike has its height over e^epsilon, and each further one, a unit wide,
that of the one before: integers rounded up from the inside out, so that every ratio is private by
construction. What is left of the weight goes to the spike. With a delta the staircase ends where
delta allows it, and what is left of delta releases the answer itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.certify.endless import PureTail
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.spike import Spike
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.search.stairs import falling_steps

_CELLS = 2048
"""Cells per sensitivity, about: the edges of the steps are off by half a cell."""
_NARROW = 6000
"""Highest steps narrower than a sensitivity by more than this are spikes."""
_WIDEST = 31
"""Integers that a spike has, at most: among more, whole numbers make little difference."""
_FIRST, _TRIES = 4, 64


@dataclass(frozen=True)
class Spiked:
    """Weights of a staircase with a spike, and how it ends."""

    cells: int
    weights: Integers
    atom: int
    spike: Spike
    tail: PureTail | None = None


def layout(problem: NoiseProblem) -> tuple[int, int] | None:
    """The cells per sensitivity, and the parts of a cell that a spike should be one of.

    None where a lattice is fine enough for the highest step, or a spike is not allowed.
    """
    if not _plain(problem):
        return None
    narrow = 1 / (2 * problem.loss.staircase_step(problem.epsilon))
    if narrow < _NARROW:
        return None
    parts = max(3, int(narrow / _CELLS) | 1)
    return round(narrow / parts), parts


def _plain(problem: NoiseProblem) -> bool:
    free = problem.impossible is None and problem.support is None
    return problem.kind == "real" and problem.loss.endless and free


def whole_layout(problem: NoiseProblem, whole: int) -> tuple[int, int] | None:
    """The same for integers that move so far, which real noise is rounded to.

    The spike becomes the integers -t..t, each as likely, and the rest a staircase of integers. None
    where whole numbers make no difference: the best t is large.
    """
    if not _plain(problem):
        return None
    units = min((_whole_loss(problem, whole, t), 2 * t + 1) for t in range(_WIDEST + 1))[1]
    if units > _WIDEST:
        return None
    parts = max(3, whole // (_CELLS * units) | 1)
    # A cell more than needed: edges of the spike stay within halves of integers.
    return -(-whole // (parts * units)) + 1, parts


def _whole_loss(problem: NoiseProblem, whole: int, t: int) -> float:
    """About the loss of a staircase of integers whose highest step is -t..t."""
    power, fall = problem.loss.power, math.exp(-problem.epsilon)
    inner = t * (t + 1) * (2 * t + 1) / 3 if power == 2 else t * (t + 1)
    outer = 2 * fall * float(whole) ** (power + 1) / (power + 1)
    return (inner + outer) / (2 * t + 1 + 2 * whole * fall)


def endless(
    problem: NoiseProblem, where: tuple[int, int], tail: Integers, again: int
) -> Spiked | None:
    """Pure noise with a spike.

    :param problem: what is asked, with delta 0
    :param where: cells and parts
    :param tail: the block of weights that repeats, for the same cells
    :param again: of the next block
    """
    cells, parts = where
    growth = math.exp(problem.epsilon)
    first = 2 * cells + 1
    units = math.expm1(problem.epsilon) / parts + first + 2 * cells / (growth - 1)
    step = math.floor(TOTAL / units)
    for _ in range(_TRIES):
        step += 1
        weight = math.ceil(cells * step / (growth - 1) * (1 + 2.0**-40)) + 1
        spike = Spike(TOTAL - first * step - 2 * weight, parts)
        if _covered(spike, step, problem.epsilon):
            weights = np.full(first, step, np.int64)
            return Spiked(cells, weights, 0, spike, PureTail(weight, tail, again))
    return None


def truncated(problem: NoiseProblem, where: tuple[int, int]) -> Spiked | None:
    """Noise with a spike that ends where delta allows it.

    :param problem: what is asked, with a delta
    :param where: cells and parts
    """
    cells, parts = where
    budget, first = math.floor(problem.delta * TOTAL), 2 * cells + 1
    units = math.expm1(problem.epsilon) / parts + first + 2 * cells / math.expm1(problem.epsilon)
    atom = 0
    for attempt in range(_TRIES):
        # The first attempts say how much of delta is left for the atom.
        step = math.floor((TOTAL - atom) / units) + max(0, attempt - _FIRST)
        steps = falling_steps(step, problem.epsilon, cells, budget)
        if steps is None:
            return None
        atom = budget - cells * [step, *steps][-1]
        outer = np.repeat(np.array(steps, np.int64), cells)
        weights = np.concatenate([outer[::-1], np.full(first, step, np.int64), outer])
        spike = Spike(TOTAL - atom - sum(weights.tolist()), parts)
        if attempt >= _FIRST and spike.weight > 0 and _covered(spike, step, problem.epsilon):
            return Spiked(cells, weights, atom, spike)
    return None


def _covered(spike: Spike, step: int, epsilon: float) -> bool:
    """Whether e^epsilon times the first step is as high as the spike upon it."""
    lower, _ = exp_bounds(epsilon)
    return spike.weight * spike.parts + step <= step * lower >> BITS

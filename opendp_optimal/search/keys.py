"""Certified noise and thresholds for counts of keys that are secret themselves.

Two closed forms, both with the best possible chances of release where counts move by 1:

*rescued*: staircase noise, the least threshold, and below it as many keys rescued as privacy
allows: all of delta that is not the noise's own (where counts move by more than 1: none);

*ended*: noise whose tails are the best possible chances, so that a threshold alone reaches them. It
spends all of delta, and is better where delta is large.

The one with the smaller expected absolute error is taken, for keys of which 1/n have a count of n
or more; a key that is not released counts with all of its count.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.keys import below_threshold, rows
from opendp_optimal.certify.noise import TOTAL, delta_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.known.keys import best_chances
from opendp_optimal.problem.keys import KeyProblem
from opendp_optimal.search.stairs import best_top, spare_units, whole_staircase
from opendp_optimal.table.keys import KeyTable

_SHARES = (2.0**-20, 2.0**-10, 2.0**-5, 0.25)
"""Parts of delta for the ends of staircase noise, the first that integers can tell from 0."""
_ROUNDED = 16
"""Units that are left for rounding."""
_SMALL_EPSILON = 0.05
"""Below it noise that ends is better, where integers allow for it, and the other takes long."""


@lru_cache(maxsize=64)
def solve_keys(epsilon: float, delta: float, *, move: int = 1) -> KeyTable:
    """The release of secret keys with least expected error of two, proved private.

    :param epsilon: privacy parameter for one key; the guarantee holds for exactly this float
    :param delta: privacy parameter for one key, above 0
    :param move: how far neighbours can be apart in the count of a key

    >>> table = solve_keys(1.0, 1e-6)
    >>> table.verify()
    >>> table
    KeyTable(epsilon=1.0, delta=1e-06, move=1, threshold=15, half=14)
    >>> abs(table.chance(14) - table.best_chance(14)) < 1e-6
    True
    """
    problem = KeyProblem(epsilon=epsilon, delta=delta, move=move)
    found: list[KeyTable] = []
    for make in (_ended, _rescued):
        if found and problem.epsilon < _SMALL_EPSILON:
            break
        table = make(problem)
        try:
            if table is not None:
                table.verify()
                found.append(table)
        except CertificateError:
            continue
    if not found:
        raise CertificateError(f"no noise of integers releases keys for {problem}")
    most = max(len(table.nothing) + table.radius for table in found)
    return min(found, key=lambda table: _error(table, most))


def _rescued(problem: KeyProblem) -> KeyTable | None:
    """Staircase noise with the least threshold, and keys rescued below it."""
    epsilon, move = problem.epsilon, problem.move
    reach = move * min(4000, math.ceil(12 / epsilon) + 2)
    away = np.abs(np.arange(-reach, reach + 1)).astype(float)
    top = best_top(epsilon, move, away, reach) if move > 1 else 0
    allowed = math.floor(Fraction(problem.delta) * TOTAL)
    for share in _SHARES:
        spare = spare_units(problem.delta * share, move)
        weights = whole_staircase(epsilon, spare, move, top, math.inf)
        if weights is None:
            continue
        own = math.ceil(delta_units(weights, 0, move, epsilon, Fraction(move)))
        left = allowed - own - _ROUNDED
        if left > 0:
            threshold = _least_threshold(weights, move, left)
            below = _below(weights, threshold, move)
            held = _held(epsilon, below, left) if move == 1 else _unreleased(below)
            return _with_rescue(problem, weights, threshold, held)
    return None


def _least_threshold(weights: Integers, move: int, allowed: int) -> int:
    """The least threshold, from 1, that a count of ``move`` reaches so often at most."""
    above = np.cumsum(weights[::-1], dtype=np.int64)  # of the largest noises
    few = int(np.searchsorted(above, allowed, side="right"))
    return max(1, len(weights) // 2 + 1 - few + move)


def _below(weights: Integers, threshold: int, move: int) -> Integers:
    """Chances of noisy counts below the threshold, for all counts where they are not 0."""
    return below_threshold(weights, threshold, rows(weights, threshold, move))


def _held(epsilon: float, below: Integers, allowed: int) -> Integers:
    """The least chances to release nothing that leave a move by 1 private.

    :param below: chances of noisy counts below the threshold
    :param allowed: what may fall short
    """
    lower, _ = exp_bounds(epsilon)
    held, rescued = [TOTAL], 0
    for limit in below[1:].tolist():
        most = (rescued * lower >> BITS) + allowed
        if held[-1] == TOTAL:  # next to a key that nobody has
            most -= TOTAL - limit
        least = -(-(max(0, held[-1] - allowed) << BITS) // lower)
        rescued = max(0, min(limit - least, most))
        held.append(limit - rescued)
        if held[-1] == 0:
            break
    return np.trim_zeros(np.array(held, np.int64), "b")


def _unreleased(below: Integers) -> Integers:
    """Chances to release nothing where nothing below the threshold is ever released."""
    return np.concatenate([[TOTAL], np.trim_zeros(below[1:], "b")])


def _with_rescue(
    problem: KeyProblem, weights: Integers, threshold: int, held: Integers
) -> KeyTable:
    """The table that rescues with the number of least expected error."""
    below = _below(weights, threshold, problem.move)
    rescued = below.astype(float)
    rescued[: len(held)] -= held
    counts = np.arange(1, len(rescued))
    share = np.cumsum(rescued[1:] / counts)
    middle = int(np.searchsorted(share, share[-1] / 2)) + 1 if share[-1] > 0 else threshold
    return KeyTable(problem, weights, threshold, middle, held)


def _ended(problem: KeyProblem) -> KeyTable | None:
    """Noise whose chance to be large is the best chance of release of some count."""
    move = problem.move
    steps = len(best_chances(problem.epsilon, problem.delta)) + 1
    # Every point may be rounded by a unit, at either end of a step.
    allowed = math.floor(Fraction(problem.delta) * TOTAL) - 8 * (steps + 2) * move
    if allowed < (steps + 2) * move << 10:
        return None
    lower, _ = exp_bounds(problem.epsilon)
    chances = [0]
    while chances[-1] < TOTAL:
        grown = (chances[-1] * lower >> BITS) + allowed
        held_back = -(-(max(0, TOTAL - chances[-1] - allowed) << BITS) // lower)
        chances.append(min(grown, TOTAL - held_back, TOTAL))
    rise = np.diff(np.array(chances, dtype=np.int64))[::-1]  # of the noises, from the lowest
    points = np.repeat(rise // move, move)
    points[int(np.argmax(points))] += TOTAL - int(points.sum())
    middle = int(np.searchsorted(np.cumsum(points), TOTAL // 2))
    radius = max(middle, len(points) - 1 - middle)
    weights = np.zeros(2 * radius + 1, np.int64)
    weights[radius - middle : radius - middle + len(points)] = points
    allowed = math.floor(Fraction(problem.delta) * TOTAL)
    threshold = _least_threshold(weights, move, allowed)
    held = _unreleased(_below(weights, threshold, move))
    return KeyTable(problem, weights, threshold, threshold, held)


def _error(table: KeyTable, most: int) -> float:
    """The expected absolute error of keys of which 1/n have a count of n or more."""
    noise = np.arange(-table.radius, table.radius + 1)
    spread: Floats = np.abs(noise) * (table.weights / TOTAL)
    sums = np.append(np.cumsum(spread[::-1])[::-1], 0.0)  # of the noises from each on
    counts = np.arange(1, most)
    kept = sums[np.clip(table.threshold - counts + table.radius, 0, len(spread))]
    below = below_threshold(table.weights, table.threshold, most)[1:] / TOTAL
    held = np.zeros(most)
    held[: min(most, len(table.nothing))] = table.nothing[:most] / TOTAL
    rescued = below - held[1:]
    error = kept + rescued * np.abs(table.rescue - counts) + held[1:] * counts
    return float((error / counts / (counts + 1.0)).sum())

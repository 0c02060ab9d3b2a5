"""From floats to integers, for channels: rows that add up exactly, prices within their bounds.

Nothing here is a proof; :mod:`opendp_optimal.certify.channel` checks what comes out.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.channel import LARGEST_EPSILON, ChannelDual, shortfall_units
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution
from opendp_optimal.problem.channel import ChannelProblem

_SHRINK = 1 - 2.0**-50
_RARE = 2.0**-36
"""Outputs that no input releases more often are a solver's dust, too fine to be rounded."""


def round_rows(weights: Floats) -> Integers:
    """Integers in proportion to each row that add up to TOTAL; what is left goes to the largest."""
    weights = np.maximum(weights, 0.0)
    scale = TOTAL * _SHRINK / weights.sum(axis=1, keepdims=True)
    out = np.floor(weights * scale).astype(np.int64)
    for row in out:
        row[int(np.argmax(row))] += TOTAL - sum(row.tolist())
    return np.asarray(out)


def private_rows(
    weights: Floats, problem: ChannelProblem, *, largest_mix: float = 1e-3
) -> Integers:
    """Round to integers that are private, mixing in a row common to all inputs as needed.

    With what all inputs share there is nothing to tell them apart, and each pair gains room.
    Raises if more than ``largest_mix`` of it would be needed.
    """
    if problem.delta == 0:
        weights = _lifted(weights, problem)
    common = weights.mean(axis=0) + weights.max(axis=0)
    if problem.mirrored:
        common = common + common[::-1]
    common = common * problem.shared
    # Where no output is shared there is nothing to mix in: the weights must do as they are.
    common = common / (common.sum() or 1.0)
    allowed = Fraction(problem.delta) * TOTAL
    mix = 0.0
    while mix <= largest_mix:
        out = round_rows((1 - mix) * weights + mix * common)
        if int(shortfall_units(out, problem).max(initial=0)) <= allowed:
            return out
        mix = max(4 * mix, 1e-15)
    raise CertificateError("weights are too far from private to be repaired")


def _lifted(weights: Floats, problem: ChannelProblem) -> Floats:
    """The least channel above the weights that is private in every entry, divided out.

    Every weight is raised to what pure privacy asks, given the others: the envelope
    ``max_z exp(-epsilon(z, x)) P(y|z)`` over all paths of pairs. Rows then add up to a little more
    than 1, by different amounts. What they lack of a common sum goes to the fullest outputs: it is
    private itself once that sum is large enough, and so are sums of private columns.
    """
    first, second = problem.pairs[:, 0], problem.pairs[:, 1]
    fall = np.exp(-problem.low)[:, None]
    out = np.maximum(weights, 0.0) * problem.shared
    out[:, out.max(axis=0) < _RARE] = 0.0
    for _ in range(len(weights)):
        before = out.copy()
        np.maximum.at(out, second, out[first] * fall)
        if np.all(out <= before * (1 + 1e-14)):
            break
    sums = out.sum(axis=1)
    closest = float(problem.low[problem.low > 0].min(initial=1.0))
    # The lacks are within a factor 2 - exp(-closest) of each other, at most exp(closest).
    common = sums.max() + (sums.max() - sums.min()) / -math.expm1(-closest)
    taker = np.zeros(problem.outputs)
    taker[int((out.sum(axis=0)).argmax())] = 1.0
    if problem.mirrored:
        taker = (taker + taker[::-1]) / 2
    return np.asarray((out + np.outer(common - sums, taker)) / common)


def round_prices(
    solution: ChannelSolution, program: ChannelProgram, problem: ChannelProblem
) -> ChannelDual:
    """Integers for the prices of a solution, within their bounds, for the unfolded problem."""
    bounded = problem.delta > 0
    most = solution.budget_price[:, None] if bounded else np.inf
    slack = _unfold_prices(np.clip(solution.slack_price, 0.0, most), program, problem)
    caps = np.maximum(_unfold_caps(solution, program, problem), 0.0)
    # The least budget price that the terms allow, and none where the growth is beyond proof.
    budget = slack.max(axis=1, initial=0.0)
    used = (budget > 0) & (problem.high <= LARGEST_EPSILON)
    pairs, slack = np.flatnonzero(used), slack[used]
    value = max(abs(solution.dual), 1e-12)
    # Rounding all terms of an output moves the bound by a small part of its value.
    scale = math.ceil(math.log2(2.0**24 * max(4, len(problem.pairs)) / value))
    widest = max(float(slack.max(initial=0.0)), float(caps.max(initial=0.0)), 2.0**-40)
    room = 58 - max(1, len(pairs)).bit_length()
    scale = min(scale, room - math.ceil(math.log2(widest)))
    unit = 2.0**scale
    # Downwards: what a price takes from the second row is its growth times larger than its gain.
    rounded = np.floor(slack * unit).astype(np.int64)
    whole = rounded.max(axis=1, initial=0) if bounded else np.zeros(len(pairs), np.int64)
    return ChannelDual(pairs, whole, rounded, np.rint(caps * unit).astype(np.int64), scale)


def _unfold_prices(slack: Floats, program: ChannelProgram, problem: ChannelProblem) -> Floats:
    """Prices of the problem's pairs; a folded pair gives half to each of its two images."""
    if not program.folded:
        return slack
    last = problem.inputs - 1
    index = {(x, z): r for r, (x, z) in enumerate(problem.pairs.tolist())}
    out = np.zeros((len(index), problem.outputs))
    pairs = np.column_stack([program.first, program.second, program.flips]).tolist()
    for (x, z, flip), row in zip(pairs, slack, strict=True):
        far = last - z if flip else z
        out[index[x, far]] += row / 2
        out[index[last - x, last - far]] += row[::-1] / 2
    return out


def _unfold_caps(
    solution: ChannelSolution, program: ChannelProgram, problem: ChannelProblem
) -> Floats:
    """Prices of caps on single rows; others are not needed for bounds."""
    out = np.zeros(len(problem.caps))
    if not len(solution.cap_price) or any(len(cap.rows) != 1 for cap in problem.caps):
        return out
    where = {cap.rows[0]: q for q, cap in enumerate(problem.caps)}
    for price, row in zip(solution.cap_price, program.caps, strict=True):
        if not row.any():
            continue  # what costs nothing is within every cap
        x = int(np.flatnonzero(row.any(axis=1))[0])
        images = (x, problem.inputs - 1 - x) if program.folded else (x,)
        for image in images:
            out[where[image]] += price / len(images)
    return out

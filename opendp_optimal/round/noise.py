"""From floats to integers: weights that add up exactly, prices that stay within their bounds.

Nothing here is a proof; :mod:`opendp_optimal.certify.noise` checks what comes out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.noise import TOTAL, DualCertificate, delta_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.losses.base import LatticeCost
from opendp_optimal.model.noise import LatticeSolution, floats

_SHRINK = 1 - 2.0**-50


def falling(weights: Floats) -> Floats:
    """The largest law below the given one that falls on each side of 0."""
    middle = len(weights) // 2
    right = np.minimum.accumulate(weights[middle:])
    left = np.minimum.accumulate(weights[middle::-1])
    return np.concatenate([left[:0:-1], right])


def round_weights(weights: Floats, atom: float) -> tuple[Integers, int]:
    """Integers in proportion to the floats that add up to TOTAL.

    What is left goes to 0; of an uneven law to its largest weight, so that one that rises and
    falls still does.
    """
    weights = np.maximum(weights, 0.0)
    atom = max(atom, 0.0)
    scale = TOTAL * _SHRINK / (float(weights.sum()) + atom)
    out = np.floor(weights * scale).astype(np.int64)
    whole_atom = math.floor(atom * scale)
    middle, highest = len(out) // 2, int(np.argmax(out))
    central = out[middle] == out[highest] or np.array_equal(out, out[::-1])
    out[middle if central else highest] += TOTAL - whole_atom - sum(out.tolist())
    return out, whole_atom


def decaying(epsilon: float, cells: int, radius: int) -> Floats:
    """Truncated Laplace: weights that fall by e^-epsilon over a unit."""
    distance = np.abs(np.arange(-radius, radius + 1))
    law = np.exp(-epsilon * distance / cells)
    return np.asarray(law / law.sum())


def private_weights(
    weights: Floats,
    atom: float,
    reference: Floats | None = None,
    *,
    cells: int,
    epsilon: float,
    delta: float,
    largest_mix: float = 1e-3,
) -> tuple[Integers, int]:
    """Round to integers that are (epsilon, delta)-private, mixing in a reference as needed.

    The worst shortfall is convex, so a mixture with a law that leaves part of delta unused uses
    less of it. Raises if more than ``largest_mix`` of it would be needed.

    :param reference: what is mixed in; truncated Laplace noise if None
    """
    if reference is None:
        reference = decaying(epsilon, cells, len(weights) // 2)
    allowed = Fraction(delta) * TOTAL
    spare: Fraction | None = None
    mix = 0.0
    for attempt in range(12):
        mixed = (1 - mix) * weights + mix * reference * (1 - atom)
        integers, whole_atom = round_weights(mixed, (1 - mix) * atom)
        over = delta_units(integers, whole_atom, cells, epsilon, Fraction(cells)) - allowed
        if over <= 0:
            return integers, whole_atom
        if spare is None:
            laid, _ = round_weights(reference, 0.0)
            spare = allowed - delta_units(laid, 0, cells, epsilon, Fraction(cells))
            if spare <= 0:
                break
        mix = mix + float(over / spare) * (1.0 + 0.01 * 2**attempt) + 1e-15
        if mix > largest_mix:
            break
    raise CertificateError("weights are too far from private to be repaired")


def round_prices(
    solution: LatticeSolution,
    cost: LatticeCost,
    *,
    cells: int,
    epsilon: float,
    delta: float,
    mirrored: bool,
    temper: bool,
) -> DualCertificate:
    """Integers for the prices of a solution, within their bounds.

    :param cost: covers all points that the prices reach
    :param temper: whether all these points count, and no other rows have prices
    """
    slack = np.clip(solution.slack_price, 0.0, solution.budget_price[:, None])
    if temper:
        part = _tempered(slack, solution, cost, cells, epsilon, delta, mirrored)
        slack = slack * part
        solution = replace(solution, budget_price=solution.budget_price * part)
    growth = math.exp(min(epsilon, 64.0))
    value = max(
        abs(solution.dual), min(1e-12, 2.0**-40 * float(np.max(slack, initial=0.0))), 2.0**-900
    )
    # Rounding all terms of a point by half a unit moves the bound by a part in 2^18 of its value.
    scale = math.ceil(math.log2(2.0**17 * (1 + growth) * max(4, len(slack)) / value))
    widest = max(float(solution.budget_price.max(initial=0.0)), float(np.max(slack, initial=0.0)))
    scale = min(scale, 50 - math.ceil(math.log2(max(widest, min(2.0**-40, value)))))
    # Prices of other rows have bounds of their own; they only have to be integers of 64 bits.
    others = np.concatenate([solution.order_price, solution.tail_price])
    if not np.all(np.isfinite(others)):
        raise CertificateError("a price is not finite")
    scale = min(scale, 52 - math.ceil(math.log2(max(float(others.max(initial=0.0)), 2.0**-900))))
    unit = 2.0**scale
    budget = np.ceil(solution.budget_price * unit).astype(np.int64)
    rounded = np.rint(slack * unit).astype(np.int64)
    used = np.flatnonzero(rounded.any(axis=0))
    radius = rounded.shape[1] // 2
    keep = min(radius, int(max(np.abs(used - radius).max(initial=0), cells)))
    if len(solution.order_price):
        keep = radius  # order prices reach to the ends
    return DualCertificate(
        cells=cells,
        shifts=np.asarray(solution.shifts, np.int64),
        budget=budget,
        slack=np.minimum(rounded, budget[:, None])[:, radius - keep : radius + keep + 1],
        mirrored=mirrored,
        order=_order_integers(solution.order_price, unit, mirrored, keep + cells + 1),
        tail=np.rint(np.maximum(solution.tail_price, 0.0) * unit).astype(np.int64),
        scale=scale,
    )


def _tempered(
    slack: Floats,
    solution: LatticeSolution,
    cost: LatticeCost,
    cells: int,
    epsilon: float,
    delta: float,
    mirrored: bool,
) -> float:
    """The part of all prices that proves the best bound.

    A solver's prices may miss some far point by its tolerance. Smaller prices leave more room
    there, where the cost is high, and lose little elsewhere.
    """
    reach = slack.shape[1] // 2 + cells + 1
    own, other = np.zeros(2 * reach + 1), np.zeros(2 * reach + 1)
    start = cells + 1
    own[start : start + slack.shape[1]] = slack.sum(axis=0)
    for m, row in zip(solution.shifts.tolist(), slack, strict=True):
        other[start - m : start - m + len(row)] += row
    gain = own - math.exp(epsilon) * other
    if mirrored:
        gain = (gain + gain[::-1]) / 2
    costs = floats(cost.lower, cost.denominator)
    paid = delta * float(solution.budget_price.sum())
    missed = 1 - np.concatenate([[0.0], np.logspace(-9, 0, 91)])
    values = [float((costs + part * gain).min()) - part * paid for part in missed]
    return float(missed[int(np.argmax(values))])


def _order_integers(prices: Floats, unit: float, mirrored: bool, reach: int) -> Integers:
    if len(prices) == 0:
        return np.zeros((0, 0), np.int64)
    if mirrored:
        right = left = prices
    else:
        half = (len(prices) + 1) // 2
        right, left = prices[:half] * 2, np.concatenate([[0.0], prices[half:] * 2])
        right[0] /= 2
    out = np.zeros((2, min(len(right), reach)), np.int64)
    for row, side in zip(out, (right, left), strict=True):
        row[: len(side)] = np.rint(np.maximum(side[: len(row)], 0.0) * unit).astype(np.int64)
    return out

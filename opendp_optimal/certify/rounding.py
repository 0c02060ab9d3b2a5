"""From floats to integers: weights that add up exactly, prices that stay within their bounds.

Nothing here is a proof; :mod:`privacy` and :mod:`bound` check what comes out.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.certify.bound import DualCertificate
from opendp_optimal.certify.privacy import TOTAL, delta_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.model.lattice import LatticeSolution

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SHRINK = 1 - 2.0**-50


def round_weights(weights: Floats, atom: float) -> tuple[Integers, int]:
    """Integers in proportion to the floats that add up to TOTAL; what is left goes to 0."""
    weights = np.maximum(weights, 0.0)
    atom = max(atom, 0.0)
    scale = TOTAL * _SHRINK / (float(weights.sum()) + atom)
    out = np.floor(weights * scale).astype(np.int64)
    whole_atom = math.floor(atom * scale)
    out[len(out) // 2] += TOTAL - whole_atom - sum(out.tolist())
    return out, whole_atom


def private_weights(
    weights: Floats,
    atom: float,
    reference: Floats,
    *,
    cells: int,
    epsilon: float,
    delta: float,
    largest_mix: float = 1e-3,
) -> tuple[Integers, int]:
    """Round to integers that are (epsilon, delta)-private, mixing in a reference as needed.

    The worst shortfall is convex, so a mixture with a law that leaves part of delta unused uses
    less of it. Raises if more than ``largest_mix`` of it would be needed.
    """
    allowed = Fraction(delta) * TOTAL
    spare: Fraction | None = None
    mix = 0.0
    for attempt in range(12):
        mixed = (1 - mix) * weights + mix * reference * (1 - atom)
        integers, whole_atom = round_weights(mixed, (1 - mix) * atom + mix * 0.0)
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
    solution: LatticeSolution, *, cells: int, epsilon: float, mirrored: bool
) -> DualCertificate:
    """Integers for the prices of a solution, within their bounds."""
    slack = np.clip(solution.slack_price, 0.0, solution.budget_price[:, None])
    growth = math.exp(min(epsilon, 64.0))
    value = max(abs(solution.dual), 1e-12)
    # Rounding all terms of a point by half a unit moves the bound by a part in 2^18 of its value.
    scale = math.ceil(math.log2(2.0**17 * (1 + growth) * max(4, len(slack)) / value))
    widest = max(float(solution.budget_price.max(initial=0.0)), float(np.max(slack, initial=0.0)))
    scale = min(scale, 50 - math.ceil(math.log2(max(widest, 2.0**-40))))
    unit = 2.0**scale
    budget = np.ceil(solution.budget_price * unit).astype(np.int64)
    rounded = np.rint(slack * unit).astype(np.int64)
    used = np.flatnonzero(rounded.any(axis=0))
    radius = rounded.shape[1] // 2
    keep = int(max(np.abs(used - radius).max(initial=0), cells))
    keep = min(radius, keep)
    return DualCertificate(
        cells=cells,
        shifts=np.asarray(solution.shifts, np.int64),
        budget=budget,
        slack=np.minimum(rounded, budget[:, None])[:, radius - keep : radius + keep + 1],
        mirrored=mirrored,
        order=_order_integers(solution.order_price, unit, mirrored, keep),
        tail=np.rint(np.maximum(solution.tail_price, 0.0) * unit).astype(np.int64),
        scale=scale,
    )


def _order_integers(prices: Floats, unit: float, mirrored: bool, radius: int) -> Integers:
    if len(prices) == 0:
        return np.zeros((0, 0), np.int64)
    if mirrored:
        right = left = prices
    else:
        half = (len(prices) + 1) // 2
        right, left = prices[:half] * 2, np.concatenate([[0.0], prices[half:] * 2])
        right[0] /= 2
    out = np.zeros((2, min(len(right), radius + 1)), np.int64)
    for row, side in zip(out, (right, left), strict=True):
        row[: len(side)] = np.rint(np.maximum(side[: len(row)], 0.0) * unit).astype(np.int64)
    if not mirrored:
        out[1, 0] = 0
    return out

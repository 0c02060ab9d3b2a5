"""The lower bound that Tables 1, 5 and 6 compare with."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from opendp_optimal.known import truncated_laplace_radius

__all__ = ["literature_lower_bound"]


def literature_lower_bound(
    epsilon: float,
    delta: float,
    loss: Literal["l1", "l2"] = "l1",
    *,
    rounding: Literal["down", "up", "none"] = "down",
) -> float:
    """Return the lower bound on the loss of all noise that the literature compares with.

    Geng, Viswanath 2015, Theorem 8, and Geng, Ding, Guo, Kumar 2020: no noise can have P(X >= k)
    decay faster than ``a exp(-epsilon k)`` per unit with ``a = (delta + (e**epsilon - 1)/2) /
    e**epsilon``, which gives ``2 a sum_{k < n} exp(-epsilon k) loss(k)`` when exactly n terms
    make up half the mass. Otherwise n is rounded:

    ``"down"`` drops the last partial term, ``"none"`` keeps the mass it has (sharper); both are
    valid bounds. ``"up"`` counts it in full, which is **not** a bound (it can exceed the loss of
    actual mechanisms); Tables 1, 5 and 6 of Selvi, Liu, Wiesemann use it in most cells.

    >>> round(literature_lower_bound(0.01, 0.1, rounding="up"), 4)
    2.0182
    """
    if loss not in ("l1", "l2"):
        raise ValueError(f"loss ({loss!r}) must be 'l1' or 'l2'")
    if rounding not in ("down", "up", "none"):
        raise ValueError(f"rounding ({rounding!r}) must be 'down', 'up' or 'none'")
    if not epsilon > 0:
        raise ValueError(f"epsilon ({epsilon!r}) must be positive")
    length = truncated_laplace_radius(epsilon, delta)
    if delta == 0.0:
        n, partial = math.ceil(750.0 / epsilon), 0.0  # later terms are 0 in floating point
    else:
        n = math.floor(length + 1e-9)  # delta = 1/2 gives exactly 1 at every epsilon
        partial = max(length - n, 0.0)
    k = np.arange(n + 1, dtype=np.float64)
    # Tail mass left after k terms is delta (e**(epsilon (length - k)) - 1) / (e**epsilon - 1);
    # cf. canonical noise.
    weights = (delta * math.exp(-epsilon) - 0.5 * math.expm1(-epsilon)) * np.exp(-epsilon * k)
    if rounding == "none":
        weights[-1] = delta * math.expm1(epsilon * partial) / math.expm1(epsilon)
    elif rounding == "down" or partial < 1e-9:
        weights[-1] = 0.0
    costs = k if loss == "l1" else k**2
    return float(2.0 * (weights * costs).sum())

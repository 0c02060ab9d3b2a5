"""Exact proofs of privacy for noise given by integer weights. Knows nothing of solvers.

A table draws a lattice point with probability weight / total and, for real queries, a uniform
place within that point's cell. For a shift of m + f cells (0 <= f < 1) the worst shortfall of the
cell densities is (1 - f) times that of shift m plus f times that of shift m + 1, so that whole
shifts decide. A point mass at 0 is all shortfall for every shift but 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds

Integers = NDArray[np.int64]

TOTAL = 1 << 62
"""What all weights and the atom of a table add up to: sums of parts never leave 64 bits."""


def grown(weights: Integers, epsilon: float) -> Integers:
    """Integers not above e^epsilon times each weight, cut off at TOTAL."""
    lower, _ = exp_bounds(min(epsilon, 64.0))
    return np.array([min(TOTAL, w * lower >> BITS) for w in weights.tolist()], dtype=np.int64)


def shortfalls(weights: Integers, epsilon: float, most: int) -> Integers:
    """Upper bounds of sum_i [w_i - e^epsilon w_(i-m)]+ for m = 0..most and both directions.

    The larger of the two directions is returned for each m.
    """
    bound = grown(weights, epsilon)
    one_way = _one_way(weights, bound, most)
    if np.array_equal(weights, weights[::-1]):
        return one_way
    return np.maximum(one_way, _one_way(weights[::-1], bound[::-1], most))


def _window_minimum(values: Integers, size: int) -> Integers:
    """The least of each window of so many values, by doubling windows."""
    out, width = values, 1
    while width < size:
        step = min(width, size - width)
        out = np.minimum(out[:-step], out[step:])
        width += step
    return out


def _one_way(weights: Integers, bound: Integers, most: int) -> Integers:
    """Shortfalls against the weights shifted by m, for m = 0..most."""
    n = len(weights)
    reach = min(most, n)
    # Only points that exceed the smallest bound within reach can fall short at all.
    padded = np.concatenate([np.zeros(reach, np.int64), bound])
    lowest = _window_minimum(padded, reach + 1)
    suspects = np.flatnonzero(weights > lowest)
    suspect = weights[suspects]
    out = np.empty(most + 1, np.int64)
    for m in range(most + 1):
        if m >= n:
            out[m:] = weights.sum()
            break
        out[m] = np.maximum(suspect - padded[suspects + (reach - m)], 0).sum()
    return out


def check_integers(weights: Integers) -> None:
    """Raise unless the weights are an odd number of integers."""
    right = isinstance(weights, np.ndarray) and weights.dtype == np.int64 and weights.ndim == 1
    if not right or len(weights) % 2 != 1:
        raise CertificateError("weights are not an odd number of 64-bit integers")


def check_weights(weights: Integers, atom: int) -> None:
    """Raise unless weights and atom are non-negative, of odd number, and add up to TOTAL."""
    check_integers(weights)
    if int(weights.min()) < 0 or atom < 0:
        raise CertificateError("a weight is negative")
    if sum(weights.tolist()) + atom != TOTAL:
        raise CertificateError(f"weights and atom do not add up to {TOTAL}")


def delta_units(
    weights: Integers, atom: int, cells: int, epsilon: float, shift: Fraction
) -> Fraction:
    """An upper bound of delta * TOTAL at epsilon, over all real shifts of up to ``shift`` cells."""
    if not 0 < shift <= cells:
        raise ValueError(f"shift ({shift}) must be in (0, {cells}]")
    whole = math.floor(shift)
    part = shift - whole
    fall = shortfalls(weights, epsilon, whole + (1 if part else 0)).tolist()
    worst = Fraction(max(fall[: whole + 1]))
    if part:
        worst = max(worst, (1 - part) * fall[whole] + part * fall[whole + 1])
    return worst + atom


def prove_private(
    weights: Integers, atom: int, cells: int, epsilon: float, delta: float
) -> Fraction:
    """Raise unless the weights are (epsilon, delta)-private at every shift; return the rest.

    What is returned is delta * TOTAL minus the worst shortfall.
    """
    check_weights(weights, atom)
    rest = Fraction(delta) * TOTAL - delta_units(weights, atom, cells, epsilon, Fraction(cells))
    if rest < 0:
        raise CertificateError(
            f"privacy: the worst shortfall exceeds delta ({delta}) by {float(-rest) / TOTAL:.3g}"
        )
    return rest


def prove_impossible(weights: Integers, atom: int, cells: int, bound: float) -> None:
    """Raise unless outputs impossible under a neighbour have at most this probability."""
    allowed = Fraction(bound) * TOTAL
    for sided in (weights, weights[::-1]):
        for m in range(1, cells + 1):
            lost = int(sided[:m].sum()) + int(sided[m:][sided[:-m] == 0].sum())
            if lost + atom > allowed:
                raise CertificateError(
                    f"outputs impossible under a neighbour are more likely than {bound}"
                )


def prove_shape(weights: Integers, *, symmetric: bool, monotone: bool) -> None:
    """Raise unless the weights have the shape that was asked for."""
    if symmetric and not np.array_equal(weights, weights[::-1]):
        raise CertificateError("weights are not symmetric")
    middle = len(weights) // 2
    rising = np.any(np.diff(weights[middle:]) > 0) or np.any(np.diff(weights[: middle + 1]) < 0)
    if monotone and rising:
        raise CertificateError("weights do not fall on each side of 0")

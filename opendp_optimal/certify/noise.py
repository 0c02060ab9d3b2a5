"""Exact proofs for noise given by integer weights. Knows nothing of solvers.

*Privacy*: a table draws a lattice point with probability weight / total and, for real queries, a
uniform place within that point's cell. For a shift of m + f cells (0 <= f < 1) the worst shortfall
of the cell densities is (1 - f) times that of shift m plus f times that of shift m + 1, so that
whole shifts decide. A point mass at 0 is all shortfall for every shift but 0.

*Optimality*: any prices 0 <= slack[r, i] <= budget[r] for the terms [p_i - e^epsilon p_(i - m_r)]+
prove, for every noise on the lattice of integers,

    expected cost >= min_i { cost_i + sum_r (slack[r, i] - e^epsilon slack[r, i + m_r]) }
                     - delta sum_r budget[r],

the minimum over all integers i. Rounding a real noise at random to the lattice, without bias, is
post-processing that commutes with lattice shifts, so the bound holds for every real noise too when
the chords of the costs lie nowhere above the loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.spike import Spike, spike_units
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.losses.base import LatticeCost

TOTAL = 1 << 62
"""What all weights and the atom of a table add up to: sums of parts never leave 64 bits."""
LARGEST_SCALE = 4096
"""Units of prices are between 2^-4096 and 2^4096."""


def grown(weights: Integers, epsilon: float) -> Integers:
    """Integers not above e^epsilon times each weight, cut off at TOTAL."""
    lower, _ = exp_bounds(min(epsilon, 64.0))
    # Stairs and mirror images have many weights alike.
    alike, which = np.unique(weights, return_inverse=True)
    bound = np.array([min(TOTAL, w * lower >> BITS) for w in alike.tolist()], dtype=np.int64)
    return np.asarray(bound[which])


def shortfalls(weights: Integers, epsilon: float, most: int, first: int = 0) -> Integers:
    """Upper bounds of sum_i [w_i - e^epsilon w_(i-m)]+ for m = first..most and both directions.

    The larger of the two directions is returned for each m.
    """
    bound = grown(weights, epsilon)
    one_way = _one_way(weights, bound, first, most)
    if np.array_equal(weights, weights[::-1]):
        return one_way
    return np.maximum(one_way, _one_way(weights[::-1], bound[::-1], first, most))


def rises_then_falls(weights: Integers) -> bool:
    """Whether weights rise to one place and fall from there on.

    Then no term of a shortfall falls as the shift grows: w_(i-m) is at least w_i, so that the
    term is 0, until it has passed the highest place, and from there on it falls. So the
    longest shift decides.
    """
    rises = np.flatnonzero(weights[1:] > weights[:-1])
    falls = np.flatnonzero(weights[1:] < weights[:-1])
    return not len(rises) or not len(falls) or bool(rises[-1] < falls[0])


def _window_minimum(values: Integers, size: int) -> Integers:
    """The least of each window of so many values, by doubling windows."""
    out, width = values, 1
    while width < size:
        step = min(width, size - width)
        out = np.minimum(out[:-step], out[step:])
        width += step
    return out


def _one_way(weights: Integers, bound: Integers, first: int, most: int) -> Integers:
    """Shortfalls against the weights shifted by m, for m = first..most."""
    n = len(weights)
    reach = min(most, n)
    # Only points that exceed the smallest bound within reach can fall short at all.
    padded = np.concatenate([np.zeros(reach, np.int64), bound])
    lowest = _window_minimum(padded, reach + 1)
    suspects = np.flatnonzero(weights > lowest)
    suspect = weights[suspects]
    out = np.empty(most + 1 - first, np.int64)
    for m in range(first, most + 1):
        if m >= n:
            out[m - first :] = weights.sum()
            break
        out[m - first] = np.maximum(suspect - padded[suspects + (reach - m)], 0).sum()
    return out


def are_integers(*arrays: Any, ndim: int = 1) -> bool:
    """Whether all are arrays of 64-bit integers with so many dimensions."""
    return all(isinstance(a, np.ndarray) and a.dtype == np.int64 and a.ndim == ndim for a in arrays)


def check_integers(weights: Integers) -> None:
    """Raise unless the weights are an odd number of integers."""
    if not are_integers(weights) or len(weights) % 2 != 1:
        raise CertificateError("weights are not an odd number of 64-bit integers")


def check_weights(weights: Integers, atom: int, spike: int = 0) -> None:
    """Raise unless all weights are non-negative, of odd number, and add up to TOTAL."""
    check_integers(weights)
    if int(weights.min()) < 0 or atom < 0:
        raise CertificateError("a weight is negative")
    if sum(weights.tolist()) + atom + spike != TOTAL:
        raise CertificateError(f"weights and atom do not add up to {TOTAL}")


def delta_units(
    weights: Integers,
    atom: int,
    cells: int,
    epsilon: float,
    shift: Fraction,
    spike: Spike | None = None,
) -> Fraction:
    """An upper bound of delta * TOTAL at epsilon, over all real shifts of up to ``shift`` cells."""
    if not 0 < shift <= cells:
        raise ValueError(f"shift ({shift}) must be in (0, {cells}]")
    whole = math.floor(shift)
    part = shift - whole
    first = whole if rises_then_falls(weights) else 0
    fall = shortfalls(weights, epsilon, math.ceil(shift), first).tolist()
    worst = Fraction(max(fall[: whole + 1 - first]))
    if part:
        worst = max(worst, (1 - part) * fall[-2] + part * fall[-1])
    if spike is not None:
        worst += spike_units(weights, spike, math.ceil(shift), epsilon)
    return worst + atom


def prove_private(
    weights: Integers,
    atom: int,
    cells: int,
    epsilon: float,
    delta: float,
    spike: Spike | None = None,
) -> Fraction:
    """Raise unless the weights are (epsilon, delta)-private at every shift; return the rest.

    What is returned is delta * TOTAL minus the worst shortfall.
    """
    check_weights(weights, atom, 0 if spike is None else spike.weight)
    whole = delta_units(weights, atom, cells, epsilon, Fraction(cells), spike)
    rest = Fraction(delta) * TOTAL - whole
    if rest < 0:
        raise CertificateError(
            f"privacy: the worst shortfall exceeds delta ({delta}) by {float(-rest) / TOTAL:.3g}"
        )
    return rest


def prove_impossible(weights: Integers, atom: int, cells: int, bound: float) -> None:
    """Raise unless outputs impossible under a neighbour have at most this probability."""
    allowed = Fraction(bound) * TOTAL
    used = np.flatnonzero(weights)
    # Without holes, a longer shift leaves more of the end alone: the longest decides.
    whole = len(used) > 0 and int(used[-1] - used[0]) + 1 == len(used)
    for sided in (weights, weights[::-1]):
        for m in range(cells if whole else 1, cells + 1):
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


@dataclass(frozen=True, eq=False)
class DualCertificate(Valued):
    """Prices in units of 2^-scale that prove a lower bound.

    :param cells: lattice cells per unit of sensitivity
    :param shifts: the shift m_r of each row
    :param budget: the price of each row's budget
    :param slack: prices of the terms, one column for each point -radius..radius
    :param mirrored: whether each row stands, at half its price, for itself and its mirror image
    :param order: prices of the rows that make weights fall on each side of 0: two rows, right
        and left, with half the price of p_j >= p_(j+1) in column j = 1, 2, ...; the first entry
        is the price of p_0 >= (p_1 + p_-1) / 2. Empty if that was not asked.
    :param tail: prices of the mass near each end of a bounded support (one if mirrored)
    :param scale: the unit is 2^-scale
    """

    cells: int
    shifts: Integers
    budget: Integers
    slack: Integers
    mirrored: bool
    order: Integers
    tail: Integers
    scale: int

    @property
    def radius(self) -> int:
        """Slack prices are given for the points -radius..radius."""
        return int(self.slack.shape[1]) // 2

    @property
    def reach(self) -> int:
        """Beyond this distance from 0 no price has any effect."""
        return self.radius + self.cells + 1

    def check(self) -> None:
        """Raise unless shapes fit and every price is within its bounds."""
        listed = are_integers(self.shifts, self.budget, self.tail)
        if not listed or not are_integers(self.slack, self.order, ndim=2):
            raise CertificateError("prices are not lists and tables of 64-bit integers")
        if type(self.mirrored) is not bool:
            raise CertificateError(f"mirrored ({self.mirrored}) is neither true nor false")
        if abs(self.scale) > LARGEST_SCALE:
            raise CertificateError(f"the unit of prices, 2^{-self.scale}, is out of range")
        rows = len(self.shifts)
        tails = (0, 1 if self.mirrored else 2)  # one price for each end, or one for both
        fitting = len(self.slack) == len(self.budget) == rows and len(self.tail) in tails
        if not fitting or self.slack.shape[1] % 2 != 1:
            raise CertificateError("prices do not fit each other in shape")
        if rows and (np.abs(self.shifts).min() < 1 or np.abs(self.shifts).max() > self.cells):
            raise CertificateError("a price belongs to a shift beyond the sensitivity")
        negative = [a for a in (self.slack, self.budget, self.order, self.tail) if np.any(a < 0)]
        if negative or np.any(self.slack > self.budget[:, None]):
            raise CertificateError("a price is negative or above its budget price")
        widest = max(int(a.max(initial=0)) for a in (self.budget, self.order, self.tail))
        if widest.bit_length() + max(1, rows).bit_length() > 60:
            raise CertificateError("prices are too large to be added exactly")


def no_prices(cells: int) -> DualCertificate:
    """The certificate that proves the least value of the costs and nothing more."""
    return DualCertificate(
        cells=cells,
        shifts=np.ones(1, np.int64),
        budget=np.zeros(1, np.int64),
        slack=np.zeros((1, 3), np.int64),
        mirrored=False,
        order=np.zeros((0, 0), np.int64),
        tail=np.zeros(0, np.int64),
        scale=0,
    )


def _sums(dual: DualCertificate) -> tuple[Integers, Integers]:
    """Own prices of each point, and prices of the terms in which it is the shifted point."""
    own = np.zeros(2 * dual.reach + 1, np.int64)
    start = dual.reach - dual.radius
    width = dual.slack.shape[1]
    own[start : start + width] = dual.slack.sum(axis=0)
    other = np.zeros_like(own)
    for m, row in zip(dual.shifts.tolist(), dual.slack, strict=True):
        other[start - m : start - m + width] += row
    if dual.mirrored:
        return own + own[::-1], other + other[::-1]
    return own, other


def _order_sums(dual: DualCertificate) -> Integers:
    """What the order rows take from each point, doubled."""
    out = np.zeros(2 * dual.reach + 1, np.int64)
    if dual.order.size == 0:
        return out
    if dual.order.shape[0] != 2 or dual.order.shape[1] > dual.reach:
        raise CertificateError("order prices do not fit the lattice")
    zero, last = dual.reach, dual.reach + dual.order.shape[1]
    for sided, prices in zip((out, out[::-1]), dual.order, strict=True):
        sided[zero + 1 : last] += prices[1:]
        sided[zero + 2 : last + 1] -= prices[1:]
    centre = int(dual.order[0, 0])
    out[zero] += 2 * centre
    out[[zero - 1, zero + 1]] -= centre
    return out


def prove_bound(
    dual: DualCertificate,
    cost: LatticeCost,
    *,
    epsilon: float,
    delta: float,
    support: int | None = None,
    impossible: float | None = None,
) -> Fraction:
    """The lower bound that the prices prove, exactly; raises if they prove none.

    :param cost: costs whose ``lower`` covers -reach..reach; beyond, they do not fall
    :param support: the noise is known to stay within this many lattice points of 0
    :param impossible: bound on the mass near the ends, if that was asked with a support
    """
    dual.check()
    reach = dual.reach
    if len(cost.lower) != 2 * reach + 1:
        raise CertificateError("costs do not cover the points that prices reach")
    _, growth = exp_bounds(min(epsilon, 64.0))
    own, other = _sums(dual)
    order = _order_sums(dual).tolist()
    first, last = 0, 2 * reach
    if support is not None and support < reach:
        first, last = reach - support, reach + support
    tail = _tail_sums(dual, reach, support)
    # All over one denominator: cost.denominator * 2^(scale + BITS + 1); a scale below 0 (prices in
    # large units) is made up for by the prices.
    scale, more = max(0, dual.scale), max(0, -dual.scale)
    both = 0 if dual.mirrored else 1
    unit = cost.denominator << (BITS + both + more)
    growth_unit = cost.denominator * growth << (both + more)
    half = cost.denominator << (BITS + more)
    lift = scale + BITS + 1
    least = min(
        (c << lift) + y * unit - w * growth_unit - (o - t) * half
        for c, y, w, o, t in zip(
            cost.lower[first : last + 1],
            own[first : last + 1].tolist(),
            other[first : last + 1].tolist(),
            order[first : last + 1],
            tail[first : last + 1],
            strict=True,
        )
    )
    paid = Fraction(delta) * sum(dual.budget.tolist())
    if dual.tail.size:
        if impossible is None or support is None:
            raise CertificateError("tail prices need a support and a bound on its ends")
        paid += Fraction(impossible) * sum(dual.tail.tolist())
    proved: Fraction = Fraction(least, cost.denominator << lift) - paid * Fraction(
        1 << more, 1 << scale
    )
    return proved


def _tail_sums(dual: DualCertificate, reach: int, support: int | None) -> list[int]:
    """What the tail rows add to each point, doubled."""
    out = [0] * (2 * reach + 1)
    if dual.tail.size == 0 or support is None:
        return out
    prices = dual.tail.tolist()
    for j in range(max(1, support - dual.cells + 1), support + 1):
        if j <= reach:
            out[reach + j] += prices[0] if dual.mirrored else 2 * prices[0]
            out[reach - j] += prices[0] if dual.mirrored else 2 * prices[-1]
    return out

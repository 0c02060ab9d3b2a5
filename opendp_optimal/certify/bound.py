"""Exact proofs that no mechanism has a smaller loss. Knows nothing of solvers.

Any prices 0 <= slack[r, i] <= budget[r] for the terms [p_i - e^epsilon p_(i - m_r)]+ prove, for
every noise on the lattice of integers,

    expected cost >= min_i { cost_i + sum_r (slack[r, i] - e^epsilon slack[r, i + m_r]) }
                     - delta sum_r budget[r],

the minimum over all integers i. Rounding a real noise at random to the lattice, without bias, is
post-processing that commutes with lattice shifts, so the bound holds for every real noise too when
the chords of the costs lie nowhere above the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Frozen
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.losses.base import LatticeCost

Integers = NDArray[np.int64]

LARGEST_SCALE = 4096
"""Units of prices are between 2^-4096 and 2^4096."""


@dataclass(frozen=True)
class DualCertificate(Frozen):
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
        """Beyond this distance from 0 all prices are out of the play."""
        return self.radius + self.cells + 1

    def check(self) -> None:
        """Raise unless shapes fit and every price is within its bounds."""
        arrays = (self.shifts, self.budget, self.slack, self.order, self.tail)
        if any(not isinstance(a, np.ndarray) or a.dtype != np.int64 for a in arrays):
            raise CertificateError("prices are not 64-bit integers")
        if type(self.mirrored) is not bool:
            raise CertificateError(f"mirrored ({self.mirrored}) is neither true nor false")
        if abs(self.scale) > LARGEST_SCALE:
            raise CertificateError(f"the unit of prices, 2^{-self.scale}, is out of range")
        rows = len(self.shifts)
        ranks = (self.shifts.ndim, self.budget.ndim, self.slack.ndim, self.order.ndim)
        tails = (0, 1 if self.mirrored else 2)  # one price for each end, or one for both
        if ranks != (1, 1, 2, 2) or self.tail.ndim != 1 or len(self.tail) not in tails:
            raise CertificateError("prices do not fit each other in shape")
        if self.slack.shape[0] != rows or len(self.budget) != rows or self.slack.shape[1] % 2 != 1:
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

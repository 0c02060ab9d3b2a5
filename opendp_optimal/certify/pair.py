"""Exact proofs for noise on a mean and its count, given by integer weights. Knows no solver.

*Privacy*: a table draws a point (j, c) with probability weight / total and a uniform place in the
cell j of the centred sum. A record moves the sum by at most cells / 2 cells and the count by one.
For a move by i + f cells (0 <= f < 1) the worst shortfall is at most (1 - f) times that of i plus f
times that of i + 1, and both are whole moves within reach: those decide.

*Optimality*: any prices 0 <= slack[r, z] <= budget[r] for the terms [p_z - e^epsilon p_(z + m_r)]+
prove, for every noise with whole values for the count,

    expected cost >= min_z { cost_z + sum_r (slack[r, z] - e^epsilon slack[r, z - m_r]) }
                     - delta sum_r budget[r].

Rounding the noise of the sum at random to the lattice, without bias, is post-processing, so that
the bound holds for every noise of the sum when chords of the costs lie nowhere above the cost. The
costs are tangents half a unit of count noise on, so that it holds for every noise of the count,
too: its fractional part t in [-1/2, 1/2] is the same for neighbours, and for each t the tangent is
a mixture of that cost and of its mirror image, which the mirror images of the prices serve.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.arrays import Integers, Valued
from opendp_optimal.certify.noise import LARGEST_SCALE, TOTAL, are_integers, grown
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.losses.pairs import PairCost

Number = TypeVar("Number", np.int64, np.float64)

MOST_POINTS = 1 << 24


def unfolded(weights: NDArray[Number]) -> NDArray[Number]:
    """The weights of all points -C..C, -J..J from those of 0..C, 0..J."""
    half = np.concatenate([weights[:, :0:-1], weights], axis=1)
    return np.concatenate([half[:0:-1], half])


def shortfall(weights: Integers, cells: int, epsilon: float) -> int:
    """The largest sum_z [w_z - e^epsilon w_(z + m)]+ over all moves m, rounded up.

    :param weights: of the points 0..C (rows) and 0..J (columns), each for its mirror images, too
    """
    every = unfolded(weights)
    bound = grown(every.ravel(), epsilon).reshape(every.shape)
    worst = 0
    for i in range(cells // 2 + 1):  # by symmetry, upwards and to the right
        moved = np.zeros_like(bound)
        width = every.shape[1] - i
        if width > 0:
            moved[:-1, :width] = bound[1:, i:]
        worst = max(worst, int(np.maximum(every - moved, 0).sum()))
    return worst


def check_pairs(weights: Integers, cells: int) -> None:
    """Raise unless the weights are whole, not negative, and add up to TOTAL with their images."""
    right = are_integers(weights, ndim=2)
    if not right or min(weights.shape) < 1 or 4 * weights.size > MOST_POINTS:
        raise CertificateError("weights of pairs are not rows of 64-bit integers")
    if type(cells) is not int or not (2 <= cells <= 1 << 14 and cells % 2 == 0):
        raise CertificateError(f"cells ({cells}) are not an even number in [2, 16384]")
    if int(weights.min()) < 0 or int(weights.max()) > TOTAL:
        raise CertificateError("a weight is negative or too large")
    if sum(unfolded(weights).ravel().tolist()) != TOTAL:
        raise CertificateError(f"weights do not add up to {TOTAL}")


def prove_pairs_private(weights: Integers, cells: int, epsilon: float, delta: float) -> None:
    """Raise unless the weights are (epsilon, delta)-private for every move of one record."""
    check_pairs(weights, cells)
    over = shortfall(weights, cells, epsilon) - Fraction(delta) * TOTAL
    if over > 0:
        raise CertificateError(
            f"privacy: the worst shortfall exceeds delta ({delta}) by {float(over) / TOTAL:.3g}"
        )


@dataclass(frozen=True, eq=False)
class PairDual(Valued):
    """Prices in units of 2^-scale that prove a lower bound.

    Each row stands, at half its price, for itself and its mirror image in j.

    :param cells: cells of the lattice for a move of the centred sum by 1
    :param reach: rows of points are the count noises -reach-1..reach
    :param moves: the move (i, 1) or (i, -1) of each row
    :param budget: the price of each row's budget
    :param slack: prices of the terms, a column for each point: the cells -most..most of the first
        count noise, then of the next
    :param scale: the unit is 2^-scale
    """

    cells: int
    reach: int
    moves: Integers
    budget: Integers
    slack: Integers
    scale: int

    @property
    def counts(self) -> Integers:
        """The count noises of the points."""
        return np.arange(-self.reach - 1, self.reach + 1)

    @property
    def most(self) -> int:
        """The last cell."""
        return int(self.slack.shape[1]) // (2 * self.reach + 2) // 2

    def check(self) -> None:
        """Raise unless shapes fit and every price is within its bounds."""
        if not are_integers(self.budget) or not are_integers(self.moves, self.slack, ndim=2):
            raise CertificateError("prices are not lists and tables of 64-bit integers")
        numbers = (self.cells, self.reach, self.scale)
        if any(type(number) is not int for number in numbers) or not (
            2 <= self.cells <= 1 << 14
            and self.cells % 2 == 0
            and 0 <= self.reach <= 1 << 20
            and abs(self.scale) <= LARGEST_SCALE
        ):
            raise CertificateError("a lattice or a unit of prices is out of range")
        rows = len(self.moves)
        wide = self.slack.shape[1]
        shapes = self.moves.shape == (rows, 2) and self.slack.shape[0] == len(self.budget) == rows
        if not shapes or wide > MOST_POINTS or wide != len(self.counts) * (2 * self.most + 1):
            raise CertificateError("prices do not fit each other in shape")
        if np.any(np.abs(self.moves[:, 1]) != 1) or np.any(
            2 * np.abs(self.moves[:, 0]) > self.cells
        ):
            raise CertificateError("a price belongs to a move beyond that of a record")
        if np.any(self.slack < 0) or np.any(self.slack > self.budget[:, None]):
            raise CertificateError("a price is negative or above its budget price")
        if int(self.budget.max(initial=0)).bit_length() + max(1, rows).bit_length() > 60:
            raise CertificateError("prices are too large to be added exactly")


def prove_pair_bound(
    dual: PairDual, cost: PairCost, *, epsilon: float, delta: float, whole: bool = False
) -> Fraction:
    """The lower bound that the prices prove, exactly; raises if they prove none.

    :param cost: tangents half a unit on, for ``dual.counts`` and the cells 0..most + cells / 2; a
        row more at each end, and if ``whole`` one more, so that -c is there with every c
    :param whole: bound only noise with whole values for the count, whose cost is the mean of a
        tangent and its mirror image in c; so are the prices
    """
    dual.check()
    margin = dual.cells // 2
    counts, most = len(dual.counts), dual.most
    if cost.values.shape != (counts + 2 + whole, most + margin + 1):
        raise CertificateError("costs do not cover the points that prices reach")
    own = np.zeros((counts + 2 + whole, 2 * (most + margin) + 1), np.int64)
    other = np.zeros_like(own)
    slack = dual.slack.reshape(-1, counts, 2 * most + 1)
    own[1 : counts + 1, margin : margin + 2 * most + 1] = slack.sum(axis=0)
    for (i, step), row in zip(dual.moves.tolist(), slack, strict=True):
        other[1 + step : counts + 1 + step, margin + i : margin + i + 2 * most + 1] += row
    # A row at half its price and its mirror image: all doubled.
    own, other = ((part + part[:, ::-1])[:, most + margin :] for part in (own, other))
    costs = cost.values
    if whole:
        own, other, costs = (part + part[::-1] for part in (own, other, costs))
    _, growth = exp_bounds(min(epsilon, 64.0))
    scale, more = max(0, dual.scale), max(0, -dual.scale)
    unit = cost.denominator << (BITS + more)
    growth_unit = cost.denominator * growth << more
    lift = scale + BITS + 1
    least = min(
        (c << lift) + y * unit - w * growth_unit
        for c, y, w in zip(
            costs.ravel().tolist(), own.ravel().tolist(), other.ravel().tolist(), strict=True
        )
    )
    least = min(least, cost.beyond << (lift + whole))
    paid = Fraction(delta) * sum(dual.budget.tolist())
    proved: Fraction = Fraction(least, cost.denominator << (lift + whole)) - paid * Fraction(
        1 << more, 1 << scale
    )
    return proved

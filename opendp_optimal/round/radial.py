"""From floats to integers: weights of balls, knots of prices. Nothing here is a proof."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from opendp_optimal.arrays import Floats
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.radial import MOST_STEPS, Staircase
from opendp_optimal.certify.radial_bound import KNOT, RadialPrices
from opendp_optimal.certify.radial_smooth import STEP, SmoothPrices
from opendp_optimal.certify.steps import Steps
from opendp_optimal.errors import CertificateError

_LEAST = 30
"""Binary digits of the least weight that is kept: of the largest there are 62 at most."""
_UP = 1 + 2.0**-44


def rounded_staircase(
    epsilon: float, size: int, first: int, step: int, offsets: tuple[int, ...] = ()
) -> Staircase:
    """Integer weights of balls of radius ``first + j step`` that fall as slowly as they must.

    :param epsilon: what the density falls by, at most, from one ball to the next
    :param size: of the vectors
    :param first: radius of ball 0
    :param step: between the radii
    :param offsets: how much farther balls reach in each coordinate; empty for none
    :raises CertificateError: if there are too many balls
    """
    sides = Counter(offsets) if offsets else {0: size}
    top = max(0.0, size / epsilon - first / step)
    reach = (8.0 * math.sqrt(size) + 40.0) / epsilon + 4
    if reach > 4 * MOST_STEPS:
        raise CertificateError("a staircase has too many steps")
    bottom = top - reach - max(sides) / step
    ball = np.arange(max(0, math.floor(bottom)), math.ceil(top + reach) + 1)
    logs = -epsilon * ball
    for offset, count in sides.items():
        logs = logs + count * np.log((first + offset) / step + ball)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    used = np.flatnonzero(shares > 2.0 ** (_LEAST - 62))
    start, end = int(ball[used[0]]), int(ball[used[-1]]) + 1
    if end - start > MOST_STEPS:
        raise CertificateError("a staircase has too many steps")
    radii = [first + j * step for j in range(start, end + 1)]
    growth = [sum(n * math.log1p(step / (r + o)) for o, n in sides.items()) for r in radii]
    falls = [math.exp(grown - epsilon) * _UP for grown in growth]
    again = math.ceil(falls[-1] * TOTAL)
    if again >= TOTAL:
        raise CertificateError("a staircase does not fall at its end")
    weight = int(float(shares[used[0]]) * TOTAL)
    while True:
        weights = [weight]
        for fall in falls[:-2]:
            weights.append(math.ceil(weights[-1] * fall) + 1)
        needed = math.ceil(weights[-1] * falls[-2] * _UP / (1 - again / TOTAL)) + 1
        left = TOTAL - sum(weights)
        if left >= needed:
            listed = np.array(weights, np.int64)
            return Staircase(first, step, start, listed, left, again, offsets)
        weight -= max(1, weight >> 34)


def rounded_steps(size: int, radii: Floats, weights: Floats, lattice: int, step: int) -> Steps:
    """Integer radii and weights of balls.

    Heights of steps stay what they are to many digits: weights follow the volumes, and those of
    outer steps are rounded up, which hides the inner ones.

    :param size: of the vectors
    :param radii: ascending
    :param weights: of the balls
    :param lattice: what radii are multiplied by
    :param step: the sensitivity in lattice units: a smaller one stretches the noise
    """
    ends, first = np.unique(np.ceil(radii * lattice).astype(np.int64), return_index=True)
    shares = np.add.reduceat(weights, first) * (ends / (radii[first] * lattice)) ** size
    whole = np.ceil(shares / shares.sum() * TOTAL).astype(np.int64)
    whole[np.argmax(whole)] += TOTAL - sum(whole.tolist())
    return Steps(step, ends, whole)


def rounded_prices(
    price: float,
    width: int,
    radii: Floats,
    length: float = 1.0,
    further: RadialPrices | None = None,
) -> RadialPrices:
    """Prices whose knots are integers.

    :param price: of the event
    :param width: how many places further a knot is taken
    :param radii: the knots
    :param length: how far apart neighbours are
    :param further: another event
    """
    knots = np.rint(radii * KNOT).astype(np.int64)
    return RadialPrices(price, width, knots, round(length * KNOT), further)


def rounded_course(
    price: float, places: Floats, radii: Floats, slopes: Floats, size: int = 0
) -> SmoothPrices:
    """Prices whose knots are integers.

    :param price: of the event
    :param places: the knots
    :param radii: R there
    :param slopes: of R there
    :param size: of the vectors that they are about, where those of the noise are longer
    """
    units = (places, STEP), (radii, KNOT), (slopes, KNOT)
    first, second, third = (np.rint(array * unit).astype(np.int64) for array, unit in units)
    return SmoothPrices(price, first, second, third, size)

"""One shape of answers on a ring, cut into cells; its linear programme.

Lengths are in turns: the ring has circumference 1 and the privacy rate is ``2 pi epsilon`` per
turn. A rotation-invariant client draws the shape's rotation relative to itself from a density
``p`` with ``|p'| <= rate * p``. All constraints are homogeneous but for the total mass, so one
shape is enough: the optimum over mixtures of shapes is the best single one.

Cells never cross an answer or the middle of a gap, so the distance to the nearest answer is
linear within a cell. Within a cell of width ``w`` a density of rate ``r`` has a mean within
``r w**2 / 12`` of the middle: that is the whole discretisation error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import diags_array, eye_array, vstack

from opendp_optimal.extend import Floats, exp_up, float_down, float_up, frozen_array

PI_LOWER = Fraction(Decimal("3.14159265358979323846264338327950288419"))
PI_UPPER = PI_LOWER + Fraction(1, 10**38)

_BITS = 140
"""Of the bounds on exponentials: far more than floats have, for differences of them are taken."""
_SMALLEST = Fraction(1, 2**50)
_SMALL_LOSS = Fraction(1, 10**12)
_LARGEST_LOG = 600
"""A cell may outweigh its neighbour by more than any float: there is no such constraint then."""
_SOLVABLE = 1e12
"""Ratios that a solver can cope with."""


@dataclass(frozen=True)
class CellModel:
    """The cells of one shape.

    :param gaps: distances between neighbouring answers, in turns, adding up to 1
    :param rate: an upper bound on the privacy loss per turn
    :param cells: number of cells in each half gap
    """

    gaps: tuple[Fraction, ...]
    rate: Fraction
    cells: int

    def __post_init__(self) -> None:
        """Check that the gaps make a ring."""
        if sum(self.gaps) != 1 or any(gap != 0 and gap < _SMALLEST for gap in self.gaps):
            raise ValueError(f"gaps must add up to 1, each 0 or at least {float(_SMALLEST)}")

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone: what is computed from them is computed again in a copy."""
        return {"gaps": self.gaps, "rate": self.rate, "cells": self.cells}

    @cached_property
    def exact_widths(self) -> tuple[Fraction, ...]:
        """Width of each half gap's cells, one per gap that is not empty."""
        return tuple(gap / (2 * self.cells) for gap in self.gaps if gap > 0)

    @cached_property
    def widths(self) -> tuple[Fraction, ...]:
        """Width of every cell, starting at an answer."""
        return tuple(w for w in self.exact_widths for _ in range(2 * self.cells))

    @cached_property
    def middles(self) -> tuple[Fraction, ...]:
        """Distance from the middle of every cell to the nearest answer."""
        rising = range(1, 2 * self.cells, 2)
        return tuple(w * n / 2 for w in self.exact_widths for n in (*rising, *reversed(rising)))

    @cached_property
    def costs_below(self) -> Floats:
        """Lower bounds, cell by cell, on the mean distance to the nearest answer."""
        pairs = zip(self.middles, self.widths, strict=True)
        return frozen_array([float_down(c - self.rate * w * w / 12) for c, w in pairs])

    @cached_property
    def ratios_above(self) -> tuple[Floats, Floats]:
        """Upper bounds on mass ratios of neighbours: this over next, next over this.

        Infinite where there is none.
        """
        ratio = cache(self._ratio_above)
        pairs = list(zip(self.widths, (*self.widths[1:], self.widths[0]), strict=True))
        forward = [ratio(here, following) for here, following in pairs]
        backward = [ratio(following, here) for here, following in pairs]
        return frozen_array(forward), frozen_array(backward)

    def _ratio_above(self, width: Fraction, other: Fraction) -> float:
        """Bound the mass of a cell over that of its neighbour, for rate at most ``self.rate``."""
        if self.rate * (width + other) > _LARGEST_LOG:
            return math.inf
        if width == other:
            return float_up(exp_up(self.rate * width, _BITS))
        if self.rate * min(width, other) < _SMALL_LOSS:
            # (e^x - 1) / x <= e^x and (1 - e^-x) / x >= e^-x.
            return float_up(width / other * exp_up(self.rate * (width + other), _BITS))
        top = exp_up(self.rate * width, _BITS) - 1
        return float_up(top / (1 - exp_up(-self.rate * other, _BITS)))

    def solve(self) -> tuple[Floats, Floats, Floats]:
        """Return masses and the multipliers of both families of ratio constraints.

        They are only suggestions: :mod:`opendp_optimal_select.ring.certificate` turns them into
        bounds without trusting them. Where the solver gives up, they are plain but valid.
        """
        plain = np.array([float(w) for w in self.widths])
        return lightest(self.costs_below, *self.ratios_above, plain)


def lightest(
    costs: Floats, forward: Floats, backward: Floats, plain: Floats
) -> tuple[Floats, Floats, Floats]:
    """Suggest the cheapest masses around a ring, and multipliers of both families of constraints.

    :param costs: of a unit of mass at each place
    :param forward: how many times the next mass each one may be
    :param backward: how many times each mass the next one may be
    :param plain: masses to take where the solver gives up
    :returns: masses and the multipliers
    """
    size = costs.size
    ratios = np.concatenate([forward, backward])
    solvable = ratios <= _SOLVABLE
    here = eye_array(size, format="csr")
    following = here[(np.arange(size) + 1) % size]
    limits = diags_array(np.minimum(ratios, _SOLVABLE))
    kept = (vstack([here, following]) - limits @ vstack([following, here]))[solvable]
    result = linprog(
        costs,
        A_ub=kept,
        b_ub=np.zeros(kept.shape[0]),
        A_eq=np.ones((1, size)),
        b_eq=[1.0],
        method="highs",
    )
    multipliers = np.zeros(2 * size)
    if result.x is None or result.ineqlin.marginals is None:
        return plain, multipliers[:size], multipliers[size:]
    multipliers[solvable] = np.nan_to_num(-np.asarray(result.ineqlin.marginals)).clip(0.0)
    masses = np.asarray(result.x, dtype=np.float64)
    usable = np.isfinite(masses).all() and masses.max() > 0.0
    return masses if usable else plain, multipliers[:size], multipliers[size:]


def rate_bounds(epsilon: float) -> tuple[Fraction, Fraction]:
    """Return bounds on ``2 pi epsilon``, the privacy loss per turn.

    :param epsilon: privacy loss per unit of length on a ring of circumference ``2 pi``
    """
    exact = Fraction(epsilon)
    return 2 * PI_LOWER * exact, 2 * PI_UPPER * exact

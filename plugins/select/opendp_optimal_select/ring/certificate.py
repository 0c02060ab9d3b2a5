"""From a solver's suggestions to bounds that hold: nothing here knows of the solver.

*Lower*: for any multipliers ``y, z >= 0`` the smallest reduced cost bounds the cost of every
private density on the cells (weak duality), computed in floats with its rounding error taken off.

*Upper*: the suggested masses become a density whose logarithm is piecewise linear between cell
middles. Its slopes are compared with the rate exactly, and its cost is integrated to 60 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TypeVar

import numpy as np

from opendp_optimal.extend import Floats
from opendp_optimal_select.ring.shape import CellModel

_DIGITS = Context(prec=60, Emin=-999999, Emax=999999)
_UNIT = 2.0**-53
_SLACK = Fraction(1, 10**30)

Number = TypeVar("Number", int, float)


def lower_bound(model: CellModel, forward: Floats, backward: Floats) -> float:
    """Return a number no private density on this shape can cost less than, in turns.

    :param model: the cells
    :param forward: any non-negative multipliers of "this mass is at most ratio times the next"
    :param backward: any non-negative multipliers of "the next mass is at most ratio times this"
    """
    above, below = model.ratios_above
    # Where there is no constraint there is no multiplier.
    y = np.where(np.isfinite(above), np.asarray(forward).clip(0.0), 0.0)
    z = np.where(np.isfinite(below), np.asarray(backward).clip(0.0), 0.0)
    above, below = (np.where(np.isfinite(ratio), ratio, 0.0) for ratio in (above, below))
    terms = np.stack([model.costs_below, y, -np.roll(above * y, 1), np.roll(z, 1), -below * z])
    # One product and four sums per cell: at most six roundings on each term.
    error = 16.0 * _UNIT * np.abs(terms).sum(axis=0)
    return float(np.nextafter((terms.sum(axis=0) - error).min(), -np.inf))


@dataclass(frozen=True)
class RingDensity:
    """A density on the ring, log-linear between the middles of a model's cells.

    :param model: the cells
    :param logs: logarithm of the density (up to a constant) at the middle of each cell
    """

    model: CellModel
    logs: tuple[float, ...]

    def keeps(self, rate: Fraction) -> bool:
        """Return whether the density loses at most ``rate`` per turn, decided exactly.

        :param rate: a privacy loss per turn
        """
        widths, logs = self.model.widths, [Fraction(log) for log in self.logs]
        return all(
            abs(logs[i] - logs[i - 1]) <= rate * (widths[i] + widths[i - 1]) / 2
            for i in range(len(widths))
        )

    def cost_above(self) -> Fraction:
        """Return an upper bound on the mean distance to the nearest answer, in turns."""
        mass, moment = Decimal(0), Decimal(0)
        with localcontext(_DIGITS):
            for start, slope, width, near, sign in self._pieces():
                part, first = _integrals(start, slope, width)
                mass += part
                moment += near * part + sign * first
            ratio = Fraction(moment / mass)
        return ratio * (1 + _SLACK) + _SLACK

    def _pieces(self) -> Iterator[tuple[Decimal, Decimal, Decimal, Decimal, int]]:
        """Yield ``(log at start, slope, width, distance at start, its slope)`` of half cells."""
        widths, middles = self.model.widths, self.model.middles
        size, cells = len(widths), self.model.cells
        for i in range(size):
            j = (i + 1) % size
            span = (widths[i] + widths[j]) / 2
            slope = (Fraction(self.logs[j]) - Fraction(self.logs[i])) / span
            start = Fraction(self.logs[i])
            for index, log in ((i, start), (j, start + slope * widths[i] / 2)):
                width = widths[index] / 2
                sign = 1 if (index // cells) % 2 == 0 else -1
                near = middles[index] if index == i else middles[index] - sign * width
                yield _decimal(log), _decimal(slope), _decimal(width), _decimal(near), sign


def _decimal(value: Fraction) -> Decimal:
    """The value to 60 digits."""
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def _integrals(start: Decimal, slope: Decimal, width: Decimal) -> tuple[Decimal, Decimal]:
    """Return the integrals of ``e**(start + slope x)`` and ``x`` times it over ``[0, width]``.

    To be called in a context of 60 digits: the two differences lose 16 of them at worst.
    """
    base, z = start.exp(), slope * width
    if abs(z) < Decimal("1e-8"):
        # Four terms of the series leave less than 1e-33 of the value.
        zeroth = 1 + z / 2 + z * z / 6 + z * z * z / 24
        first = Decimal("0.5") + z / 3 + z * z / 8 + z * z * z / 30
        return base * width * zeroth, base * width * width * first
    grown = z.exp()
    zeroth = (grown - 1) / slope
    first = (width * grown - zeroth) / slope
    return base * zeroth, base * first


def density_from(model: CellModel, masses: Floats, rate: Fraction) -> RingDensity:
    """Return a density that loses at most ``rate``, as close to ``masses`` as it can be.

    :param model: the cells
    :param masses: suggested masses of the cells, not all 0
    :param rate: the privacy loss per turn to keep
    """
    widths = np.array([float(w) for w in model.widths])
    heights = np.maximum(masses / widths, 0.0)
    spans = 0.5 * (widths + np.roll(widths, -1))
    for shrink in (1e-12, 1e-9, 1e-6):
        steps = float(rate) * (1.0 - shrink) * spans
        density = RingDensity(model, tuple(envelope(heights, steps).tolist()))
        if density.keeps(rate):
            return density
    return RingDensity(model, (0.0,) * len(model.widths))


def envelope(heights: Floats, steps: Floats) -> Floats:
    """Return the smallest logarithms above those of ``heights`` that move at most ``steps``.

    Above, not below: a solver's tail may be a little too thin, and one thin cell would pull all
    the others down.

    :param heights: one number per place of the ring, not all 0; the largest becomes 1
    :param steps: how far it may move from each place to the next
    """
    logs = np.log(np.maximum(heights / heights.max(), 1e-300))
    downs = steps.tolist()
    return np.array(raised(logs.tolist(), lambda log, i: log - downs[i]))


def raised(values: list[Number], needed: Callable[[Number, int], Number]) -> list[Number]:
    """Return the smallest values around a ring above those given that meet their neighbours' needs.

    :param values: one for each place of the ring
    :param needed: what a value needs its neighbours to be at least, across step ``i``, which joins
        place ``i`` and the next
    """
    values, size = list(values), len(values)
    for _ in range(2):
        for i in range(size):
            values[i] = max(values[i], needed(values[i - 1], (i - 1) % size))
        for i in reversed(range(size)):
            values[i] = max(values[i], needed(values[(i + 1) % size], i))
    return values

"""What distinct observations say of a true value: chances of lattice points, summed exactly.

True values and observations lie on a lattice ``base + unit k``. An observation's likelihood is a
window of chances around a centre; windows are shared by all observations that differ by a shift.
Sums over any run of lattice points, and their first two moments, are differences of stored tails:
small chances keep their digits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import known

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FORGOTTEN = 1e-32
"""The part of a tail that is left out of a window."""
_LONGEST = 1 << 16


def mirrored(law: known.Law) -> known.Law:
    """The law of minus the noise."""
    if isinstance(law, known.Tabulated):
        return replace(law, chances=law.chances[::-1])
    return law  # every other law is symmetric


def window(law: known.Law, unit: float) -> Floats:
    """The chances that a true value lies -r, ..., r lattice points above its observation.

    :param law: of the noise
    :param unit: of the lattice
    """
    flipped = mirrored(law)
    reach = max(float(law.spread), unit)
    while (law.cdf(-reach) + flipped.cdf(-reach)) > FORGOTTEN and reach < _LONGEST * unit:
        reach *= 1.25
    radius = int(np.ceil(reach / unit))
    # Chances of (k - 1/2, k + 1/2] for k = -radius..0, from either tail.
    cuts = (np.arange(-radius - 1, 0) + 0.5) * unit
    low, high = (np.diff(each.cdf(cuts)) for each in (law, flipped))
    middle = max(0.0, 1.0 - float(law.cdf(cuts[-1]) + flipped.cdf(cuts[-1])))
    # The noise is k: the true value is k points below what was seen.
    return np.concatenate([high, [middle], low[::-1]])


@dataclass(frozen=True)
class Windows:
    """Likelihoods of the same shape up to a shift.

    :param chances: row t has the chances of the points -radius..radius around the centre
    """

    chances: Floats

    @property
    def radius(self) -> int:
        """How many points there are on either side."""
        return int(self.chances.shape[1]) // 2

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """Tails and totals of the chances times 1, t, t^2, by power.

        The entry for a point before the centre, or at it, sums what lies below; after it, minus
        what lies there and above.
        """
        t = np.arange(-self.radius, self.radius + 1, dtype=np.float64)
        tails, totals = [], []
        for power in range(3):
            each = self.chances * t**power
            left, right = each[:, : self.radius], each[:, self.radius :]
            below = np.cumsum(left, axis=1)
            above = -np.cumsum(right[:, ::-1], axis=1)[:, ::-1]
            zero = np.zeros((len(each), 1))
            tails.append(np.concatenate([zero, below, above[:, 1:], zero], axis=1))
            totals.append(below[:, -1:].sum(axis=1) - above[:, 0])
        return np.stack(tails), np.stack(totals)


@dataclass(frozen=True)
class Likelihood:
    """The likelihoods of distinct observations.

    :param windows: their shapes
    :param shape: which shape each has
    :param centre: the lattice point at the centre of each
    """

    windows: Windows
    shape: Integers
    centre: Integers

    def __len__(self) -> int:
        """How many distinct observations there are."""
        return len(self.centre)

    def run(self, rows: Integers, low: Any, high: Any, power: int = 0) -> Floats:
        """Sums of chances times t^power over low <= k < high, with t = k - centre.

        :param rows: the observations; the ends are broadcast against them
        :param low: first lattice points
        :param high: the ones after the last
        :param power: 0, 1 or 2
        """
        radius = self.windows.radius
        tails, totals = self.windows.moments
        kind, centre = self.shape[rows], self.centre[rows]
        start = np.clip(low - centre, -radius, radius + 1)
        end = np.clip(high - centre, -radius, radius + 1)
        table = tails[power]
        across = (start <= 0) & (end > 0)
        out = table[kind, end + radius] - table[kind, start + radius]
        out = out + np.where(across, totals[power][kind], 0.0)
        return np.asarray(np.where(end > start, np.maximum(out, 0.0) if power != 1 else out, 0.0))

    def bins(self, rows: Integers, edges: Integers, power: int = 0) -> Floats:
        """The same sums over neighbouring bins, a column for each.

        :param rows: the observations
        :param edges: of the bins
        :param power: 0, 1 or 2
        """
        radius = self.windows.radius
        tails, totals = self.windows.moments
        kind = self.shape[rows]
        place = np.clip(edges - self.centre[rows][:, None], -radius, radius + 1) + radius
        if len(self.windows.chances) == 1:
            out = np.diff(tails[power][0].take(place), axis=1)
        else:
            out = np.diff(tails[power][kind[:, None], place], axis=1)
        # One bin has the centre in it, unless all lie on one side.
        line = np.arange(len(rows))
        across = np.searchsorted(edges, self.centre[rows], side="right") - 1
        inside = (across >= 0) & (across < len(edges) - 1)
        out[line[inside], across[inside]] += totals[power][kind[inside]]
        return np.asarray(np.maximum(out, 0.0) if power != 1 else out)

    def at(self, rows: Integers, k: Integers) -> Floats:
        """The chances of single lattice points.

        :param rows: the observations
        :param k: a point for each
        """
        radius = self.windows.radius
        t = k - self.centre[rows]
        inside = np.abs(t) <= radius
        place = np.clip(t + radius, 0, 2 * radius)
        return np.asarray(np.where(inside, self.windows.chances[self.shape[rows], place], 0.0))

"""What a release costs: the privacy map of a design, its table and its grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from opendp_optimal.measure.guarantee import Design, coordinates
from opendp_optimal.measure.release import Grid
from opendp_optimal.measure.space import Space
from opendp_optimal.table import NoiseTable


@dataclass(frozen=True)
class Guarantee:
    """The exact privacy of a release, for every distance up to the one it was designed for.

    ``d_in``, ``epsilon`` and ``delta`` are the designed distance and its cost, ``changed`` the
    bound on changed coordinates that the caller gave.
    """

    space: Space
    design: Design
    table: NoiseTable
    grid: Grid
    d_in: Any
    epsilon: float
    delta: float
    changed: int | None = None

    def pair(self, d_in: Any) -> tuple[float, float]:
        """Return (epsilon, delta) at a distance: epsilon as small as delta allows.

        :raises ValueError: beyond the designed distance.
        """
        shift, copies = self._moved(d_in)
        if copies == 0:
            return 0.0, 0.0
        if shift == self._moved(self.d_in)[0] and copies == self.design.copies:
            return self.epsilon, self.delta
        each = _point(self.table, self.design.delta, shift)
        epsilon, delta = self.design.total(*each, copies)
        return min(self.epsilon, epsilon), min(self.delta, delta)

    def curve(self, d_in: Any) -> Callable[[float], float]:
        """Return the privacy profile at a distance, epsilon -> delta, rounded up."""
        shift, copies = self._moved(d_in)

        def delta_of(epsilon: float) -> float:
            if not epsilon >= 0:
                raise ValueError("epsilon must be a number that is at least 0")
            if copies == 0:
                return 0.0
            each = self.design.share(min(epsilon, LARGEST_EPSILON), copies)
            delta = self.table.delta_at(each, shift)
            return self.design.total(each, delta, copies)[1]

        return delta_of

    def _moved(self, d_in: Any) -> tuple[Any, int]:
        """Return the table's shift at a distance, and the number of releases or steps."""
        distance = self.space.distance(d_in)
        if d_in > self.d_in:
            raise ValueError(
                f"d_in ({d_in!r}) must be at most {self.d_in!r}, the distance this was designed for"
            )
        if distance == 0:
            return 0, 0
        if self.design.argument == "steps":
            return 1, self.space.unit_steps(d_in)
        copies = 1
        if self.design.argument == "composition":
            copies = coordinates(self.space, d_in, self.changed) or 1
        if self.table.kind == "integer":
            return int(distance), copies
        return self.grid.shift(distance), copies


LARGEST_EPSILON = 60.0
"""Profiles are evaluated up to here; delta never grows beyond."""


@lru_cache(maxsize=4096)
def _point(table: NoiseTable, delta: float, shift: int | Fraction) -> tuple[float, float]:
    epsilon = table.epsilon_at(delta, shift)
    # With epsilon at 0 there may be delta to give back.
    return epsilon, (min(delta, table.delta_at(0.0, shift)) if epsilon == 0 else delta)

"""Why a table is enough for a space, and the privacy map that follows.

Four arguments are known here; a space that fits none of them is refused.

*scalar*
    One number that moves by at most ``d_in``: the table's own guarantee.

*single*
    A vector of which one coordinate moves, by at most ``d_in``. The noises of the others are
    independent of the data, so the pair of outputs is that of one coordinate.

*composition*
    A vector of which at most ``changed`` coordinates move, each by at most ``d_in`` (true of every
    one of the l1, l2 and linf distances). The outputs are ``changed`` independent releases: basic
    composition, each with its share of epsilon and delta.

*steps*
    Integer vectors at l1 distance n are joined by n steps of size 1 in single coordinates. Each
    step is (e, d)-private, so n of them are (n e, d (exp(n e) - 1) / (exp(e) - 1))-private (group
    privacy).

Beyond the distance it was designed for, a release is as private as group privacy says: values that
are further apart are joined by hops of that distance. Where a caller promised how many coordinates
change, each hop changes as many. Floats get noise for a distance that is larger than ``d_in`` by a
part of ``2**-16``: the sensitivity that a pipeline states is often a little above the number that
was in somebody's mind, and no comparison here has a tolerance.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from opendp_optimal.budget.events import Profile
from opendp_optimal.exact.numbers import BITS, exp_bounds, float_down, float_up
from opendp_optimal.known.law import Tabulated
from opendp_optimal.measure.release import Grid, releaser
from opendp_optimal.measure.space import Space
from opendp_optimal.table import NoiseTable


@dataclass(frozen=True)
class Design:
    """What one coordinate's table must satisfy, and why that is enough.

    ``epsilon`` and ``delta`` are the table's target, ``sensitivity`` the largest move of one
    coordinate that it must hide, ``copies`` the number of coordinates (*composition*) or steps
    (*steps*).
    """

    argument: str
    epsilon: float
    delta: float
    sensitivity: Fraction
    copies: int = 1

    def total(self, epsilon: float, delta: float, copies: int) -> tuple[float, float]:
        """Return what ``copies`` releases or steps of (epsilon, delta) amount to, rounded up."""
        if copies == 1 or self.argument == "steps":
            return group(epsilon, delta, copies)
        return float_up(copies * Fraction(epsilon)), min(1.0, float_up(copies * Fraction(delta)))


def design_for(
    space: Space, d_in: Any, epsilon: float, delta: float, changed: int | None = None
) -> Design:
    """Choose the argument that proves (epsilon, delta) at ``d_in``, and the target of its table.

    :param space: the checked domain and metric.
    :param d_in: the distance to design for.
    :param epsilon: privacy loss of the whole release.
    :param delta: probability of a larger loss, of the whole release.
    :param changed: the most coordinates that can differ between neighbours, where known.
    :raises ValueError: where no argument applies.

    >>> histogram = Space("i32", "l1", 10)
    >>> design_for(histogram, 1, 1.0, 1e-6).argument
    'single'
    >>> design_for(histogram, 2, 1.0, 1e-6).argument
    'steps'
    """
    distance = designed_distance(space, d_in)
    if not space.vector:
        if changed is not None:
            raise ValueError(f"changed ({changed!r}) is for vectors; the input domain is scalar")
        return Design("scalar", epsilon, delta, distance)

    moved = coordinates(space, d_in, changed)
    if moved is None:
        raise ValueError(
            f"input_metric: no proof is known for {space.norm} vectors of {space.carrier} at "
            f"d_in ({d_in!r}) without a bound on how many coordinates differ: pass changed="
        )
    if moved == 1:
        return Design("single", epsilon, delta, distance)
    if space.integer and space.norm != "linf":
        count = space.unit_steps(d_in)
        each = float_down(Fraction(epsilon) / count)
        sum_up = geometric_up(each, count)
        return Design("steps", each, float_down(Fraction(delta) / sum_up), Fraction(1), count)
    return Design(
        "composition",
        float_down(Fraction(epsilon) / moved),
        float_down(Fraction(delta) / moved),
        distance,
        moved,
    )


MARGIN = Fraction(1, 2**16)
"""Noise on floats hides changes that are larger than ``d_in`` by this part of it."""


def designed_distance(space: Space, d_in: Any) -> Fraction:
    """Return the largest distance that noise designed for ``d_in`` hides at its price.

    :param space: integers move by whole steps: there the distance is ``d_in``, rounded down.
    :param d_in: the distance to design for.
    :raises ValueError: if nothing can change.

    >>> float(designed_distance(Space("f64", "absolute"), 100.0))
    100.00152587890625
    """
    distance = space.distance(d_in)
    if distance == 0:
        least = "at least 1 for integer data" if space.integer else "greater than 0"
        raise ValueError(f"d_in ({d_in!r}) must be {least}")
    if space.integer:
        return distance
    if space.carrier == "f32":  # OpenDP hands distances over as floats of the data's type
        near = np.float32(d_in)
        distance = max(distance, Fraction(float(near))) if np.isfinite(near) else distance
    wide = distance * (1 + MARGIN)
    return wide if wide > sys.float_info.max else Fraction(float_up(wide))


def coordinates(space: Space, d_in: Any, changed: int | None) -> int | None:
    """Return how many coordinates can differ at ``d_in``; None if nothing bounds them."""
    if changed is not None and (
        isinstance(changed, bool) or not isinstance(changed, int) or changed < 1
    ):
        raise ValueError(f"changed ({changed!r}) must be an integer that is at least 1")
    bounds = [b for b in (changed, space.size) if b is not None]
    if space.integer and space.norm != "linf":
        bounds.append(space.unit_steps(d_in))
    return max(1, min(bounds)) if bounds else None  # 1 for vectors without coordinates, too


def proved(space: Space, d_in: Any, changed: int) -> bool:
    """Whether domain and metric alone show that no more than ``changed`` coordinates differ.

    >>> proved(Space("i32", "l1"), 2, 2), proved(Space("f64", "l1"), 2.0, 2)
    (True, False)
    """
    bound = coordinates(space, d_in, None)
    return bound is not None and bound <= changed


def geometric_up(epsilon: float, count: int) -> Fraction:
    """Return an upper bound on the sum of exp(i * epsilon) over i < count."""
    one = 1 << BITS
    total = float_up(count * Fraction(epsilon))
    if total > LARGEST_EPSILON:
        # No delta is below 2**-1074: from 2**1100 on, all that matters is that it is large.
        power = math.ceil(min(1.5 * total, 1100.0))  # e < 2**1.5
        return count * Fraction(2) ** power
    low, _ = exp_bounds(epsilon)
    _, high = exp_bounds(total)
    if low > one:
        return Fraction(high - one, low - one)
    return Fraction(high, one) * count  # epsilon is 0, or too small to tell from it


@dataclass(frozen=True)
class Guarantee:
    """The exact privacy of a release, for every distance.

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

        ``d_out`` from the designed distance on, up to a little more; group privacy beyond.
        """
        shift, copies, hops = self._moved(d_in)
        if copies == 0:
            return 0.0, 0.0
        if hops > 1:
            return group(self.epsilon, self.delta, hops)
        if copies > self.design.copies:
            return self.design.total(self.design.epsilon, self.design.delta, copies)
        whole = self.space.distance(d_in) >= self.space.distance(self.d_in)
        if whole and copies == self.design.copies:
            return self.epsilon, self.delta
        each = _point(self.table, self.design.delta, shift)
        epsilon, delta = self.design.total(*each, copies)
        return min(self.epsilon, epsilon), min(self.delta, delta)

    def curve(self, d_in: Any) -> Callable[[float], float]:
        """Return the privacy profile at a distance, epsilon -> delta, rounded up."""
        shift, copies, hops = self._moved(d_in)

        def delta_of(epsilon: float) -> float:
            if not epsilon >= 0:
                raise ValueError("epsilon must be a number that is at least 0")
            if copies == 0:
                return 0.0
            hop = float_down(Fraction(min(epsilon, LARGEST_EPSILON * hops)) / hops)
            each = float_down(Fraction(hop) / copies)
            delta = self.table.delta_at(each, shift)
            return group(hop, self.design.total(each, delta, copies)[1], hops)[1]

        return delta_of

    def event(self, d_in: Any = None) -> Profile:
        """Return what a release is at a distance; at the designed one by default."""
        distance = self.d_in if d_in is None else d_in
        work = self.table.weights.size
        return Profile(*self.pair(distance), self, distance, self.curve(distance), work)

    def law(self) -> Tabulated:
        """The distribution of the noise on each number."""
        law = self.table.law(float(self.design.sensitivity))
        return law.rounded() if self.space.integer else law

    def release(self) -> Callable[[Any], Any]:
        """The function that adds the noise to data of the space."""
        return releaser(self.space, self.table.draw, self.grid)

    def _moved(self, d_in: Any) -> tuple[Any, int, int]:
        """Return the table's shift at a distance, the releases or steps, and the hops of those."""
        distance = self.space.distance(d_in)
        if distance == 0:
            return 0, 0, 1
        if self.design.argument == "steps":
            return 1, self.space.unit_steps(d_in), 1
        if distance > self.design.sensitivity or self._unit_hops(d_in) > 1:
            hops = max(2, math.ceil(distance / self.design.sensitivity), self._unit_hops(d_in))
            return None, self.design.copies, hops
        copies = 1
        if self.design.argument == "composition":
            copies = coordinates(self.space, d_in, self.changed) or 1
        if self.table.kind == "integer":
            return int(distance), copies, 1
        return self.grid.shift(distance), copies, 1

    def _unit_hops(self, d_in: Any) -> int:
        """The hops where one coordinate moves by 1, for the reason that so does the vector."""
        single = self.design.argument == "single" and self.space.size != 1
        if single and self.changed != 1 and self.space.integer and self.space.norm != "linf":
            return self.space.unit_steps(d_in)
        return 1


def group(epsilon: float, delta: float, hops: int) -> tuple[float, float]:
    """Return what group privacy says of a number of hops of (epsilon, delta), rounded up.

    >>> group(0.5, 0.0, 3)
    (1.5, 0.0)
    """
    if hops == 1:
        return epsilon, delta
    total = float_up(Fraction(delta) * geometric_up(epsilon, hops)) if delta else 0.0
    return float_up(hops * Fraction(epsilon)), min(1.0, total)


def step_delta(epsilon: float, delta: float, steps: int) -> float:
    """A delta such that so many steps of (epsilon, delta) have the delta of all.

    :param epsilon: of a step
    :param delta: of all steps
    :param steps: how many

    >>> group(0.5, step_delta(0.5, 1e-6, 3), 3)[1] <= 1e-6
    True
    """
    if steps == 1 or delta == 0:
        return delta
    each = float_down(Fraction(delta) / geometric_up(epsilon, steps))
    while each > 0 and group(epsilon, each, steps)[1] > delta:
        each *= 1 - 1e-9
    return each


LARGEST_EPSILON = 60.0
"""Profiles are evaluated up to here; delta never grows beyond."""


@lru_cache(maxsize=4096)
def _point(table: NoiseTable, delta: float, shift: int | Fraction) -> tuple[float, float]:
    epsilon = table.epsilon_at(delta, shift)
    # With epsilon at 0 there may be delta to give back.
    return epsilon, (min(delta, table.delta_at(0.0, shift)) if epsilon == 0 else delta)

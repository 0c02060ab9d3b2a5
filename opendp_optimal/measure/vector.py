"""Noise for vectors under the l1, l2 and linf distances: the best of what can be proved.

Candidates are noise in a norm and Laplace noise (:mod:`~opendp_optimal.measure.vector_noise`), and
where few coordinates move a scalar table for each (:mod:`~opendp_optimal.measure.guarantee`).

The least expected sum of losses over all coordinates wins. Where the domain does not fix the
length, vectors of each length get a design of their own when the first of them is released: the
length is not private in the metrics of OpenDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from opendp_optimal.budget.events import Profile
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.known import Law, expected_loss
from opendp_optimal.losses.base import Loss
from opendp_optimal.measure.guarantee import (
    LARGEST_EPSILON,
    MARGIN,
    Design,
    coordinates,
    design_for,
)
from opendp_optimal.measure.release import releaser
from opendp_optimal.measure.space import DTYPES, Space, distance_of
from opendp_optimal.measure.vector_noise import VectorNoise, best_noise, grouped, pure_delta
from opendp_optimal.problem.noise import MIN_EPSILON
from opendp_optimal.table.radial import RadialTable

_WORTH_TRYING = 1.5
"""How much better scalar tables may be than pure noise in closed form."""


@dataclass(frozen=True)
class VectorGuarantee:
    """The exact privacy of a release of vectors.

    :param space: of the vectors
    :param d_in: the distance that it was asked for
    :param distance: that it is designed for: for floats a little more
    :param epsilon: privacy loss there
    :param delta: probability of a larger loss there
    :param power: of the loss that was minimised
    :param cache: whether tables are kept on disk
    """

    space: Space
    d_in: Any
    distance: Fraction
    epsilon: float
    delta: float
    power: int
    cache: bool = field(default=True, compare=False)

    def noise(self, size: int) -> VectorNoise:
        """The noise for vectors of a length."""
        return best_noise(
            self.space, size, self.distance, self.epsilon, self.delta, self.power, self.cache
        )

    @cached_property
    def only(self) -> VectorNoise | None:
        """The noise, where the domain fixes the length."""
        return None if not self.space.size else self.noise(self.space.size)

    @property
    def table(self) -> RadialTable | None:
        """The table that is drawn from, where there is one for all vectors."""
        return None if self.only is None else self.only.table

    @property
    def chosen(self) -> str:
        """Which noise won."""
        return "by length" if self.only is None else self.only.name

    @property
    def expected_loss(self) -> float | None:
        """Expected loss, summed over coordinates, where the domain fixes the length."""
        return None if self.only is None else self.only.expected

    def pair(self, d_in: Any) -> tuple[float, float]:
        """Return (epsilon, delta) at a distance; beyond the designed one by group privacy."""
        distance = self.space.distance(d_in) if self.space.norm != "l2" else distance_of(d_in)
        if distance == 0:
            return 0.0, 0.0
        if distance == self.distance:
            return self.epsilon, self.delta
        noise, within = self.only, distance < self.distance
        if noise is not None and noise.table is None:  # Laplace noise hides a shorter move better
            epsilon = float_up(Fraction(noise.rate) * noise.moved(self.space, distance))
            return (min(self.epsilon, epsilon) if within else epsilon), 0.0
        if within:
            return self.epsilon, self.delta
        groups = math.ceil(distance / self.distance)
        if noise is None and self.space.integer and self.space.norm == "l2":
            # On the way there may be no integers: then so many single steps at a time.
            groups = math.ceil(Fraction(math.floor(distance**2), math.floor(self.distance)))
        return grouped(self.epsilon, self.delta, groups)

    def curve(self, d_in: Any) -> Callable[[float], float]:
        """Return the privacy profile at a distance, epsilon -> delta, rounded up."""
        stated, delta = self.pair(d_in)
        noise = self.only
        distance = Fraction(d_in)
        inside = 0 < distance <= self.distance

        def delta_of(epsilon: float) -> float:
            if not epsilon >= 0:
                raise ValueError("epsilon must be a number that is at least 0")
            if distance == 0:
                return 0.0
            known = delta if epsilon >= stated else 1.0
            if delta == 0 and stated < LARGEST_EPSILON:
                known = min(known, pure_delta(Fraction(stated), epsilon))
            if not inside or noise is None:
                return known
            share = noise.share(self.space, distance)
            return min(known, noise.delta_at(min(epsilon, LARGEST_EPSILON), share))

        return delta_of

    def event(self, d_in: Any = None) -> Profile:
        """Return what a release is at a distance; at the designed one by default."""
        distance = self.d_in if d_in is None else d_in
        return Profile(*self.pair(distance), self, distance, self.curve(distance), _WORK)

    def law(self) -> Law | None:
        """The law of each number's noise, where the domain fixes the length."""
        return None if self.only is None else self.only.coordinate(integer=self.space.integer)

    def release(self) -> Callable[[Any], Any]:
        """The function that adds the noise to vectors of the space."""
        ready: dict[int, Callable[[Any], Any]] = {}
        empty = np.empty(0, DTYPES[self.space.carrier])

        def function(data: Any) -> Any:
            size = self.space.size if self.space.size is not None else len(data)
            if size == 0:
                return empty
            if size not in ready:
                noise = self.noise(size)
                ready[size] = releaser(self.space, noise.draw, noise.grid)
            return ready[size](data)

        return function


_WORK = 1 << 16
"""A point of the profile takes a proof with integrals."""


def vector_guarantee(
    space: Space,
    d_in: Any,
    epsilon: float,
    delta: float,
    loss: Loss,
    changed: int | None,
    cache: bool,
    scalar: Callable[[Design], float],
) -> VectorGuarantee | None:
    """The guarantee of the best noise for vectors; None where scalar tables are better.

    :param space: a space of vectors
    :param d_in: the distance to design for
    :param epsilon: privacy loss of the whole release
    :param delta: probability of a larger loss
    :param loss: that is minimised; its power counts
    :param changed: the most coordinates that can differ between neighbours, where known
    :param cache: whether tables are kept on disk
    :param scalar: the expected loss of one coordinate with a table for a design
    """
    exact = distance_of(d_in)
    if exact == 0 or (space.integer and space.norm != "l2" and exact < 1):
        return None  # refused where scalars are
    moved = coordinates(space, d_in, changed)
    if moved == 1 or epsilon == 0:
        return None
    if space.integer and space.norm != "l2":
        distance = Fraction(math.floor(exact))
    else:
        distance = exact if space.integer else Fraction(float_up(exact * (1 + MARGIN)))
    power = int(loss.power) or 1
    guarantee = VectorGuarantee(space, d_in, distance, epsilon, delta, power, cache)
    noise = guarantee.only
    if moved is None or (changed is None and not (space.integer and space.norm == "l1")):
        return guarantee
    design = design_for(space, d_in, epsilon, delta, changed)
    if design.epsilon < MIN_EPSILON:
        return guarantee
    if noise is None:  # the same tables for vectors of every length
        return None
    unit = float(design.sensitivity)
    each = expected_loss("staircase", design.epsilon, 0.0, f"l{power}", unit=unit)
    if noise.size * each > _WORTH_TRYING * noise.expected:
        return guarantee
    return None if noise.size * scalar(design) < noise.expected else guarantee

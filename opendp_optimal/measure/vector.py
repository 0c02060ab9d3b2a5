"""Noise for vectors under the l1, l2 and linf distances: the best of what can be proved.

Candidates, each proved for the distance of the data:

* radial noise in the norm of the distance, or in the l2 norm (:mod:`~opendp_optimal.table.radial`):
  staircases, and with a delta exp(-c r - k r^2), which has Gaussian noise as one end;
* Laplace noise on the l1 distance, which is at most sqrt(length) times the l2 distance and
  length times the linf distance;
* a scalar table for each coordinate, where few coordinates move
  (:mod:`~opendp_optimal.measure.guarantee`).

The least expected sum of losses over all coordinates wins. Where the domain does not fix the
length, vectors of each length get a design of their own when the first of them is released: the
length is not private in the metrics of OpenDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.budget.events import Profile
from opendp_optimal.errors import SolverError
from opendp_optimal.exact.numbers import exp_down, exp_up, float_down, float_up
from opendp_optimal.known import Geometric, expected_loss
from opendp_optimal.losses.base import Loss
from opendp_optimal.measure.guarantee import Design, coordinates, design_for
from opendp_optimal.measure.release import Grid, releaser
from opendp_optimal.measure.space import Space
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON
from opendp_optimal.sample.balls import LARGEST_RADIUS
from opendp_optimal.sample.integers import laplace_integers
from opendp_optimal.search.radial import solve_radial
from opendp_optimal.table.radial import RadialTable

__all__ = ["VectorGuarantee", "VectorNoise", "best_noise", "vector_guarantee"]

LONGEST_DOMAIN = 1 << 20
"""Longer vectors get Laplace noise or scalar tables."""
_MARGIN = Fraction(1, 1 << 16)
"""Floats are designed for a distance larger by this part."""
_SPARE = 1 << 16
"""Grid steps in a lattice unit of a staircase, so that rounding up costs nothing to speak of."""
_LAPLACE_STEPS = 1 << 24
"""Grid steps in the scale of Laplace noise, at least."""
_LARGEST_EPSILON = 60.0
_WORTH_TRYING = 1.5
"""How much better scalar tables may be than pure noise in closed form."""


@dataclass(frozen=True)
class VectorNoise:
    """Noise for vectors of one length, on a grid.

    :param name: what it is, for people
    :param size: length of the vectors
    :param grid: what data is rounded to
    :param reach: of the data's move in the noise's norm, in grid steps
    :param expected: loss, summed over coordinates, in the units of the data
    :param table: radial noise; None for Laplace noise
    :param rate: of Laplace noise, for each grid step of the l1 distance
    """

    name: str
    size: int
    grid: Grid
    reach: int
    expected: float
    table: RadialTable | None = None
    rate: float = 0.0

    def draw(self, size: int, steps: int = 1) -> Integers:
        """The noise of one vector, in grid steps."""
        assert (size, steps) == (self.size, 1)
        drawn: Integers = self.vectors(1)[0]
        return drawn

    def vectors(self, count: int) -> Integers:
        """The noise of so many vectors, in grid steps."""
        if self.table is None:
            return laplace_integers(self.rate, count * self.size).reshape(count, self.size)
        return self.table.draw(count, self.reach)

    def delta_at(self, epsilon: float, share: Fraction) -> float:
        """A delta that is enough for an epsilon, at a part of the designed distance."""
        if self.table is not None:
            return self.table.delta_at(epsilon, share)
        return _pure_delta(Fraction(self.rate) * share * self.reach, epsilon)

    @property
    def norm(self) -> str:
        """That moves are measured in."""
        return "l1" if self.table is None else self.table.norm

    def share(self, space: Space, distance: Fraction) -> Fraction:
        """A distance between vectors of a space as a part of what the noise hides."""
        moved = _grid_reach(space, self.size, distance, self.grid.bits, self.norm)
        return min(Fraction(1), Fraction(moved, self.reach))


def _pure_delta(pure: Fraction, epsilon: float) -> float:
    """What is left at an epsilon of a release that is purely private."""
    if epsilon >= pure:
        return 0.0
    shortfall = (exp_up(pure) - exp_down(Fraction(epsilon))) / (1 + exp_down(pure))
    return min(1.0, float_up(shortfall))


def _root_up(value: Fraction, size: int) -> Fraction:
    """A number times the root of a length, rounded up."""
    square = value * value * size
    scaled = (square.numerator << 80) // square.denominator
    return Fraction(math.isqrt(scaled) + 1, 1 << 40)


def _grid_reach(space: Space, size: int, distance: Fraction, bits: int, norm: str) -> int:
    """How far vectors move on the grid of multiples of 2^-bits, in a norm, in grid steps."""
    moved = distance * Fraction(2) ** bits
    exact = space.integer and bits >= 0
    # Rounding moves each coordinate by up to a step more.
    if norm == space.norm:
        extra = {"l1": Fraction(size), "l2": _root_up(Fraction(1), size), "linf": Fraction(1)}
        return math.ceil(moved + (0 if exact else extra[norm]))
    if norm == "l2":
        whole = _root_up(moved, size) if space.norm == "linf" else moved
        return math.ceil(whole + (0 if exact else _root_up(Fraction(1), size)))
    whole = size * moved if space.norm == "linf" else _root_up(moved, size)
    if exact and space.norm == "l2":
        # Coordinates that move, move by 1 at least: their sum is at most that of their squares.
        whole = min(whole, Fraction(math.floor(distance**2)) * Fraction(2) ** bits)
    return math.ceil(whole + (0 if exact else size))


def _bits(distance: Fraction, steps: int) -> int:
    """The coarsest power of two with at least so many grid steps in a distance."""
    bits = math.ceil(math.log2(steps)) - math.floor(_log2(distance))
    while distance * Fraction(2) ** (bits - 1) >= steps:
        bits -= 1
    return bits


def _log2(value: Fraction) -> float:
    return math.log2(value.numerator) - math.log2(value.denominator)


def _radial(space: Space, size: int, distance: Fraction, table: RadialTable) -> VectorNoise | None:
    if table.kind == "integer":
        reach = table.problem.integer_sensitivity or 1
        return VectorNoise(_name(table), size, Grid(0, 0, 1, reach), reach, table.upper, table)
    lattice = getattr(table.law, "step", 1)
    least = max(table.least_grid, lattice * _SPARE if lattice > 1 else 0)
    bits = _bits(distance, least)
    if space.integer and _fits(table, _grid_reach(space, size, distance, max(bits, 0), table.norm)):
        bits = max(bits, 0)
    reach = _grid_reach(space, size, distance, bits, table.norm)
    reach = -(-reach // lattice) * lattice
    if not _fits(table, reach):
        return None
    unit = float(Fraction(reach) / Fraction(2) ** bits)
    power = table.problem.power
    expected = table.upper * unit**power
    if space.integer:
        expected = _rounded_loss(expected, size, power)
    return VectorNoise(_name(table), size, Grid(bits, 0, 1, reach), reach, expected, table)


def _fits(table: RadialTable, reach: int) -> bool:
    """Whether radii stay where they can be drawn."""
    far = 4.0 * (table.size + 8 * math.sqrt(table.size) + 40) / table.epsilon + 4
    return reach <= 1 << 42 and reach * far < LARGEST_RADIUS


def _rounded_loss(expected: float, size: int, power: int) -> float:
    """The loss after real noise was rounded to integers."""
    if power == 2:
        return expected + size / 12
    return expected + size / (12 * max(1.0, expected / size))


def _name(table: RadialTable) -> str:
    shapes = {"staircase": "staircase", "decay": "exponential decay", "gaussian": "Gaussian noise"}
    return f"{shapes[table.shape]} in the {table.norm} norm"


def _laplace(
    space: Space, size: int, distance: Fraction, epsilon: float, power: int
) -> VectorNoise:
    """Laplace noise on the l1 distance."""
    factor = {"l1": 1.0, "l2": math.sqrt(size), "linf": float(size)}[space.norm]
    steps = max(1, math.ceil(_LAPLACE_STEPS * epsilon / factor))
    bits = _bits(distance, steps) if not space.integer else 0
    while space.integer and _grid_reach(space, size, distance, bits, "l1") / epsilon > 1 << 27:
        bits -= 1
    reach = _grid_reach(space, size, distance, bits, "l1")
    rate = float_down(Fraction(epsilon) / reach)
    loss = size * Geometric(rate).moment(power) * 2.0 ** (-bits * power)
    return VectorNoise("Laplace noise", size, Grid(bits, 0, 1, reach), reach, loss, None, rate)


@lru_cache(maxsize=1024)
def best_noise(
    space: Space,
    size: int,
    distance: Fraction,
    epsilon: float,
    delta: float,
    power: int,
    cache: bool = True,
) -> VectorNoise:
    """The noise of least expected loss for vectors of a length.

    :param space: of the vectors
    :param size: their length, at least 1
    :param distance: between neighbours, in the metric of the space
    :param epsilon: privacy loss
    :param delta: probability of a larger loss
    :param power: of the loss: 1 or 2
    :param cache: whether tables are kept on disk
    """
    found = [_laplace(space, size, distance, epsilon, power)]
    wanted: list[tuple[str, int | None]] = [(space.norm, None)]
    if space.norm != "l2":
        wanted.append(("l2", None))
    if space.integer and space.norm == "linf" and distance <= 1 << 30:
        wanted.append(("linf", int(distance)))
    if size > LONGEST_DOMAIN or epsilon < MIN_EPSILON:
        wanted = []
    # Noise that is more private than asked for will do.
    epsilon, delta = min(epsilon, MAX_EPSILON), delta if delta >= MIN_DELTA else 0.0
    for norm, whole in wanted:
        try:
            table = solve_radial(
                epsilon,
                delta,
                size,
                norm=norm,
                loss=f"l{power}",
                integer_sensitivity=whole,
                cache=cache,
            )
        except SolverError:
            continue
        noise = _radial(space, size, distance, table)
        if noise is not None:
            found.append(noise)
    return min(found, key=lambda noise: noise.expected)


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
        distance = self.space.distance(d_in) if self.space.norm != "l2" else _exactly(d_in)
        if distance == 0:
            return 0.0, 0.0
        if distance <= self.distance:
            return self._within(distance)
        groups = math.ceil(distance / self.distance)
        epsilon = float_up(groups * Fraction(self.epsilon))
        if self.delta == 0:
            return epsilon, 0.0
        if epsilon > _LARGEST_EPSILON:
            return epsilon, 1.0
        one = Fraction(self.epsilon)
        spread = (exp_up(groups * one) - 1) / (exp_down(one) - 1)
        return epsilon, min(1.0, float_up(Fraction(self.delta) * spread))

    def _within(self, distance: Fraction) -> tuple[float, float]:
        """Laplace noise hides a shorter move better; of others nothing is claimed."""
        noise = self.only
        if noise is None or noise.table is not None or distance == self.distance:
            return self.epsilon, self.delta
        moved = noise.share(self.space, distance) * noise.reach
        return min(self.epsilon, float_up(Fraction(noise.rate) * moved)), 0.0

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
            if delta == 0 and stated < _LARGEST_EPSILON:
                known = min(known, _pure_delta(Fraction(stated), epsilon))
            if not inside or noise is None:
                return known
            share = noise.share(self.space, distance)
            return min(known, noise.delta_at(min(epsilon, _LARGEST_EPSILON), share))

        return delta_of

    def event(self, d_in: Any = None) -> Profile:
        """Return what a release is at a distance; at the designed one by default."""
        distance = self.d_in if d_in is None else d_in
        return Profile(*self.pair(distance), self, distance, self.curve(distance), _WORK)

    def law(self) -> None:
        """There is no law of noise on one number."""
        return None

    def release(self) -> Callable[[Any], Any]:
        """The function that adds the noise to vectors of the space."""
        ready: dict[int, Callable[[Any], Any]] = {}
        empty = np.empty(0, _dtype(self.space.carrier))

        def function(data: Any) -> Any:
            size = self.space.size if self.space.size is not None else len(data)
            if size == 0:
                return empty
            if size not in ready:
                noise = self.noise(size)
                ready[size] = releaser(self.space, noise, noise.grid)  # type: ignore[arg-type]
            return ready[size](data)

        return function


_WORK = 1 << 16
"""A point of the profile takes a proof with integrals."""


def _dtype(carrier: str) -> Any:
    names = {"f32": np.float32, "f64": np.float64, "usize": np.uint64}
    if carrier in names:
        return names[carrier]
    return np.dtype({"i": "int", "u": "uint"}[carrier[0]] + carrier[1:])


def _exactly(d_in: Any) -> Fraction:
    if isinstance(d_in, bool) or not isinstance(d_in, (int, float, Fraction)):
        raise ValueError(f"d_in ({d_in!r}) must be a number")
    if not math.isfinite(d_in) or d_in < 0:
        raise ValueError(f"d_in ({d_in!r}) must be finite and not negative")
    return Fraction(d_in)


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
    exact = _exactly(d_in)
    if exact == 0 or (space.integer and space.norm != "l2" and exact < 1):
        return None  # refused where scalars are
    moved = coordinates(space, d_in, changed)
    if moved == 1 or epsilon == 0:
        return None
    if space.integer and space.norm != "l2":
        distance = Fraction(math.floor(exact))
    else:
        distance = exact if space.integer else Fraction(float_up(exact * (1 + _MARGIN)))
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

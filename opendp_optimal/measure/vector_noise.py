"""Which noise for vectors of one length has the least expected loss, on its grid.

Candidates, each proved for the distance of the data:

* radial noise in the norm of the distance, or in the l2 norm (:mod:`~opendp_optimal.table.radial`):
  staircases, and with a delta exp(-c r - k r^2), which has Gaussian noise as one end, or steps;
* Laplace noise on the l1 distance, which is at most sqrt(length) times the l2 distance and
  length times the linf distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from opendp_optimal.arrays import Integers
from opendp_optimal.errors import SolverError
from opendp_optimal.exact.numbers import exp_down, exp_up, float_down, float_up
from opendp_optimal.known import Geometric, Laplace, Law
from opendp_optimal.known.coordinate import rounded_moment
from opendp_optimal.measure.guarantee import LARGEST_EPSILON
from opendp_optimal.measure.release import Grid
from opendp_optimal.measure.space import Space
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON
from opendp_optimal.sample.integers import laplace_integers
from opendp_optimal.search.radial import solve_radial
from opendp_optimal.table.radial import RadialTable

LONGEST_DOMAIN = 1 << 20
"""Longer vectors get Laplace noise or scalar tables."""
_SPARE = 1 << 16
"""Grid steps in a lattice unit of a staircase, so that rounding up costs nothing to speak of."""
_LAPLACE_STEPS = 1 << 24
"""Grid steps in the scale of Laplace noise, at least."""


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
        return pure_delta(Fraction(self.rate) * share * self.reach, epsilon)

    def coordinate(self, *, integer: bool) -> Law:
        """The law of each number's noise, in the units of the data.

        :param integer: whether what is released is rounded to integers
        """
        grid = 2.0**-self.grid.bits
        if self.table is None:
            return Geometric(self.rate / grid) if integer else Laplace(self.rate / grid)
        if self.table.kind == "integer":
            return self.table.coordinate()
        law = self.table.coordinate(self.reach * grid)
        return law.rounded() if integer else law

    @property
    def norm(self) -> str:
        """That moves are measured in."""
        return "l1" if self.table is None else self.table.norm

    def share(self, space: Space, distance: Fraction) -> Fraction:
        """A distance between vectors of a space as a part of what the noise hides."""
        return min(Fraction(1), Fraction(self.moved(space, distance), self.reach))

    def moved(self, space: Space, distance: Fraction) -> int:
        """How far a distance between vectors of a space is in the noise's norm, in grid steps."""
        return _grid_reach(space, self.size, distance, self.grid.bits, self.norm)


def pure_delta(pure: Fraction, epsilon: float) -> float:
    """What is left at an epsilon of a release that is purely private."""
    if epsilon >= pure:
        return 0.0
    shortfall = (exp_up(pure) - exp_down(Fraction(epsilon))) / (1 + exp_down(pure))
    return min(1.0, float_up(shortfall))


def grouped(epsilon: float, delta: float, times: int) -> tuple[float, float]:
    """What a change of so many times a distance costs that alone costs (epsilon, delta)."""
    if times <= 1:
        return (epsilon, delta) if times else (0.0, 0.0)
    total = float_up(times * Fraction(epsilon))
    if delta == 0 or total > LARGEST_EPSILON:
        return total, 1.0 if delta else 0.0
    one = Fraction(epsilon)
    spread = (exp_up(times * one) - 1) / (exp_down(one) - 1)
    return total, min(1.0, float_up(Fraction(delta) * spread))


def root_up(value: Fraction, size: int) -> Fraction:
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
        extra = {"l1": Fraction(size), "l2": root_up(Fraction(1), size), "linf": Fraction(1)}
        return math.ceil(moved + (0 if exact else extra[norm]))
    if norm == "l2":
        whole = root_up(moved, size) if space.norm == "linf" else moved
        return math.ceil(whole + (0 if exact else root_up(Fraction(1), size)))
    whole = size * moved if space.norm == "linf" else root_up(moved, size)
    if exact and space.norm == "l2":
        # Coordinates that move, move by 1 at least: their sum is at most that of their squares.
        whole = min(whole, Fraction(math.floor(distance**2)) * Fraction(2) ** bits)
    return math.ceil(whole + (0 if exact else size))


def _bits(distance: Fraction, steps: int) -> int:
    """The coarsest power of two with at least so many grid steps in a distance."""
    magnitude = math.log2(distance.numerator) - math.log2(distance.denominator)
    bits = math.ceil(math.log2(steps)) - math.floor(magnitude)
    while distance * Fraction(2) ** (bits - 1) >= steps:
        bits -= 1
    return bits


def _radial(space: Space, size: int, distance: Fraction, table: RadialTable) -> VectorNoise | None:
    if table.kind == "integer":
        reach = table.problem.integer_sensitivity or 1
        return VectorNoise(_name(table), size, Grid(0, 0, 1, reach), reach, table.upper, table)
    lattice = getattr(table.law, "step", 1)
    least = max(table.least_grid, lattice * _SPARE if lattice > 1 else 0)
    across = space.norm == "linf" and table.norm == "l2"
    bits = _bits(root_up(distance, size) if across else distance, least)
    if space.integer and bits < 0:
        exact = _grid_reach(space, size, distance, 0, table.norm)
        bits = 0 if exact <= table.most_grid - lattice else bits
    reach = _grid_reach(space, size, distance, bits, table.norm)
    reach = -(-reach // lattice) * lattice
    if not table.least_grid <= reach <= table.most_grid:
        return None
    unit = float(Fraction(reach) / Fraction(2) ** bits)
    power = table.problem.power
    expected = table.upper * unit**power
    if space.integer:
        expected = size * rounded_moment(lambda x: table.beyond(x / unit), expected / size, power)
    return VectorNoise(_name(table), size, Grid(bits, 0, 1, reach), reach, expected, table)


def _name(table: RadialTable) -> str:
    shapes = {"decay": "exponential decay", "gaussian": "Gaussian noise"}
    return f"{shapes.get(table.shape, table.shape)} in the {table.norm} norm"


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
                bound=False,
                cache=cache,
            )
        except SolverError:
            continue
        noise = _radial(space, size, distance, table)
        if noise is not None:
            found.append(noise)
    return min(found, key=lambda noise: noise.expected)

"""Noise for several answers at once: candidates, and which of them has the least loss.

A change of the data moves answer i by at most D_i, all at once. Each answer is put on a grid of its
own with the same number of steps in D_i. On the grids the answers together are one vector of
integers, and noise in a norm hides it. Candidates are

* a ball in which every answer keeps its own norm: its points are points of a ball for each answer,
  of one radius, and the staircase of that radius is private in every norm;
* the l2 norm of all numbers, with a delta exp(-c r - k r^2), and Laplace noise on their l1 norm;
* Gaussian noise, under zCDP;
* for each answer noise of its own, with the best split of the budget; for one number a table.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.budget.events import Profile
from opendp_optimal.budget.theorems import laplace_delta
from opendp_optimal.errors import GapWarning, SolverError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.known import Gaussian, Geometric, Laplace, Law
from opendp_optimal.known.coordinate import rounded_moment
from opendp_optimal.known.radial import best_staircase, coordinate_factor
from opendp_optimal.measure.space import Space
from opendp_optimal.measure.vector_noise import root_up
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON
from opendp_optimal.problem.radial import LARGEST_SENSITIVITY
from opendp_optimal.sample.integers import gaussian_integers, laplace_integers
from opendp_optimal.search.noise import solve
from opendp_optimal.search.radial import even_weights, solve_radial
from opendp_optimal.search.sizing import integer_sensitivity
from opendp_optimal.table.noise import NoiseTable
from opendp_optimal.table.radial import RadialTable

_STEPS = 1 << 27
"""Grid steps in the largest move of each answer, at least."""
_ENDLESS = 2.0**256
"""What Laplace noise spends of epsilon, at most: it is far below the last digit of any answer."""
GAUSSIAN = "Gaussian noise"
LAPLACE = "Laplace noise"
_CLOSE = 0.01
"""The certified gap of tables for one number."""
_WORTH_TRYING = 4.0
"""How much better a split may be than it looks with pure noise."""


@dataclass(frozen=True)
class Part:
    """One answer: its space, its length (0 where it is not fixed) and how far it moves."""

    space: Space
    size: int
    distance: Fraction

    @property
    def norm(self) -> str:
        """In which it moves."""
        return self.space.norm if self.space.vector else "linf"

    @property
    def square(self) -> int:
        """The square of its largest move in the l2 norm, in units of its distance."""
        return self.size if self.norm == "linf" else 1

    @property
    def total(self) -> Fraction:
        """Its largest move in the l1 norm, in units of its distance, rounded up."""
        if self.norm == "linf":
            return Fraction(self.size)
        return root_up(Fraction(1), self.size) if self.norm == "l2" else Fraction(1)

    @property
    def rounding(self) -> int:
        """What rounding to the grid adds to a move in its norm, in steps, rounded up."""
        return {"l1": self.size, "l2": math.isqrt(self.size) + 1, "linf": 1}[self.norm]

    @property
    def spread(self) -> float:
        """The mean square of a point of a ball of radius 1 in its norm."""
        return coordinate_factor(self.norm, self.size) * self.size / (self.size + 2)


@dataclass(frozen=True)
class Block:
    """Noise for some of the answers.

    :param parts: these answers
    :param steps: of the grid of each answer in its largest move
    :param reach: how far all answers together move, in the norm of the noise, in grid steps
    :param name: which noise it is
    :param losses: the mean square of each answer's error, over the square of its move
    :param table: of radial noise, or of noise for one number; None for Laplace or Gaussian noise
    :param own: whether each answer has a ball in its own norm
    :param rate: of Laplace noise, or of Gaussian noise
    """

    parts: tuple[Part, ...]
    steps: tuple[int, ...]
    reach: int
    name: str
    losses: tuple[float, ...]
    table: RadialTable | NoiseTable | None = None
    own: bool = False
    rate: float = 0.0

    def laws(self) -> list[Law]:
        """The law of the error of each number of each answer, in the units of the answers."""
        found = zip(map(self._law, range(len(self.parts))), self.parts, strict=True)
        return [law.rounded() if part.space.integer else law for law, part in found]

    def _law(self, number: int) -> Law:
        part, unit = self.parts[number], self._unit(number)
        if isinstance(self.table, NoiseTable):
            return self.table.law(self.reach * unit)
        if self.table is not None:
            return self.table.coordinate(self.reach * unit, *self._place(number))
        if self.name == GAUSSIAN:
            return Gaussian(math.sqrt(0.5 / self.rate) * unit)
        return Geometric(self.rate) if _one_whole_move((part,)) else Laplace(self.rate / unit)

    def _unit(self, number: int) -> float:
        """A grid step of an answer, in its own units."""
        return float(self.parts[number].distance / self.steps[number])

    def _place(self, number: int) -> tuple[tuple[str, int] | None, int]:
        """The ball that an answer has for itself, and where it begins among all numbers."""
        part = self.parts[number]
        kept = (part.norm, part.size) if self.own else None
        return kept, sum(part.size for part in self.parts[:number])

    def rounded(self) -> Block:
        """The same noise, with the losses that answers of integers have after they are rounded."""
        found = zip(range(len(self.parts)), self.parts, self.losses, strict=True)
        return replace(self, losses=tuple(self._rounded(*one) for one in found))

    def _rounded(self, number: int, part: Part, loss: float) -> float:
        if not part.space.integer or not part.size:
            return loss
        square, unit = float(part.distance) ** 2 / part.size, self.reach * self._unit(number)

        def beyond(places: Floats) -> Floats:
            if isinstance(self.table, RadialTable):
                return self.table.beyond(places / unit, *self._place(number))
            return self._law(number).cdf(-places)

        return rounded_moment(beyond, loss * square, 2) / square

    def draw(self) -> Integers:
        """The noise of one release, in grid steps."""
        size = sum(part.size for part in self.parts)
        if self.table is None:
            draw = gaussian_integers if self.name == GAUSSIAN else laplace_integers
            return draw(self.rate, size)
        if isinstance(self.table, NoiseTable):
            return np.asarray(self.table.draw(1, self.reach // self.table.cells))
        if self.own:
            balls = [(part.norm, part.size) for part in self.parts]
            drawn: Integers = self.table.draw_parts(balls, 1, self.reach)[0]
        else:
            drawn = self.table.draw(1, self.reach)[0]
        return drawn


@dataclass(frozen=True)
class JointGuarantee:
    """What a joint release is and costs.

    :param parts: the answers
    :param blocks: the noise: of all answers together, or of each
    :param epsilon: privacy loss at the distance of the design; infinite for Gaussian noise
    :param delta: probability of a larger loss there
    :param d_in: the distance of the design
    :param chosen: which noise won
    """

    parts: tuple[Part, ...]
    blocks: tuple[Block, ...]
    epsilon: float
    delta: float
    d_in: Any
    chosen: str

    @property
    def expected_losses(self) -> tuple[float, ...]:
        """The mean square of each answer's error, over the square of its move."""
        return tuple(loss for block in self.blocks for loss in block.losses)

    @property
    def steps(self) -> list[int]:
        """Grid steps in the largest move of each answer."""
        return [steps for block in self.blocks for steps in block.steps]

    @property
    def table(self) -> RadialTable | NoiseTable | None:
        """The table that is drawn from, where there is one for all answers."""
        return self.blocks[0].table if len(self.blocks) == 1 else None

    def laws(self) -> tuple[Law, ...]:
        """The law of the error of each number of each answer."""
        return tuple(law for block in self.blocks for law in block.laws())

    def draw(self) -> Integers:
        """The noise of one release, in grid steps of each answer."""
        return np.concatenate([block.draw() for block in self.blocks])


def laplace_event(guarantee: JointGuarantee, times: int) -> Profile:
    """A release of Laplace noise, at so many times the designed distance: its whole curve.

    Losses are on a grid of twice the rate; continuous noise at a step more costs no less.
    """
    total = float_up(times * Fraction(guarantee.epsilon))
    more = float_up(Fraction(total) + 2 * Fraction(guarantee.blocks[0].rate))
    return Profile(total, 0.0, guarantee, times, lambda e: laplace_delta(more, e, 0.0))


def best_joint(
    parts: tuple[Part, ...],
    epsilon: float,
    delta: float,
    d_in: Any,
    weights: list[float],
    *,
    rho: float | None = None,
    cache: bool = True,
) -> JointGuarantee:
    """The noise of least weighed loss.

    :param parts: the answers, each with a length
    :param epsilon: privacy loss of all together
    :param delta: probability of a larger loss
    :param d_in: the distance of the design
    :param weights: what the squared error of each answer counts
    :param rho: under zCDP, what all together may cost: Gaussian noise is a candidate too
    :param cache: whether tables are kept on disk
    """
    found = [[block] for block in _blocks(parts, epsilon, delta, weights, cache)]
    if rho is not None:
        found.append([_gaussian(parts, rho, weights)])
    best = min(found, key=lambda blocks: _weighed(blocks, weights))
    split = _split(parts, epsilon, delta, weights, _weighed(best, weights), cache)
    if split is not None and _weighed(split, weights) < _weighed(best, weights):
        best = split
    names = [block.name for block in best]
    chosen = names[0] if len(best) == 1 else f"split: {', '.join(names)}"
    stated = (math.inf, 0.0) if chosen == GAUSSIAN else (epsilon, delta)
    return JointGuarantee(parts, tuple(best), *stated, d_in, chosen)


def _weighed(blocks: list[Block], weights: list[float]) -> float:
    losses = [loss for block in blocks for loss in block.losses]
    return sum(w * loss for w, loss in zip(weights, losses, strict=True))


def _blocks(
    parts: tuple[Part, ...], epsilon: float, delta: float, weights: list[float], cache: bool
) -> list[Block]:
    """Noise for all answers together, of each kind."""
    bounded, small = min(epsilon, MAX_EPSILON), delta if delta >= MIN_DELTA else 0.0
    return [
        _laplace(parts, epsilon),
        *_single(parts, bounded, small, cache),
        *_whole(parts, bounded, weights, cache),
        *_own(parts, bounded, weights, cache),
        *_round(parts, bounded, small, weights, cache),
    ]


def _solved(epsilon: float, delta: float, size: int, **asked: Any) -> RadialTable | None:
    """A table for the squared error, where there is one."""
    try:
        return solve_radial(epsilon, delta, size, loss="l2", bound=False, **asked)
    except (SolverError, ValueError):
        return None


def _single(parts: tuple[Part, ...], epsilon: float, delta: float, cache: bool) -> list[Block]:
    """A table for the one number that is asked for."""
    part = parts[0]
    if len(parts) > 1 or part.space.vector:
        return []
    whole = integer_sensitivity(epsilon, part.distance) if part.space.integer else None
    if whole is not None and whole != part.distance:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        table = solve(epsilon, delta, loss="l2", integer_sensitivity=whole, gap=_CLOSE, cache=cache)
    if whole is not None:
        return [
            Block(parts, (whole,), whole, "table of integers", (table.upper / whole**2,), table)
        ]
    reach = (-(-_STEPS // table.cells) | 1) * table.cells  # tables draw an odd number to a cell
    steps = reach - part.rounding
    losses = (table.upper * (reach / steps) ** 2,)
    return [Block(parts, (steps,), reach, "table of reals", losses, table).rounded()]


def _boxed(
    parts: tuple[Part, ...], epsilon: float, weights: list[float], **asked: Any
) -> tuple[RadialTable, tuple[float, ...]] | None:
    """A table for balls in which each answer keeps its own norm, and the mean square of a number.

    The mean square is that in a ball of the norm linf, of each answer. One of another norm holds
    less: what the answer counts goes to its numbers in that part.
    """
    sizes = [part.size for part in parts]
    each = [3 * w * part.spread / part.size for w, part in zip(weights, parts, strict=True)]
    counted = even_weights(np.repeat(each, sizes).tolist())
    table = _solved(epsilon, 0.0, sum(sizes), norm="linf", weights=counted, **asked)
    if table is None:
        return None
    losses = table.losses()
    return table, tuple(
        losses[end - size] for end, size in zip(accumulate(sizes), sizes, strict=True)
    )


def _whole(
    parts: tuple[Part, ...], epsilon: float, weights: list[float], cache: bool
) -> list[Block]:
    """Whole numbers from a box of integers, where all answers are integers that move as far."""
    whole = _one_whole_move(parts)
    if not whole or any(part.norm != "linf" for part in parts):
        return []
    found = _boxed(parts, epsilon, weights, integer_sensitivity=whole, cache=cache)
    if found is None:
        return []
    table, squares = found
    losses = tuple(s * part.size / whole**2 for s, part in zip(squares, parts, strict=True))
    return [Block(parts, (whole,) * len(parts), whole, "staircase of integers", losses, table)]


def _grid(table: RadialTable) -> tuple[int, int]:
    """Grid steps in all answers' move, and what a reach must be a multiple of."""
    lattice = getattr(table.law, "step", 1)
    wanted = max(_STEPS, table.least_grid, lattice << 16)
    return min(wanted, table.most_grid - lattice - (1 << 12)), lattice


def _own(parts: tuple[Part, ...], epsilon: float, weights: list[float], cache: bool) -> list[Block]:
    """A ball in which each answer keeps its own norm: only its dimension counts for the radius."""
    found = _boxed(parts, epsilon, weights, cache=cache)
    if found is None or not all(RadialTable.can_draw(p.norm, p.size) for p in parts):
        return []
    table, squares = found
    steps, lattice = _grid(table)
    reach = steps + max(part.rounding for part in parts)
    reach = -(-reach // lattice) * lattice
    if reach > table.most_grid:
        return []
    norms = {part.norm for part in parts}
    name = f"{table.shape} in the {norms.pop()} norm" if len(norms) == 1 else ""
    name = name or f"{table.shape} in the norm of each answer"
    stretch = 3 * (reach / steps) ** 2
    losses = tuple(stretch * s * part.spread for s, part in zip(squares, parts, strict=True))
    block = Block(parts, (steps,) * len(parts), reach, name, losses, table, own=True)
    return [block.rounded()]


def _round(
    parts: tuple[Part, ...], epsilon: float, delta: float, weights: list[float], cache: bool
) -> list[Block]:
    """Noise in the l2 norm of all numbers."""
    size = sum(part.size for part in parts)
    table = _solved(epsilon, delta, size, cache=cache)
    if table is None:
        return []
    wanted, lattice = _grid(table)
    steps, moved = _stretched(parts, weights, wanted)
    reach = -(-max(moved, table.least_grid) // lattice) * lattice
    if reach > table.most_grid:
        return []
    losses = _flat_losses(parts, table.upper / size, steps, reach)
    return [Block(parts, steps, reach, f"{table.shape} in the l2 norm", losses, table).rounded()]


def _stretched(
    parts: tuple[Part, ...], weights: list[float], wanted: int
) -> tuple[tuple[int, ...], int]:
    """Steps in the largest move of each answer, and how far all of them move in the l2 norm.

    Let answer i have n_i numbers, count w_i and move by s_i in each unit, q_i of which are the
    square of its largest move. Its noise is in proportion to S^2 / s_i^2, S^2 = sum q_i s_i^2, and
    sum w_i n_i S^2 / s_i^2 is least for s_i like (w_i n_i / q_i)^(1/4).

    :param parts: the answers
    :param weights: of their errors
    :param wanted: about how far all move, in steps
    """
    squares = [part.square for part in parts]
    counted = zip(weights, parts, strict=True)
    moves = np.array([(w * max(1, p.size) / max(1, p.square)) ** 0.25 for w, p in counted])
    moves *= wanted / math.sqrt(float(squares @ moves**2))
    steps = tuple(max(1, int(move)) for move in moves.tolist())
    moved = math.isqrt(sum(q * k * k for q, k in zip(squares, steps, strict=True))) + 1
    # Rounding to the grid moves each number by up to a step more.
    return steps, moved + math.isqrt(sum(part.size for part in parts)) + 1


def _flat_losses(
    parts: tuple[Part, ...], each: float, steps: tuple[int, ...], reach: int
) -> tuple[float, ...]:
    """Mean squares of noise that has this one for each number, at a reach of 1."""
    shares = zip(parts, steps, strict=True)
    return tuple(each * (reach / k) ** 2 * part.size for part, k in shares)


def _laplace(parts: tuple[Part, ...], epsilon: float) -> Block:
    epsilon = min(epsilon, _ENDLESS)
    size = sum(part.size for part in parts)
    total = sum((part.total for part in parts), Fraction(0))
    whole = _one_whole_move(parts)
    steps = whole or 1 << max(12, math.ceil(math.log2(2.0**24 * epsilon / total)))
    reach = math.ceil(steps * total) + (0 if whole else size)
    rate = float_down(Fraction(epsilon) / reach)
    square = Geometric(rate).moment(2) / steps**2
    losses = tuple(square * part.size for part in parts)
    block = Block(parts, (steps,) * len(parts), reach, LAPLACE, losses, rate=rate)
    return block if whole else block.rounded()


def _one_whole_move(parts: tuple[Part, ...]) -> int:
    """How far all answers move, where they are integers that move as far: then no grid is finer."""
    moves = {part.distance for part in parts}
    moved = moves.pop()
    if moves or moved.denominator > 1 or not all(part.space.integer for part in parts):
        return 0
    return int(moved) if moved <= LARGEST_SENSITIVITY else 0


def _gaussian(parts: tuple[Part, ...], rho: float, weights: list[float]) -> Block:
    """Real Gaussian noise exp(-rate z^2), rounded: it costs rate times the square of a move."""
    least = 2.0**12 * math.sqrt(sum(part.square for part in parts))
    steps, reach = _stretched(parts, weights, math.ceil(max(least, 2.0**24 * math.sqrt(rho))))
    rate = float_down(Fraction(rho) / reach**2)
    losses = _flat_losses(parts, 0.5 / rate / reach**2, steps, reach)
    return Block(parts, steps, reach, GAUSSIAN, losses, rate=rate).rounded()


def _split(
    parts: tuple[Part, ...],
    epsilon: float,
    delta: float,
    weights: list[float],
    most: float,
    cache: bool,
) -> list[Block] | None:
    """Noise of its own for each answer; None where that cannot be better."""
    count = len(parts)
    if count == 1:
        return None
    # Losses fall about with the square of epsilon: the best shares go with their cube roots.
    near = min(epsilon, MAX_EPSILON) / count
    each = [best_staircase(near, p.size, 2)[0] * coordinate_factor(p.norm, p.size) for p in parts]
    roots = [math.ceil(2**20 * (w * e) ** (1 / 3)) for w, e in zip(weights, each, strict=True)]
    shares = [Fraction(root, sum(roots)) for root in roots]
    about = sum(
        w * e * (1 / (count * float(s))) ** 2 for w, e, s in zip(weights, each, shares, strict=True)
    )
    if about > _WORTH_TRYING * most:
        return None
    blocks = []
    for part, share in zip(parts, shares, strict=True):
        one, rest = (float_down(share * Fraction(value)) for value in (epsilon, delta))
        if one < MIN_EPSILON:
            return None
        alone = _blocks((part,), one, rest, [1.0], cache)
        blocks.append(min(alone, key=lambda block: block.losses[0]))
    return blocks

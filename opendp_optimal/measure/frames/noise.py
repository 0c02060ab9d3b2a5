"""Noise for a table of integers: a row for each group, a column for each number.

One person moves a few rows of the table, each by at most so much in every column. All columns of a
row are hidden together, by noise that falls with the largest move of any (a box), for a count and
one sum by a pair table, for one column by a scalar table. Where a person is in several groups,
either the noise of each group hides all that the person does there, and the groups are composed, or
the noise hides one row of data, and the person's rows are so many steps (group privacy). With many
moves, noise in the l2 norm on the whole table takes over. The least expected squared error wins.

Moves are whole numbers, noise is drawn in whole steps of a part of them, and everything that is
released is a function of their sum: no rounding of floats is part of an argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.budget.shares import epsilon_share, share
from opendp_optimal.certify.pair import unfolded
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.exact.numbers import float_down
from opendp_optimal.measure.concentrated import pure_epsilon
from opendp_optimal.measure.frames.moves import LARGEST_MOVE, Moves, Price
from opendp_optimal.measure.guarantee import step_delta
from opendp_optimal.measure.noise import solved_once
from opendp_optimal.problem.noise import MAX_EPSILON, MIN_DELTA, MIN_EPSILON
from opendp_optimal.problem.pair import LEAST_EPSILON
from opendp_optimal.sample.integers import gaussian_integers, laplace_integers, smallest_rate
from opendp_optimal.search.pair import solve_pair
from opendp_optimal.search.radial import even_weights, solve_radial
from opendp_optimal.search.sizing import integer_sensitivity
from opendp_optimal.table.pair import PairTable
from opendp_optimal.table.radial import RadialTable

__all__ = ["LARGEST_MOVE", "Moves", "Price", "TableNoise", "table_noise"]

_SPARE = 12
"""Bits of noise steps in a move, so that rounding moves up to steps costs nothing to speak of."""
_STEPS = (1 << 38) + 1
"""Grid points in a cell of a table."""
_GAP = 1e-3
_DRAWS, _NUMBERS, _LEAST_DRAWS = 1 << 15, 1 << 18, 1 << 12
"""So many draws of the noise say how accurate it is; fewer where rows are long."""
_LONGEST = 1 << 20
"""Numbers in a table that is one vector of noise."""


@dataclass(frozen=True)
class TableNoise:
    """Noise for every row of a table.

    :param name: what it is, in words
    :param moves: that it hides
    :param scale: noise steps in a unit of each column; 0 for a column that nobody moves
    :param variance: of each column, in its own units
    :param cost: what was minimised
    :param draw: so many rows of noise, in steps
    :param table: that is drawn from, where there is one
    """

    name: str
    moves: Moves
    scale: tuple[int, ...]
    variance: tuple[float, ...]
    cost: float
    draw: Callable[[int], Integers]
    table: Any = None

    def noisy(self, values: Integers) -> tuple[Integers, Floats]:
        """The table with noise: whole parts, and what is above them, in [0, 1).

        :param values: integers, a row for each group
        """
        drawn = np.zeros(values.shape, np.int64)
        moved = np.flatnonzero(self.scale)
        steps = np.array([self.scale[j] for j in moved], np.int64)
        if len(moved) and len(values):
            drawn[:, moved] = self.draw(len(values))
        above = np.zeros(values.shape)
        above[:, moved] = drawn[:, moved] % steps / steps
        drawn[:, moved] //= steps
        return values + drawn, above

    @cached_property
    def sample(self) -> Floats:
        """Some rows of noise, in the units of the columns."""
        columns = len(self.scale)
        rows = min(_DRAWS, max(_LEAST_DRAWS, _NUMBERS // max(1, columns)))
        whole, above = self.noisy(np.zeros((rows, columns), np.int64))
        return whole + above

    def accuracy(self, column: int, alpha: float = 0.05, *, whole: bool = False) -> float:
        """What the noise of a column stays within with a chance of 1 - alpha, by many draws.

        :param column: its place
        :param alpha: the chance of more
        :param whole: whether the answer is rounded to an integer
        """
        within = np.quantile(np.abs(self.sample[:, column]), 1 - alpha, method="higher")
        return float(rounded(within) if whole else within)


def rounded(within: Any) -> Any:
    """What noise stays within after it was rounded to integers, as surely as within this before."""
    return np.maximum(np.ceil(within - 0.5), 0.0)


@dataclass(frozen=True)
class _Way:
    """A way to argue: noise that hides ``reach`` at this price, and how the rest follows."""

    reach: tuple[int, ...]
    pure: float
    epsilon: float
    delta: float
    words: str


def table_noise(moves: Moves, price: Price, keys: int | None = 1) -> TableNoise:
    """The noise of least expected squared error for a table of integers.

    :param moves: how far one person moves the table
    :param price: what the whole table may cost
    :param keys: rows of the table; public. None for noise that serves any number of them
    :raises ValueError: if there is none

    >>> noise = table_noise(Moves(row=(1, 100), person=(1, 100)), Price(1.0))
    >>> noise.name
    'staircase in a box of 2'
    >>> noise.noisy(np.array([[500, 25_000]]))[0].shape
    (1, 2)
    """
    return _best(moves, price, None if keys is None else max(1, keys))


@lru_cache(maxsize=64)
def _best(moves: Moves, price: Price, keys: int | None) -> TableNoise:
    # Columns that nobody moves are released as they are.
    found = [noise for noise in _all(moves, price, keys) if noise is not None]
    if not found:
        told = "the budget is too small, or people have too many rows"
        raise ValueError(f"no noise is known for {moves} at {price}: {told}")
    return min(found, key=lambda noise: noise.cost)


def _all(moves: Moves, price: Price, keys: int | None) -> Iterator[TableNoise | None]:
    if not any(moves.row):
        yield TableNoise("none", moves, (0,) * len(moves.row), (0.0,) * len(moves.row), 0.0, _none)
        return
    for way in _ways(moves, price):
        if way.pure < MIN_EPSILON:
            continue
        if moves.line:
            yield _line(moves, way)
            continue
        moved = sum(1 for r in way.reach if r)
        yield _scalar(moves, way) if moved == 1 else _box(moves, way)
        if moves.pair and way.reach == moves.row:
            yield _pair(moves, way)
    if price.delta > 0 or price.concentrated:
        yield from _flat(moves, price, keys)


def _none(rows: int) -> Integers:
    return np.zeros((rows, 0), np.int64)


def _ways(moves: Moves, price: Price) -> Iterator[_Way]:
    """By the person's rows, one after the other; and by the groups, side by side."""
    steps, groups = moves.rows, moves.groups
    if price.concentrated:
        whole = pure_epsilon(price.main)
        each = float_down(Fraction(whole) / steps)
        yield _Way(moves.row, each, each, 0.0, _times(steps, "rows"))
        if steps > 1 and not moves.line:
            side = pure_epsilon(float_down(Fraction(price.main) / groups))
            yield _Way(moves.person, side, side, 0.0, _times(groups, "groups"))
        return
    each = float_down(Fraction(price.main) / steps)
    yield _Way(moves.row, each, each, step_delta(each, price.delta, steps), _times(steps, "rows"))
    if steps > 1 and not moves.line:
        pure = epsilon_share(price.main, price.delta, groups)
        shares = share(price.main, price.delta, groups)
        yield _Way(moves.person, pure, *shares, _times(groups, "groups"))


def _times(count: int, what: str) -> str:
    return "" if count == 1 else f", {count} {what} a person"


def _usable(epsilon: float, delta: float) -> tuple[float, float]:
    """Noise that is more private than asked for will do."""
    return min(epsilon, MAX_EPSILON), delta if delta >= MIN_DELTA else 0.0


def _made(
    name: str,
    moves: Moves,
    scale: tuple[int, ...],
    variance: tuple[float, ...],
    draw: Callable[[int], Integers],
    table: Any = None,
) -> TableNoise:
    columns = zip(moves.counted, variance, moves.row, strict=True)
    cost = sum(w * v / r**2 for w, v, r in columns if r)  # each in units of a row's move
    return TableNoise(name, moves, scale, variance, cost, draw, table)


def _scalar(moves: Moves, way: _Way) -> TableNoise | None:
    """A table for the one column that moves."""
    at = next(j for j, r in enumerate(way.reach) if r)
    reach = way.reach[at]
    epsilon, delta = _usable(way.epsilon, way.delta)
    whole = integer_sensitivity(epsilon, reach)
    table = solved_once(epsilon, delta, "l2", whole, _GAP, True)
    steps = 1 if whole else _steps_of(table.cells * reach)
    scale = 1 if whole else table.cells * steps // reach
    unit = 1.0 if whole else table.cells * steps / scale

    def draw(rows: int) -> Integers:
        return np.asarray(table.draw(rows, steps), np.int64).reshape(rows, 1)

    variance = tuple(table.upper * unit**2 if j == at else 0.0 for j in range(len(way.reach)))
    scales = tuple(scale if j == at else 0 for j in range(len(way.reach)))
    return _made(f"table for one number{way.words}", moves, scales, variance, draw, table)


def _steps_of(long: int) -> int:
    """An odd number of grid points in a cell, fewer where noise is long."""
    return min(_STEPS, max(1 << 20, (1 << 56) // max(1, long)) | 1)


def _box(moves: Moves, way: _Way) -> TableNoise | None:
    """A staircase in the linf norm, pure."""
    moved = [r for r in way.reach if r]
    epsilon = min(way.pure, MAX_EPSILON)
    columns = zip(moves.counted, way.reach, moves.row, strict=True)
    weights = even_weights([w * (far / r) ** 2 for w, far, r in columns if r])
    try:
        table = solve_radial(epsilon, 0.0, len(moved), norm="linf", loss="l2", weights=weights)
    except SolverError:
        return None
    reach = _reach(table, max(moved))
    if reach is None:
        return None
    scale = tuple(reach // r if r else 0 for r in way.reach)
    losses = iter(table.losses())
    variance = tuple(next(losses) * (reach / k) ** 2 if k else 0.0 for k in scale)
    name = f"{table.shape} in a box of {len(moved)}{way.words}"
    return _made(name, moves, scale, variance, lambda rows: table.draw(rows, reach), table)


def _reach(table: RadialTable, longest: int) -> int | None:
    """Steps of noise in a move: fine, but so that radii can be drawn."""
    lattice = getattr(table.law, "step", 1)
    most = table.most_grid // lattice * lattice
    wanted = max(table.least_grid, longest << _SPARE)
    reach = min(-(-wanted // lattice) * lattice, most)
    return reach if reach >= max(table.least_grid, longest) else None


def _pair(moves: Moves, way: _Way) -> TableNoise | None:
    """A pair table; it hides exactly one row."""
    epsilon, delta = _usable(way.epsilon, way.delta)
    if delta == 0 or epsilon < LEAST_EPSILON or not moves.row[1]:
        return None
    try:
        table = solve_pair(epsilon, delta)
    except (CertificateError, SolverError):
        return None
    steps = _steps_of(table.cells * moves.row[1])
    # A row moves the column by up to ``row``, and the table's sum by up to half of its cells.
    scale = table.cells * steps // 2 // moves.row[1]
    if scale == 0:
        return None
    unit = table.cells * steps / (2 * scale)

    def draw(rows: int) -> Integers:
        place, more = table.draw(rows, steps=steps)
        return np.column_stack([more, place])

    count, total = _pair_variance(table)
    variance = count, total * 4 * unit**2
    return _made(f"pair table{way.words}", moves, (1, scale), variance, draw, table)


def _pair_variance(table: PairTable) -> tuple[float, float]:
    """Of the count, and of the centred sum where a record moves it by at most 1/2."""
    weights = unfolded(table.weights) / 2.0**62
    rows, columns = (np.arange(n) - n // 2 for n in weights.shape)
    count = float(weights.sum(1) @ rows**2)
    return count, float(weights.sum(0) @ columns**2 + 1 / 12) / table.cells**2


def _line(moves: Moves, way: _Way) -> TableNoise | None:
    """A scalar table for each column: a row of the data moves one of them."""
    reach = max(way.reach)
    if len({r for r in way.reach if r}) > 1:
        return None
    epsilon, delta = _usable(way.epsilon, way.delta)
    whole = integer_sensitivity(epsilon, reach)
    if whole is None:
        rate = float_down(Fraction(epsilon) / reach)
        variance = 2 * math.exp(-rate) / (1 - math.exp(-rate)) ** 2
        table = None
    else:
        table = solved_once(epsilon, delta, "l2", whole, _GAP, True)
        variance = table.upper
    size = sum(1 for r in way.reach if r)

    def draw(rows: int) -> Integers:
        count = rows * size
        drawn = laplace_integers(rate, count) if table is None else table.draw(count)
        return np.asarray(drawn, np.int64).reshape(rows, size)

    scale = tuple(1 if r else 0 for r in way.reach)
    spread = tuple(variance if r else 0.0 for r in way.reach)
    return _made(f"table for each count{way.words}", moves, scale, spread, draw, table)


def _flat(moves: Moves, price: Price, keys: int | None) -> Iterator[TableNoise | None]:
    """Noise in the l2 norm on the whole table as one vector; Gaussian noise has any length."""
    size = sum(1 for r in moves.row if r)
    length = size if price.concentrated else _LONGEST + 1 if keys is None else keys * size
    if length > _LONGEST:
        return
    ways = [(moves.row, moves.rows**2)]
    if not moves.line:
        ways.append((moves.person, moves.groups))
    for reach, times in ways:
        yield _spherical(moves, reach, times, price, length, size)


def _stretched(moves: Moves, unit: tuple[int, ...]) -> Floats:
    """How far each column moves, in its own units of noise: what counts more, farther.

    Where columns move together, by s_j each, the noise of one is in proportion to S / s_j, with
    S^2 = sum s_j^2, and sum w_j (S / s_j)^2 is least for s_j like w_j^(1/4). On average s_j^2 is 1.
    """
    moved = np.array([bool(r) for r in unit], float)
    if moves.line:
        return moved
    columns = zip(moves.counted, unit, moves.row, strict=True)
    counted = [w * (far / r) ** 2 if r else 0.0 for w, far, r in columns]
    found: Floats = np.array(counted) ** 0.25
    return found * math.sqrt(moved.sum() / (found @ found))


def _spherical(
    moves: Moves, unit: tuple[int, ...], times: int, price: Price, length: int, size: int
) -> TableNoise | None:
    """Noise in the l2 norm of a table.

    :param unit: how far each column moves
    :param times: so many such moves are at right angles, or their square root in a line
    """
    square = times * (1 if moves.line else size)
    stretched = _stretched(moves, unit) * (1 - 2.0**-40)
    table: RadialTable | None = None
    if price.concentrated:
        most = int(math.sqrt(price.main / smallest_rate(pure=False) / square) * 0.99)
        fine = min(max(unit) << _SPARE, most)
        moved = math.isqrt(fine * fine * square) + 1
        rate = float_down(Fraction(price.main) / moved**2)
        each = 1 / (2 * rate) + 1 / 12
        name = "Gaussian noise"
    else:
        epsilon, delta = _usable(price.main, price.delta)
        if delta == 0 or epsilon < MIN_EPSILON:
            return None
        try:
            table = solve_radial(epsilon, delta, length, norm="l2", loss="l2")
        except SolverError:
            return None
        wanted = _reach(table, math.isqrt(max(unit) ** 2 * square) + 1)
        if wanted is None:
            return None
        moved = wanted
        fine = math.isqrt(moved * moved // square)
        each = table.upper / length
        shape = "Gaussian noise" if table.shape == "gaussian" else table.shape
        name = f"{shape} in the l2 norm"
    each_moves = zip(stretched.tolist(), unit, strict=True)
    scale = tuple(int(fine * far) // r if r else 0 for far, r in each_moves)
    lengths = [(k * r) ** 2 for k, r in zip(scale, unit, strict=True)]
    farthest = times * (max(lengths) if moves.line else sum(lengths))
    if farthest > moved * moved or any(r and not k for r, k in zip(unit, scale, strict=True)):
        return None

    def draw(rows: int) -> Integers:
        if table is None:
            return gaussian_integers(rate, rows * size).reshape(rows, size)
        vectors = -(-rows * size // length)
        return table.draw(vectors, moved).reshape(-1, size)[:rows]

    per = [each * (1.0 if table is None else float(moved) ** 2) / k**2 if k else 0.0 for k in scale]
    return _made(name, moves, scale, tuple(per), draw, table)

"""Channels: what an observer learns from a release, and what it costs her.

Rows are true answers, columns observations. Entries are exact fractions; losses come as floats
(:meth:`Channel.expected_loss`) or exactly (:meth:`Channel.exact_loss`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opendp_optimal.extend import (
    Floats,
    chances,
    direct_pairs,
    exp_reaches,
    frozen_array,
    log_near,
    log_up,
    matrix,
)

Row = tuple[Fraction, ...]

Metric = Callable[[int, int], Any] | Sequence[Sequence[Any]]


def distances_of(metric: Metric | None, size: int) -> list[list[Fraction]]:
    """A metric as a table of exact distances, checked.

    :param metric: a matrix, a function of two positions, or None for their difference
    :param size: number of answers
    """
    if metric is None:
        return [[Fraction(abs(x - z)) for z in range(size)] for x in range(size)]
    if callable(metric):
        table = [[metric(x, z) for z in range(size)] for x in range(size)]
    else:
        table = metric  # type: ignore[assignment]
    exact = matrix("metric", table, size, size)
    for x in range(size):
        if exact[x][x] != 0:
            raise ValueError(f"metric must be 0 from an answer to itself, not {exact[x][x]}")
        for z in range(x):
            if exact[x][z] < 0 or exact[x][z] != exact[z][x]:
                raise ValueError(
                    f"metric must be symmetric and not negative; it is {float(exact[x][z]):g} "
                    f"from {x} to {z} and {float(exact[z][x]):g} back"
                )
    return exact


@dataclass(frozen=True)
class Hyper:
    """A distribution over posteriors: what a channel makes of a prior, observations forgotten.

    :param chances: how likely each posterior is
    :param posteriors: distributions over true answers, all different
    """

    chances: Row
    posteriors: tuple[Row, ...]

    def expected_loss(self, loss: Any) -> Fraction:
        """The expected loss of a rational consumer, exactly (formula 9).

        :param loss: loss[w][x] of acting as w when the answer is x
        """
        return _least_cost(loss, np.array(self.posteriors).T * np.array(self.chances))


@dataclass(frozen=True, init=False)
class Channel:
    """A row-stochastic matrix: ``rows[x][y]`` is the chance of observing y when the answer is x.

    :param rows: exact numbers, each row adding up to 1; rows with floats may miss 1 by 1e-9 and
        are divided by their sum

    >>> flip = Channel([[0.75, 0.25], [0.25, 0.75]])
    >>> flip.exact_loss([Fraction(1, 2)] * 2, [[0, 1], [1, 0]])
    Fraction(1, 4)
    >>> round(flip.epsilon(), 6) == round(math.log(3), 6)
    True
    """

    rows: tuple[Row, ...]

    def __init__(self, rows: Any) -> None:
        """Check that every row is a distribution."""
        given = rows.tolist() if isinstance(rows, np.ndarray) else rows
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise ValueError("rows must be a matrix: one distribution for each answer")
        table = [list(r) if hasattr(r, "__iter__") else r for r in given]
        if not table:
            raise ValueError("rows must not be empty")
        width = len(table[0]) if isinstance(table[0], list) else None
        exact = tuple(chances(f"row {i}", r, width) for i, r in enumerate(table))
        object.__setattr__(self, "rows", exact)

    def __reduce__(self) -> tuple[Any, ...]:
        """Build copies from the rows alone, checked again."""
        return type(self), (self.rows,)

    @property
    def inputs(self) -> int:
        """Number of true answers."""
        return len(self.rows)

    @property
    def outputs(self) -> int:
        """Number of observations."""
        return len(self.rows[0])

    @cached_property
    def matrix(self) -> Floats:
        """The nearest floats."""
        return frozen_array(np.array(self.rows, dtype=np.float64))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The nearest floats, for numpy.

        :param dtype: of the array
        :param copy: always a copy
        """
        return np.array(self.matrix, dtype=dtype)

    def joint(self, prior: Any) -> tuple[Row, ...]:
        """The chance of each answer together with each observation.

        :param prior: chances of the answers
        """
        weights = chances("prior", prior, self.inputs)
        return tuple(tuple(p * v for v in row) for p, row in zip(weights, self.rows, strict=True))

    def marginal(self, prior: Any) -> Row:
        """The chance of each observation.

        :param prior: chances of the answers
        """
        return tuple(sum(column, Fraction(0)) for column in zip(*self.joint(prior), strict=True))

    def posteriors(self, prior: Any) -> tuple[Row | None, ...]:
        """What is believed of the answer after each observation; None after impossible ones.

        :param prior: chances of the answers
        """
        columns = zip(*self.joint(prior), strict=True)
        return tuple(
            tuple(v / total for v in column) if (total := sum(column)) else None
            for column in columns
        )

    def hyper(self, prior: Any) -> Hyper:
        """The distribution over posteriors; equal ones are put together.

        :param prior: chances of the answers
        """
        found: dict[Row, Fraction] = {}
        for chance, posterior in zip(self.marginal(prior), self.posteriors(prior), strict=True):
            if posterior is not None:
                found[posterior] = found.get(posterior, Fraction(0)) + chance
        return Hyper(tuple(found.values()), tuple(found))

    def expected_loss(self, prior: Any, loss: Any) -> float:
        """The expected loss of a rational consumer (formula 7), in floats.

        :param prior: chances of the answers
        :param loss: loss[w][x] of acting as w when the answer is x
        """
        costs, unit = self._costs(prior, loss)
        return _expected(float(costs.min(axis=0).sum()), unit)

    def exact_loss(self, prior: Any, loss: Any) -> Fraction:
        """The expected loss of a rational consumer, exactly.

        :param prior: chances of the answers
        :param loss: loss[w][x] of acting as w when the answer is x
        """
        return _least_cost(loss, np.array(self.joint(prior)))

    def decisions(self, prior: Any, loss: Any) -> tuple[int, ...]:
        """The best action after each observation; of equally good ones, the first.

        :param prior: chances of the answers
        :param loss: loss[w][x] of acting as w when the answer is x
        """
        costs, _ = self._costs(prior, loss)
        return tuple(costs.argmin(axis=0).tolist())

    def raw_loss(self, prior: Any, loss: Any) -> float:
        """The expected loss of a consumer who takes what she sees.

        :param prior: chances of the answers
        :param loss: loss[y][x], with an action for each observation
        """
        table, unit = _scaled(matrix("loss", loss, self.outputs, self.inputs))
        return _expected(float((self._joint_floats(prior) * table.T).sum()), unit)

    def _costs(self, prior: Any, loss: Any) -> tuple[Floats, Fraction]:
        """What each action costs after each observation, in units."""
        table, unit = _scaled(matrix("loss", loss, None, self.inputs))
        return np.asarray(table @ self._joint_floats(prior)), unit

    def _joint_floats(self, prior: Any) -> Floats:
        """The joint chances in floats."""
        weights = np.array(chances("prior", prior, self.inputs), dtype=np.float64)
        return np.asarray(weights[:, None] * self.matrix)

    def then(self, processing: Channel) -> Channel:
        """This channel followed by post-processing; also written ``channel >> processing``.

        :param processing: a channel whose answers are this one's observations
        """
        if not isinstance(processing, Channel):
            raise ValueError(f"processing ({processing!r}) must be a Channel")
        if processing.inputs != self.outputs:
            raise ValueError(
                f"processing (with {processing.inputs} rows) must have {self.outputs} rows, one "
                "for each observation"
            )
        return Channel(np.array(self.rows) @ np.array(processing.rows))

    __rshift__ = then

    def remapped(self, prior: Any, loss: Any) -> Channel:
        """This channel followed by the best decision: its observations are actions.

        :param prior: chances of the answers
        :param loss: loss[w][x] of acting as w when the answer is x
        """
        actions = len(list(loss))
        chosen = self.decisions(prior, loss)
        return self.then(Channel([[int(w == c) for w in range(actions)] for c in chosen]))

    def epsilon(self, metric: Metric | None = None) -> float:
        """The least epsilon for which the channel is epsilon-private in a metric, rounded up.

        Every two answers x, z satisfy ``rows[x][y] <= exp(epsilon * metric(x, z)) * rows[z][y]``:
        checked in exact arithmetic. Infinite where an observation rules an answer out.

        :param metric: distances between answers, as a matrix or a function of two positions;
            the difference of positions by default
        """
        distances = distances_of(metric, self.inputs)
        found: set[tuple[Fraction, Fraction]] = set()
        # Pairs with an answer exactly between them are implied by their halves.
        for x, z in direct_pairs(distances):
            d, ratio = distances[x][z], self._largest_ratio(x, z)
            if ratio is None or (d == 0 and ratio > 1):
                return math.inf
            if ratio > 1:
                found.add((ratio, d))
        epsilon = 0.0
        # The largest first, by a guess: then it nearly always serves the others too.
        for ratio, d in sorted(found, key=lambda pair: log_near(pair[0]) / pair[1], reverse=True):
            if epsilon < math.inf and not exp_reaches(Fraction(epsilon) * d, ratio):
                epsilon = log_up(ratio, d)
        return epsilon

    @cached_property
    def _between(self) -> tuple[Floats, Floats]:
        """Floats that are not above, and not below, every entry."""
        return np.maximum(np.nextafter(self.matrix, -1.0), 0.0), np.nextafter(self.matrix, 2.0)

    def _largest_ratio(self, x: int, z: int) -> Fraction | None:
        """The largest of rows[x][y] / rows[z][y], exactly; None where it is infinite."""
        here, there = self.rows[x], self.rows[z]
        if any(u and not v for u, v in zip(here, there, strict=True)):
            return None
        seen = np.flatnonzero([bool(u) for u in here])
        low, high = self._between
        with np.errstate(divide="ignore", over="ignore"):
            least = np.nextafter(low[x, seen] / high[z, seen], 0.0).max()
            most = np.nextafter(high[x, seen] / low[z, seen], math.inf)
        near: list[int] = seen[most >= least].tolist()
        return max(here[y] / there[y] for y in near)


def _least_cost(loss: Any, joint: NDArray[np.object_]) -> Fraction:
    """The cost of the best action for each column of chances, added up exactly."""
    costs = np.array(matrix("loss", loss, None, len(joint))) @ joint
    return Fraction(costs.min(axis=0).sum())


def _scaled(values: Sequence[Sequence[Fraction]]) -> tuple[Floats, Fraction]:
    """Return the nearest floats of a table of fractions in units of its largest entry, and these.

    Whatever the size of the numbers, none overflows, and not all vanish.

    :param values: rows of fractions, not empty

    >>> table, unit = _scaled([[Fraction(10**400), Fraction(1)]])
    >>> table.tolist() == [[1.0, 0.0]], unit == 10**400
    (True, True)
    """
    unit = max(abs(v) for row in values for v in row) or Fraction(1)
    if 2**-500 < unit < 2**500:
        unit = Fraction(1)
    return np.array([[v / unit for v in row] for row in values], dtype=np.float64), unit


def _expected(units: float, unit: Fraction) -> float:
    """Return an expected loss as a float, or raise where it is too large for one.

    :param units: how many units it is
    :param unit: the unit
    """
    exact = Fraction(units) * unit
    if abs(exact) > sys.float_info.max:
        raise ValueError("loss is too large: its expectation is beyond floats")
    return float(exact)

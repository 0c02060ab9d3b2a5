"""Channels: what an observer learns from a release, and what it costs her.

Rows are true answers, columns observations. Entries are exact fractions; losses come as floats
(:meth:`Channel.expected_loss`) or exactly (:meth:`Channel.exact_loss`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import Any

import numpy as np

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
from opendp_optimal_bayes.numbers import floats, in_units, scaled

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
        pairs = zip(self.chances, self.posteriors, strict=True)
        return _least_cost(loss, [tuple(p * v for v in q) for p, q in pairs])


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
        given = rows
        if isinstance(given, np.ndarray):
            given = given.tolist()
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
        return frozen_array(floats(self.rows))

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
        return in_units("loss", float(costs.min(axis=0).sum()), unit)

    def exact_loss(self, prior: Any, loss: Any) -> Fraction:
        """The expected loss of a rational consumer, exactly.

        :param prior: chances of the answers
        :param loss: loss[w][x] of acting as w when the answer is x
        """
        return _least_cost(loss, list(zip(*self.joint(prior), strict=True)))

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
        table, unit = scaled(matrix("loss", loss, self.outputs, self.inputs))
        weights = _floats_of(prior, self.inputs)
        return in_units("loss", float((weights[:, None] * self.matrix * table.T).sum()), unit)

    def _costs(self, prior: Any, loss: Any) -> tuple[Floats, Fraction]:
        """What each action costs after each observation, in units."""
        table, unit = scaled(matrix("loss", loss, None, self.inputs))
        return np.asarray(table @ (_floats_of(prior, self.inputs)[:, None] * self.matrix)), unit

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
        columns = list(zip(*processing.rows, strict=True))
        return Channel(
            tuple(
                tuple(sum(map(mul, row, column), Fraction(0)) for column in columns)
                for row in self.rows
            )
        )

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
        near = floats(self.rows)
        return np.maximum(np.nextafter(near, -1.0), 0.0), np.nextafter(near, 2.0)

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


def _floats_of(prior: Any, size: int) -> Floats:
    return np.array([float(p) for p in chances("prior", prior, size)])


def _least_cost(loss: Any, columns: list[Row]) -> Fraction:
    """The cost of the best action for each column of chances, added up."""
    table = matrix("loss", loss, None, len(columns[0]))
    least = (min(sum(map(mul, row, c), Fraction(0)) for row in table) for c in columns)
    return sum(least, Fraction(0))

"""Noise that depends on the answer: what an observation says of each answer in a range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from opendp_optimal import BoundedTable
from opendp_optimal.extend import chain_of, known, loss_of

Floats = NDArray[np.float64]

_SHIFTS = 9
_LEAST_POINTS, _MOST_POINTS = 64, 2048
_FINE = 16.0


@dataclass(frozen=True)
class Dependent:
    """Noise from a table of :func:`~opendp_optimal.solve_bounded`.

    :param table: the table
    :param integer: whether answers and observations are integers
    """

    table: BoundedTable
    integer: bool

    @property
    def low(self) -> float:
        """The smallest answer."""
        low = float(self.table.problem.low)
        return float(math.ceil(low)) if self.integer else low

    @property
    def high(self) -> float:
        """The largest answer."""
        high = float(self.table.problem.high)
        return float(math.floor(high)) if self.integer else high

    @cached_property
    def alike(self) -> known.Law | None:
        """The law of noise that is the same for all answers, before it is moved into the range."""
        noise = self.table.noise
        return None if noise is None else noise.law(float(self.table.problem.reach))

    @cached_property
    def errors(self) -> tuple[float, float]:
        """The largest mean error of an answer, and the largest mean squared one."""
        if self.alike is not None:
            first, second = (self.alike.expected_loss(loss_of(k)) for k in ("l1", "l2"))
            return first, second
        places, outputs, chances = self.table.family()
        away = np.abs(outputs[None, :] - places[:, None])
        return float((chances * away).sum(axis=1).max()), float((chances * away**2).sum(1).max())

    def points(self, parts: int | None) -> tuple[int, float]:
        """How many answers are told apart, and what is between them.

        :param parts: of a known prior; the number is a multiple of it
        """
        width = self.high - self.low
        if self.integer:
            return int(width) + 1, 1.0
        wanted = width / max(math.sqrt(self.errors[1]), 1e-300) * _FINE
        count = int(min(max(wanted, _LEAST_POINTS), _MOST_POINTS))
        if parts is not None:
            count = parts * max(1, math.ceil(count / parts))
        return count, width / (count if parts is not None else count - 1)

    def chances(self, seen: Floats, answers: Floats, unit: float) -> Floats:
        """How likely each observation (row) is after each answer, up to a factor for each.

        :param seen: observations within the range
        :param answers: answers within the range
        :param unit: between the answers
        """
        if self.alike is not None:
            return self._moved(seen, answers, 1.0 if self.integer else unit)
        places, _, chances = self.table.family()
        problem = self.table.problem
        if problem.integer:
            row, column = ((v - problem.low).astype(np.int64) for v in (answers, seen))
            return np.asarray(chances[row][:, column].T)
        if problem.edges is not None:  # answers are rounded to ends of bins at random
            nearest = np.abs(seen[:, None] - places[None, :]).argmin(axis=1)
            return np.stack([np.interp(answers, places, chances[:, j]) for j in nearest])
        step = float(places[1] - places[0])
        # Cells are shifted at random: what was released is the middle of its own.
        half = 0.5 if self.integer else 0.0
        total = np.zeros((len(seen), len(answers)))
        for share in np.linspace(-1.0, 1.0, _SHIFTS if self.integer else 1):
            middle = seen + half * share
            own = np.clip(np.rint((middle - places[0]) / step), 0, len(places) - 1)
            away = np.rint((answers[None, :] - middle[:, None]) / step)
            cell = np.clip(own[:, None] + away, 0, len(places) - 1).astype(np.int64)
            total += chances[cell, own[:, None].astype(np.int64)]
        return total

    def _moved(self, seen: Floats, answers: Floats, unit: float) -> Floats:
        """Chances of noise that is moved into the range."""
        assert self.alike is not None
        away = seen[:, None] - answers[None, :]
        up, down = (0.0, unit) if self.alike.integer else (unit / 2, unit / 2)
        below, above = self.alike.cdf(away - down), self.alike.cdf(away + up)
        below = np.where(seen[:, None] <= self.low, 0.0, below)
        above = np.where(seen[:, None] >= self.high, 1.0, above)
        return np.asarray(np.maximum(above - below, 0.0))


def dependent(noise: Any) -> Dependent | None:
    """Noise that depends on the answer, or None if it is no such noise.

    :param noise: a measurement or a table, or anything else
    """
    integer = None
    if isinstance(noise, dp.Measurement):
        noise = chain_of(noise)[-1]
        if not isinstance(noise, dp.Measurement):
            return None
        integer = str(noise.input_domain.carrier_type)[0] in "iu"
        noise = getattr(noise, "table", None)
    if not isinstance(noise, BoundedTable):
        return None
    return Dependent(noise, bool(noise.problem.integer) if integer is None else integer)

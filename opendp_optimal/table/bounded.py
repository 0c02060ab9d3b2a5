"""BoundedTable: noise that depends on the answer, as integers, with its two exact proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify import channel as proofs
from opendp_optimal.certify.bounded import expected_loss_at
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.model import bounded as model
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.problem.channel import ChannelProblem
from opendp_optimal.sample import bounded as sampling
from opendp_optimal.table.base import Table
from opendp_optimal.table.clamped import Clamped
from opendp_optimal.table.noise import NoiseTable

_SHOWN = 64
"""Parts of a range without bins that are looked at in plots."""


@dataclass(frozen=True, eq=False)
class BoundedTable(Table):
    """Conditional noises for a query within a range, with proofs of privacy and near-optimality.

    With equal bins, all cells are shifted by the same uniform part of a bin; row x of the weights
    says which cell's middle is released when the answer lies in cell x. With unequal bins, row x
    belongs to the end x of a bin, to which an answer is rounded at random. With integers, row x
    belongs to the integer low + x. For real queries with a positive delta, the first and the last
    column belong to the release of the answer itself, whose chance is within delta.

    Where noise that is the same for all answers does better than what was found on bins, the table
    holds that ``noise`` instead: it is added, and releases are moved into the range. There are no
    bins and no weights then.

    :param problem: what was asked
    :param bins: number of bins of the mechanism (integers: steps in the range)
    :param cells: bins that cover the sensitivity (0 for unequal bins)
    :param weights: integer weights, one row for each x, each adding up to 2^62
    :param dual: prices that prove the lower bound
    :param dual_bins: number of bins of the relaxation they belong to
    :param dual_cells: bins of the relaxation that are within the sensitivity
    :param upper: expected loss, rounded up
    :param lower: a bound below the expected loss of every mechanism, rounded down
    :param levels: numbers of bins that were tried, 0 for noise that is the same for all answers;
        the best of each bound was kept
    :param noise: the noise that is the same for all answers, if that is released
    """

    problem: BoundedProblem
    bins: int
    cells: int
    weights: Integers
    dual: proofs.ChannelDual
    dual_bins: int
    dual_cells: int
    upper: float
    lower: float
    levels: tuple[int, ...] = ()
    noise: NoiseTable | None = None

    def __repr__(self) -> str:
        """One line with the guarantee and the certified interval."""
        p = self.problem
        return (
            f"BoundedTable({self.kind}, epsilon={p.epsilon}, delta={p.delta}, "
            f"sensitivity={p.sensitivity:g}, range=({p.low:g}, {p.high:g}), loss={p.loss.name}, "
            f"bins={self.bins}, {'' if self.noise is None else 'noise alike for all, '}"
            f"{self._interval})"
        )

    def _sizes(self) -> dict[str, Any]:
        return {
            "sensitivity": self.problem.sensitivity,
            "range": [self.problem.low, self.problem.high],
            "bins": self.bins,
        }

    @cached_property
    def clamped(self) -> Clamped | None:
        """How the noise that is the same for all answers is released, if it is."""
        return None if self.noise is None else Clamped.of(self.problem, self.noise)

    @cached_property
    def _above(self) -> ChannelProblem:
        return model.channel_above(self.problem, self.bins, self.cells)

    def _proved(self) -> tuple[float, float]:
        """Prove everything but the bounds that are stated; returns those that follow."""
        _check_fields(self)
        if self.clamped is not None:
            self.clamped.verify()
            if self.problem.cap is not None and self.clamped.loss() > self.problem.cap:
                raise CertificateError(f"the loss exceeds the cap ({self.problem.cap})")
            loss = self.clamped.mean()
        else:
            proofs.prove_private(self.weights, self._above)
            proofs.prove_caps(self.weights, self._above)
            loss = proofs.expected_cost(self.weights, self._above)
        # No loss is negative; chords of a loss may be.
        below = model.channel_below(self.problem, self.dual_bins, self.dual_cells)
        bound = max(Fraction(0), proofs.prove_bound(self.dual, below))
        return float_up(loss), float_down(bound)

    def delta_at(self, epsilon: float, apart: int | None = None) -> float:
        """The exact privacy profile: the least delta for this epsilon, rounded up.

        :param epsilon: at least 0
        :param apart: what :meth:`apart` says of a distance; default: all that the sensitivity
            allows
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon ({epsilon}) must not be negative")
        if apart is not None and apart < 1:
            raise ValueError(f"apart ({apart}) must be at least 1")
        if self.clamped is not None:
            return self.clamped.delta_at(epsilon, apart)
        base = self._above
        pairs = base.pairs
        if apart is not None:
            pairs = pairs[np.abs(pairs[:, 0] - pairs[:, 1]) <= apart]
        asked = np.full(len(pairs), float(epsilon))
        narrowed = replace(base, pairs=pairs, low=asked, high=asked)
        worst = int(proofs.shortfall_units(self.weights, narrowed).max(initial=0))
        return float_up(Fraction(worst, TOTAL))

    def loss_at(self, answer: float) -> float:
        """The expected loss at one answer of the query, rounded up.

        For noise that is the same for all answers, a bound that holds at all of them.

        >>> from opendp_optimal import solve_bounded
        >>> table = solve_bounded(1.0, 0.2, sensitivity=2, range=(0, 4), bins=4, cache=False)
        >>> table.loss_at(2.0) < table.loss_at(0.0)
        True
        """
        problem = self.problem
        if not problem.low <= answer <= problem.high:
            raise ValueError(f"answer ({answer}) must be in [{problem.low}, {problem.high}]")
        value = Fraction(answer)
        if problem.integer and value.denominator != 1:
            raise ValueError(f"answer ({answer}) must be an integer")
        if self.clamped is not None:
            return float_up(self.clamped.loss())
        return float_up(expected_loss_at(problem, self.weights, self.cells, value, self.revealing))

    @property
    def revealing(self) -> bool:
        """Whether there are columns for the release of the answer itself."""
        return self.noise is None and bool(self._above.revealing)

    @cached_property
    def conditional_losses(self) -> Floats:
        """Expected losses at all integers, or at the ends of all bins, each rounded up."""
        return np.array([self.loss_at(float(a)) for a in self.answers])

    @cached_property
    def largest_conditional_loss(self) -> float:
        """A bound on the expected loss at every single answer, rounded up."""
        if self.clamped is not None:
            return float_up(self.clamped.loss())
        asked = replace(self.problem, cap=self.problem.cap or 1.0)
        values = proofs.cap_values(self.weights, model.channel_above(asked, self.bins, self.cells))
        return float_up(max(values))

    @property
    def answers(self) -> Floats:
        """Answers to look at: all integers, or the ends of all bins within the range."""
        problem = self.problem
        if problem.edges is not None:
            return np.array(problem.edges)
        parts = self.bins or (int(problem.width) if problem.integer else _SHOWN)
        part, low = problem.width / parts, Fraction(problem.low)
        return np.array([float(low + i * part) for i in range(parts + 1)])

    def family(self) -> tuple[Floats, Floats, Floats]:
        """Answers, outputs and chances of the outputs: one row for each x, for plots.

        The release of the answer itself counts as that of its own cell.
        """
        problem = self.problem
        if self.noise is not None:
            return self.answers, self.answers, self._clamped_chances(self.noise)
        chances = self.weights / TOTAL
        if self.revealing:
            revealed = chances[:, 0] + chances[:, -1]
            chances = chances[:, 1:-1] + np.diag(revealed)
        if problem.integer or problem.edges is not None:
            return self.answers, self.answers, chances
        lattice = model.lattice_above(problem, self.cells, self.bins)
        middle = problem.low / 2 + problem.high / 2
        places = middle + (np.arange(self.bins + 1) - self.bins / 2) * float(lattice.step)
        return np.asarray(places), np.asarray(places), chances

    def _clamped_chances(self, noise: NoiseTable) -> Floats:
        """Chances of the places next to what is released, for each of :attr:`answers`."""
        count = len(self.answers)
        unit = 1.0 if self.problem.integer else float(self.problem.reach) / noise.cells
        apart = unit * (count - 1) / float(self.problem.width)
        moves = np.arange(-noise.radius, noise.radius + 1) * apart
        spike = 0 if noise.spike is None else noise.spike.weight
        law = np.append(noise.weights, noise.atom + spike) / TOTAL
        out = np.zeros((count, count))
        for x in range(count):
            places = np.clip(np.rint(x + np.append(moves, 0.0)), 0, count - 1)
            np.add.at(out[x], places.astype(int), law)
            out[x, [0, -1]] += (1 - law.sum()) / 2  # an endless tail
        return out

    @cached_property
    def bits(self) -> int:
        """Answers are rounded to multiples of 2^-bits before anything else (integers: 0)."""
        if self.clamped is not None:
            return self.clamped.bits
        return sampling.resolution(self.problem, self.bins)

    @cached_property
    def mechanism(self) -> sampling.Mechanism:
        """What is drawn from, on the grid of :attr:`bits`.

        Rounding to the grid moves two answers by one grid step relative to each other, at most;
        bins are made larger by as much.
        """
        if self.clamped is not None:
            return self.clamped.mechanism()
        return sampling.prepare(
            self.problem, self.weights, self.cells, self.bits, self._above.pairs, self.revealing
        )

    def apart(self, distance: Fraction) -> int:
        """How many cells (integers, grid steps) answers at a distance can be apart, at most."""
        if self.clamped is not None:
            return self.clamped.apart(distance)
        if self.problem.integer:
            return max(1, math.floor(distance))
        if self.problem.edges is not None:
            return self.bins
        assert isinstance(self.mechanism, sampling.Shifting)
        moved = math.floor(distance * Fraction(2) ** self.bits) + 1
        return -(-moved // self.mechanism.step)

    def releaser(self) -> Callable[[Any], Any]:
        """A function from an answer to its private release, drawn from the secure source.

        Answers outside the range count as its nearer end, NaN as 0 (or the end nearest to it).
        Answers of any type of number are brought to the grid exactly, in one rounding.
        """
        return sampling.releaser(self.problem, self.mechanism, self.bits)

    def whole_releaser(self) -> Callable[[int], int]:
        """The same for integers, whatever the kind of the table: nothing becomes a float."""
        return sampling.whole_releaser(self.problem, self.mechanism, self.bits)

    @staticmethod
    def rounded(
        problem: BoundedProblem,
        bins: int,
        cells: int,
        weights: Integers,
        dual: proofs.ChannelDual,
        dual_bins: int,
        dual_cells: int,
        levels: tuple[int, ...] = (),
        noise: NoiseTable | None = None,
    ) -> BoundedTable:
        """A table whose bounds follow from its data; everything is proved on the way."""
        table = BoundedTable(
            *(problem, bins, cells, weights, dual, dual_bins, dual_cells),
            *(math.inf, -math.inf, levels, noise),
        )
        return table._bounded(*table._proved())


def _check_fields(table: BoundedTable) -> None:
    """Raise unless every field is of its kind and they belong together."""
    replace(table.problem)  # checks its arguments
    counts = (table.bins, table.cells, table.dual_bins, table.dual_cells, *table.levels)
    if any(type(n) is not int or n < 0 for n in counts):
        raise CertificateError("numbers of bins and cells are no whole numbers")
    problem = table.problem
    lattices = [(table.dual_cells, table.dual_bins)]
    if table.noise is not None:
        used = (table.bins, table.cells, *table.weights.shape)
        if used != (0, 0, 0, 0):
            raise CertificateError("a table has both bins and noise that is alike for all")
    elif problem.edges is None:
        lattices.append((table.cells, table.bins))
    elif table.cells != 0:
        raise CertificateError("unequal bins have no number of cells")
    for cells, bins in lattices:
        if problem.integer and cells != math.floor(problem.reach):
            raise CertificateError("an integer table has other cells than the integers")
        if not problem.integer and not 1 <= cells <= bins:
            raise CertificateError("the sensitivity has more cells than the range, or none")
    equal = not problem.integer and problem.edges is None
    tried = {table.dual_bins} | ({table.bins} if equal else set())
    if table.levels and (
        list(table.levels) != sorted(set(table.levels)) or not tried <= set(table.levels)
    ):
        raise CertificateError("levels are not the numbers of bins that were tried")

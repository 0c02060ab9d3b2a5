"""The search for noise within a range: lattices of bins, noise alike for all answers, constants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.certify import channel as proofs
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.errors import CertificateError, SolverError
from opendp_optimal.exact.numbers import float_up
from opendp_optimal.model.bounded import MOST_WEIGHTS, channel_above, channel_below
from opendp_optimal.model.channel import ChannelProgram, ChannelSolution
from opendp_optimal.model.work import Work, channel_seconds
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.problem.channel import ChannelProblem
from opendp_optimal.round.channel import private_rows, round_prices
from opendp_optimal.search import clamped as additive
from opendp_optimal.search.options import SearchOptions
from opendp_optimal.search.sizing import MOST_SECONDS
from opendp_optimal.table import NoiseTable
from opendp_optimal.table.bounded import BoundedTable
from opendp_optimal.table.clamped import Clamped

_FIRST_BINS = 8
_FINER = 1.3
_PART_BINS = 32
"""Bins of the part of a long range that a bound is proved on."""
_MOST_VARIABLES = 2300
"""Variables of a programme up to which bins are refined without being asked to."""
_CAP_EXCESS = 1e-4
"""By what part the relaxation must exceed a cap for finer bins to be of no use."""
_ROUGH_GAP, _MUCH_WORSE = 0.5, 1.5
"""The gap of noise that is the same for all answers, first, and how much worse than what was found
its loss must then be, less that gap, to be of no use."""
_BINS_PART = 1.5
"""The work that goes into bins, as a part of that which noise alike for all may take."""
_STEPS = 25
"""Of the interior-point method, more or less."""
ALIKE = 0
"""Its place in the levels that were tried: it has no bins."""
_CAP_MARGIN = 1 - Fraction(1, 1 << 20)
"""The part of a cap that is aimed at, so that rounding keeps to it."""


@dataclass(frozen=True)
class _Above:
    bins: int
    cells: int
    weights: Integers
    value: Fraction
    noise: NoiseTable | None = None


@dataclass(frozen=True)
class _Below:
    bins: int
    cells: int
    dual: proofs.ChannelDual
    value: Fraction


class BinSearch:
    """The best mechanism and the best bound of all lattices tried."""

    def __init__(
        self, problem: BoundedProblem, options: SearchOptions, stored: BoundedTable | None
    ) -> None:
        """Go on from a stored table, if there is one."""
        self.problem, self.options = problem, options
        self.gap, self.progress = options.gap, options.progress
        self.levels: set[int] = set()
        self.above: _Above | None = None
        self.below: _Below | None = None
        if stored is not None:
            self.levels |= set(stored.levels)
            loss, least = Fraction(stored.upper), Fraction(stored.lower)
            self.above = _Above(stored.bins, stored.cells, stored.weights, loss, stored.noise)
            self.below = _Below(stored.dual_bins, stored.dual_cells, stored.dual, least)
        self.least_cap = math.inf
        self.cap_too_low = False
        self.failure: Exception | None = None
        self.work = Work(_BINS_PART * MOST_SECONDS)
        self.planned = self.work.left
        self.fitted = stored is not None
        self.solved: tuple[int, ChannelProgram, ChannelSolution] | None = None

    @cached_property
    def given(self) -> tuple[int, int]:
        """Bins and cells of a mechanism as the problem has them; one bin where it has none."""
        problem = self.problem
        if problem.integer:
            return int(problem.width), math.floor(problem.reach)
        return (1, 1) if problem.edges is None else (len(problem.edges) - 1, 0)

    def fixed(self, bins: int, cells: int) -> None:
        """Solve on so many bins, and on all halvings of them: refining never loosens."""
        ladder = [(bins, cells)]
        while ladder[-1][0] % 2 == 0 and ladder[-1][1] % 2 == 0:
            ladder.append((ladder[-1][0] // 2, ladder[-1][1] // 2))
        if self._seconds(*ladder[-1]) > self.planned:
            self.automatic()
        for number, k in reversed(ladder):
            late = not self._plan(number, k)
            if late and self.above is not None and self.below is not None:
                self.levels.add(number)  # it would take too long another time, too
            elif number not in self.levels:
                self.try_above(number, k)
                self.try_below(number, k)

    def _plan(self, bins: int, cells: int) -> bool:
        """Whether so many bins are within what may be done, tried before or not; counts them in."""
        self.planned -= self._seconds(bins, cells)
        return self.planned >= 0

    def automatic(self) -> None:
        """Refine until the gap is met or programmes get too large."""
        problem = self.problem
        if problem.integer:
            if self.above is None or self.reached() > self.gap:
                self.try_above(*self.given)
                self.try_below(*self.given)
            return
        if problem.edges is not None and self.above is None:
            self.try_above(*self.given)
        ratio = problem.width / problem.reach
        if (math.ceil(ratio) + 1) ** 2 > MOST_WEIGHTS:
            # A bin for each sensitivity is too many: noise that is alike for all answers is nearly
            # as good there, and a part of the range says how good anything can be, at least.
            self.try_below(_PART_BINS, 1)
            return
        cells = max(1, math.ceil(_FIRST_BINS / ratio))
        bins, k = _near(problem, ratio, cells)
        before = 0.0
        while True:
            if bins not in self.levels:
                if problem.edges is None:
                    self.try_above(bins, k)
                self.try_below(bins, k)
            gap = self.reached()
            if gap <= self.gap or (self.cap_too_low and self.above is None):
                break
            # With given bins only the bound can improve; that it still does is worth a try.
            value = 0.0 if self.below is None else float(self.below.value)
            slow = value < before * (1 + self.gap / 5)
            if problem.edges is not None and (slow or bins >= 2 * len(problem.edges) + _FIRST_BINS):
                break
            before = value
            # The same steps whatever the gap: what was stored on the way is not tried again.
            following = max(k + 1, math.ceil(_FINER * k))
            bins, k = _near(problem, ratio, following)
            if (bins + 1) ** 2 // self._mirrored > _MOST_VARIABLES or not self._plan(bins, k):
                break

    @cached_property
    def _mirrored(self) -> int:
        """2 where rows are mirror images of each other, two by two."""
        weights = self.problem.prior_weights
        return 2 if self.problem.loss.symmetric and weights == weights[::-1] else 1

    def _seconds(self, bins: int, cells: int) -> float:
        """About how long the interior-point method takes for a mechanism and a bound."""
        rows = bins // self._mirrored + 1
        pairs = rows * min(2 * cells, bins)
        return 2 * _STEPS * channel_seconds(rows, bins + 3, pairs, min(cells, rows))

    def reached(self) -> float:
        """The gap so far."""
        if self.above is None or self.below is None or self.below.value <= 0:
            return math.inf
        return float((self.above.value - self.below.value) / self.below.value)

    def try_above(self, bins: int, cells: int) -> None:
        """A mechanism on so many bins, kept if it is the best."""
        self.progress(f"mechanism on {bins} bins")
        try:
            channel = channel_above(self.problem, bins, cells)
            weights = self._weights(channel)
        except (SolverError, CertificateError) as error:
            self.failure = error
            return
        found = _Above(bins, cells, weights, proofs.expected_cost(weights, channel))
        self.fitted = True
        self._keep(found, channel)

    def _weights(self, channel: ChannelProblem) -> Integers:
        channel, power = channel.in_units()
        if channel.cap is not None:
            channel = replace(channel, cap=channel.cap * _CAP_MARGIN)
        program = ChannelProgram.of(channel)
        # Integers have one programme for both.
        solution = self._run(program, self.work.part(0.9 if self.problem.integer else 0.5))
        self.solved = power, program, solution
        return private_rows(program.unfold(solution.weights), channel)

    def try_below(self, bins: int, cells: int) -> None:
        """A bound from so many bins, kept if it is the best."""
        self.progress(f"bound on {bins} bins")
        self.levels.add(bins)
        channel = channel_below(self.problem, bins, cells)
        # At worst no prices at all, which prove that no loss is negative.
        duals = [proofs.no_prices(channel)]
        try:
            duals.append(self._prices(channel))
        except (SolverError, CertificateError) as error:
            self.failure = error
        proved = [max(Fraction(0), proofs.prove_bound(dual, channel)) for dual in duals]
        value, dual = max(zip(proved, duals, strict=True), key=lambda pair: pair[0])
        if self.below is None or value > self.below.value:
            self.below = _Below(bins, cells, dual, value)

    def _prices(self, channel: ChannelProblem) -> proofs.ChannelDual:
        units, power = channel.in_units()
        program = ChannelProgram.of(units)
        solution = self._solved_before(program, power) or self._run(program, self.work)
        if units.cap is not None:
            # Not even the relaxation keeps to the cap: finer bins will not help.
            self.cap_too_low = solution.excess > _CAP_EXCESS * units.cap
        prices = round_prices(solution, program, units)
        return replace(prices, scale=prices.scale - power)

    def _solved_before(self, program: ChannelProgram, power: int) -> ChannelSolution | None:
        """What was found for the mechanism: of integers it has prices for the bound, too."""
        if not self.problem.integer or self.solved is None:
            return None
        units, other, solution = self.solved
        # Both are folded, or neither is: their pairs are the same, too.
        alike = power == units and program.cost.shape == other.cost.shape
        # A cap that does not bind is left out, of one with its rounded costs perhaps alone.
        return solution if alike and len(program.caps) == len(other.caps) else None

    def try_noise(self) -> None:
        """Noise that is the same for all answers, kept if it is the best."""
        problem = self.problem
        if ALIKE in self.levels:
            return
        self.levels.add(ALIKE)
        if self.above is not None and additive.least_loss(problem) >= self.above.value:
            return
        self.progress("noise that is the same for all answers")
        for gap in (max(_ROUGH_GAP, self.gap), self.gap):
            options = replace(self.options, kind="noise", gap=gap)
            try:
                noise = additive.noise_for(problem, options)
                found = self._clamped(noise)
            except (SolverError, CertificateError, ValueError, ArithmeticError) as error:
                self.failure = self.failure or error
                return
            rough = found.value * Fraction(noise.lower) / Fraction(noise.upper)
            if self.above is not None and rough >= _MUCH_WORSE * self.above.value:
                return
            if noise.gap <= self.gap or noise.gap > gap:
                break  # it will not be any better
        self._keep(found)

    def try_constant(self) -> None:
        """One release for all answers: where no programme found any, noise may be worse."""
        problem = self.problem
        if self.fitted or problem.cap is not None:
            return
        bins, cells = self.given
        if not problem.integer and problem.edges is None:
            self.levels.add(bins)
        channel = channel_above(problem, bins, cells)
        revealed = len(channel.revealing) // 2
        for y in range(revealed, channel.outputs - revealed):
            weights = np.zeros((len(channel.cost), channel.outputs), np.int64)
            weights[:, y] = TOTAL
            self._keep(_Above(bins, cells, weights, proofs.expected_cost(weights, channel)))

    def _keep(self, found: _Above, channel: ChannelProblem | None = None) -> None:
        """Keep the best mechanism within the cap; the least cap that any keeps to is remembered.

        :param channel: the mechanism's problem, where that is at hand
        """
        problem = self.problem
        if problem.cap is not None:
            if found.noise is None:
                channel = channel or channel_above(problem, found.bins, found.cells)
                worst = max(proofs.cap_values(found.weights, channel))
            else:
                worst = Clamped.of(problem, found.noise).loss()
            self.least_cap = min(self.least_cap, float_up(worst))
            if worst > problem.cap:
                return
        if self.above is None or found.value < self.above.value:
            self.above = found

    def _clamped(self, noise: NoiseTable) -> _Above:
        """Noise, moved into the range: integers have a row for each answer, as any mechanism."""
        problem = self.problem
        if not problem.integer:
            how = Clamped.of(problem, noise)
            return _Above(0, 0, np.zeros((0, 0), np.int64), how.mean(), noise)
        channel = channel_above(problem, *self.given)
        weights = private_rows(additive.integer_rows(problem, noise), channel)
        return _Above(*self.given, weights, proofs.expected_cost(weights, channel))

    def _run(self, program: ChannelProgram, work: Work) -> ChannelSolution:
        from opendp_optimal.solvers import run_channel  # loaded only when needed

        tolerance = min(1e-3, max(1e-7, self.gap / 50))
        return run_channel(
            program,
            method=self.options.method,
            tolerance=tolerance,
            progress=self.progress,
            work=work,
        )

    def table(self) -> BoundedTable:
        """The table of the best mechanism and the best bound; raises if there is none."""
        if self.above is None and self.least_cap < math.inf:
            raise ValueError(
                f"cap ({self.problem.cap}) must be larger: no private release that keeps to it "
                f"was found, one that keeps to {self.least_cap:.6g} was"
            )
        above, below = self.above, self.below
        if above is None or below is None:
            raise SolverError(
                f"no certified table for {self.problem.describe()}: {self.failure}"
            ) from self.failure
        mechanism = (above.bins, above.cells, above.weights)
        bound = (below.dual, below.bins, below.cells)
        levels = tuple(sorted(self.levels))
        return BoundedTable.rounded(self.problem, *mechanism, *bound, levels, above.noise)


def _near(problem: BoundedProblem, ratio: Fraction, cells: int) -> tuple[int, int]:
    """Numbers of bins and of cells, from about so many cells on, that fit the problem.

    Bins should make up both the range and the sensitivity, and the parts of the prior should be
    whole numbers of them.
    """
    prior = problem.densities()
    ends = {
        (start - Fraction(problem.low)) / problem.width
        for (start, _, density), (_, _, before) in zip(prior[1:], prior, strict=False)
        if density != before
    }

    def misfit(k: int) -> float:
        bins = max(1, round(k * ratio))
        off = abs(float(bins / (k * ratio)) - 1)
        apart = any((bins * end).denominator > 1 for end in ends) or (ends and off > 1e-9)
        return 20 * off + (0.5 if apart else 0.0) + 0.5 * (k - cells) / cells

    options = range(cells, max(cells + 4, 3 * cells // 2) + 1)
    small = [k for k in options if (round(k * ratio) + 1) ** 2 <= MOST_WEIGHTS]
    best = min(small or options[:1], key=misfit)
    return max(1, round(best * ratio)), best

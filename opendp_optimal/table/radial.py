"""RadialTable: noise for vectors that falls with a norm, with the proofs that come with it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.decay import Decay, decay_delta_up, decay_loss_up, prove_decay
from opendp_optimal.certify.radial import (
    UNIT_STEPS,
    Staircase,
    prove_staircase,
    staircase_loss_up,
)
from opendp_optimal.certify.radial_bound import RadialPrices, additive_bound_down
from opendp_optimal.certify.radial_smooth import SmoothPrices, smooth_bound_down
from opendp_optimal.certify.steps import Steps, prove_steps, steps_delta_up, steps_loss_up
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import exp_down, exp_up, float_down, float_up
from opendp_optimal.known.coordinate import beyond, coordinate_law, decay_radii
from opendp_optimal.known.gaussian import Gaussian as GaussianLaw
from opendp_optimal.known.law import Law
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.radial import RadialProblem
from opendp_optimal.sample.balls import LARGEST_RADIUS, LONGEST, ball_points
from opendp_optimal.sample.integers import gaussian_integers, smallest_rate
from opendp_optimal.sample.radial import DecayRadii, chosen_radii, listed_radii, radial_vectors
from opendp_optimal.table.base import Table

_DIGITS = 2.0**-20
"""A bound may say less than what is proved by this part: older proofs had fewer digits."""
Radii = Staircase | Steps | Decay
"""How radii are chosen."""


@dataclass(frozen=True, eq=False)
class RadialTable(Table):
    """Noise for vectors whose density falls with a norm.

    A table for real vectors has sensitivity 1 in its norm: it draws a radius, then a uniform point
    of the ball of that radius. A table for integers under the linf norm draws integers.

    :param problem: what was asked
    :param law: how the radii are chosen: a staircase (pure), a decay, or any steps
    :param upper: expected sum of the losses of all coordinates, rounded up
    :param lower: a bound below that of every additive noise, rounded down; 0 where none is known
    :param prices: what proves that bound: under l2, for the squared error of two numbers or more
    """

    problem: RadialProblem
    law: Staircase | Steps | Decay
    upper: float
    lower: float
    prices: RadialPrices | SmoothPrices | None = None

    @property
    def size(self) -> int:
        """Length of the vectors."""
        return self.problem.size

    @property
    def norm(self) -> str:
        """Of the sensitivity."""
        return self.problem.norm

    @property
    def shape(self) -> str:
        """ "staircase", "steps", "decay" or "gaussian"."""
        if not isinstance(self.law, Decay):
            return type(self.law).__name__.lower()
        return "gaussian" if self.law.c == 0 else "decay"

    @property
    def pure(self) -> bool:
        """Whether the noise needs no delta."""
        if isinstance(self.law, Decay):
            return self.law.k == 0 and self.law.c <= self.epsilon
        return isinstance(self.law, Staircase)

    def __repr__(self) -> str:
        """One line with the guarantee and the certified interval."""
        return (
            f"RadialTable({self.shape} in {self.norm}, size={self.size}, epsilon={self.epsilon}, "
            f"delta={self.delta}, loss={self.loss.name}, upper={self.upper:.6g}, "
            f"lower={self.lower:.6g})"
        )

    def _sizes(self) -> dict[str, Any]:
        return {"norm": self.norm, "size": self.size, "shape": self.shape}

    def _check_bounds(self, upper: float, lower: float) -> None:
        # Files may come from a proof of fewer digits: bounds that say so little less hold, too.
        more = upper <= self.upper <= upper * (1 + _DIGITS)
        less = lower * (1 - _DIGITS) <= self.lower <= lower
        super()._check_bounds(self.upper if more else upper, self.lower if less else lower)

    def _proved(self) -> tuple[float, float]:
        problem, law = self.problem, self.law
        if not isinstance(problem, RadialProblem) or not isinstance(law, Radii):
            raise CertificateError("a table has parts that are not its own")
        if isinstance(law, Staircase):
            prove_staircase(law, problem.size, problem.epsilon)
            whole = problem.integer_sensitivity
            uneven = any(offset % 2 for offset in law.offsets)
            if whole is not None and (law.step != 2 * whole or law.first % 2 == 0 or uneven):
                raise CertificateError("a table for integers has another lattice than the integers")
            if law.offsets and problem.norm != "linf":
                raise CertificateError("a staircase has offsets in the norm linf only")
        else:
            if problem.kind == "integer":
                raise CertificateError("a table for integers has real noise")
            if problem.norm != "l2" and (isinstance(law, Steps) or law.k > 0):
                raise CertificateError("noise with delta is proved in the norm l2 only")
            prove = prove_steps if isinstance(law, Steps) else prove_decay
            prove(law, problem.size, problem.epsilon, problem.delta)  # type: ignore[arg-type]
        return float_up(self._loss_of(problem.power, problem.weights)), self._below_all()

    def _below_all(self) -> float:
        problem, prices = self.problem, self.prices
        if prices is None:
            return 0.0
        if not isinstance(prices, RadialPrices | SmoothPrices) or not problem.has_bound:
            raise CertificateError("no bound is proved by prices here")
        asked = problem.size, problem.epsilon, problem.delta
        if isinstance(prices, RadialPrices):
            return max(0.0, float_down(additive_bound_down(prices, *asked)))
        return max(0.0, float_down(smooth_bound_down(prices, *asked)))

    def _loss_of(self, power: int, weights: tuple[float, ...] | None) -> Fraction:
        problem, law = self.problem, self.law
        if isinstance(law, Staircase):
            whole, size = problem.kind == "integer", problem.size
            return staircase_loss_up(law, problem.norm, size, power, whole=whole, weights=weights)
        if isinstance(law, Steps):
            return steps_loss_up(law, problem.size, power)
        # All coordinates have the same loss.
        part = Fraction(1)
        if weights is not None:
            part = sum(map(Fraction, weights), Fraction(0)) / problem.size
        return part * decay_loss_up(law, problem.norm, problem.size, power)

    def mean_loss(self, loss: str | Loss) -> float:
        """The expected sum of the losses of all coordinates, as they weigh, rounded up.

        :param loss: "l1" or "l2"
        """
        parsed = loss_of(loss)
        if not parsed.endless:
            raise ValueError(f"loss ({loss!r}) must be l1 or l2 for vectors")
        return float_up(self._loss_of(int(parsed.power), self.problem.weights))

    def losses(self) -> tuple[float, ...]:
        """The expected loss of each coordinate by itself, rounded up."""
        law, problem = self.law, self.problem
        sides = law.offsets if isinstance(law, Staircase) else ()
        places = {sides[at]: at for at in range(len(sides))} or {0: 0}
        found = {}
        for side, at in places.items():
            one = tuple(float(i == at) for i in range(self.size)) if sides else None
            total = self._loss_of(problem.power, one)
            found[side] = float_up(total if sides else total / self.size)
        return tuple(found[side] for side in sides or (0,) * self.size)

    def coordinate(
        self, unit: float = 1.0, part: tuple[str, int] | None = None, at: int = 0
    ) -> Law:
        """The law of one number of a vector. Except for Gaussian noise, the others depend on it.

        :param unit: the sensitivity, for real tables
        :param part: norm and length of the part that the number is in, for :meth:`draw_parts`
        :param at: which number it is, where they differ
        """
        if isinstance(self.law, Decay) and self.law.c == 0:
            return GaussianLaw(unit / math.sqrt(2 * self.law.k))
        norm, size = part or (self.norm, self.size)
        whole = self.kind == "integer"
        return coordinate_law(norm, size, *self._balls(at), unit, whole=whole)

    def beyond(self, places: Floats, part: tuple[str, int] | None = None, at: int = 0) -> Floats:
        """The chance that one number of a vector of real noise is larger, at sensitivity 1.

        :param places: larger than what, at least 0
        :param part: as in :meth:`coordinate`
        :param at: as there
        """
        if isinstance(self.law, Decay) and self.law.c == 0:
            return GaussianLaw(1 / math.sqrt(2 * self.law.k)).cdf(-places)
        return beyond(*(part or (self.norm, self.size)), *self._balls(at), places)

    def _balls(self, at: int) -> tuple[Floats, Floats]:
        """The radii of balls, and their weights; of the box in which a number is, for offsets."""
        law = self.law
        if isinstance(law, Decay):
            return decay_radii(law.c, law.k, self.size)
        if isinstance(law, Steps):
            return law.radii / law.step, law.weights.astype(np.float64)
        stay = 1 - law.again / 2.0**62
        # What lies beyond the list is far below all else: every so many of its balls stand for it.
        beyond = np.unique(np.geomspace(1, 40 / stay, 200).astype(np.int64)) - 1
        rest = np.exp(np.log1p(-stay) * beyond) if stay < 1 else np.eye(1, len(beyond))[0]
        balls = np.concatenate([law.start + np.arange(len(law.weights)), law.end + beyond])
        weights = np.concatenate([law.weights, law.tail * -np.diff(rest, append=0.0)])
        offset = law.offsets[at] if law.offsets else 0
        reach = law.first + offset + balls * float(law.step)
        return reach / (1 if self.kind == "integer" else law.step), weights

    @property
    def least_grid(self) -> int:
        """Grid steps that a sensitivity must have at least, for real noise."""
        return self.law.fine if isinstance(self.law, Decay) else self.law.step * UNIT_STEPS

    @cached_property
    def most_grid(self) -> int:
        """Grid steps that a sensitivity may have at most, for real noise: it must be drawn."""
        law, largest = self.law, 1 << 42
        if isinstance(law, Steps):
            return min(largest, (LARGEST_RADIUS - 1) // int(law.radii[-1]) * law.step)
        if isinstance(law, Staircase) or law.c > 0:
            far = 4.0 * (self.size + 8 * math.sqrt(self.size) + 40) / self.epsilon + 4
            if isinstance(law, Staircase):
                far += max(law.offsets, default=0) / law.step
            largest = min(largest, int((LARGEST_RADIUS - 1) / far))
        if isinstance(law, Decay) and law.c == 0:
            largest = min(largest, int(math.sqrt(law.k / smallest_rate(pure=False))) - 1)
        elif isinstance(law, Decay):
            rate = _drawing(law, self.size, law.fine).rate
            largest = min(largest, int(0.99 * law.fine * rate / smallest_rate(pure=True)))
        return largest

    def quantile(self, p: float) -> float:
        """The least x that no number of the noise exceeds with a chance of more than ``1 - p``.

        At sensitivity 1 for real tables, in units for integer tables.

        :param p: in (0, 1)
        """
        offsets = getattr(self.law, "offsets", ())
        longest = offsets.index(max(offsets)) if offsets else 0
        found = self.coordinate(at=longest).quantile(p)
        return float(math.ceil(found - 1e-9)) if self.kind == "integer" else found

    def delta_at(self, epsilon: float, shift: float | Fraction | None = None) -> float:
        """The privacy profile: a delta that is enough for this epsilon, rounded up.

        :param epsilon: at least 0
        :param shift: the distance of neighbours, as a part of the sensitivity; default: all of it
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon ({epsilon}) must not be negative")
        exact = Fraction(1) if shift is None else Fraction(shift)
        if not 0 < exact <= 1:
            raise ValueError(f"shift ({shift}) must be in (0, 1]")
        return _delta_at(self, float(min(epsilon, 60.0)), exact)

    def _of_pure(self, epsilon: float, shift: Fraction) -> float:
        """What a pure guarantee alone proves: randomised response is the worst."""
        most = Fraction(self.epsilon)
        if isinstance(self.law, Decay):
            # Grid steps are whole: a shift counts as up to a grid step more.
            most = Fraction(self.law.c) * min(Fraction(1), shift + Fraction(1, self.law.fine))
        if epsilon >= most:
            return 0.0
        odds = exp_up(most)
        return min(1.0, float_up((odds - exp_down(Fraction(epsilon))) / (1 + exp_down(most))))

    def draw(self, count: int, reach: int | None = None) -> Integers:
        """Exact noise from the secure source: an array of vectors of integers.

        :param count: how many vectors
        :param reach: grid steps in a sensitivity, for real tables; the guarantee holds for whole
            moves of up to so many. At least ``least_grid``; a staircase takes multiples of its
            lattice
        """
        if count < 0:
            raise ValueError(f"count ({count}) must not be negative")
        law = self.law
        if isinstance(law, Decay) and law.c == 0:
            rate = float_down(Fraction(law.k) / self._steps(reach) ** 2)
            return gaussian_integers(rate, count * self.size).reshape(count, self.size)
        radii, whole, farther = self._radii(reach), self.kind == "integer", self._farther(reach)
        return radial_vectors(self.norm, radii, self.size, count, whole=whole, farther=farther)

    def draw_parts(
        self, parts: Sequence[tuple[str, int]], count: int, reach: int | None = None
    ) -> Integers:
        """Exact noise whose parts are points of balls in norms of their own, of one random radius.

        The law of the radius is that of the table: it is private in every norm, as long as it needs
        no delta, and so in the largest of the norms of the parts. Offsets must be the same for all
        numbers of a part.

        :param parts: norm and length of each; together as long as the table's vectors
        :param count: how many vectors
        :param reach: grid steps in a sensitivity, as for :meth:`draw`
        """
        if sum(size for _, size in parts) != self.size:
            raise ValueError(f"parts ({parts!r}) must have {self.size} numbers in all")
        if not self.pure or self.kind == "integer":
            raise ValueError("parts need a table of pure noise for real vectors")
        radii = self._radii(reach)(count)
        farther, drawn, end = self._farther(reach), [], 0
        for norm, size in parts:
            more = {0} if farther is None else set(farther[end : end + size].tolist())
            if len(more) > 1:
                raise ValueError(f"parts ({parts!r}) must have the same offset in each")
            drawn.append(ball_points(norm, radii + more.pop(), size))
            end += size
        return np.concatenate(drawn, axis=1)

    def _farther(self, reach: int | None) -> Integers | None:
        """How much farther balls reach in each coordinate, in grid steps."""
        law = self.law
        if not isinstance(law, Staircase) or not law.offsets:
            return None
        scale = 1 if self.kind == "integer" else self._steps(reach) // law.step
        return np.array(law.offsets, np.int64) * scale

    def _steps(self, reach: int | None) -> int:
        steps = self.least_grid if reach is None else reach
        if not self.least_grid <= steps <= self.most_grid:
            raise ValueError(f"reach ({reach}) must be in [{self.least_grid}, {self.most_grid}]")
        return steps

    def _radii(self, reach: int | None) -> Any:
        problem, law = self.problem, self.law
        if problem.kind == "integer":
            if reach not in (None, problem.integer_sensitivity):
                raise ValueError(f"reach ({reach}) must be {problem.integer_sensitivity}")
            return _drawing(law, self.size, 1)
        steps, unit = self._steps(reach), 1 if isinstance(law, Decay) else law.step
        if steps % unit:
            raise ValueError(f"reach ({reach}) must be a multiple of {unit}")
        return _drawing(law, self.size, steps // unit)

    def sample(self, count: int) -> Any:
        """Noise at sensitivity 1 as floats (real tables), or integers (integer tables)."""
        if self.kind == "integer":
            return self.draw(count)
        return self.draw(count) / self.least_grid

    @staticmethod
    def proved(
        problem: RadialProblem,
        law: Radii,
        prices: RadialPrices | SmoothPrices | None = None,
    ) -> RadialTable:
        """A table whose bounds follow from its law and prices; everything is proved on the way."""
        table = RadialTable(problem, law, math.inf, 0.0, prices)
        return table._bounded(*table._proved())

    @staticmethod
    def can_draw(norm: str, size: int) -> bool:
        """Whether vectors of a length can be drawn in a norm, in reasonable time."""
        return norm != "l2" or size <= 4 * LONGEST


@lru_cache(maxsize=4096)
def _delta_at(table: RadialTable, epsilon: float, shift: Fraction) -> float:
    best = table._of_pure(epsilon, shift) if table.pure else 1.0
    if epsilon >= table.epsilon:
        best = min(best, table.delta)
    law = table.law
    if isinstance(law, Steps):
        best = min(best, float_up(steps_delta_up(law, table.size, epsilon, shift)))
    elif best > 0 and isinstance(law, Decay) and table.norm == "l2" and table.size > 1:
        # Too small an epsilon for the grid: nothing more is claimed.
        with contextlib.suppress(CertificateError):
            best = min(best, float_up(decay_delta_up(law, table.size, epsilon, shift)))
    return best


@lru_cache(maxsize=256)
def _drawing(law: Radii, size: int, scale: int) -> Any:
    """A function that draws radii: of a decay for so many grid steps, of others times so many."""
    if isinstance(law, Decay):
        return DecayRadii(size, Fraction(law.c) / scale, Fraction(law.k) / scale**2)
    if isinstance(law, Steps):
        return chosen_radii(law.radii * scale, law.weights)
    weights = np.append(law.weights, law.tail)
    return listed_radii(law.first, law.step, law.start, weights, law.again, scale)

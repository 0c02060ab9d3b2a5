"""What is asked of data-dependent noise: a bounded query, a prior, and perhaps a cap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from opendp_optimal.checks import finite, positive
from opendp_optimal.losses.base import Loss, loss_of
from opendp_optimal.problem.base import Problem
from opendp_optimal.problem.noise import check_target

_CLOSE = 1e-9
_LARGEST_LOSS, _LEAST_LOSS = Fraction(2) ** 1025, Fraction(2) ** -960
"""Losses between which floats hold every loss and bound, with room for small parts of them."""


@dataclass(frozen=True, kw_only=True)
class BoundedProblem(Problem):
    """Find the conditional noises of least expected loss for a query within a range.

    :param epsilon: privacy parameter, in [1e-4, 32]
    :param delta: privacy parameter, 0 (pure) or in [1e-14, 1)
    :param sensitivity: how far neighbouring data can be apart in the query's answer; it, its square
        for "l2", and that of the range are between 2^-960 and 2^1025. Answers are
        never further apart than the range is long, so a larger sensitivity means the same as one
        of exactly the range's length: every two answers are neighbours
    :param low: smallest answer of the query
    :param high: largest answer of the query
    :param loss: of the error, in the units of the query
    :param prior: chances of the answers: of each integer, of each of the unequal bins, or else of
        equal parts of the range, as many as are given; None for the uniform prior
    :param cap: the expected loss at every single answer is at most this
    :param integer: whether the query answers integers, and is to be answered by integers
    :param edges: ends of unequal bins, from low to high; None for equal bins
    """

    epsilon: float
    delta: float
    sensitivity: float
    low: float
    high: float
    loss: Loss = field(default_factory=lambda: loss_of("l1"))
    prior: tuple[float, ...] | None = None
    cap: float | None = None
    integer: bool = False
    edges: tuple[float, ...] | None = None

    LABEL = "bounded"

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        for name in ("epsilon", "delta", "sensitivity", "low", "high"):
            object.__setattr__(self, name, finite(name, getattr(self, name)))
        check_target(self.epsilon, self.delta)
        if not isinstance(self.integer, bool):
            raise ValueError(f"integer ({self.integer!r}) must be True or False")
        if not self.low < self.high:
            raise ValueError(
                f"range ({self.low}, {self.high}) must have its low end below its high end"
            )
        positive("sensitivity", self.sensitivity)
        if self.loss.shape == "lipschitz":
            raise ValueError(
                f"loss ({self.loss.name}) must not fall as the error grows: answers outside of "
                "the range could then be better than those within"
            )
        self._check_losses()
        if self.integer:
            self._check_integers()
        if self.edges is not None:
            object.__setattr__(self, "edges", self._checked_edges(self.edges))
        if self.prior is not None:
            object.__setattr__(self, "prior", self._checked_prior(self.prior))
        if self.cap is not None:
            object.__setattr__(self, "cap", positive("cap", self.cap))

    def _check_losses(self) -> None:
        """Refuse lengths whose losses floats do not hold."""
        try:
            largest = max(self.loss.exact(side * self.width) for side in (-1, 1))
        except (OverflowError, ValueError):
            largest = _LARGEST_LOSS
        if not largest < _LARGEST_LOSS:
            raise ValueError(
                f"range ({self.low}, {self.high}) must be shorter: floats do not hold its "
                f"{self.loss.name} loss"
            )
        if self.reach ** max(1, self.loss.power) < _LEAST_LOSS:
            raise ValueError(
                f"sensitivity ({self.sensitivity}) must be larger: floats do not hold its "
                f"{self.loss.name} loss"
            )

    def _check_integers(self) -> None:
        for name in ("low", "high", "sensitivity"):
            value = getattr(self, name)
            if value != int(value):
                raise ValueError(f"{name} ({value}) must be an integer for integer queries")
        if self.edges is not None:
            raise ValueError("bins must not be given for integer queries: each integer is one")

    def _checked_edges(self, edges: Sequence[float]) -> tuple[float, ...]:
        values = tuple(finite("bins", e) for e in edges)
        rising = all(a < b for a, b in itertools.pairwise(values))
        if len(values) < 2 or not rising or (values[0], values[-1]) != (self.low, self.high):
            raise ValueError(
                f"bins ({list(edges)}) must rise from the low end of the range ({self.low}) to "
                f"its high end ({self.high})"
            )
        return values

    def _checked_prior(self, prior: Sequence[float]) -> tuple[float, ...]:
        values = tuple(finite("prior", w) for w in prior)
        wanted = None
        if self.integer:
            wanted = int(self.high) - int(self.low) + 1
        elif self.edges is not None:
            wanted = len(self.edges) - 1
        if wanted is not None and len(values) != wanted:
            what = "integer in the range" if self.integer else "bin"
            raise ValueError(
                f"prior (of length {len(values)}) must have {wanted} weights, one for each {what}"
            )
        if not values or min(values) < 0:
            raise ValueError(f"prior ({_short(values)}) must not be empty or have negative weights")
        if abs(math.fsum(values) - 1) > _CLOSE:
            raise ValueError(f"prior must add up to 1, not to {math.fsum(values):.9g}")
        return values

    @property
    def width(self) -> Fraction:
        """Length of the range."""
        return Fraction(self.high) - Fraction(self.low)

    @property
    def reach(self) -> Fraction:
        """How far neighbouring answers can be apart: the sensitivity, but within the range."""
        return min(Fraction(self.sensitivity), self.width)

    @property
    def prior_weights(self) -> list[Fraction]:
        """The prior's weights, adding up to 1 exactly (a single 1 for a uniform real query)."""
        if self.prior is None and self.integer:
            count = int(self.width) + 1
            return [Fraction(1, count)] * count
        if self.prior is None:
            return [(b - a) / self.width for a, b in itertools.pairwise(self._ends)]
        exact = [Fraction(w) for w in self.prior]
        total = sum(exact)
        return [w / total for w in exact]

    def densities(self) -> list[tuple[Fraction, Fraction, Fraction]]:
        """The prior of a real query as (start, end, density), piece by piece."""
        parts = zip(itertools.pairwise(self._ends), self.prior_weights, strict=True)
        return [(a, b, w / (b - a)) for (a, b), w in parts]

    @property
    def _ends(self) -> list[Fraction]:
        """Ends of the parts of the range that a real query's prior is of."""
        if self.edges is not None:
            return [Fraction(e) for e in self.edges]
        count = len(self.prior or (1,))
        return [Fraction(self.low) + i * self.width / count for i in range(count + 1)]

    @property
    def kind(self) -> str:
        """ "real" or "integer"."""
        return "integer" if self.integer else "real"


def _short(values: Sequence[float]) -> str:
    shown = ", ".join(f"{v:g}" for v in values[:6])
    return shown + (", ..." if len(values) > 6 else "")

"""What is asked: a privacy target, a loss and the constraints on the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from opendp_optimal.checks import finite, positive
from opendp_optimal.losses.base import LatticeCost, Loss, loss_of
from opendp_optimal.problem.base import Problem

_HAIR = 1 - 2.0**-40
"""A share of a budget that ends on a limit may be a float below it."""
MIN_EPSILON, MAX_EPSILON = 1e-4 * _HAIR, 32.0
MIN_DELTA = 1e-14 * _HAIR
LARGEST_WHOLE = 4096
"""The largest sensitivity of integer noise."""
_REMEMBERED = 8
"""Costs that are not computed again, at most."""


def check_target(
    epsilon: float, delta: float, *, least: float = MIN_EPSILON, pure: bool = True, why: str = ""
) -> tuple[float, float]:
    """Return a privacy target that tables are made for, in floats.

    :param epsilon: privacy parameter
    :param delta: privacy parameter
    :param least: the least epsilon
    :param pure: whether delta may be 0
    :param why: what to say where it may not
    """
    if type(epsilon) is not float or type(delta) is not float:
        epsilon, delta = finite("epsilon", epsilon), finite("delta", delta)
    if not least <= epsilon <= MAX_EPSILON:
        raise ValueError(f"epsilon ({epsilon}) must be in [{least:g}, {MAX_EPSILON:g}]")
    if not ((pure and delta == 0) or MIN_DELTA <= delta < 1):
        zero = "0 or " if pure else ""
        raise ValueError(f"delta ({delta}) must be {zero}in [{MIN_DELTA:g}, 1){why}")
    return epsilon, delta


def take_target(problem: Any, **limits: Any) -> None:
    """Check the target of a frozen problem, and keep it in floats."""
    target = check_target(problem.epsilon, problem.delta, **limits)
    for name, value in zip(("epsilon", "delta"), target, strict=True):
        object.__setattr__(problem, name, value)


@dataclass(frozen=True, kw_only=True)
class NoiseProblem(Problem):
    """Find the additive noise of least expected loss that is (epsilon, delta)-private.

    :param epsilon: privacy parameter, in [1e-4, 32]
    :param delta: privacy parameter, 0 (pure) or in [1e-14, 1)
    :param loss: the loss whose expectation is minimised
    :param integer_sensitivity: None for real queries of sensitivity 1; n for integer queries
    :param symmetric: only noise with the law of its mirror image
    :param monotone: only noise whose density falls on each side of 0
    :param support: only noise in [-support, support] (sensitivities, or units for integers)
    :param impossible: bound on the probability of outputs that a neighbour could never give
    """

    epsilon: float
    delta: float
    loss: Loss = field(default_factory=lambda: loss_of("l1"))
    integer_sensitivity: int | None = None
    symmetric: bool = False
    monotone: bool = False
    support: float | None = None
    impossible: float | None = None

    def __post_init__(self) -> None:
        """Check arguments at the door."""
        take_target(self)
        if self.integer_sensitivity is not None:
            n = finite("integer_sensitivity", self.integer_sensitivity)
            if not (1 <= n <= LARGEST_WHOLE and n == int(n)):
                raise ValueError(
                    f"integer_sensitivity ({self.integer_sensitivity}) must be an integer "
                    f"in [1, {LARGEST_WHOLE}]"
                )
            object.__setattr__(self, "integer_sensitivity", int(n))
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss ({self.loss!r}) must be a Loss")
        if not isinstance(self.symmetric, bool) or not isinstance(self.monotone, bool):
            raise ValueError("symmetric and monotone must be True or False")
        if self.support is not None:
            object.__setattr__(self, "support", positive("support", self.support))
            self._check_support(self.support)
        if self.impossible is not None:
            object.__setattr__(self, "impossible", finite("impossible", self.impossible))
            if not 0 < self.impossible <= self.delta:
                raise ValueError(
                    f"impossible ({self.impossible}) must be in (0, delta = {self.delta}]"
                )
        if self.delta == 0 and (self.monotone or self.support or self.impossible):
            raise ValueError(
                "delta (0) must be positive for monotone, support and impossible: pure noise is "
                "monotone already and never has bounded support"
            )

    def _check_support(self, support: float) -> None:
        """Chain (epsilon, delta) from the edge inwards: it bounds the mass of each half."""
        unit = self.integer_sensitivity or 1
        steps = math.floor(support / unit) + 1
        grown = math.expm1(min(700.0, steps * self.epsilon)) / math.expm1(self.epsilon)
        if 2 * self.delta * grown < 1 - 1e-9:
            raise ValueError(
                f"support ({support}) must be larger: no noise in [-{support}, {support}] is "
                f"({self.epsilon}, {self.delta})-private"
            )

    @cached_property
    def kind(self) -> str:
        """ "real" or "integer"."""
        return "real" if self.integer_sensitivity is None else "integer"

    @cached_property
    def folded(self) -> bool:
        """Whether the optimum may be taken symmetric, which halves the problem."""
        return self.symmetric or self.loss.symmetric

    @cached_property
    def reaches(self) -> tuple[float, float]:
        """Where the optimum has hardly mass, and where its prices are 0, in sensitivities.

        Beyond the support the prices fall from theirs at its end to 0; with the loss growing by one
        unit a unit, the way they go grows by a factor e^epsilon each unit. Half of the way that
        this would take from the highest price is enough; what is lost by it shows in the certified
        gap.
        """
        epsilon = self.epsilon
        end = support_radius(epsilon, min(self.delta, self.impossible or 1.0))
        unwind = math.log1p(end * math.expm1(epsilon)) / epsilon
        lean = 0.0 if self.folded else self._lean(end)
        return end + lean + min(1.25, 0.35 * epsilon), end + lean + 0.25 + unwind / 2

    def _lean(self, end: float) -> float:
        """How far an uneven loss pushes the noise to one side, in sensitivities.

        Not further than to where all of it lies on that side. Noise that falls on each side of 0
        cannot go there: it becomes flat on the cheap side instead, which takes more room.
        """
        if self.monotone:
            flat = math.sqrt(2) * math.exp(min(self.loss.lean, 600.0) / 2)
            return min(flat / self.epsilon, 4 * end)
        return min(self.loss.lean / self.epsilon, max(end, math.log(1e3) / self.epsilon))

    def cost(self, cells: int, radius: int) -> LatticeCost:
        """Exact costs on the lattice with so many cells per sensitivity (or on the integers).

        The latest ones are remembered.
        """
        known = self._costs.get((cells, radius))
        if known is None:
            known = self._costs[cells, radius] = self._cost(cells, radius)
            if len(self._costs) > _REMEMBERED:
                self._costs.pop(next(iter(self._costs)), None)
        return known

    @cached_property
    def _costs(self) -> dict[tuple[int, int], LatticeCost]:
        return {}

    def _cost(self, cells: int, radius: int) -> LatticeCost:
        integer = self.kind == "integer"
        loss = self.loss
        cost = loss.on_integers(radius) if integer else loss.on_lattice(cells, radius)
        if not self.symmetric or loss.symmetric:
            return cost
        # Symmetric noise pays the mean of a point and its mirror image.
        return LatticeCost(
            upper=[a + b for a, b in zip(cost.upper, reversed(cost.upper), strict=True)],
            lower=[a + b for a, b in zip(cost.lower, reversed(cost.lower), strict=True)],
            atom=2 * cost.atom,
            denominator=2 * cost.denominator,
        )


def support_radius(epsilon: float, delta: float) -> float:
    """Where truncated Laplace noise that uses half of delta ends, in sensitivities."""
    return math.log1p(math.expm1(epsilon) / delta) / epsilon

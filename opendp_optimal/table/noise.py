"""NoiseTable: optimal noise as integers, with the two exact proofs that come with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from opendp_optimal.arrays import Floats, Integers
from opendp_optimal.certify.endless import (
    PureTail,
    prove_pure,
    pure_delta,
    pure_epsilon,
    tail_moments,
)
from opendp_optimal.certify.noise import (
    TOTAL,
    DualCertificate,
    check_integers,
    delta_units,
    prove_bound,
    prove_impossible,
    prove_private,
    prove_shape,
)
from opendp_optimal.certify.spike import Spike
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.known.law import Tabulated
from opendp_optimal.losses.base import LatticeCost, Loss, loss_of
from opendp_optimal.problem.noise import NoiseProblem
from opendp_optimal.sample.noise import NoiseSampler
from opendp_optimal.sample.weights import WeightedSampler
from opendp_optimal.table.base import Table

MOST_CELLS = 1 << 14
"""No table has more lattice cells per unit of sensitivity."""

_FORGOTTEN = -math.log(1e-18)
"""How deep a tail is listed among the chances."""
_LONGEST_TAIL = 1 << 22
"""Points of a tail that are listed, at most."""
_SAMPLE_STEPS = (1 << 24) + 1


@dataclass(frozen=True, eq=False)
class NoiseTable(Table):
    """Additive noise on a lattice, with a proof of privacy and a proof of near-optimality.

    A table for real queries has sensitivity 1: it draws the point mass at 0 or a lattice point,
    and then a uniform place in the cell of width 1/cells around that point. At a large epsilon it
    may have a spike too, narrower than a cell. A table for integer queries draws an integer, for a
    sensitivity of ``cells``.

    :param problem: what was asked
    :param cells: lattice cells per unit of sensitivity
    :param weights: integer weights of the lattice points -radius..radius
    :param atom: integer weight of the point mass at 0
    :param dual: prices that prove the lower bound
    :param upper: expected loss, rounded up
    :param lower: a bound below the expected loss of every mechanism, rounded down
    :param tail: how pure noise goes on beyond the radius; None for bounded noise
    :param costs: bounds on a user's loss on the lattices of weights and prices, if it has one
    :param spike: a weight within the middle of the cell around 0, beside that of the cell
    """

    problem: NoiseProblem
    cells: int
    weights: Integers
    atom: int
    dual: DualCertificate
    upper: float
    lower: float
    tail: PureTail | None = None
    costs: tuple[LatticeCost, LatticeCost] | None = None
    spike: Spike | None = None

    @property
    def radius(self) -> int:
        """Weights belong to the lattice points -radius..radius."""
        return len(self.weights) // 2

    def __repr__(self) -> str:
        """One line with the guarantee and the certified interval."""
        return (
            f"NoiseTable({self.kind}, epsilon={self.epsilon}, delta={self.delta}, "
            f"loss={self.loss.name}, cells={self.cells}, radius={self.radius}, {self._interval})"
        )

    def _sizes(self) -> dict[str, Any]:
        return {
            "cells": self.cells,
            "support": self.radius / (self.cells if self.kind == "real" else 1),
            "atom": self.atom / self.total,
            **({} if self.spike is None else {"spike": self.spike.weight / self.total}),
        }

    def cost_of(self, loss: Loss) -> LatticeCost:
        """The costs of a loss on the lattice of the weights."""
        if loss is self.problem.loss:
            return self.costs[0] if self.costs else self.problem.cost(self.cells, self.radius)
        if self.kind == "integer":
            return loss.on_integers(self.radius)
        return loss.on_lattice(self.cells, self.radius)

    def _proved(self) -> tuple[float, float]:
        """Prove everything but the bounds that are stated; returns those that follow."""
        return self._proved_upper(), float_down(self._exact_bound())

    def _proved_upper(self) -> float:
        """Prove everything but the bounds; returns the loss that follows."""
        self._check_fields()
        problem = self.problem
        if self.tail is not None:
            check_integers(self.weights)
            prove_pure(self.weights, self.tail, self.cells, problem.epsilon, self.spike)
        else:
            prove_private(
                self.weights, self.atom, self.cells, problem.epsilon, problem.delta, self.spike
            )
        self._check_costs()
        if problem.symmetric or problem.monotone:
            prove_shape(self.weights, symmetric=problem.symmetric, monotone=problem.monotone)
        if problem.impossible is not None:
            prove_impossible(self.weights, self.atom, self.cells, problem.impossible)
        if problem.support is not None:
            edge = Fraction(problem.support) * (1 if self.kind == "integer" else self.cells)
            edge -= 0 if self.kind == "integer" else Fraction(1, 2)
            used = np.flatnonzero(self.weights)
            if len(used) and int(np.abs(used - self.radius).max()) > edge:
                raise CertificateError(f"noise leaves its support ({problem.support})")
        return float_up(self._exact_loss(problem.loss))

    def _check_fields(self) -> None:
        """Raise unless the fields are of their types and fit each other."""
        problem, dual, costs = self.problem, self.dual, self.costs or ()
        if not (
            isinstance(problem, NoiseProblem)
            and isinstance(dual, DualCertificate)
            and isinstance(self.tail, PureTail | None)
            and isinstance(self.spike, Spike | None)
            and isinstance(costs, tuple)
            and all(isinstance(cost, LatticeCost) for cost in costs)
        ):
            raise CertificateError("a table has parts that are not its own")
        numbers = (self.cells, self.atom, dual.cells, dual.scale)
        lattices = (self.cells, dual.cells)
        if any(type(number) is not int for number in numbers) or not (
            min(lattices) >= 1 and max(lattices) <= MOST_CELLS
        ):
            raise CertificateError("a lattice is out of range")
        if problem.kind == "integer" and (
            self.cells != problem.integer_sensitivity or dual.cells != self.cells or self.atom
        ):
            raise CertificateError("an integer table has another lattice than the integers")
        if (self.tail is not None) != (problem.delta == 0):
            raise CertificateError("endless noise and delta 0 do not go together")
        if self.tail is not None and (self.atom or not problem.loss.endless):
            raise CertificateError("pure noise has a point mass or another loss than l1 and l2")
        if len(costs) != (2 if problem.loss.by_samples else 0):
            raise CertificateError("costs and a user's own loss do not go together")
        if self.spike is not None:
            self.spike.check()
            if problem.kind == "integer" or problem.loss.by_samples or problem.impossible:
                raise CertificateError("a spike goes with plain noise for real queries only")

    def _check_costs(self) -> None:
        """Raise unless stored costs are those of the loss, as far as it is at hand."""
        problem, dual = self.problem, self.dual
        if costs := self.costs:
            for cost, reach in zip(costs, (self.radius, dual.reach), strict=True):
                cost.check(2 * reach + 1)
            if problem.loss.at_hand and costs != _costs(problem, self.cells, self.radius, dual):
                raise CertificateError("the costs of a table are not those of its loss")

    def _exact_bound(self) -> Fraction:
        if self.dual.order.any() and not self.problem.monotone:
            raise CertificateError("order prices prove nothing about noise of any shape")
        support = self.problem.support
        if support is not None:
            unit = 1 if self.kind == "integer" else self.dual.cells
            support = math.ceil(Fraction(support) * unit)
        dual, problem = self.dual, self.problem
        proved = prove_bound(
            dual,
            self.costs[1] if self.costs else problem.cost(dual.cells, dual.reach),
            epsilon=problem.epsilon,
            delta=problem.delta,
            support=support,
            impossible=problem.impossible,
        )
        # No loss is negative, though chords below it may be.
        return max(Fraction(0), proved)

    def _exact_loss(self, loss: Loss) -> Fraction:
        exact = self.inner_loss(loss, self.cost_of(loss))
        if self.tail is not None:
            exact += tail_moments(self.weights, self.tail, loss, self.cells, self.kind)
        return exact

    def inner_loss(self, loss: Loss, cost: LatticeCost) -> Fraction:
        """The expected loss contributed by all but the tails, if the weights have these costs."""
        spent = sum(w * c for w, c in zip(self.weights.tolist(), cost.upper, strict=True))
        exact = Fraction(spent + self.atom * cost.atom, TOTAL * cost.denominator)
        return exact + self._spike_loss(loss)

    def _spike_loss(self, loss: Loss) -> Fraction:
        """The expected loss contributed by the spike: that of a cell as narrow as it is."""
        if self.spike is None:
            return Fraction(0)
        make = self.problem.cost if loss is self.problem.loss else loss.on_lattice
        cost = make(self.cells * self.spike.parts, 0)
        return Fraction(self.spike.weight * cost.upper[0], TOTAL * cost.denominator)

    def mean_loss(self, loss: str | Loss | Callable[[float], float]) -> float:
        """The expected loss of this noise under any loss, rounded up."""
        parsed = loss_of(loss)
        return float_up(self._exact_loss(self.loss if parsed == self.loss else parsed))

    def _shift_in_cells(self, shift: float | Fraction | None) -> Fraction:
        if shift is None:
            return Fraction(self.cells)
        exact = Fraction(shift)
        if self.kind == "integer":
            if not (0 < exact <= self.cells and exact.denominator == 1):
                raise ValueError(f"shift ({shift}) must be an integer in [1, {self.cells}]")
            return exact
        if not 0 < exact <= 1:
            raise ValueError(f"shift ({shift}) must be in (0, 1]")
        return exact * self.cells

    def delta_at(self, epsilon: float, shift: float | Fraction | None = None) -> float:
        """The exact privacy profile: the least delta for this epsilon, rounded up.

        Of a table with a spike within its middle cell it is an upper bound, not the least.

        :param epsilon: at least 0
        :param shift: the change of the query to protect, as a part of the sensitivity (real) or
            in units (integer); smaller changes are covered. Default: the whole sensitivity
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon ({epsilon}) must not be negative")
        cells = self._shift_in_cells(shift)
        if self.tail is not None:
            return float_up(pure_delta(self.weights, self.tail, cells, epsilon, self.spike))
        units = delta_units(self.weights, self.atom, self.cells, epsilon, cells, self.spike)
        return min(1.0, float_up(units / TOTAL))

    def epsilon_at(self, delta: float, shift: float | Fraction | None = None) -> float:
        """The least epsilon for this delta, rounded up to a float that is proved to do.

        Infinite where no epsilon does.
        """
        if not 0 <= delta <= 1:
            raise ValueError(f"delta ({delta}) must be in [0, 1]")
        if self.tail is not None and delta == 0:
            moved = self._shift_in_cells(shift)
            return pure_epsilon(self.weights, self.tail, moved, self.epsilon, self.spike)
        if self.delta_at(0.0, shift) <= delta:
            return 0.0
        low, high = 0.0, self.epsilon
        while self.delta_at(high, shift) > delta:
            low, high = high, 2 * high
            if high > 60:
                return math.inf
        for _ in range(50):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            enough = self.delta_at(middle, shift) <= delta
            low, high = (low, middle) if enough else (middle, high)
        return high

    @cached_property
    def _sampler(self) -> NoiseSampler:
        tail, spike = self.tail, self.spike
        ends = [0, 0] if tail is None else [tail.weight, tail.weight]
        last = [self.atom, *ends, 0 if spike is None else spike.weight]
        return NoiseSampler(
            self.radius,
            WeightedSampler.of(np.concatenate([self.weights, last]).astype(np.int64)),
            None if tail is None else WeightedSampler.of(np.append(tail.weights, tail.again)),
            None if spike is None else spike.width,
        )

    def draw(self, size: int | None = None, steps: int = 1) -> Any:
        """Exact noise from the secure source, in units of 1 / (cells * steps).

        :param size: None for one int, or the length of the array: of 64-bit integers, or of
            Python's where endless noise is longer
        :param steps: grid points per cell (odd); the guarantee then holds for whole shifts of up
            to cells * steps units. Integer tables have 1
        """
        sampler = self._sampler
        if steps != 1 and self.problem.integer_sensitivity is not None:
            raise ValueError(f"steps ({steps}) must be 1 for an integer table")
        if steps < 1 or steps % 2 == 0 or steps * (sampler.radius + 1) >= 1 << 60:
            raise ValueError(f"steps ({steps}) must be odd, positive and below 2^60 / radius")
        if size is None:
            return sampler.draw_one(steps)
        if size < 0:
            raise ValueError(f"size ({size}) must not be negative")
        return sampler.draw(size, steps)

    def sample(self, size: int | None = None) -> Any:
        """Noise at sensitivity 1 as floats (real tables), or integers (integer tables)."""
        if self.kind == "integer":
            return self.draw(size)
        steps = _SAMPLE_STEPS * (1 if self.spike is None else self.spike.parts)
        return self.draw(size, steps) / (self.cells * steps)

    def chances(self) -> Floats:
        """The chances of the lattice points, tails included as far as floats see them."""
        inner = self.weights / self.total
        if self.tail is None:
            return np.asarray(inner)
        side = self.beyond(_FORGOTTEN, _LONGEST_TAIL // len(self.tail.weights) + 1)
        return np.concatenate([side[::-1], inner, side])

    def beyond(self, deep: float, most: int) -> Floats:
        """The chances of the lattice points of one endless tail, from the radius on.

        :param deep: what is left of the tail after them is below e to minus this
        :param most: blocks of the tail that are listed, at most
        """
        assert self.tail is not None
        again, block = self.tail.again / TOTAL, self.tail.weights / TOTAL
        blocks = min(most, math.ceil(deep / -math.log(again)))
        side = np.outer(again ** np.arange(blocks), block).ravel()
        return np.asarray(self.tail.weight / TOTAL * side)

    def quantile(self, p: float) -> float:
        """The least x that the noise exceeds with a chance of at most ``1 - p``.

        At sensitivity 1 for real tables, in units for integer tables.

        :param p: in (0, 1)
        """
        found = self.law(1.0).quantile(p)
        return float(math.ceil(found - 1e-9)) if self.kind == "integer" else found

    def law(self, unit: float = 1.0) -> Tabulated:
        """The distribution of the noise.

        :param unit: the sensitivity that real noise is scaled to
        """
        whole = self.kind == "integer"
        unit = 1.0 if whole else unit
        cell = 1.0 if whole else unit / self.cells
        width = unit / self.epsilon if whole else unit * min(1.0, 1.0 / self.epsilon)
        spike = (0.0, 0.0)
        if self.spike is not None:
            spike = (self.spike.weight / self.total, cell / self.spike.parts / 2)
        return Tabulated(self.chances(), cell, width, self.atom / self.total, whole, spike)

    def density(self) -> tuple[Floats, Floats]:
        """Places and probability densities (real) or probabilities (integer), for plots."""
        points = np.arange(-self.radius, self.radius + 1, dtype=float)
        chance = self.weights / TOTAL
        if self.kind == "integer":
            return points, chance
        return points / self.cells, chance * self.cells

    @staticmethod
    def rounded(
        problem: NoiseProblem,
        cells: int,
        weights: Integers,
        atom: int,
        dual: DualCertificate,
        tail: PureTail | None = None,
        spike: Spike | None = None,
    ) -> NoiseTable:
        """A table whose bounds follow from its data; everything is proved on the way."""
        own = problem.loss.by_samples
        costs = _costs(problem, cells, len(weights) // 2, dual) if own else None
        ends = math.inf, -math.inf
        table = NoiseTable(problem, cells, weights, atom, dual, *ends, tail, costs, spike)
        return table._bounded(*table._proved())

    def with_weights(self, cells: int, weights: Integers, atom: int) -> NoiseTable:
        """Other weights, which are proved, with the same prices: what they prove is the same."""
        costs = self.costs and (self.problem.cost(cells, len(weights) // 2), self.costs[1])
        table = replace(self, cells=cells, weights=weights, atom=atom, costs=costs, spike=None)
        return table._bounded(table._proved_upper(), self.lower)


def _costs(
    problem: NoiseProblem, cells: int, radius: int, dual: DualCertificate
) -> tuple[LatticeCost, LatticeCost]:
    """Bounds on a user's loss on the lattices of weights and prices."""
    return problem.cost(cells, radius), problem.cost(dual.cells, dual.reach)

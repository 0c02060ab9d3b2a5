"""PairTable: optimal noise for a mean and its count, as integers with two exact proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from opendp_optimal.arrays import Integers
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.pair import (
    PairDual,
    prove_pair_bound,
    prove_pairs_private,
    shortfall,
    unfolded,
)
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import float_down, float_up
from opendp_optimal.problem.pair import PairProblem
from opendp_optimal.sample.pair import pair_sampler
from opendp_optimal.sample.words import Source, secure_bytes
from opendp_optimal.table.base import Table


@dataclass(frozen=True, eq=False)
class PairTable(Table):
    """Noise for a centred sum and a count, with a proof of privacy and a proof of near-optimality.

    A draw is a cell of the sum, then a uniform place in it, and a whole number for the count. The
    cells have width 1/cells, where a record moves the sum by at most 1/2.

    :param problem: what was asked
    :param cells: cells of the lattice for a move of the centred sum by 1; even
    :param weights: integer weights of the points 0..C (rows, count) and 0..J (columns, cells of the
        sum), each for its mirror images, too
    :param dual: prices that prove the lower bound
    :param upper: expected loss of the mean times the count, rounded up
    :param lower: a bound below that of every additive noise on the pair, rounded down
    """

    problem: PairProblem
    cells: int
    weights: Integers
    dual: PairDual
    upper: float
    lower: float

    @staticmethod
    def proved(problem: PairProblem, cells: int, weights: Integers, dual: PairDual) -> PairTable:
        """The table of these weights and prices, with the bounds that they prove."""
        table = PairTable(problem, cells, weights, dual, math.inf, -math.inf)
        return table._bounded(*table._proved())

    def __repr__(self) -> str:
        """One line with the guarantee and the certified interval."""
        return (
            f"PairTable(epsilon={self.epsilon}, delta={self.delta}, loss={self.loss.name}, "
            f"cells={self.cells}, {self._interval})"
        )

    def summary(self) -> dict[str, Any]:
        """The facts, with the bound over whole noise on the count beside that over all noise."""
        return {**super().summary(), "whole_lower": self.whole_lower}

    def _sizes(self) -> dict[str, Any]:
        return {"cells": self.cells, "support": self.weights.shape[0] - 1}

    def _proved(self) -> tuple[float, float]:
        """Prove everything but the bounds that are stated; returns those that follow."""
        problem, dual = self.problem, self.dual
        if not isinstance(problem, PairProblem) or not isinstance(dual, PairDual):
            raise CertificateError("a table has parts that are not its own")
        prove_pairs_private(self.weights, self.cells, problem.epsilon, problem.delta)
        dual.check()
        return float_up(self._expected()), self._bound(whole=False)

    @cached_property
    def whole_lower(self) -> float:
        """A bound below that of every additive noise whose noise on the count is whole.

        It is proved by the same prices, when it is asked for, and is never below ``lower``.
        """
        return max(self.lower, self._bound(whole=True))

    def _bound(self, *, whole: bool) -> float:
        """What the prices prove, rounded down."""
        problem, dual = self.problem, self.dual
        counts = np.arange(-dual.reach - 2, dual.reach + 2 + whole)
        cost = problem.costs.lower(dual.cells, dual.most + dual.cells // 2, counts)
        bound = prove_pair_bound(
            dual, cost, epsilon=problem.epsilon, delta=problem.delta, whole=whole
        )
        return float_down(max(bound, Fraction(0)))

    def _expected(self) -> Fraction:
        """The expected loss, exactly or a little above it."""
        rows, columns = self.weights.shape
        cost = self.problem.costs.upper(self.cells, columns - 1, np.arange(rows))
        spent = zip(
            unfolded(self.weights).ravel().tolist(),
            unfolded(cost.values).ravel().tolist(),
            strict=True,
        )
        return Fraction(sum(w * c for w, c in spent), TOTAL * cost.denominator)

    def delta_at(self, epsilon: float) -> float:
        """The exact privacy profile for one record: the least delta for this epsilon, rounded up.

        :param epsilon: at least 0
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon ({epsilon}) must not be negative")
        return float_up(Fraction(shortfall(self.weights, self.cells, epsilon), TOTAL))

    @cached_property
    def sampler(self) -> Callable[..., tuple[Integers, Integers]]:
        """Draws from the weights."""
        return pair_sampler(unfolded(self.weights))

    def draw(
        self, count: int, *, steps: int = (1 << 24) + 1, source: Source = secure_bytes
    ) -> tuple[Integers, Integers]:
        """Independent noise for the sum, in steps of 1/(cells * steps), and for the count.

        :param count: how many
        :param steps: grid points in a cell, an odd number
        :param source: of random bytes
        """
        return self.sampler(count, steps, source)

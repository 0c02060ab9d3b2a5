"""The expected loss of a bounded mechanism at a single answer, in fractions, from above."""

from __future__ import annotations

import math
from fractions import Fraction

from opendp_optimal.arrays import Integers
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.model.bounded import lattice_above
from opendp_optimal.problem.bounded import BoundedProblem

Parts = list[tuple[int, Fraction, list[Fraction]]]
"""Rows that are drawn from, their chances, and the losses of their outputs times the chance."""


def expected_loss_at(
    problem: BoundedProblem, weights: Integers, cells: int, answer: Fraction, revealing: bool
) -> Fraction:
    """The expected loss at one answer within the range (integers: one of them).

    Exact but for equal bins and a curved loss, whose pieces within a bin lie nowhere below it.

    :param problem: what was asked
    :param weights: a row for each cell, end of a bin or integer, each adding up to 2^62
    :param cells: equal bins that cover the sensitivity
    :param answer: of the query, exactly
    :param revealing: whether the first and the last column release the answer itself
    """
    parts = (
        _integer(problem, weights, answer)
        if problem.integer
        else _rounded(problem, answer)
        if problem.edges is not None
        else _shifted(problem, len(weights) - 1, cells, answer)
    )
    truth = problem.loss.exact(Fraction(0))
    total = Fraction(0)
    for x, chance, costs in parts:
        if revealing:
            costs = [chance * truth, *costs, chance * truth]
        total += sum(w * c for w, c in zip(weights[x].tolist(), costs, strict=True))
    return total / TOTAL


def _integer(problem: BoundedProblem, weights: Integers, answer: Fraction) -> Parts:
    errors = [Fraction(problem.low) + y - answer for y in range(len(weights))]
    costs = [problem.loss.exact(error) for error in errors]
    return [(int(answer - Fraction(problem.low)), Fraction(1), costs)]


def _rounded(problem: BoundedProblem, answer: Fraction) -> Parts:
    """Unequal bins: the answer is rounded at random to an end of its bin."""
    edges = [Fraction(e) for e in problem.edges or ()]
    j = min(max(i for i, e in enumerate(edges) if e <= answer), len(edges) - 2)
    share = (answer - edges[j]) / (edges[j + 1] - edges[j])
    costs = [problem.loss.exact(e - answer) for e in edges]
    return [(x, p, [p * c for c in costs]) for x, p in ((j, 1 - share), (j + 1, share))]


def _shifted(problem: BoundedProblem, bins: int, cells: int, answer: Fraction) -> Parts:
    """Equal bins: all cells are shifted by the same uniform part of a bin."""
    step = lattice_above(problem, cells, bins).step
    start = Fraction(problem.low) - (bins * step - problem.width) / 2
    j = min(math.floor((answer - start) / step), bins - 1)
    share = (answer - start) / step - j

    def cost(x: int, y: int, first: Fraction, last: Fraction) -> Fraction:
        shape = problem.loss.pieces((y - x + Fraction(1, 2)) * step, step)
        return sum((p.integral(last) - p.integral(first) for p in shape), Fraction(0))

    return [
        (x, last - first, [cost(x, y, first, last) for y in range(bins + 1)])
        for x, first, last in ((j + 1, Fraction(0), share), (j, share, Fraction(1)))
    ]

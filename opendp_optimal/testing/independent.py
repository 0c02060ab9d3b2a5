"""The privacy proof a second time, as simply as possible, in plain fractions.

Written from the definition alone, for checking the fast one: nothing of ``certify`` is used, nor
numpy. The law of a table is spelt out as a list; for every whole shift and both directions the
worst event is added up term by term. ``exp`` is bounded by its series.

One shortcut: of a law that falls on both sides of its peak only the largest shift is looked at.
A term [P(i) - growth P(i - m)]+ is positive only where i - m lies on the other side of the peak
or beyond, and there P(i - m) falls as m grows: no smaller shift has a worse event.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

Law = Sequence[Fraction | int]
"""Probabilities of neighbouring points, or integers over one denominator."""
TOTAL = 2**62


def exp_below(x: Fraction, terms: int = 200) -> Fraction:
    """A fraction below e^x, for x >= 0, by the first terms of the series.

    >>> float(exp_below(Fraction(1)))
    2.718281828459045
    """
    total = term = Fraction(1)
    for n in range(1, terms):
        # Terms are rounded down to 300 binary places, so that numbers stay short.
        term = Fraction((term * x / n * 2**300).__floor__(), 2**300)
        total += term
        if term == 0:
            break
    return total


def law_of(table: Any, blocks: int = 0) -> list[Fraction]:
    """Probabilities of the lattice points -radius..radius, with so many tail blocks each side."""
    law = [Fraction(int(w), TOTAL) for w in table.weights]
    if table.tail is None:
        return law
    side = []
    for q in range(blocks):
        for t in table.tail.weights:
            share = Fraction(int(table.tail.weight) * int(t), TOTAL * TOTAL)
            side.append(share * Fraction(int(table.tail.again), TOTAL) ** q)
    return side[::-1] + law + side


def plain_delta(law: Law, shift: int, growth: Fraction) -> Fraction:
    """The sum of [P(i) - growth P(i - shift)]+ over all i, by the definition.

    :param law: probabilities of neighbouring lattice points; 0 beyond
    :param shift: by how many points the other input moves the law
    :param growth: a number of at most e^epsilon

    >>> plain_delta([Fraction(1, 2), Fraction(1, 2)], 1, Fraction(1))
    Fraction(1, 2)
    """
    up, down = growth.numerator, growth.denominator
    beyond = [0] * min(abs(shift), len(law))
    kept = len(law) - len(beyond)
    moved = [*beyond, *law[:kept]] if shift > 0 else [*law[len(beyond) :], *beyond]
    total: Fraction | int = 0
    for mass, there in zip(law, moved, strict=True):
        if mass * down > there * up:
            total += mass * down - there * up
    return Fraction(total) / down


def plain_epsilon_holds(law: Law, shift: int, growth: Fraction, inner: int) -> bool:
    """Whether P(i) <= growth P(i +- shift) wherever both lie in the list, at |i| <= inner.

    :param law: probabilities of neighbouring lattice points
    :param shift: by how many points the other input moves the law
    :param growth: a number of at most e^epsilon
    :param inner: how many points from the middle are compared
    """
    middle = len(law) // 2
    up, down = growth.numerator, growth.denominator
    for i in range(middle - inner, middle + inner + 1):
        for j in (i - shift, i + shift):
            if law[i] * down > law[j] * up:
                return False
    return True


def falls(law: Law, middle: int | None = None) -> bool:
    """Whether a law falls on both sides of a place, its middle if none is given.

    >>> falls([1, 2, 2, 1, 0]), falls([1, 0, 2, 0, 0]), falls([3, 1, 0], 0)
    (True, False, True)
    """
    middle = len(law) // 2 if middle is None else middle
    left, right = law[: middle + 1], law[middle:]
    rising = all(a <= b for a, b in itertools.pairwise(left))
    return rising and all(a >= b for a, b in itertools.pairwise(right))


def _shifts(law: Law, most: int) -> range:
    """The shifts to look at: all of them, or the largest alone if the law falls."""
    return range(most if falls(law, law.index(max(law))) else 1, most + 1)


def holds(table: Any) -> bool:
    """Whether a table is as private as it says, from its integers and nothing else."""
    weights, atom = [int(w) for w in table.weights], int(table.atom)
    spike = getattr(table, "spike", None)
    inside = 0 if spike is None else int(spike.weight)
    ends = 0 if table.tail is None else 2 * int(table.tail.weight)
    if sum(weights) + atom + inside + ends != TOTAL or min(*weights, atom, inside, ends) < 0:
        return False
    growth = exp_below(Fraction(table.problem.epsilon))
    above = Fraction(0) if spike is None else _above(weights, spike, table.cells, growth)
    if table.tail is not None:
        plain = _endless_holds(weights, table.tail, table.cells, growth)
        return atom == 0 and above == 0 and plain
    allowed = Fraction(table.problem.delta) * TOTAL - above
    return all(
        atom + plain_delta(weights, sign * m, growth) <= allowed
        for m in _shifts(weights, table.cells)
        for sign in (1, -1)
    )


def _above(weights: list[int], spike: Any, cells: int, growth: Fraction) -> Fraction:
    """What a spike within the cell of 0 adds to the worst event, its own cover left out.

    Within a part of that cell the density is higher than its weight; the neighbour has there one of
    the weights within a sensitivity.
    """
    middle, parts = len(weights) // 2, int(spike.parts)
    high = weights[middle] + int(spike.weight) * parts
    most = Fraction(0)
    for j in range(-cells, cells + 1):
        there = growth * (weights[middle + j] if abs(j) <= middle else 0)
        more = max(Fraction(0), high - there) - max(Fraction(0), weights[middle] - there)
        most = max(most, more / parts)
    return most


def _endless_holds(weights: list[int], tail: Any, cells: int, growth: Fraction) -> bool:
    """The same for noise that goes on in blocks, each a fixed part of the one before."""
    side, again = [int(t) for t in tail.weights], int(tail.again)
    if sum(side) + again != TOTAL or min(side) < 0 or not 0 <= again < TOTAL or tail.weight < 0:
        return False
    # Ratios repeat from block to block: two blocks and one sensitivity show them all.
    blocks = 2 + 2 * -(-cells // len(side))
    beyond = [
        int(tail.weight) * t * again**q * TOTAL ** (blocks - 1 - q)
        for q in range(blocks)
        for t in side
    ]
    law = [*beyond[::-1], *(w * TOTAL**blocks for w in weights), *beyond]
    inner = len(weights) // 2 + 2 * len(side)
    return all(plain_epsilon_holds(law, m, growth, inner) for m in _shifts(law, cells))


def channel_holds(table: Any) -> bool:
    """Whether a bounded table is as private as it says, from its integers and nothing else.

    Where a table may release the answer itself, these outputs (the first and the last column)
    count in full: no neighbour gives them.
    """
    noise, asked = getattr(table, "noise", None), table.problem
    if noise is not None:  # the same for all answers: it is as private as it says itself
        same = (noise.problem.epsilon, noise.problem.delta) == (asked.epsilon, asked.delta)
        return same and len(table.weights) == 0 and holds(noise)
    rows = [[int(w) for w in row] for row in table.weights]
    if any(sum(row) != TOTAL or min(row) < 0 for row in rows):
        return False
    growth = exp_below(Fraction(table.problem.epsilon))
    allowed = Fraction(table.problem.delta) * TOTAL
    revealed = (0, len(rows[0]) - 1) if getattr(table, "revealing", False) else ()
    unequal = getattr(table.problem, "edges", None) is not None
    pairs = _rounded(table, rows) if unequal else _listed(table, rows)
    return all(
        _shortfall(one, other, growth, revealed) <= allowed
        for row, near in pairs
        for one, other in ((row, near), (near, row))
    )


Row = tuple[list[int], int]
"""Weights over TOTAL times a denominator."""


def _shortfall(row: Row, other: Row, growth: Fraction, revealed: tuple[int, ...]) -> Fraction:
    """The worst event of two answers, in units of 1 / TOTAL."""
    (masses, one), (there, two) = row, other
    up, down = growth.numerator * one, growth.denominator * two
    short = 0
    for y, (mass, near) in enumerate(zip(masses, there, strict=True)):
        short += max(0, mass * down - (0 if y in revealed else near * up))
    return Fraction(short, one * down)


def _listed(table: Any, rows: list[list[int]]) -> Iterator[tuple[Row, Row]]:
    """Rows of integers, or of equal cells, that neighbouring answers can have."""
    if table.problem.integer:
        reach = int(Fraction(table.problem.sensitivity))
    else:
        reach = table.cells or len(rows)
    for x, row in enumerate(rows):
        for other in rows[x + 1 : x + reach + 1]:
            yield (row, 1), (other, 1)


def _rounded(table: Any, rows: list[list[int]]) -> Iterator[tuple[Row, Row]]:
    """Mixtures of rows that neighbouring answers between unequal ends can have, the worst of them.

    An answer t of the way through a bin has the law (1 - t) row + t next row. The worst event of
    two answers is convex in both as long as they stay in their bins, so that it is largest at a
    corner of {a in one bin, b in another, |a - b| <= sensitivity}; these are looked at.
    """
    ends = [Fraction(e) for e in table.problem.edges]
    reach = Fraction(table.problem.sensitivity)
    bins = list(enumerate(itertools.pairwise(ends)))

    def law(j: int, a: Fraction) -> Row:
        t = (a - ends[j]) / (ends[j + 1] - ends[j])
        up, whole = t.numerator, t.denominator
        both = zip(rows[j], rows[j + 1], strict=True)
        return [(whole - up) * v + up * w for v, w in both], whole

    for (i, one), (j, other) in itertools.combinations_with_replacement(bins, 2):
        corners = {(a, b) for a in one for b in other if abs(a - b) <= reach}
        corners |= {(b + s, b) for b in other for s in (reach, -reach) if one[0] <= b + s <= one[1]}
        corners |= {(a, a + s) for a in one for s in (reach, -reach)
                    if other[0] <= a + s <= other[1]}  # fmt: skip
        for a, b in sorted(corners):
            if a != b:
                yield law(i, a), law(j, b)

"""The privacy proof a second time, as simply as possible, in plain fractions.

Written from the definition alone, for checking the fast one: nothing of ``certify`` is used, nor
numpy. The law of a table is spelt out as a list of fractions; for every whole shift and both
directions the worst event is added up term by term. ``exp`` is bounded by its series.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

Law = list[Fraction]


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


def law_of(table: Any, blocks: int = 0) -> Law:
    """Probabilities of the lattice points -radius..radius, with so many tail blocks each side."""
    total = 2**62
    law = [Fraction(int(w), total) for w in table.weights]
    if table.tail is None:
        return law
    side = []
    for q in range(blocks):
        for t in table.tail.weights:
            share = Fraction(int(table.tail.weight) * int(t), total * total)
            side.append(share * Fraction(int(table.tail.again), total) ** q)
    return side[::-1] + law + side


def plain_delta(law: Law, shift: int, growth: Fraction) -> Fraction:
    """The sum of [P(i) - growth P(i - shift)]+ over all i, by the definition.

    :param law: probabilities of neighbouring lattice points; 0 beyond
    :param shift: by how many points the other input moves the law
    :param growth: a number of at most e^epsilon

    >>> plain_delta([Fraction(1, 2), Fraction(1, 2)], 1, Fraction(1))
    Fraction(1, 2)
    """
    total = Fraction(0)
    for i, mass in enumerate(law):
        before = law[i - shift] if 0 <= i - shift < len(law) else Fraction(0)
        if mass > growth * before:
            total += mass - growth * before
    return total


def plain_epsilon_holds(law: Law, shift: int, growth: Fraction, inner: int) -> bool:
    """Whether P(i) <= growth P(i +- shift) wherever both lie in the list, at |i| <= inner.

    :param law: probabilities of neighbouring lattice points
    :param shift: by how many points the other input moves the law
    :param growth: a number of at most e^epsilon
    :param inner: how many points from the middle are compared
    """
    middle = len(law) // 2
    for i in range(middle - inner, middle + inner + 1):
        for j in (i - shift, i + shift):
            if law[i] > growth * law[j]:
                return False
    return True


def holds(table: Any) -> bool:
    """Whether a table is as private as it says, from its integers and nothing else."""
    total = sum(int(w) for w in table.weights) + int(table.atom)
    if table.tail is not None:
        total += 2 * int(table.tail.weight)
        block = sum(int(t) for t in table.tail.weights) + int(table.tail.again)
        if block != 2**62 or any(int(t) < 0 for t in table.tail.weights):
            return False
    if total != 2**62 or any(int(w) < 0 for w in table.weights):
        return False
    growth = exp_below(Fraction(table.problem.epsilon))
    if table.tail is not None:
        # Ratios repeat from block to block: two blocks and one sensitivity show them all.
        period = len(table.tail.weights)
        law = law_of(table, blocks=2 + 2 * -(-table.cells // period))
        inner = len(table.weights) // 2 + 2 * period
        return all(plain_epsilon_holds(law, m, growth, inner) for m in range(1, table.cells + 1))
    law, atom = law_of(table), Fraction(int(table.atom), 2**62)
    allowed = Fraction(table.problem.delta)
    return all(
        atom + plain_delta(law, sign * m, growth) <= allowed
        for m in range(1, table.cells + 1)
        for sign in (1, -1)
    )


def channel_holds(table: Any) -> bool:
    """Whether a bounded table is as private as it says, from its integers and nothing else.

    Where a table may release the answer itself, these outputs (the first and the last column)
    count in full: no neighbour gives them.
    """
    rows = [[int(w) for w in row] for row in table.weights]
    if any(sum(row) != 2**62 or min(row) < 0 for row in rows):
        return False
    growth = exp_below(Fraction(table.problem.epsilon))
    allowed = Fraction(table.problem.delta) * 2**62
    if table.problem.integer:
        reach = int(Fraction(table.problem.sensitivity))
    else:
        reach = table.cells or len(rows)
    telling = getattr(table, "telling", False)
    for x, row in enumerate(rows):
        for other in rows[max(0, x - reach) : x] + rows[x + 1 : x + reach + 1]:
            short = Fraction(0)
            for y, (mass, there) in enumerate(zip(row, other, strict=True)):
                told = telling and y in (0, len(row) - 1)
                short += max(Fraction(0), mass - (0 if told else growth * there))
            if short > allowed:
                return False
    return True

"""Exact post-processing R with ``a R = b``: a solver guesses which entries are 0, fractions decide.

Of all witnesses one with as many positive entries as possible is found in floats. The entries that
the equations leave free keep their (rounded) values, and exact elimination gives the others, which
move by about as much as the solver erred. Nothing of the solver is believed. Where a is square and
regular, elimination alone decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from opendp_optimal.extend import Floats
from opendp_optimal_bayes.channel import Channel

_MOST_BITS = 6_000
_MOST_WORK = 30_000_000
"""Entries squared times equations: some seconds of exact elimination."""
_SMALLEST = 1e-6
"""Positive entries of the guess are at least this, where the solver can make them so."""
_ROUNDED = 1 << 30

Equation = tuple[dict[int, Fraction], Any]
"""Factors of unknowns, and what they add up to: a fraction, or an array of them."""


def only_witness(a: Channel, b: Channel) -> Channel | None:
    """The only R with a R = b where a is square and regular; None if that is no channel.

    :param a: the channel that is post-processed
    :param b: the channel that comes out
    """
    if a.inputs != a.outputs:
        return None
    entries = (value for row in (*a.rows, *b.rows) for value in row)
    if max(value.denominator.bit_length() for value in entries) * a.inputs > _MOST_BITS:
        return None
    equations: list[Equation] = [
        ({m: v for m, v in enumerate(left) if v}, np.array(right, dtype=object))
        for left, right in zip(a.rows, b.rows, strict=True)
    ]
    solved, _ = _eliminated(equations, range(a.outputs))
    if len(solved) < a.outputs:
        return None
    rows = [(solved[m][1] / solved[m][0][m]).tolist() for m in range(a.outputs)]
    # Rows add up to 1 by themselves: a is regular and takes the vector of ones to itself.
    return None if any(v < 0 for row in rows for v in row) else Channel(rows)


def exact_witness(a: Channel, b: Channel) -> Channel | None:
    """A post-processing of a that gives b exactly; None if none is found.

    :param a: the channel that is post-processed
    :param b: the channel that comes out

    >>> sharp = Channel([[Fraction(1, 2), Fraction(1, 2), 0], [0, Fraction(1, 3), Fraction(2, 3)]])
    >>> blind = Channel([[Fraction(1, 2), Fraction(1, 2)]] * 2)
    >>> sharp >> exact_witness(sharp, blind) == blind
    True
    """
    cells = a.outputs * b.outputs
    if cells * cells * (a.inputs * b.outputs + a.outputs) > _MOST_WORK:
        return None
    guess = _widest(a, b)
    if guess is None:
        return None
    values = [Fraction(round(v * _ROUNDED), _ROUNDED) for v in guess.ravel().tolist()]
    solved = _solve(_equations(a, b, [v > 0 for v in values]), values)
    if solved is None or min(solved) < 0:
        return None
    return Channel(np.reshape(np.array(solved), (a.outputs, b.outputs)))


def _widest(a: Channel, b: Channel) -> Floats | None:
    """A witness in floats with as many positive entries as possible, 0 where they cannot be."""
    from scipy import sparse
    from scipy.optimize import linprog

    middle, outputs = a.outputs, b.outputs
    cells = middle * outputs
    # Entries (times a common factor), the part of each that counts, at most 1, and the factor.
    product = sparse.kron(sparse.csr_array(a.matrix), sparse.eye_array(outputs))
    rows = sparse.kron(sparse.eye_array(middle), np.ones((1, outputs)))
    none = sparse.csr_array((a.inputs * outputs, cells))
    factor = sparse.csr_array(-b.matrix.reshape(-1, 1))
    ones = sparse.csr_array(-np.ones((middle, 1)))
    equal = sparse.block_array([[product, none, factor], [rows, None, ones]], format="csr")
    eye = sparse.eye_array(cells)
    above = sparse.block_array([[-eye, eye, sparse.csr_array((cells, 1))]], format="csr")
    result = linprog(
        np.concatenate([np.zeros(cells), -np.ones(cells), [0.0]]),
        A_ub=above,
        b_ub=np.zeros(cells),
        A_eq=equal,
        b_eq=np.zeros(equal.shape[0]),
        bounds=[(0, None)] * cells + [(0, 1)] * cells + [(0, 1 / _SMALLEST)],
        method="highs",
    )
    if result.status != 0 or not result.x[-1] > 0:
        return None
    entries = np.where(result.x[cells:-1] > 0.5, result.x[:cells] / result.x[-1], 0.0)
    return np.asarray(entries.reshape(middle, outputs))


def _equations(a: Channel, b: Channel, positive: list[bool]) -> list[Equation]:
    """What the positive entries must satisfy: a R = b, and rows that add up to 1."""
    outputs = b.outputs
    out: list[Equation] = []
    for left, right in zip(a.rows, b.rows, strict=True):
        for y, wanted in enumerate(right):
            places = range(y, len(positive), outputs)
            terms = zip(places, left, strict=True)
            out.append(({i: v for i, v in terms if v and positive[i]}, wanted))
    for m in range(a.outputs):
        places = range(m * outputs, (m + 1) * outputs)
        out.append(({i: Fraction(1) for i in places if positive[i]}, Fraction(1)))
    return out


def _solve(equations: list[Equation], values: list[Fraction]) -> list[Fraction] | None:
    """Change as few of the values as the equations need, the largest; None if they contradict."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    solved, left = _eliminated(equations, order)
    if any(wanted for _, wanted in left):
        return None
    out = list(values)
    for place, (terms, wanted) in solved.items():
        rest = sum((v * values[i] for i, v in terms.items() if i != place), Fraction(0))
        out[place] = (wanted - rest) / terms[place]
    return out


def _eliminated(
    left: list[Equation], order: Iterable[int]
) -> tuple[dict[int, Equation], list[Equation]]:
    """Equations in each of which one place is solved for, the first ones first, and the rest."""
    solved: dict[int, Equation] = {}
    for place in order:
        having = [e for e in left if place in e[0]]
        if not having:
            continue
        pivot = min(having, key=lambda e: len(e[0]))
        left = [_without(place, e, pivot) for e in left if e is not pivot]
        solved = {i: _without(place, e, pivot) for i, e in solved.items()}
        solved[place] = pivot
    return solved, left


def _without(place: int, equation: Equation, pivot: Equation) -> Equation:
    """An equation less so much of the pivot that one place is gone."""
    terms, wanted = equation
    if place not in terms:
        return equation
    by, total = pivot
    factor = terms[place] / by[place]
    changed = {i: terms.get(i, Fraction(0)) - factor * v for i, v in by.items()}
    return {i: v for i, v in (terms | changed).items() if v}, wanted - factor * total

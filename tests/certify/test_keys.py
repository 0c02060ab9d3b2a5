"""Secret keys: the proof, against plain enumeration in fractions of everything that is released."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opendp_optimal import CertificateError, KeyTable, solve_keys
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.exact.numbers import exp_down

CASES = [
    *((1.0, 1e-6, 1), (4.0, 1e-6, 1), (0.3, 1e-3, 1), (0.5, 0.2, 1), (12.0, 1e-12, 1)),
    *((2.0, 1e-4, 2), (2.0, 1e-2, 4), (6.0, 1e-4, 3)),
]


def released(table: KeyTable, count: int) -> dict[int | None, int]:
    """Everything that a key with this count can become, and how often in TOTAL."""
    if count == 0:
        return {None: TOTAL}
    out: dict[int | None, int] = {}
    for at, weight in enumerate(table.weights.tolist()):
        value = count + at - table.radius
        shown = value if value >= table.threshold else None
        out[shown] = out.get(shown, 0) + weight
    held = int(table.nothing[count]) if count < len(table.nothing) else 0
    rescued = out.pop(None, 0) - held
    assert rescued >= 0
    out[table.rescue] = out.get(table.rescue, 0) + rescued
    return {**out, None: held}


def lost(table: KeyTable, one: int, other: int) -> Fraction:
    """The exact delta of one count against another, at the table's epsilon."""
    growth = exp_down(Fraction(table.epsilon))
    first, second = released(table, one), released(table, other)
    short = (w - growth * second.get(value, 0) for value, w in first.items())
    return sum((s for s in short if s > 0), Fraction(0)) / TOTAL


def worst(table: KeyTable) -> Fraction:
    counts = len(table.nothing) + 2 * table.problem.move
    return max(
        max(lost(table, n, n + step), lost(table, n + step, n))
        for n in range(counts)
        for step in range(1, table.problem.move + 1)
    )


@pytest.mark.parametrize(("epsilon", "delta", "move"), CASES)
def test_every_move_is_hidden(epsilon, delta, move):
    table = solve_keys(epsilon, delta, move=move)
    table.verify()
    found = worst(table)
    assert found <= Fraction(delta)
    if move == 1:
        assert found >= Fraction(delta) * Fraction(99, 100)  # and nothing is given away


@given(st.floats(0.05, 32.0), st.floats(-14.0, -0.5), st.integers(1, 64), st.integers(0, 300))
@example(13.59375, -14.0, 1, 5)
@settings(max_examples=25, deadline=None)
def test_any_request_is_proved(epsilon, digits, move, count):
    table = solve_keys(epsilon, 10.0**digits, move=move)
    table.verify()
    assert table.chance(0) == table.best_chance(0) == 0.0
    assert table.chance(count) <= table.best_chance(count) * (1 + 1e-9)
    assert table.chance(count) <= table.chance(count + 1) * (1 + 1e-12)


def test_what_is_not_private_is_no_table():
    table = solve_keys(4.0, 1e-6)
    assert np.any(table.nothing[1:] > 0)
    some = int(np.flatnonzero(table.nothing)[-1])
    for at in (1, 2, some):
        more = table.nothing.copy()
        more[at] -= TOTAL // 10**5 if at > 1 else TOTAL // 10**8
        refused(replace(table, nothing=np.maximum(more, 0)))
    refused(replace(table, threshold=table.threshold - 1))
    refused(replace(table, nothing=table.nothing[:-1]))
    refused(replace(table, problem=replace(table.problem, delta=table.delta / 2)))
    refused(replace(table, problem=replace(table.problem, move=2)))
    refused(replace(table, problem=replace(table.problem, epsilon=table.epsilon * 0.999)))
    first = table.nothing.copy()
    first[0] = TOTAL - 1
    refused(replace(table, nothing=first))


def refused(table: KeyTable) -> None:
    with pytest.raises(CertificateError):
        table.verify()

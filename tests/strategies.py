"""Strategies and small helpers shared by the tests."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from opendp_optimal.table import NoiseTable

# Targets that solve in a few hundredths of a second at a gap of one per cent.
epsilons = st.floats(0.05, 3.0)
deltas = st.floats(-9.0, -0.3).map(lambda x: 10.0**x)


def grid_law(table: NoiseTable, steps: int) -> list[Fraction]:
    """The law of ``table.draw(steps=steps)`` as plain fractions, from its data alone."""
    law = [Fraction(0)] * (len(table.weights) * steps)
    for i, weight in enumerate(table.weights.tolist()):
        for j in range(steps):
            law[i * steps + j] += Fraction(weight, table.total * steps)
    law[len(law) // 2] += Fraction(table.atom, table.total)
    return law


def plain_delta(law: list[Fraction], shift: int, growth: Fraction) -> Fraction:
    """sum [P(x) - growth P(x - shift)]+ by the definition, nothing clever."""
    total = Fraction(0)
    for i, mass in enumerate(law):
        other = law[i - shift] if 0 <= i - shift < len(law) else Fraction(0)
        total += max(Fraction(0), mass - growth * other)
    return total


def chances(table: NoiseTable) -> np.ndarray:
    """Probabilities of the lattice points, with the atom at 0."""
    out = table.weights / table.total
    out[table.radius] += table.atom / table.total
    return out


def examples(count: int) -> int:
    """So many examples, or a few in quick runs."""
    return min(count, 4) if os.environ.get("HYPOTHESIS_PROFILE") == "quick" else count

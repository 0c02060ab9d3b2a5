"""The privacy proof in plain fractions against the fast one."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError, NoiseTable, solve, solve_bounded
from opendp_optimal.certify.noise import prove_private
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.testing import independent


def test_both_proofs_refuse_the_same_changes():
    table = solve(1.0, 0.1, cells=3, gap=10.0, cache=False)
    rng = np.random.default_rng(1)  # which change, not which noise
    refused = kept = 0
    for _ in range(300):
        weights = table.weights.copy()
        i, j = rng.integers(0, len(weights), 2)
        part = int(weights[i]) >> int(rng.integers(0, 61))
        weights[i] -= part
        weights[j] += part
        changed = NoiseTable(
            table.problem, table.cells, weights, table.atom, table.dual, table.upper, table.lower
        )
        try:
            prove_private(weights, table.atom, table.cells, table.epsilon, table.delta)
        except CertificateError:
            refused += 1
            # The fast proof may be stricter by its rounding, a unit for each weight.
            if independent.holds(changed):
                loose = table.delta + len(weights) * 2**-61
                prove_private(weights, table.atom, table.cells, table.epsilon, loose)
        else:
            kept += 1
            assert independent.holds(changed)
    assert min(refused, kept) > 20


def test_the_plain_proof_refuses_wrong_sums_and_signs():
    table = solve(1.0, 0.1, cells=3, gap=10.0, cache=False)

    def with_weights(weights, atom=0, tail=None):
        return NoiseTable(table.problem, 3, weights, atom, table.dual, 1.0, 0.0, tail)

    more = table.weights.copy()
    more[0] += 1
    assert not independent.holds(with_weights(more))
    less = table.weights.copy()
    less[0] -= less[0] + 1
    less[1] += table.weights[0] + 1
    assert not independent.holds(with_weights(less))
    assert not independent.holds(with_weights(table.weights, atom=1))


def test_pure_tables_with_a_ratio_too_large_are_refused():
    from dataclasses import replace

    table = solve(1.0, 0.0, integer_sensitivity=1, cache=False)
    assert independent.holds(table)
    weights = table.weights.copy()
    weights[table.radius] += 2
    weights[[0, -1]] -= 1
    assert not independent.holds(replace(table, weights=weights))
    more = replace(table.tail, again=table.tail.again + 1)
    assert not independent.holds(replace(table, tail=more))


@pytest.mark.parametrize("x", [0.0, 1e-4, 0.5, 1.0, 7.3, 32.0])
def test_both_exponentials(x):
    below = independent.exp_below(Fraction(x), terms=400)
    lower, upper = exp_bounds(x)
    assert below <= Fraction(upper, 1 << BITS)
    assert abs(below - Fraction(lower, 1 << BITS)) < Fraction(2, 1 << BITS)


@pytest.mark.parametrize(
    "asked",
    [
        {"sensitivity": 1, "range": (0, 4), "integer": True},
        {"sensitivity": 2, "range": (0, 4), "integer": True, "delta": 0.0},
        {"sensitivity": 1.0, "range": (0.0, 2.0), "bins": 6},
        {"sensitivity": 1.0, "range": (0.0, 2.0), "bins": [0.0, 0.5, 2.0], "delta": 0.3},
    ],
    ids=str,
)
def test_bounded_tables(asked, monkeypatch):
    monkeypatch.setattr("opendp_optimal.search.clamped.least_loss", lambda problem: math.inf)
    table = solve_bounded(1.0, **{"delta": 0.1, **asked}, gap=10.0, cache=False)
    assert independent.channel_holds(table)
    rows = table.weights.copy()
    rows[0] = 0
    rows[0, -1] = 1 << 62
    from dataclasses import replace

    assert not independent.channel_holds(replace(table, weights=rows))

"""Secret keys: as many of them as any private mechanism releases, and closer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opendp_optimal import solve_keys
from opendp_optimal.known.keys import best_chances

ZIPF = np.unique(100_000 // np.arange(1, 20_001), return_counts=True)
"""The most frequent key has a count of 100,000, the next one half of it, and so on."""


def total(of, counts=ZIPF):
    """The sum over all keys of a function of their counts."""
    return sum(of(int(n)) * int(keys) for n, keys in zip(*counts, strict=True))


def laplace(epsilon, delta):
    """Chance and error of each count with discrete Laplace noise and the least right threshold."""
    fall = math.exp(-epsilon)
    reach = math.ceil(45 / epsilon) + 2
    noise = np.arange(-reach, reach + 1)
    weights = (1 - fall) / (1 + fall) * fall ** np.abs(noise)
    above = np.cumsum(weights[::-1])[::-1]
    threshold = int(noise[np.argmax(above <= delta)]) + 1  # a count of 1 passes with delta at most

    def chance(n):
        return float(weights[noise >= threshold - n].sum())

    def error(n):
        kept = noise >= threshold - n
        return float((weights * np.abs(noise))[kept].sum()) + n * (1 - chance(n))

    return chance, error


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (2.0, 1e-5), (4.0, 1e-6), (8.0, 1e-9)]
)
def test_as_many_keys_as_possible(epsilon, delta):
    table = solve_keys(epsilon, delta)
    kept, best = total(table.chance), total(table.best_chance)
    assert 0.9999 * best <= kept <= best * (1 + 1e-9)
    native, _ = laplace(epsilon, delta)
    assert total(native) <= kept


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-6), (1.0, 1e-3), (3.0, 1e-8), (4.0, 1e-6)]
)
def test_smaller_error_than_laplace_with_the_right_threshold(epsilon, delta):
    table = solve_keys(epsilon, delta)
    _, native = laplace(epsilon, delta)
    near = np.arange(1, 2 * table.threshold), np.ones(2 * table.threshold - 1)
    # Where it is decided which keys are released, and over all keys.
    assert total(table.error, near) <= 0.97 * total(native, near)
    assert total(table.error) <= total(native)


def test_the_best_curve_is_that_of_the_paper():
    chances = best_chances(1.0, 1e-6)
    assert chances[0] == 0
    assert chances[-1] == 1
    assert np.all(np.diff(chances) > 0)
    # Before half: delta (e^(n epsilon) - 1) / (e^epsilon - 1).
    first = 1e-6 * np.expm1(np.arange(13.0)) / math.expm1(1.0)
    assert np.allclose(chances[:13], first, rtol=1e-12)


def test_draws_follow_the_table():
    from tests.tails import surprising

    table, draws = solve_keys(1.0, 1e-3), 100_000
    for count in (0, 1, 5, 7, 8, 20):
        released, values = table.draw(np.full(draws, count))
        assert not surprising(int(released.sum()), draws, table.chance(count))
        missed = np.abs(np.where(released, values, 0) - count)
        assert abs(missed.mean() - table.error(count)) < 7 * (missed.std() + 0.01) / draws**0.5
        assert np.all((values >= table.threshold) | (values == table.rescue))

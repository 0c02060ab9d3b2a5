"""The law of what is released, draw by draw, and its privacy by the definition."""

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import solve_bounded
from opendp_optimal.exact.numbers import BITS, exp_bounds
from opendp_optimal.sample.bounded import Listed, Rounding, Shifting
from opendp_optimal.sample.weights import WeightedSampler

TOTAL = 1 << 62


def random_words(*values):
    """A source that gives these words, one after the other."""
    left = list(values)
    return lambda count: left.pop(0).to_bytes(8, "little")


class Watched:
    """A row that tells which output to give, and notes that it was asked."""

    def __init__(self, row):
        self.row, self.output, self.asked = row, 0, False

    def draw_one(self, source):
        self.asked = True
        return self.output


def law(make, weights, answer, parts):
    """What is released with which chance, over all equally likely first draws and all outputs."""
    rows = [Watched(row) for row in weights.tolist()]
    mechanism = make(rows)
    out = {}
    for first in range(parts):
        for y in range(weights.shape[1]):
            for row in rows:
                row.output, row.asked = y, False
            place = mechanism.draw(answer, random_words(first))
            (used,) = [row for row in rows if row.asked]
            out[place] = out.get(place, 0) + Fraction(used.row[y], TOTAL * parts)
    assert sum(out.values()) == 1
    return out


def worst(laws, reach, epsilon):
    growth = Fraction(exp_bounds(epsilon)[0], 1 << BITS)
    return max(
        sum(max(Fraction(0), p - growth * other.get(place, 0)) for place, p in one.items())
        for a, one in laws.items()
        for b, other in laws.items()
        if a != b and abs(a - b) <= reach
    )


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.2), (0.3, 0.01), (2.0, 0.0)])
def test_shifting_is_private_at_every_pair_of_answers(epsilon, delta):
    table = solve_bounded(epsilon, delta, sensitivity=2, range=(0, 4), bins=6, cache=False)
    step, start = 5, -3
    end = start + table.bins * step
    laws = {
        answer: law(
            lambda rows: Shifting(rows, start, step, table.revealing), table.weights, answer, step
        )
        for answer in range(start, end + 1)
    }
    assert worst(laws, table.cells * step, epsilon) <= Fraction(delta)
    # One grid step further there are new pairs, and the guarantee is used up.
    assert worst(laws, table.cells * step + 1, epsilon) > Fraction(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.2), (0.3, 0.01), (2.0, 0.0)])
def test_rounding_is_private_at_every_pair_of_answers(epsilon, delta, monkeypatch):
    monkeypatch.setattr("opendp_optimal.search.clamped.least_loss", lambda problem: math.inf)
    edges = (0.0, 1.0, 2.0, 4.0, 5.0)
    table = solve_bounded(epsilon, delta, sensitivity=2, range=(0, 5), bins=edges, cache=False)
    scale = 4
    ends = [round(e * scale) for e in edges]
    laws = {}
    for answer in range(ends[0], ends[-1] + 1):
        at = min(max(i for i, e in enumerate(ends) if e <= answer), len(ends) - 2)
        laws[answer] = law(
            lambda rows: Rounding(rows, ends, table.revealing),
            table.weights,
            answer,
            ends[at + 1] - ends[at],
        )
    assert worst(laws, 2 * scale, epsilon) <= Fraction(delta)
    # Rounding is unbiased: the mean of the ends is the answer.
    plain = {x: [TOTAL if y == x else 0 for y in range(5)] for x in range(5)}
    for answer in laws:
        at = min(max(i for i, e in enumerate(ends) if e <= answer), len(ends) - 2)
        same = law(
            lambda rows: Rounding(rows, ends, False),
            np.array(list(plain.values())),
            answer,
            ends[at + 1] - ends[at],
        )
        assert sum(place * p for place, p in same.items()) == answer


def test_integers_have_a_row_each():
    rows = [
        WeightedSampler.of(np.array([TOTAL if y == x else 0 for y in range(3)])) for x in range(3)
    ]
    mechanism = Listed(rows, 10)
    assert [mechanism.draw(a) for a in (9, 10, 11, 12, 13)] == [10, 10, 11, 12, 12]


def test_answers_outside_count_as_the_ends():
    row = WeightedSampler.of(np.array([0, TOTAL, 0, 0]))
    shifting = Shifting([row] * 4, 0, 8, False)
    assert {shifting.draw(a) // 16 for a in (-100, 100)} == {0}
    rounding = Rounding([row] * 4, [0, 4, 8, 12], False)
    assert {rounding.draw(a) for a in (-100, 100)} == {4}


def test_a_revealing_table_releases_the_answer():
    row = WeightedSampler.of(np.array([TOTAL // 2, 0, 0, TOTAL // 2]))
    assert Shifting([row] * 2, 0, 8, True).draw(5) == 5
    assert Rounding([row] * 2, [0, 8], True).draw(5) == 5

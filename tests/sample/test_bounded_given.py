"""What is prepared for bounded answers, and what becomes of answers of every kind of number."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal.errors import CertificateError
from opendp_optimal.model.bounded import rounding_pairs
from opendp_optimal.problem.bounded import BoundedProblem
from opendp_optimal.sample.bounded import (
    Adding,
    Listed,
    Rounding,
    Shifting,
    prepare,
    releaser,
    resolution,
    whole_releaser,
)

FULL = 1 << 62


def asked(**changes):
    return BoundedProblem(
        **{"epsilon": 1.0, "delta": 0.1, "sensitivity": 1.0, "low": -3.0, "high": 5.0, **changes}
    )


def rows(count):
    """Each row draws its own number."""
    return np.eye(count, dtype=np.int64) * FULL


class Echo:
    """A mechanism that releases the answer, moved by so many grid steps."""

    def __init__(self, moved=0):
        self.moved, self.seen = moved, []

    def draw(self, answer):
        self.seen.append(answer)
        return answer + self.moved


@pytest.mark.parametrize("bins", [1, 7, 8, 100])
def test_a_bin_has_at_least_two_to_the_24_grid_steps(bins):
    bits = resolution(asked(), bins)
    assert 1 << 24 <= Fraction(8, bins) * 2**bits < 1 << 25
    assert resolution(asked(low=0.0, integer=True), bins) == 0


def test_the_narrowest_of_unequal_bins_counts():
    edges = (-3.0, 1.0, 1.25, 5.0)
    assert resolution(asked(edges=edges), 3) == 26


def test_equal_bins_cover_the_range_and_the_sensitivity():
    tried = ((1.0, 2, 15, 3), (1.0, 2, 40, 3), (0.3, 1, 9, 10), (0.3, 1, 16, 10), (1.0, 3, 16, 4))
    for sensitivity, cells, bins, bits in tried:
        problem = asked(sensitivity=sensitivity)
        found = prepare(problem, rows(bins + 1), cells, bits, np.zeros((0, 2)), False)
        assert isinstance(found, Shifting)
        unit = 2**bits
        # Answers a sensitivity apart are that far apart on the grid, rounding included.
        moved = math.floor(Fraction(sensitivity) * unit) + 1
        assert found.step * cells >= moved
        assert found.step * bins >= 8 * unit + 1
        assert (found.step - 1) * cells < moved or (found.step - 1) * bins < 8 * unit + 1
        # The range is in the middle.
        before, after = -3 * unit - found.start, found.start + bins * found.step - 5 * unit
        assert 0 <= after - before <= 1
        assert found.revealing is False
        assert len(found.rows) == bins + 1


def test_integers_and_unequal_bins():
    listed = prepare(asked(integer=True), rows(9), 1, 0, np.zeros((0, 2)), False)
    assert isinstance(listed, Listed)
    assert [listed.draw(a) for a in (-9, -3, 0, 5, 9)] == [-3, -3, 0, 5, 5]
    problem = asked(edges=(-3.0, 0.0, 1.0, 5.0))
    ends = [Fraction(e) * 4 for e in problem.edges]
    proved = rounding_pairs(ends, Fraction(5))
    found = prepare(problem, rows(4), 1, 2, proved, True)
    assert isinstance(found, Rounding)
    assert (found.ends, found.revealing) == ((-12, 0, 4, 20), True)
    with pytest.raises(CertificateError, match="narrow"):
        prepare(problem, rows(4), 1, 2, proved[:-1], True)


@pytest.mark.parametrize("bits", [-2, 0, 3])
def test_answers_of_every_kind(bits):
    problem, echo = asked(low=-30.0, high=50.0), Echo()
    release = releaser(problem, echo, bits)
    unit = Fraction(2) ** bits
    kinds = [3, 3.3, -7.25, np.float32(1.3), np.float16(-2.1), np.int64(11), Fraction(10, 3)]
    for answer in [*kinds, Decimal("4.7"), True, -30, 50.0]:
        place = round(
            Fraction(answer if not isinstance(answer, np.generic) else answer.item()) * unit
        )
        assert release(answer) == min(max(float(place / unit), -30.0), 50.0)
        assert echo.seen[-1] == place
    for answer, end in ((1e300, 50.0), (-math.inf, -30.0), (10**400, 50.0), (math.nan, 0.0)):
        assert release(answer) == min(max(float(round(end * unit) / unit), -30.0), 50.0)
    assert releaser(asked(low=2.0, high=5.0), echo, 3)(math.nan) == 2.0


def test_releases_stay_within_the_range():
    for moved, end in ((10**6, 5.0), (-(10**6), -3.0)):
        assert releaser(asked(), Echo(moved), 4)(1.0) == end
        assert releaser(asked(low=-3.0, integer=True), Echo(moved), 0)(1) == end
        assert whole_releaser(asked(low=-3.5, high=5.5), Echo(moved), 4)(1) == end


def test_integers_are_floors_and_stay_integers():
    problem = asked(low=-3.0, high=2.0**60, integer=True)
    release = releaser(problem, Echo(), 0)
    assert release(2.9) == 2
    assert release(-1.5) == -2
    assert release(2**58 + 1) == 2**58 + 1
    assert isinstance(release(np.int64(7)), int)


@pytest.mark.parametrize("bits", [-3, 0, 5])
def test_whole_answers_on_any_grid(bits):
    problem = asked(low=-(2.0**70), high=2.0**70)
    for answer in (0, 1, 3, 4, 5, -4, -5, 12, 2**65 + 4, -(2**69) - 3):
        echo = Echo()
        found = whole_releaser(problem, echo, bits)(answer)
        place = math.floor(answer * Fraction(2) ** bits + Fraction(1, 2))
        assert echo.seen == [place]
        assert found == math.floor(place / Fraction(2) ** bits + Fraction(1, 2))
        moved = whole_releaser(problem, Echo(11), bits)(answer)
        assert moved == math.floor((place + 11) / Fraction(2) ** bits + Fraction(1, 2))


def test_added_noise_is_moved_to_the_ends():
    drawn = iter([5, -5, 1])
    adding = Adding(lambda: next(drawn), -2, 4)
    assert [adding.draw(1) for _ in range(3)] == [4, -2, 2]

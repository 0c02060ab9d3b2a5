"""The least of a function, piece by piece, and ends of balls: where they are and at what cost."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from flint import arb

from opendp_optimal.certify.balls import ball, down, precision, up
from opendp_optimal.certify.pieces import least_down
from opendp_optimal.errors import CertificateError


class Valley:
    """(x - 1/3)^2 on pieces, from its slopes; and all the pieces that were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Fraction, Fraction]] = []

    def below(self, low: Fraction, high: Fraction) -> Fraction:
        self.asked.append((low, high))
        ends = abs(low - Fraction(1, 3)), abs(high - Fraction(1, 3))
        return min(ends) ** 2 - (high - low)


def test_the_worst_piece_is_halved_so_often():
    for halves in range(12):
        valley = Valley()
        found = least_down(valley.below, [0, 1, 4], Fraction(9), halves)
        assert len(valley.asked) == 2 + 2 * halves
        # The pieces that were not halved cover everything, and none is lower.
        split = {(a, b) for a, m in valley.asked for n, b in valley.asked if m == n == (a + b) / 2}
        kept = sorted(set(valley.asked) - split)
        assert kept[0][0] == 0
        assert kept[-1][1] == 4
        assert all(one[1] == other[0] for one, other in pairwise(kept))
        assert found == min(Valley().below(*piece) for piece in kept)
    assert least_down(Valley().below, [0, 1, 4], Fraction(9), 60) > -(2.0**-7)


def test_what_is_enough_is_not_halved():
    first = Fraction(4, 9) - 3  # what is known of the piece from 1 to 4, the worst
    for enough in (first, first - 1, first + Fraction(1, 1 << 70)):
        valley = Valley()
        assert least_down(valley.below, [0, 1, 4], enough, 1) == min(enough, -Fraction(8, 9))
        assert len(valley.asked) == (4 if enough > first else 2)


def test_ends_are_around_a_ball():
    with precision():
        for middle, radius in ((1, 0), (-3, 2.0**-30), (0, 1), (7, 9)):
            value = arb(middle, radius)
            assert down(value) <= middle - Fraction(radius)
            assert up(value) >= middle + Fraction(radius)
            assert up(value) - down(value) <= 2 * Fraction(radius) * (1 + Fraction(1, 1 << 20))
        assert down(ball(Fraction(3, 7))) < Fraction(3, 7) < up(ball(Fraction(3, 7)))


def test_ends_that_are_hardly_above_0_take_no_digits():
    least = Fraction(1, 1 << 2000)
    with precision():
        for exponent in (-(1 << 50), -3000, -2001):
            tiny = arb(2) ** exponent
            assert (down(tiny), up(tiny)) == (0, least)
            assert (down(-tiny), up(-tiny)) == (-least, 0)
        assert down(arb(2) ** -2000) == up(arb(2) ** -2000) == least
        assert down(3 * arb(2) ** -2001) == least
        assert up(3 * arb(2) ** -2001) == 2 * least
        assert down(arb(0)) == up(arb(0)) == 0
        assert up(arb(2) ** 131071) == -down(-(arb(2) ** 131071)) == 1 << 131071
        for huge in (arb(2) ** 131072, arb(2) ** (1 << 50)):
            for end, value in ((up, huge), (down, -huge), (up, -huge), (down, huge)):
                with pytest.raises(CertificateError, match="range"):
                    end(value)
        for none in (arb("nan"), arb("inf"), arb(0, "inf")):
            with pytest.raises(CertificateError, match="finite"):
                up(none)

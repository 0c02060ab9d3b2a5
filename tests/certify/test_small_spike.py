"""Spikes in small noise, against densities on a fine grid, in plain fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError
from opendp_optimal.certify.noise import delta_units
from opendp_optimal.certify.spike import MOST_PARTS, Spike, lowest, spike_ratio, spike_units

FALLING = np.array([3, 7, 20, 50, 20, 7, 3])


def density(weights: np.ndarray, spike: Spike) -> list[Fraction]:
    """At each of ``parts`` points of every cell."""
    cells = [Fraction(int(w), spike.parts) for w in weights for _ in range(spike.parts)]
    cells[len(cells) // 2] += spike.weight
    return cells


@pytest.mark.parametrize("parts", [3, 5, 9])
@pytest.mark.parametrize("reach", [1, 2, 3])
def test_what_a_spike_adds_is_at_least_what_the_neighbour_does_not_cover(parts, reach):
    spike, epsilon = Spike(11, parts), math.log(3)
    fine = density(FALLING, spike)
    middle = len(fine) // 2
    added = spike_units(FALLING, spike, reach, epsilon)
    plain = density(FALLING, Spike(0, parts))
    for move in range(1, reach * parts + 1):
        covered = 3 * plain[middle - move]
        beyond = max(Fraction(0), fine[middle] - covered) - max(
            Fraction(0), plain[middle] - covered
        )
        assert beyond <= added * (1 + Fraction(1, 10**9))
    height = 50 + 11 * parts
    expected = min(11 * parts, height - 3 * int(FALLING[3 - reach]))
    assert math.isclose(added, expected / parts, rel_tol=1e-9)
    assert added * parts >= expected  # the exponential is rounded down


def test_a_spike_that_the_neighbour_covers_adds_nothing():
    assert spike_units(FALLING, Spike(1, 3), 1, math.log(4)) == 0
    assert spike_units(FALLING, Spike(1, 3), 1, 700.0) == 0
    assert spike_units(FALLING, Spike(1, 3), 1, 0.0) == 1


@pytest.mark.parametrize("reach", [1, 2, 3])
def test_the_ratio_is_that_of_the_highest_point_to_the_lowest_in_reach(reach):
    spike = Spike(4, 5)
    fine = density(FALLING, spike)
    middle = len(fine) // 2
    # A cell away and a little: the cell beyond ``reach`` is met at its edge only.
    near = fine[middle - 5 * reach - 2 : middle + 5 * reach + 3]
    assert spike_ratio(FALLING, spike, reach) == max(near) / min(near)


def test_noise_that_ends_covers_nothing():
    spike = Spike(4, 5)
    assert lowest(FALLING, 4) == 0
    assert lowest(np.array([0, 5, 0]), 1) == 0
    assert spike_units(FALLING, spike, 4, 3.0) == 4
    for weights, reach in ((FALLING, 4), (np.array([0, 5, 0]), 1)):
        with pytest.raises(CertificateError, match="ends within a sensitivity"):
            spike_ratio(weights, spike, reach)


def test_the_lowest_weight_may_be_on_either_side():
    assert lowest(np.array([9, 4, 8, 5, 2]), 1) == 4
    assert lowest(np.array([9, 4, 8, 5, 2]), 2) == 2
    assert lowest(np.array([9, 4, 8, 5, 2]), 0) == 8


@pytest.mark.parametrize("parts", [3, 5, 7, 1001])
def test_grid_points_of_a_spike_are_odd_and_not_too_few(parts):
    for steps in (1, 2, 3, 7, 100, 1001, 5000):
        width = Spike(1, parts).width(steps)
        assert width % 2 == 1
        assert width * parts >= steps
        assert (width - 2) * parts < steps


@pytest.mark.parametrize(
    "spike",
    [
        Spike(0, 3),
        Spike(-1, 3),
        Spike(1, 1),
        Spike(1, 4),
        Spike(1, MOST_PARTS + 1),
        Spike(1.0, 3),
        Spike(1, 3.0),
        Spike(True, 3),
    ],
)
def test_what_is_no_spike_is_refused(spike):
    with pytest.raises(CertificateError, match="spike"):
        spike.check()


def test_spikes_are_taken():
    for parts in (3, 5, MOST_PARTS - 1, MOST_PARTS // 2 + 1):
        Spike(1, parts).check()
    assert MOST_PARTS == 2**40


@pytest.mark.parametrize("shift", [Fraction(1), Fraction(3, 2), Fraction(2)])
def test_delta_counts_the_spike_and_the_atom(shift):
    spike, epsilon = Spike(11, 5), math.log(3)
    plain = delta_units(FALLING, 0, 2, epsilon, shift)
    more = spike_units(FALLING, spike, math.ceil(shift), epsilon)
    assert more > 0
    assert delta_units(FALLING, 0, 2, epsilon, shift, spike) == plain + more
    assert delta_units(FALLING, 6, 2, epsilon, shift, spike) == plain + more + 6
    # Never less than all of the real shortfall, cell by cell of a fine grid.
    fine, move = density(FALLING, spike), int(shift * 5)
    padded = [Fraction(0)] * move + fine
    lost = sum(max(Fraction(0), p - 3 * q) for p, q in zip(fine, padded, strict=False))
    assert lost <= (plain + more) * (1 + Fraction(1, 10**9))

"""Bounded problems on lattices: pairs, costs, caps, symmetry."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendp_optimal.losses.base import loss_of
from opendp_optimal.model import bounded as model
from opendp_optimal.problem.bounded import BoundedProblem


def problem(**changes):
    options = {"epsilon": 1.0, "delta": 0.1, "sensitivity": 2.0, "low": 0.0, "high": 4.0}
    return BoundedProblem(**{**options, **changes})


def test_equal_bins_are_rounded_to_the_same_pairs_as_shifted():
    edges = [Fraction(i, 2) for i in range(9)]
    for cells in (1, 3, 8):
        lattice = model.Lattice(8, cells, Fraction(1, 2))
        expected = lattice.pairs(9)
        found = model.rounding_pairs(edges, Fraction(cells, 2))
        assert found.tolist() == expected.tolist()


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=6),
    st.integers(1, 30),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_whatever_neighbours_are_rounded_to_is_a_listed_pair(widths, reach, at, further, common):
    """Both by the same random number, as in the proof."""
    edges = [Fraction(e) for e in np.cumsum([0, *widths]).tolist()]
    end = edges[-1]
    first = Fraction(at) * end
    second = min(end, first + Fraction(further) * reach)
    listed = set(map(tuple, model.rounding_pairs(edges, Fraction(reach)).tolist()))

    def rounded(answer):
        j = min(max(i for i, e in enumerate(edges) if e <= answer), len(edges) - 2)
        return j + (Fraction(common) < (answer - edges[j]) / (edges[j + 1] - edges[j]))

    x, z = rounded(first), rounded(second)
    assert x == z or ((x, z) in listed and (z, x) in listed)


@given(st.integers(1, 12), st.integers(1, 12), st.fractions(0, 4), st.fractions(0, 4))
def test_cells_are_at_most_so_far_apart(bins, cells, one, other):
    """For every shift; a fixed one will do, the other end of the range being free."""
    asked = problem()
    lattice = model.lattice_above(asked, min(cells, bins), bins)
    b = lattice.step
    if abs(one - other) <= asked.reach:
        for shift in (Fraction(0), b / 3, b * Fraction(7, 8)):
            x, z = ((a - shift) // b for a in (one, other))
            assert abs(x - z) <= lattice.cells


@pytest.mark.parametrize("loss", ["l1", "l2", "pinball:0.9"])
def test_costs_are_those_of_the_mechanism(loss):
    """Against a simulation of the shift, at one answer after the other."""
    asked = problem(loss=loss_of(loss), prior=(0.1, 0.2, 0.3, 0.4))
    lattice = model.lattice_above(asked, 2, 4)
    channel = model.above(asked, lattice)
    b = float(lattice.step)
    expected = np.zeros((5, 5))
    answers = (np.arange(400) + 0.5) / 100
    shifts = (np.arange(197) + 0.5) / 197 * b
    for answer in answers:
        weight = asked.prior[int(answer)] / 100
        cells = np.floor((answer - shifts) / b).astype(int) + 1
        for y in range(5):
            errors = shifts + (y - 0.5) * b - answer
            losses = np.array([asked.loss(e) for e in errors])
            np.add.at(expected[:, y], cells, weight * losses / len(shifts))
    found = np.array(channel.cost, dtype=float)[:, 1:-1] / channel.denominator
    assert found == pytest.approx(expected, abs=1e-3)


def test_symmetry_is_seen_where_it_is():
    lattice = model.lattice_above(problem(), 2, 4)
    assert model.above(problem(), lattice).mirrored
    assert model.above(problem(cap=2.0), lattice).mirrored
    assert not model.above(problem(prior=(0.1, 0.9)), lattice).mirrored
    assert not model.above(problem(loss=loss_of("pinball:0.9")), lattice).mirrored


@given(st.floats(0.05, 7.0), st.floats(0.1, 20.0), st.integers(1, 6), st.integers(0, 3))
def test_lattices_cover_and_stay_within_whatever_the_units(sensitivity, length, cells, more):
    asked = problem(sensitivity=sensitivity, high=length)
    bins = cells * 2 + more
    above = model.lattice_above(asked, cells, bins)
    below = model.lattice_below(asked, cells, bins)
    assert above.bins * above.step >= asked.width
    assert above.cells * above.step >= asked.reach
    assert below.bins * below.step <= asked.width
    assert below.cells * below.step <= asked.reach


def test_a_lattice_that_does_not_fit_is_refused():
    asked = problem()
    with pytest.raises(ValueError, match="does not cover"):
        model.above(asked, model.Lattice(4, 2, Fraction(1, 2)))
    with pytest.raises(ValueError, match="leaves the range"):
        model.below(asked, model.Lattice(4, 2, Fraction(3, 2)))

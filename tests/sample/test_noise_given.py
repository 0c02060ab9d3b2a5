"""Draws of noise, of pairs and of integers with bounds of their own, by given outcomes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from opendp_optimal.sample import noise as module
from opendp_optimal.sample.noise import NoiseSampler
from opendp_optimal.sample.pair import pair_sampler
from opendp_optimal.sample.words import secure_bytes, uniform_below_each
from tests.sample.given import Given

FULL = 1 << 62
RADIUS = 2
ATOM, RIGHT, LEFT, SPIKE = 5, 6, 7, 8
"""Outcomes after the five lattice points."""


class Outcomes:
    """A sampler that draws these."""

    def __init__(self, *outcomes, count=0):
        self.left = list(outcomes)
        self.as_list = [0] * count

    def draw(self, size):
        return np.array([self.left.pop(0) for _ in range(size)], np.int64)

    def draw_one(self):
        return self.left.pop(0)


@pytest.fixture
def places(monkeypatch):
    """Uniform draws are the last place: bound - 1."""
    one = lambda bound: bound - 1  # noqa: E731
    monkeypatch.setattr(module, "one_below", one)
    monkeypatch.setattr(module, "uniform_below", lambda bound, count: np.full(count, bound - 1))
    monkeypatch.setattr(
        module, "spread_over_cells", lambda cells, steps: cells * steps + steps - 1 - steps // 2
    )


def both(outcomes, tails, steps, width=None, block=3):
    """What is drawn one at a time; and all at once."""
    tail = Outcomes(*tails, count=block + 1) if tails is not None else None
    sampler = NoiseSampler(RADIUS, Outcomes(*outcomes), tail, width)
    one = [sampler.draw_one(steps) for _ in outcomes]
    # All at once the tails are followed in turns: first all, then those that go on.
    many = None
    if tails is None or len(tails) == sum(o in (RIGHT, LEFT) for o in outcomes):
        tail = Outcomes(*tails, count=block + 1) if tails is not None else None
        many = NoiseSampler(RADIUS, Outcomes(*outcomes), tail, width).draw(len(outcomes), steps)
    return one, many


@pytest.mark.usefixtures("places")
def test_lattice_points_and_the_point_mass():
    one, many = both([0, 1, 2, 3, 4, ATOM], None, 1)
    assert one == many.tolist() == [-2, -1, 0, 1, 2, 0]
    one, many = both([0, 2, 4, ATOM], None, 5)
    assert one == many.tolist() == [-8, 2, 12, 0]


@pytest.mark.usefixtures("places")
def test_the_spike_has_its_width():
    asked = []
    one, many = both([SPIKE, 2, SPIKE], None, 9, lambda steps: asked.append(steps) or 3)
    assert one == many.tolist() == [1, 4, 1]
    assert set(asked) == {9}
    one, many = both([SPIKE, SPIKE], None, 9, lambda steps: 7)  # the last of -3..3
    assert one == many.tolist() == [3, 3]


@pytest.mark.usefixtures("places")
def test_tails_begin_behind_the_radius():
    outcomes = [RIGHT, 2, LEFT, ATOM, RIGHT]
    one, many = both(outcomes, [0, 2, 1], 1)
    assert one == many.tolist() == [3, 0, -5, 0, 4]
    one, many = both(outcomes, [0, 2, 1], 5)
    assert one == many.tolist() == [17, 2, -23, 0, 22]


@pytest.mark.usefixtures("places")
def test_tails_go_on_by_blocks():
    one, _ = both([RIGHT, LEFT], [3, 3, 1, 3, 0], 1)
    assert one == [2 + 1 + 6 + 1, -(2 + 1 + 3)]
    # At once: [3, 3], then both again [3, 0], then the first [1].
    sampler = NoiseSampler(RADIUS, Outcomes(RIGHT, LEFT), Outcomes(3, 3, 3, 0, 1, count=4), None)
    assert sampler.block == 3
    assert sampler.draw(2, 1).tolist() == [10, -6]


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("far", [1 << 30, (1 << 31) - 3])
def test_long_noise_is_exact(far):
    """Beyond 64 bits noise is in integers of Python."""
    steps = (1 << 31) + 1
    tail = Outcomes(far, count=(1 << 10) + 1)
    drawn = NoiseSampler(RADIUS, Outcomes(RIGHT, 2), tail, None).draw(2, steps)
    cell = far + 3
    assert [int(x) for x in drawn] == [cell * steps + steps // 2, steps // 2]
    assert (drawn.dtype == object) is (cell >= (1 << 62) // steps - 1)
    empty = NoiseSampler(RADIUS, Outcomes(), Outcomes(count=4), None)
    assert len(empty.draw(0, 3)) == 0


def test_pairs_are_centred():
    """Each number of a pair is counted from the middle of its own range."""
    for rows, columns in ((5, 3), (7, 9)):
        for where in ((0, 0), (rows - 1, columns - 1)):
            weights = np.zeros((rows, columns), np.int64)
            weights[where] = FULL
            cells, counts = pair_sampler(weights)(1, 1)
            assert cells.tolist() == [where[1] - columns // 2]
            assert counts.tolist() == [where[0] - rows // 2]


def test_pairs_of_all_words():
    """Each of the fifteen points has the share of words that its weight says."""
    weights = np.arange(1, 16, dtype=np.int64).reshape(3, 5) << 55
    weights[1, 2] += FULL - int(weights.sum())
    sampler = pair_sampler(weights)
    place = 0
    for row, column in itertools.product(range(3), range(5)):
        for inside in (place, place + int(weights[row, column]) - 1):
            sums, counts = sampler(1, 3, Given([inside << 2, 2]))
            assert (counts.tolist(), sums.tolist()) == ([row - 1], [3 * (column - 2) + 1])
        place += int(weights[row, column])
    sums, counts = sampler(2, 1, Given([0, (1 << 64) - 1]))
    assert (sums.tolist(), counts.tolist()) == ([-2, 2], [-1, 1])


def test_integers_below_bounds_of_their_own():
    bounds = np.array([[1, 2, 3], [10, 2**33 + 1, 2**62]], np.uint64)
    flat = bounds.ravel().tolist()
    rest = [(1 << 64) % b for b in flat]
    last = [(1 << 64) - r - 1 for r in rest]
    found = uniform_below_each(bounds, Given(last))
    assert found.shape == (2, 3)
    assert found.ravel().tolist() == [b - 1 for b in flat]
    # The uneven words are drawn again, all others stay.
    uneven = [i for i, r in enumerate(rest) if r]
    words = [(1 << 64) - 1 if i in uneven else 7 for i in range(6)]
    again = [last[i] + 1 if i == 3 else 5 for i in uneven]
    source = Given(words, again, [last[3]])
    found = uniform_below_each(bounds, source).ravel().tolist()
    expected = [(5 if i in uneven else 7) % b for i, b in enumerate(flat)]
    expected[3] = 9
    assert found == expected
    assert source.asked == 8 * (6 + len(uneven) + 1)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 5000])
def test_as_many_bytes_as_are_asked(count, monkeypatch):
    assert len(secure_bytes(count)) == count
    monkeypatch.setattr("opendp_optimal.sample.words.many_bytes", lambda n: b"many")
    monkeypatch.setattr("os.urandom", lambda n: b"few")
    assert secure_bytes(count) == (b"few" if count <= 256 else b"many")

"""Draws, word by word: what every place of the source turns into."""

from __future__ import annotations

import numpy as np
import pytest

from opendp_optimal.sample import weights as module
from opendp_optimal.sample.bounded import Listed, Rounding, Shifting
from opendp_optimal.sample.weights import WeightedSampler, spread_over_cells
from opendp_optimal.sample.words import one_below, random_words, uniform_below

FULL = 1 << 62


def scripted(*values):
    """A source that gives these words in turn, and complains when there are none left."""
    data = [int(v).to_bytes(8, "little") for v in values]

    def source(count):
        assert count % 8 == 0
        taken = [data.pop(0) for _ in range(count // 8)]
        return b"".join(taken)

    source.left = data
    return source


def point(place, count):
    """A sampler that always draws one place."""
    weights = np.zeros(count, np.int64)
    weights[place] = FULL
    return WeightedSampler.of(weights)


def test_words_are_the_bytes_of_the_source():
    assert random_words(3, scripted(1, 2**64 - 1, 7)).tolist() == [1, 2**64 - 1, 7]
    assert random_words(0, scripted()).tolist() == []
    for wrong in (b"", b"\0" * 15, b"\0" * 17):
        with pytest.raises(OSError, match="16 were asked"):
            random_words(2, lambda n, wrong=wrong: wrong)


@pytest.mark.parametrize("bound", [3, 10, 2**33 + 1, 2**61 + 1])
def test_one_below_keeps_exactly_the_even_part(bound):
    even = (1 << 64) - (1 << 64) % bound
    assert one_below(bound, scripted(even - 1)) == bound - 1
    for uneven in (even, (1 << 64) - 1):
        again = scripted(uneven, uneven, 7)
        assert one_below(bound, again) == 7 % bound
        assert again.left == []


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**33 + 1, 2**61 + 1, 2**62])
def test_uniform_below_keeps_exactly_the_even_part(bound):
    even = (1 << 64) - (1 << 64) % bound
    last = scripted(even - 1)
    assert uniform_below(bound, 1, last).tolist() == [bound - 1]
    if even < 1 << 64:
        for uneven in (even, (1 << 64) - 1):
            again = scripted(uneven, uneven, 0)
            assert uniform_below(bound, 1, again).tolist() == [0]
            assert again.left == []
        kept = scripted(even, even - 1)  # the last even word counts when drawn again, too
        assert uniform_below(bound, 1, kept).tolist() == [bound - 1]
        mixed = scripted(5, even, 7, 9)
        assert uniform_below(bound, 3, mixed).tolist() == [5 % bound, 9 % bound, 7 % bound]
    assert uniform_below(bound, 2, scripted(0, bound)).tolist() == [0, 0]


@pytest.mark.parametrize("bound", [0, -1, 2**62 + 1])
def test_uniform_below_refuses(bound):
    with pytest.raises(ValueError, match="bound"):
        uniform_below(bound, 1)


def test_every_place_of_a_small_law():
    weights = np.array([0, 5, 0, 1, FULL - 6, 0], np.int64)
    sampler = WeightedSampler.of(weights)
    for place, expected in [(0, 1), (4, 1), (5, 3), (6, 4), (FULL - 1, 4)]:
        for low in range(4):
            word = place << 2 | low
            assert sampler.draw_one(scripted(word)) == expected
            assert sampler.draw(1, scripted(word)).tolist() == [expected]
    assert sampler.as_list == np.cumsum(weights).tolist()


def test_draws_in_chunks_lose_and_repeat_nothing(monkeypatch):
    sampler = WeightedSampler.of(np.full(4, FULL // 4, np.int64))
    places = [i % 4 for i in range(11)]
    expected = list(places)
    for chunk in (1, 2, 3, 10, 11, 12):
        monkeypatch.setattr(module, "_CHUNK", chunk)
        source = scripted(*(p * (FULL // 4) << 2 for p in places))
        assert sampler.draw(11, source).tolist() == expected
        assert source.left == []
    assert sampler.draw(0, scripted()).tolist() == []


def test_chunks_without_a_fixture():
    before = module._CHUNK
    try:
        module._CHUNK = 3
        source = scripted(*(p * (FULL // 4) << 2 for p in (3, 2, 1, 0, 3, 1, 2)))
        drawn = WeightedSampler.of(np.full(4, FULL // 4, np.int64)).draw(7, source)
        assert drawn.tolist() == [3, 2, 1, 0, 3, 1, 2]
    finally:
        module._CHUNK = before


@pytest.mark.parametrize("weights", [[], [FULL - 1], [FULL, 1], [-1, FULL + 1], [FULL, -1, 1]])
def test_weights_that_are_no_law(weights):
    with pytest.raises(ValueError, match="add up"):
        WeightedSampler.of(np.array(weights, np.int64))


def test_places_in_a_cell():
    cells = np.array([-2, 0, 3], np.int64)
    assert spread_over_cells(cells, 3, scripted(0, 1, 2)).tolist() == [-7, 0, 10]
    assert spread_over_cells(cells, 1, scripted(0, 0, 0)).tolist() == [-2, 0, 3]


def test_short_words_for_one_draw():
    for data in (b"", b"\0" * 7, b"\0" * 9):
        with pytest.raises(OSError, match="8 were asked"):
            point(0, 1).draw_one(lambda n, data=data: data)


# --- bounded answers ------------------------------------------------------------------------------


def test_listed():
    rows = tuple(point(y, 3) for y in (2, 0, 1))
    listed = Listed(rows, 10)
    assert [listed.draw(a) for a in (9, 10, 11, 12, 13, 99, -99)] == [12, 12, 10, 11, 11, 11, 12]


def test_shifting_by_the_definition():
    # Cells of 4 grid steps from 100 on; each row draws its own cell.
    rows = tuple(point(y, 4) for y in range(4))
    shifting = Shifting(rows, 100, 4, False)
    for shift in range(4):
        for answer in range(100, 113):
            cell = min(max((answer - 100 - shift) // 4 + 1, 0), 3)
            expected = 100 + shift + cell * 4 - 2
            assert shifting.draw(answer, scripted(shift, 0)) == expected
        assert shifting.draw(-1000, scripted(shift, 0)) == 100 + shift - 2
        assert shifting.draw(1000, scripted(shift, 0)) == 100 + shift + 12 - 2


def test_shifting_tells_only_in_the_first_and_last_column():
    for column, told in ((0, True), (1, False), (4, False), (5, True)):
        rows = tuple(point(column, 6) for _ in range(4))
        drawn = Shifting(rows, 100, 4, True).draw(107, scripted(2, 0))
        assert drawn == (107 if told else 100 + 2 + (column - 1) * 4 - 2)


def test_rounding_by_the_definition():
    ends = (0, 4, 10)
    rounding = Rounding(tuple(point(y, 3) for y in range(3)), ends, False)
    for answer in range(-2, 13):
        inside = min(max(answer, 0), 10)
        low, high = (0, 4) if inside < 4 else (4, 10)
        for word in range(high - low):
            expected = high if word < inside - low else low
            assert rounding.draw(answer, scripted(word, 0)) == expected


def test_rounding_takes_words_modulo_the_length_of_the_bin():
    rounding = Rounding(tuple(point(y, 3) for y in range(3)), (0, 4, 10), False)
    assert rounding.draw(5, scripted(6, 0)) == 10
    assert rounding.draw(5, scripted(7, 0)) == 4
    assert rounding.draw(1, scripted(4, 0)) == 4


def test_rounding_tells_only_in_the_first_and_last_column():
    for column, expected in ((0, 5), (1, 0), (2, 4), (3, 10), (4, 5)):
        rows = tuple(point(column, 5) for _ in range(3))
        assert Rounding(rows, (0, 4, 10), True).draw(5, scripted(3, 0)) == expected

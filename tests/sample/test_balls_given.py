"""Points of balls and radii, word by word, against exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal.sample import balls, integers, radial
from opendp_optimal.sample.balls import ball_points, cube_points
from opendp_optimal.sample.digits import Digits
from opendp_optimal.sample.radial import DecayRadii, listed_radii, radial_vectors
from tests.sample.given import Given, exp_minus

FULL = 1 << 62


def in_turn(*parts):
    """A source that answers each call with the beginning of its own words, then with zeros."""
    left = iter(parts)
    return lambda count: Given(next(left, []))(count)


def test_cubes_are_centred():
    widths = np.array([1, 4, 5, 7])
    lowest = cube_points(widths, 2, Given())
    assert lowest.tolist() == [[0, 0], [-2, -2], [-2, -2], [-3, -3]]
    words = [w - 1 for w in widths.tolist() for _ in range(2)]
    assert cube_points(widths, 2, Given(words)).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    # A ball of the linf norm of radius r: the integers below real numbers in [-r, r).
    radii = np.array([1, 3])
    assert ball_points("linf", radii, 1, Given()).tolist() == [[-1], [-3]]
    assert ball_points("linf", radii, 1, Given([1, 5])).tolist() == [[0], [2]]


def gaps(whole, part, signs):
    """Points of an l1 ball by the definition: gaps of sorted real numbers, each with a sign."""
    places = sorted(w + Fraction(p, 2**64) for w, p in zip(whole, part, strict=True))
    sizes = [b - a for a, b in itertools.pairwise([Fraction(0), *places])]
    return [math.floor(g) if s else -math.floor(g) - 1 for g, s in zip(sizes, signs, strict=True)]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_points_of_l1_balls_are_gaps(size):
    rng = np.random.default_rng(size)
    radii = np.array([1, 2, 9, 1000, 1 << 50])
    count = len(radii)
    whole = rng.integers(0, radii[:, None], (count, size))
    part = rng.integers(0, 2**64, (count, size), np.uint64)
    bits = rng.integers(0, 2, count * size)
    signs = np.packbits(bits).tobytes()
    parts = iter([whole.astype(np.uint64).tobytes(), part.tobytes(), signs])
    found = ball_points("l1", radii, size, lambda n: next(parts))
    expected = [
        gaps(*row)
        for row in zip(
            whole.tolist(), part.tolist(), bits.reshape(count, size).tolist(), strict=True
        )
    ]
    assert found.tolist() == expected


def test_equal_digits_of_l1_balls_are_told_apart():
    # Two numbers 3 + 5 / 2^64 with the same digits: more of them say which is first.
    parts = iter([Given([3, 3])(16), Given([5, 5])(16), Given([9, 4])(16), b"\xff"])
    found = balls._simplex(np.array([7]), 2, lambda n: next(parts))
    assert found.tolist() == [[3, 0]]
    gaps_ = balls._long_gaps([3, 5], [5, 5], Given([9, 4]))
    assert gaps_ == [3, 1]  # 5.<5><4> - 3.<5><9> is below 2
    assert balls._long_gaps([3, 5], [5, 5], Given([4, 4, 1, 9])) == [3, 2]


def test_two_equal_digits_among_others_are_told_apart():
    # 3.<5>, 3.<5> and 3.<9>: the first two take more digits, and are in the other order then.
    asked = []
    parts = iter([Given([3, 3, 3])(24), Given([5, 5, 9])(24), Given([9, 4, 1])(24), b"\xff"])
    found = balls._simplex(np.array([7]), 3, lambda n: asked.append(n) or next(parts))
    assert asked == [24, 24, 24, 1]
    assert found.tolist() == [[3, 0, 0]]


@pytest.mark.parametrize("size", [1, 2, 3, 30])
def test_cells_cover_the_radius_like_a_gaussian(size):
    cells = balls._cells(size)
    assert cells.cells >= max(256, 2 * size**1.5)
    assert cells.cells < 2 * max(256, 2 * size**1.5)
    assert cells.cells & cells.cells - 1 == 0
    assert sum(cells.weights) == 1 << 61
    chances = np.array(cells.weights, float) / cells.least
    place = np.arange(cells.cells) / cells.cells
    ideal = np.exp(-0.5 * size * place**2)
    assert (chances >= ideal).all()
    assert (chances[1:] <= ideal[1:] + 4e-9).all()
    assert chances[0] <= 1 + ideal.sum() * 2.0**-19
    assert np.exp(cells.logs) == pytest.approx(chances)
    sides = np.diff([0, *cells.sampler.as_list]).tolist()
    assert sides == [*cells.weights[::-1], *cells.weights]


def proposal(size, radius, cells, offsets, word):
    """A proposed point and whether it is kept; further digits are all 0."""
    table = balls._cells(size)
    start = [0, *table.sampler.as_list]
    words = [start[c + table.cells] << 2 for c in cells]
    source = in_turn(words, offsets, [word])
    points, kept = balls._propose(np.array([radius]), size, source)
    return points[0].tolist(), bool(kept[0])


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("off", [1, 1 << 40, 1 << 56])
def test_points_of_l2_balls_are_kept_as_the_cells_say(size, off):
    """Whatever its cells are, a point is proposed and kept with the same chance."""
    table, radius = balls._cells(size), 1 << 40
    width = radius // table.cells + 1
    rng = np.random.default_rng(size)
    for _ in range(6):
        cells = rng.integers(-table.cells // 3, table.cells // 3, size).tolist()
        offsets = rng.integers(0, width, size).tolist()
        weights = [table.weights[max(c, -c - 1)] for c in cells]
        chance = Fraction(table.least**size, math.prod(weights)) * exp_minus(Fraction(size, 2))
        expected = [c * width + o for c, o in zip(cells, offsets, strict=True)]
        for side in (-off, off):
            word = math.floor(chance * 2**64) + side
            if word < 1 << 64:
                assert proposal(size, radius, cells, offsets, word) == (expected, side < 0)


@pytest.mark.parametrize("radius", [5, 1 << 20, 1 << 50])
def test_points_outside_are_never_kept(radius):
    """The real point is its integers and digits that follow; zeros: its lower corner."""
    table = balls._cells(2)
    width = radius // table.cells + 1
    for x, y in ((3, 4), (-3, 4), (4, -4), (4, 4), (0, 5), (-5, 0), (-6, 0), (5, 1), (2, 5)):
        point = [x * radius // 5, y * radius // 5]
        cells, offsets = [p // width for p in point], [p % width for p in point]
        square = sum(p * p for p in point)
        if square == radius**2 or not all(-table.cells <= c < table.cells for c in cells):
            continue
        found, kept = proposal(2, radius, cells, offsets, 0)
        assert found == point
        assert kept is (square < radius**2)


def test_points_on_the_edge_take_more_digits():
    for then, inside in ((0, True), (255, False)):
        assert balls._inside([3, 4], 7, Given(then=then)) is True
        assert balls._inside([4, 4], 7, Given(then=then)) is inside
        assert balls._inside([-5, -5], 7, Given(then=then)) is not inside
        assert balls._inside([-8, 0], 7, Given(then=then)) is False
    # The farthest corner on the sphere is inside, the nearest one is not.
    assert balls._inside([2, 3], 5, Given()) is True
    assert Given().asked == 0
    source = Given()
    assert balls._inside([2, 3], 5, source) is True
    assert balls._inside([3, 4], 5, source) is False
    assert source.asked == 0
    source = Given([1 << 63, 1 << 63])
    assert balls._inside([4, 4], 7, source) is True  # 4.5^2 * 2 < 49
    assert source.asked == 16


def test_what_is_refused_is_drawn_again(monkeypatch):
    calls = []

    def propose(radii, size, source):
        calls.append(radii.tolist())
        number = len(calls)
        points = np.array([[r * 10 + number, i] for i, r in enumerate(radii.tolist())])
        kept = np.ones(len(radii), bool)
        if number == 1:
            kept[radii == 4] = False
            kept[0] = False
        return points, kept

    monkeypatch.setattr(balls, "_propose", propose)
    found = balls._ball(np.array([3, 4, 5]), 2, Given())
    # Three copies of each; of those that are kept the first counts.
    assert calls[0] == [3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert set(calls[1]) == {4}
    assert found.tolist() == [[31, 1], [42, 0], [51, 6]]


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_batches(norm, monkeypatch):
    monkeypatch.setattr(balls, "_BATCH", 16)
    name = "_simplex" if norm == "l1" else "_ball"
    seen = []

    def drawn(radii, size, source):
        seen.append(len(radii))
        return np.repeat(radii[:, None], size, axis=1)

    monkeypatch.setattr(balls, name, drawn)
    radii = np.arange(1, 8)
    found = ball_points(norm, radii, 2, Given())
    assert found.tolist() == [[r, r] for r in radii.tolist()]
    assert seen == [2, 2, 2, 1]
    for wrong in ([0, 5], [1, (1 << 50) + 1]):
        with pytest.raises(ValueError, match="radii"):
            ball_points(norm, np.array(wrong), 2)
    assert ball_points(norm, np.array([1, 1 << 50]), 2).tolist()[1][0] == 1 << 50
    assert len(ball_points(norm, np.array([], np.int64), 2)) == 0


# --- radii ----------------------------------------------------------------------------------------


def test_listed_radii_by_given_words():
    weights = np.array([1 << 60, 1 << 61, 1 << 60])
    radii = listed_radii(3, 10, 2, weights, 1 << 60, 7)
    quarter = 1 << 62  # of all words
    words = [0, quarter, 3 * quarter - 1, 3 * quarter, (1 << 64) - 1]
    # Beyond: going on has the last quarter of the words. The fourth stops, the fifth goes on once.
    source = Given(words, [3 * quarter - 1, 3 * quarter], [0])
    balls_ = [0, 1, 1, 2, 3]
    assert radii(5, source).tolist() == [(3 + (2 + b) * 10) * 7 for b in balls_]
    assert source.asked == 8 * 8


LAWS = [(1, 0.01, 0.0), (4, 0.01, 2e-5), (3, 0.0, 1e-4), (6, 0.5, 0.25)]


def law_of(size, a, b):
    """Made anew in each test: what it has computed is part of what is tested."""
    return DecayRadii(size, Fraction(a), Fraction(b))


def exact_chance(law, radius):
    """The weight of a radius over that of sums of size + 1 geometric variables, up to a factor."""
    x = law.a + law.b * (2 * radius + 1)
    weight = radius**law.size * exp_minus(law.a * radius + law.b * radius**2) * (1 - exp_minus(x))
    ways = math.comb(radius + law.size - 1, law.size)
    return weight / (ways * exp_minus(Fraction(law.rate) * radius))


@pytest.mark.parametrize("numbers", LAWS)
def test_radii_are_kept_as_their_law_says(numbers):
    law = law_of(*numbers)
    radii = np.unique(np.linspace(1, 4 * law._middle + 5, 30).astype(int))
    found = law._chances(radii)
    exact = [exact_chance(law, r) for r in radii.tolist()]
    factor = found[len(radii) // 4] / float(exact[len(radii) // 4])
    assert [float(e) * factor for e in exact] == pytest.approx(found.tolist(), rel=1e-9)
    assert found.max() <= 1
    if law._middle < 20:
        return
    # On fine grids many of those that are proposed are kept.
    reach = np.arange(1, 60 * law._middle + 60)
    logs = [math.lgamma(r + law.size) - math.lgamma(r) - law.rate * r for r in reach.tolist()]
    proposed = np.exp(np.array(logs) - max(logs))
    assert (law._chances(reach) * proposed).sum() / proposed.sum() > 0.3


@pytest.mark.parametrize("numbers", LAWS)
def test_radii_are_settled_exactly(numbers):
    law = law_of(*numbers)
    for radius in (1, law._middle, 2 * law._middle + 3):
        ratio = exact_chance(law, radius) / exact_chance(law, law._middle)
        x0 = law.a + law.b * (2 * law._middle + 1)
        lag = law._ideal - Fraction(law.rate)
        shrink = math.prod(Fraction(law._middle, law._middle + i) for i in range(1, law.size))
        middle = shrink * (1 - exp_minus(x0)) / x0 * exp_minus(lag * law._middle)
        chance = ratio * middle
        for bits in (64, 128):
            edge = math.floor(chance * 2**bits)
            for v, kept in ((edge - 1, True), (edge + 1, False)):
                assert law._settle(radius, Digits(v, bits, Given())) is kept
            assert law._settle(radius, Digits(edge, bits, Given())) is True
            assert law._settle(radius, Digits(edge, bits, Given(then=255))) is False
        words = [math.floor(chance * 2**64) + side for side in (-(1 << 40), -1, 1, 1 << 56)]
        assert float(law._chances(np.array([radius]))[0]) == pytest.approx(float(chance), rel=1e-9)
        with pytest.MonkeyPatch.context() as patch:
            split = [radius - 1] + [0] * law.size
            asked = []

            def laplace(rate, count, *, source, split=split, asked=asked):
                asked.append((rate, count))
                return np.array(split * (count // len(split)))

            patch.setattr(integers, "laplace_integers", laplace)
            patch.setattr(radial, "_BATCH", 2 * len(split))
            found = law._propose(4, Given(words))
        assert found.tolist() == [radius] * 2
        assert asked == [(law.rate, 2 * len(split))] * 2


def test_radii_are_one_more_than_folded_noise(monkeypatch):
    law = DecayRadii(2, Fraction(0.01), Fraction(0))
    monkeypatch.setattr(
        integers, "laplace_integers", lambda rate, count, *, source: np.array([5, -1, 0, -3, 7, -2])
    )
    monkeypatch.setattr(DecayRadii, "_chances", lambda self, radii: np.array([2.0, 2.0]))
    assert law._propose(2, Given()).tolist() == [6, 11]


def test_radii_are_drawn_until_there_are_enough(monkeypatch):
    law = DecayRadii(2, Fraction(0.01), Fraction(0))
    asked = []

    def propose(self, count, source):
        asked.append(count)
        return np.arange(count // 2 + 1) + 100 * len(asked)

    monkeypatch.setattr(DecayRadii, "_propose", propose)
    assert law(7, Given()).tolist() == [100, 101, 102, 103, 200, 201, 300]
    assert asked == [7, 3, 1]


def test_what_is_lost_near_one():
    for x in (Fraction(1, 3), Fraction(1, 2**40), Fraction(5), Fraction(3, 2**90)):
        assert 2.0 ** -radial._small(x) <= min(1, float(x)) <= 4 * 2.0 ** -radial._small(x)


def test_vectors_take_whole_places_or_balls():
    radii = lambda count, source: np.array([5, 2])[:count]  # noqa: E731
    assert radial_vectors("linf", radii, 1, 2, whole=True, source=Given()).tolist() == [[-2], [-1]]
    assert radial_vectors("linf", radii, 1, 2, source=Given()).tolist() == [[-5], [-2]]
    assert radial_vectors("l1", radii, 1, 1, source=Given()).tolist() == [[-1]]

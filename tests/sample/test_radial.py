"""Points of balls and radii have the laws they should have; exact branches are reached."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

from opendp_optimal.sample import balls, radial
from opendp_optimal.sample.balls import ball_points, cube_points
from opendp_optimal.sample.digits import Digits
from opendp_optimal.sample.radial import DecayRadii, chosen_radii, listed_radii, radial_vectors

RARE = 1e-7
"""Chance of a false alarm of each test."""


def lengths(norm, points):
    powers = {"l1": 1, "l2": 2, "linf": np.inf}
    return np.linalg.norm(points + 0.5, powers[norm], axis=1)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_points_are_uniform_in_their_balls(norm, size):
    radius = 1 << 30
    points = ball_points(norm, np.full(4000, radius), size)
    inside = (lengths(norm, points) / radius) ** size
    assert stats.kstest(np.minimum(inside, 1), "uniform").pvalue > RARE
    one = points[:, 0] / radius
    assert stats.kstest(np.abs(one[one > 0]), np.abs(one[one < 0])).pvalue > RARE


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_small_balls_have_the_chances_of_their_cells(norm, monkeypatch):
    """Cells of the plane in a ball of radius 2: areas against counts."""
    monkeypatch.setattr(balls, "_LEAST_CELLS", 1)
    monkeypatch.setattr(balls, "_cells", balls._cells.__wrapped__)
    points = ball_points(norm, np.full(40_000 if norm == "l1" else 1000, 2), 2)
    seen = np.array(
        [[np.sum((points == (i, j)).all(1)) for j in range(-2, 2)] for i in range(-2, 2)]
    )
    fine = (np.arange(400) + 0.5) / 100 - 2
    x, y = np.meshgrid(fine, fine, indexing="ij")
    inside = (np.abs(x) + np.abs(y) <= 2) if norm == "l1" else (x * x + y * y <= 4)
    areas = inside.reshape(4, 100, 4, 100).sum((1, 3))
    expected = areas / areas.sum() * len(points)
    kept = expected > 0
    assert seen[~kept].sum() == 0
    statistic = ((seen[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    assert special.chdtrc(kept.sum() - 1, statistic * 0.98) > RARE


def test_cubes():
    assert set(cube_points(np.full(2000, 5), 1).ravel().tolist()) == {-2, -1, 0, 1, 2}
    assert set(cube_points(np.full(2000, 4), 1).ravel().tolist()) == {-2, -1, 0, 1}


def test_ties_of_gaps_are_settled_with_more_digits():
    more = iter([3, 9, 5])
    source = lambda count: b"".join(next(more).to_bytes(8, "little") for _ in range(count // 8))  # noqa: E731
    gaps = balls._long_gaps([4, 7, 7], [8, 8, 8], source)
    # 4.8..3, 7.8..5, 7.8..9: whole parts of the gaps.
    assert gaps == [4, 3, 0]


def test_a_point_on_the_edge_is_decided_by_its_digits():
    zeros, ones = lambda n: b"\0" * n, lambda n: b"\xff" * n
    assert balls._inside([3, 4], 6, zeros)
    assert not balls._inside([5, 5], 7, zeros)
    assert not balls._inside([4, 4], 7, ones)  # close to (5, 5)
    assert balls._inside([4, 4], 7, zeros)


def test_choices_agree_with_their_chance():
    cells = balls._cells(3)
    weights = [cells.weights[c] for c in (10, 100, 200)]
    chance = cells.least**3 * math.exp(-1.5) / math.prod(weights)
    assert 0 < chance < 1
    for part, kept in ((0.999, True), (1.001, False)):
        v = Digits(int(chance * part * 2**64), 64, lambda n: b"\0" * n)
        assert balls._chosen(weights, cells.least, v) is kept


def test_the_product_of_weights_is_never_too_small():
    for size in (1, 2, 10, 100):
        cells = balls._cells(size)
        place = np.arange(cells.cells) / cells.cells
        needed = cells.least * np.exp(-0.5 * size * place**2)
        assert (np.array(cells.weights, float) >= needed * (1 - 1e-12)).all()
        assert sum(cells.weights) == 1 << 61


@pytest.mark.parametrize(("a", "b"), [(0.01, 0.0), (0.01, 2e-5), (1e-6, 1e-4)])
@pytest.mark.parametrize("size", [1, 4])
def test_radii_have_their_chances(a, b, size):
    radii = DecayRadii(size, Fraction(a), Fraction(b))
    drawn = radii(20_000)
    t = np.arange(1.0, 20_000)
    weight = t**size * (np.exp(-a * t - b * t * t) - np.exp(-a * (t + 1) - b * (t + 1) ** 2))
    cdf = np.cumsum(weight) / weight.sum()
    # Discrete: the statistic is smaller than that of a continuous law.
    assert stats.kstest(drawn, lambda x: cdf[np.asarray(x, int) - 1]).statistic < 0.021


def test_radii_are_settled_as_their_chances_say():
    radii = DecayRadii(3, Fraction(0.01), Fraction(2e-5))
    for radius in (50, 200, 400):
        chance = float(radii._chances(np.array([radius]))[0])
        assert 0 < chance <= 1
        for part, kept in ((1 - 1e-9, True), (1 + 1e-9, False)):
            v = Digits(int(min(chance * part, 1 - 2**-60) * 2**64), 64, lambda n: b"\0" * n)
            assert radii._settle(radius, v) is (kept or chance * part >= 1)


def test_chosen_radii_have_their_weights():
    radii = chosen_radii(np.array([3, 10, 70]), np.array([1 << 60, 1 << 60, 1 << 61]))
    drawn = radii(4000)
    seen = [int((drawn == r).sum()) for r in (3, 10, 70)]
    assert sum(seen) == 4000
    assert stats.chisquare(seen, [1000, 1000, 2000]).pvalue > RARE


def test_listed_radii_go_on_without_end():
    radii = listed_radii(3, 10, 2, np.array([1 << 61, 1 << 61]), 1 << 61, 7)
    drawn = radii(4000) // 7
    assert set((drawn % 10).tolist()) == {3}
    assert drawn.min() == 23
    balls_seen = (drawn - 23) // 10
    assert stats.binomtest(int((balls_seen == 0).sum()), 4000, 0.5).pvalue > RARE
    assert stats.binomtest(int((balls_seen == 1).sum()), 4000, 0.25).pvalue > RARE
    assert balls_seen.max() > 4


def test_a_failing_source_is_an_error():
    with pytest.raises(OSError, match="random source"):
        radial_vectors(
            "l2", DecayRadii(2, Fraction(0.01), Fraction(0)), 2, 3, source=lambda n: b"\0"
        )
    assert radial.radial_vectors("l1", DecayRadii(2, Fraction(0.01), Fraction(0)), 2, 0).shape == (
        0,
        2,
    )

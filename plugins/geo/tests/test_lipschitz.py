"""Scores against exact arithmetic: regions of every shape, points near and far.

A score that is within ``score_error`` of the exact signed distance is 1-Lipschitz up to twice that,
which is what the noise is scaled for.
"""

import contextlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shapely.geometry import MultiPolygon, Polygon

from opendp_optimal_geo import DistanceTo, Population, SignedDistance, make_signed_distance
from opendp_optimal_geo.plan import SCORE_STEPS, lipschitz
from opendp_optimal_geo.region import settle
from opendp_optimal_geo.score import FEW_EDGES, score_error

TINY = Polygon([(0, 0), (1e-200, 0), (1000, 0), (1200, 800), (0, 1000)])
REPEATED = Polygon([(0, 0), (0, 0), (1000, 0), (1000, 0), (0, 1000), (0, 1000)])


def ring(corners, radius=1.0, middle=(0.0, 0.0)):
    turns = np.linspace(0.0, 2.0 * math.pi, corners, endpoint=False)
    return np.column_stack([np.cos(turns), np.sin(turns)]) * radius + middle


def nearly_zero(corners, radius=1000.0):
    """A ring with a corner beside the axis, as close as floats can be, after one on the axis."""
    found = ring(corners, radius)
    found[0] = (radius, 5e-324)
    found[-1] = (0.95 * radius, 0.0)
    return Polygon(found)


def exact_edges(region):
    for part in shapely.get_parts(settle(region)):
        for line in shapely.get_rings(part):
            corners = [tuple(map(Fraction, c)) for c in shapely.get_coordinates(line).tolist()]
            yield from itertools.pairwise(corners)


def exact_score(edges, x, y):
    """Return the sign and the squared distance, exactly."""
    inside, nearest = False, None
    for (ax, ay), (bx, by) in edges:
        dx, dy, px, py = bx - ax, by - ay, x - ax, y - ay
        along = min(max((px * dx + py * dy) / (dx * dx + dy * dy), Fraction(0)), Fraction(1))
        square = (px - along * dx) ** 2 + (py - along * dy) ** 2
        nearest = square if nearest is None else min(nearest, square)
        if (ay > y) != (by > y) and (px * dy < py * dx) == (dy < 0):
            inside = not inside
    return (-1 if inside else 1), nearest


def check_against_exact(region, points):
    """The score is as close to the exact one as is counted, and on its side."""
    score, edges = SignedDistance(region), list(exact_edges(region))
    rows = np.array(points, np.float64)
    found = score(rows)
    assert np.isfinite(found).all()
    for (x, y), value in zip(rows.tolist(), found.tolist(), strict=True):
        largest = max(abs(x), abs(y), score.extent)
        error = Fraction(score_error(2)) * Fraction(largest)
        sign, square = exact_score(edges, Fraction(x), Fraction(y))
        size = abs(Fraction(value))
        assert max(Fraction(0), size - error) ** 2 <= square <= (size + error) ** 2
        if square > error**2:
            assert (value < 0.0) == (sign < 0)


@pytest.mark.parametrize("corners", [12, FEW_EDGES + 16])
def test_regions_cannot_tell_neighbours_apart(corners):
    """Points one grid step apart have scores about one grid step apart."""
    step = 1.0 / 16.0
    for region in (TINY, REPEATED, nearly_zero(corners)):
        score = SignedDistance(region)
        far = np.array([(0.0, 1e6), (step, 1e6), (-3000.0, 0.0), (-3000.0, step), (0.0, 0.0)])
        found = score(far)
        assert np.isfinite(found).all()
        assert abs(found[0] - found[1]) <= step * 1.01
        assert abs(found[2] - found[3]) <= step * 1.01
        check_against_exact(region, far)


@pytest.mark.parametrize("corners", [12, FEW_EDGES + 16])
def test_a_hair_does_not_change_sides(corners):
    """On the axis of the hair all products with it underflow."""
    step = 2.0**-20
    points = np.array([(0.0, 0.0), (0.0, step), (0.1, 0.0), (0.1, -step), (-0.9, 0.0)])
    found = SignedDistance(nearly_zero(corners, 0.4))(points)
    assert abs(found[0] - found[1]) <= step * 1.01
    assert abs(found[2] - found[3]) <= step * 1.01
    check_against_exact(nearly_zero(corners, 0.4), points)


def test_a_repeated_corner_counts_as_before():
    points = np.random.default_rng(0).uniform(-1000.0, 2000.0, (400, 2))
    inside = int(((points > 0.0).all(axis=1) & (points.sum(axis=1) < 1000.0)).sum())
    answer = Population(points, budget=1.0).range_count(REPEATED, budget=0.5, beta=1e-6)
    assert inside > 20
    assert abs(answer.value - inside) <= answer.error_bound
    assert abs(answer.value - inside) <= 3


sizes = st.sampled_from([2.0**-18, 2.0**-7, 1.0, 1000.0, 1e6, 1e8])
hairs = st.sampled_from([0.0, 5e-324, 1e-310, 1e-200, 1e-60, 2.0**-44, 1e-9, 0.25])


@st.composite
def shells(draw):
    """Stars around a place: any size, corners moved by hairs, repeated, and on one line."""
    count = draw(st.integers(3, 12)) if draw(st.booleans()) else FEW_EDGES + draw(st.integers(1, 9))
    size = draw(sizes)
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    corners = ring(count) * seed.uniform(0.05, 1.0, (count, 1)) * size
    corners += np.array(draw(st.tuples(*[st.sampled_from([0.0, 1.0, 12345.678])] * 2)))
    corners = np.repeat(corners, seed.integers(1, 3, count), axis=0)
    corners += draw(hairs) * seed.integers(-1, 2, corners.shape) * min(size, 1.0)
    return corners


@st.composite
def regions(draw):
    """Valid regions: shells, some with holes that may touch them, some in several parts."""
    shell = draw(shells())
    middle, kind = shell.mean(axis=0), draw(st.sampled_from(["plain", "hole", "parts", "touching"]))
    region = Polygon(shell)
    if kind == "hole":
        region = Polygon(shell, [(shell - middle) * draw(st.sampled_from([0.5, 1e-7])) + middle])
    elif kind == "parts":
        width = float(np.ptp(shell[:, 0]))
        region = MultiPolygon([Polygon(shell), Polygon(shell + np.array([2.0 * width, 0.0]))])
    elif kind == "touching":
        east = shell[shell[:, 0].argmax()]
        region = MultiPolygon([Polygon(shell), Polygon(2.0 * east - shell)])
    usable = False
    with contextlib.suppress(ValueError):
        usable = bool(SignedDistance(region).extent)
    assume(usable)
    return region


@st.composite
def near_and_far(draw, region):
    """Corners, points beside edges, and points up to 1e15 away."""
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    corners = shapely.get_coordinates(region)
    some = corners[seed.integers(len(corners), size=3)]
    after = corners[seed.integers(len(corners), size=3)]
    reach = draw(st.sampled_from([5e-324, 1e-12, 1.0 / 16.0, 1.0, 1e6, 1e9, 1e15]))
    points = np.vstack([some, (some + after) / 2.0, some + seed.uniform(-1.0, 1.0, (3, 2)) * reach])
    points[seed.integers(len(points)), 1] = points[seed.integers(len(points)), 1]
    return points


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_scores_are_as_exact_as_is_counted(data):
    region = data.draw(regions())
    check_against_exact(region, data.draw(near_and_far(region)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data(), exponent=st.integers(-20, 12))
def test_rounded_scores_on_every_grid(data, exponent):
    """What the noise is scaled for, between neighbours on the grid, wherever they are."""
    region, grid = data.draw(regions()), 2.0**exponent
    limit = grid * 2.0**31
    score = SignedDistance(region)
    assume(score.extent < limit)
    one = np.clip(np.rint(data.draw(near_and_far(region)) / grid), 9 - 2**31, 2**31 - 9)
    moves = np.array([(1, 0), (0, 1), (-1, 1), (3, -2), (0, 0), (-7, 1), (1, 1), (-1, 0), (2, 2)])
    step = grid / SCORE_STEPS
    a, b = (np.rint(score(p * grid) / step) * step for p in (one, one + moves))
    apart = np.hypot(*moves.T) * grid
    assert (np.abs(a - b) <= lipschitz(2) * apart).all()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 500, 4000])
def test_distances_of_long_vectors_are_as_exact_as_is_counted(length):
    rng = np.random.default_rng(length)
    points = np.vstack([rng.uniform(-1.0, 1.0, (3, length)) * size for size in (1e-9, 1.0, 1e15)])
    centre = rng.uniform(-1.0, 1.0, length)
    for row, value in zip(points, DistanceTo(centre)(points).tolist(), strict=True):
        square = sum(
            (Fraction(a) - Fraction(b)) ** 2
            for a, b in zip(row.tolist(), centre.tolist(), strict=True)
        )
        error = Fraction(score_error(length)) * Fraction(max(1.0, float(np.abs(row).max())))
        size = Fraction(value)
        assert max(Fraction(0), size - error) ** 2 <= square <= (size + error) ** 2


def test_points_of_other_types_are_measured_as_exactly():
    """Halves, singles and whole numbers become doubles before anything is computed."""
    score = SignedDistance(TINY)
    rows = np.array([[100_003, 77], [-5, 900]])
    for kind in (np.float32, np.int32, np.int64, np.longdouble):
        assert score(rows.astype(kind)).tolist() == score(rows.astype(np.float64)).tolist()


@pytest.mark.parametrize("size", [1e15, 1e100, 1e200, 1.7e308, math.inf])
def test_every_point_has_a_finite_score(size):
    for score in (SignedDistance(TINY), SignedDistance(nearly_zero(40)), DistanceTo((1.0, 2.0))):
        rows = np.array([(size, 0.0), (-size, size), (5e-324, -size), (0.0, 0.0)])
        assert np.isfinite(score(rows)).all()


@pytest.mark.parametrize(
    "corners",
    [
        [(0, 0), (1e-200, 0), (0, 1e-100)],
        [(0, 0), (1000, 0), (1000, 1e-300), (0, 1e-300)],
        [(1e6, 0), (1e6 + 1e-9, 0), (1e6, 1e-9)],
    ],
)
def test_regions_that_vanish_are_refused_before_anybody_is_asked(corners):
    people = Population(np.zeros((3, 2)), budget=1.0)
    with pytest.raises(ValueError, match="must be wider than"):
        people.range_count(Polygon(corners), budget=0.5)
    assert not people.allowances.paid.any()


def test_huge_regions_and_places_are_refused():
    huge = Polygon([(0, 0), (1e200, 0), (0, 1e-100)])
    with pytest.raises(ValueError, match="must be within"):
        SignedDistance(huge)
    with pytest.raises(ValueError, match="must be within"):
        DistanceTo((0.0, 1e200))


def test_the_transformation_counts_the_same_error(plane):
    region = nearly_zero(40)
    distance = make_signed_distance(*plane, region)
    assert distance.map(1.0) >= 1.0 + 2.0 * score_error(2) * 2.0**27
    for hostile in (math.nan, math.inf, -math.inf, 1e308, 5e-324):
        assert math.isfinite(distance([hostile, 0.0]))
        assert math.isfinite(distance([0.0, hostile]))

import math

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry import MultiPolygon, Point, Polygon

from opendp_optimal_geo import DistanceTo, SignedDistance, rectangle, threshold_shift
from opendp_optimal_geo.region import check_region, rectangle_frame, threshold_shifts

ring = Polygon([(0, 0), (40, 0), (40, 40), (0, 40)], [[(10, 10), (30, 10), (30, 30), (10, 30)]])
two = MultiPolygon([Polygon([(0, 0), (10, 0), (0, 10)]), Polygon([(50, 50), (60, 50), (55, 70)])])
star = Point(0, 0).buffer(20.0).union(Point(30, 5).buffer(12.0))
REGIONS = [rectangle((3, 4), 10, 6), rectangle((1, 2), 30, 5, angle=33), ring, two, star]

coordinates = st.floats(-100.0, 100.0)
places = st.tuples(coordinates, coordinates)


@pytest.mark.parametrize("region", REGIONS, ids=["box", "turned", "hole", "multi", "round"])
@given(one=places, other=places)
def test_signed_distance(region, one, other):
    score = SignedDistance(region)
    a, b = score(np.array([one, other])).tolist()
    assert abs(a - b) <= math.dist(one, other) + 1e-9  # 1-Lipschitz
    assert abs(a) == pytest.approx(region.boundary.distance(Point(one)), abs=1e-9)
    if abs(a) > 1e-9:
        assert (a < 0.0) == region.contains(Point(one))


@given(one=places, other=places, centre=places)
def test_distance_to_a_point(one, other, centre):
    a, b = DistanceTo(centre)(np.array([one, other])).tolist()
    assert a == pytest.approx(math.dist(one, centre))
    assert abs(a - b) <= math.dist(one, other) + 1e-9


def test_long_vectors():
    points = np.arange(40.0).reshape(4, 10)
    assert DistanceTo(np.zeros(10))(points).tolist() == pytest.approx(
        np.linalg.norm(points, axis=1).tolist()
    )


@given(places, st.floats(1.0, 50.0), st.floats(1.0, 50.0), st.floats(-360.0, 360.0))
def test_rectangles_are_recognised(centre, width, height, angle):
    region = rectangle(centre, width, height, angle=angle)
    assert region.area == pytest.approx(width * height)
    frame = rectangle_frame(region)
    assert frame is not None
    assert sorted((2 * frame[1]).tolist()) == pytest.approx(sorted([width, height]))
    for other in (ring, two, star, Polygon([(0, 0), (4, 0), (5, 3), (1, 3)])):
        assert rectangle_frame(other) is None


@given(st.floats(10.0, 200.0), st.floats(10.0, 200.0), st.floats(0.5, 400.0))
def test_shift_of_rectangles_balances_the_bands(length, width, scale):
    """Appendix B: the bands on both sides of the shifted border have equal areas."""
    a = -threshold_shift(rectangle((0, 0), length, width), scale) / scale
    assert 0.0 <= a <= 1.0
    outside = 2 * (1 - a) * scale * (length + width) + 4 * (1 - a) ** 2 * scale**2
    if min(length, width) > 2 * scale:
        inside = 2 * (1 + a) * scale * (length + width) - 4 * (1 + a) ** 2 * scale**2
    else:
        inside = length * width
    assert outside == pytest.approx(inside, rel=1e-6)


def test_shift_of_other_regions():
    disc = Point(0, 0).buffer(100.0, quad_segs=64)
    a = -threshold_shift(disc, 10.0) / 10.0
    # For a disc of radius r: (r + (1-a)s)^2 + (r - (1+a)s)^2 = 2 r^2.
    assert (100 + (1 - a) * 10) ** 2 + (100 - (1 + a) * 10) ** 2 == pytest.approx(2e4, rel=1e-3)
    scales = np.array([5.0, 10.0, 20.0])
    one_by_one = [threshold_shift(disc, s) for s in scales.tolist()]
    assert threshold_shifts(disc, scales).tolist() == pytest.approx(one_by_one, rel=0.02)
    assert len(threshold_shifts(disc, np.zeros(0))) == 0


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        (Polygon(), "empty"),
        (Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]), "Self-intersection"),
        (Point(0, 0), "Polygon"),
        ("POLYGON EMPTY", "Polygon"),
        (None, "Polygon"),
        (Polygon([(0, 0), (1, 0), (2, 0)]), "valid|area"),
        (shapely.polygons([(0, 0), (math.inf, 0), (1, 1)]), "finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*invalid value.*:RuntimeWarning")
def test_bad_regions(region, reason):
    with pytest.raises(ValueError, match=reason):
        check_region(region)


def test_bad_rectangles():
    for bad in ((0, 1), (1, -1), (math.nan, 1), (1, math.inf)):
        with pytest.raises(ValueError, match=r"width|height"):
            rectangle((0, 0), *bad)
    with pytest.raises(ValueError, match="centre"):
        rectangle((0, math.nan), 1, 1)
    with pytest.raises(ValueError, match="angle"):
        rectangle((0, 0), 1, 1, angle=math.nan)


@pytest.mark.parametrize("region", REGIONS, ids=["box", "turned", "hole", "multi", "round"])
@given(st.integers(0, 2**32 - 1))
def test_rounded_scores_keep_their_lipschitz_constant(region, seed):
    """What the noise is scaled for: scores on their grid, far from the origin."""
    from opendp_optimal_geo.plan import SCORE_STEPS, lipschitz

    rng = np.random.default_rng(seed)
    grid = 2.0**-4
    moved = shapely.transform(region, lambda xy: xy * 1000.0 + [5e7, -5e7])
    one = np.rint(rng.uniform(-5e4, 5e4, (200, 2)) / grid) + np.array([5e7, -5e7]) / grid
    other = one + rng.integers(-3, 4, one.shape)
    score, step = SignedDistance(moved), grid / SCORE_STEPS
    a, b = (np.rint(score(p * grid) / step) * step for p in (one, other))
    apart = np.hypot(*(one - other).T) * grid
    assert (np.abs(a - b) <= lipschitz(2) * apart).all()

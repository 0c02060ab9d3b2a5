import math

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.special import erfcinv

from opendp_optimal_select import FeatureSpace, grid_offsets, make_feature_selection


def space_of(dimension):
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), dimension)
    return domain, dp.l2_distance(T=float)


def test_equation_24_as_printed_is_infinite():
    """F^-1(1 - i/k') at i = k' asks for a point that is exceeded with probability 0."""
    with np.errstate(divide="ignore"):
        assert math.isinf(erfcinv(1.0 - 3 / 3))
    for rule in ("quantile", "lloyd"):
        grid = grid_offsets(3, 2, scale=1.0, rule=rule)
        assert grid.shape == (49, 2)
        assert np.isfinite(grid).all()
    axis = np.unique(grid_offsets(3, 1, scale=2.0, rule="quantile"))
    right = [2.0 * math.sqrt(2.0) * erfcinv(1.0 - i / 4) for i in (1, 2, 3)]
    assert axis[4:] == pytest.approx(right)
    assert axis == pytest.approx(-axis[::-1])


def test_native_privacy_map():
    films = FeatureSpace(np.random.default_rng(0).normal(size=(50, 3)), directions=2)
    meas = make_feature_selection(*space_of(3), 2.0, films, 1)
    native = dp.m.make_gaussian(*space_of(3), scale=2.0)
    assert str(meas.output_measure) == "ZeroConcentratedDivergence"
    for d_in in (0.0, 1.0, 3.0):
        assert meas.map(d_in) == native.map(d_in) == pytest.approx(d_in**2 / 8)
    for _ in range(10):
        assert len(set(meas([0.0, 1.0, 2.0]))) == 9


def test_projection_keeps_the_directions_that_matter():
    rng = np.random.default_rng(2)
    tastes = rng.normal(size=(400, 2)) * [5.0, 3.0]
    points = np.column_stack([tastes, 0.01 * rng.normal(size=(400, 3))])
    films = FeatureSpace(points, directions=2)
    assert np.abs(films.projection[0, 0]) == pytest.approx(1.0, abs=0.05)
    assert films.projection @ films.projection.T == pytest.approx(np.eye(2), abs=1e-12)
    distances = np.linalg.norm(points[:50, None] - points[None, 50:100], axis=2)
    projected = films.project(points)
    kept = np.linalg.norm(projected[:50, None] - projected[None, 50:100], axis=2)
    assert kept == pytest.approx(distances, abs=0.1)


def test_more_answers_come_closer_and_lloyd_is_no_worse():
    """Simulated signals: mean l1 distance along the directions, in a dense catalogue."""
    rng = np.random.default_rng(4)
    points = np.column_stack([rng.uniform(-6, 6, size=(20000, 2)), np.zeros(20000)])
    films = FeatureSpace(points, directions=2)
    signals = np.column_stack([rng.normal(size=(300, 2)), rng.normal(size=300)])
    errors = {}
    for rule in ("lloyd", "quantile"):
        for per_side in (1, 2, 4):
            rows = films.answer_batch(signals, 1.0, per_side, rule)
            arcs = np.abs(films.project(points)[rows] - films.project(np.zeros(3))).sum(axis=2)
            errors[rule, per_side] = arcs.min(axis=1).mean()
    assert errors["lloyd", 4] < errors["lloyd", 2] < errors["lloyd", 1]
    assert errors["lloyd", 4] < errors["quantile", 4] + 0.02


def test_bad_arguments():
    films = FeatureSpace(np.random.default_rng(0).normal(size=(5, 3)), directions=1)
    with pytest.raises(ValueError, match=r"directions \(4\) must be in \[1, 3\]"):
        FeatureSpace(np.eye(3), directions=4)
    with pytest.raises(ValueError, match=r"\(7\) must be in \[1, 5\]"):
        make_feature_selection(*space_of(3), 1.0, films, 3)
    with pytest.raises(ValueError, match="input_domain"):
        make_feature_selection(*space_of(2), 1.0, films, 1)
    with pytest.raises(ValueError, match="input_metric"):
        make_feature_selection(space_of(3)[0], dp.l1_distance(T=float), 1.0, films, 1)
    with pytest.raises(ValueError, match=r"scale \(0.0\)"):
        make_feature_selection(*space_of(3), 0.0, films, 1)
    with pytest.raises(ValueError, match="FeatureSpace"):
        make_feature_selection(*space_of(3), 1.0, None, 1)
    with pytest.raises(ValueError, match="rule"):
        grid_offsets(1, 1, scale=1.0, rule="other")
    with pytest.raises(ValueError, match="at most 10000 points"):
        grid_offsets(5, 9, scale=1.0)
    with pytest.raises(ValueError, match=r"points \(2 features\) must have 3"):
        films.project([1.0, 2.0])

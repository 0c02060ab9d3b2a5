"""The slips in the paper's algorithms: each test fails on the printed version."""

import numpy as np

from opendp_optimal_geo import Curator, Population, rectangle


def test_algorithm_9_few_households_mean_yes():
    """Printed: S_0 means yes. PIE-NI puts counts above the threshold in S_0."""
    poor = np.array([0] * 10 + [50_000] * 990)
    answer = Curator(poor, budget=10.0).threshold(lambda x: x <= 10_000, 0.5, budget=10.0)
    assert answer.value is True
    assert answer.rounds[-1].inside == 1
    rich = np.array([0] * 990 + [50_000] * 10)
    answer = Curator(rich, budget=10.0).threshold(lambda x: x <= 10_000, 0.5, budget=10.0)
    assert answer.value is False
    assert answer.rounds[-1].outside == 1


def test_algorithm_7_eliminates_by_the_distance_to_the_point():
    """Printed with Proj_Gamma. Far users must go, near ones stay to the end."""
    points = np.array([[0.0, 0.0]] * 50 + [[50_000.0, 0.0]] * 50)
    people = Population(points, budget=1e-2)
    answer = people.kde((0.0, 0.0), 100.0, budget=1e-2)
    assert (answer.decided_at[:50] == 0).all()
    assert (answer.decided_at[50:] > 0).all()
    assert abs(answer.value - 0.5) <= answer.error_bound <= 0.2


def test_pm_0_counts_only_points_inside():
    """Printed: the sum of 1{Proj(x)}, which counts everybody who is left."""
    rng = np.random.default_rng(0)
    inside = rng.uniform(-30.0, 30.0, (40, 2))
    outside = inside + np.array([0.0, 100.0])
    people = Population(np.vstack([inside, outside]), budget=1e-3)
    # Noise of 22 m: most users near the border are never decided.
    answer = people.range_count(rectangle((0, 0), 100, 100), budget=1e-3, beta=1e-9)
    assert (answer.decided_at == 0).sum() > 60
    assert 20 <= answer.value <= 60

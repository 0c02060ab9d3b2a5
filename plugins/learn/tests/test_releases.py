import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal.known import expected_loss
from opendp_optimal_learn import (
    NOISES,
    Releases,
    make_truncated_laplace,
    plan,
    truncated_table,
)
from opendp_optimal_learn.budget import Plan
from opendp_optimal_learn.releases import part_of_range


@pytest.fixture(autouse=True)
def _trusting():
    dp.enable_features("honest-but-curious")
    yield
    dp.disable_features("honest-but-curious")


def test_a_sensitivity_is_believed_only_where_trust_is_declared():
    dp.disable_features("honest-but-curious")
    with pytest.raises(Exception, match="honest-but-curious"):
        Releases(Plan("laplace", 1.0, 0.0, 1))


def test_releases_check_what_is_public_and_accept_any_value():
    made = Releases(plan("laplace", 1.0, 0.0, 1))
    for value in (np.nan, np.inf, -np.inf, 1.7e308):
        assert 0 <= made.number(value, sensitivity=0.1, low=0, high=1) <= 1
    for value in (-3, 10**400):
        assert 0 <= made.count(value, most=5) <= 5
    for wrong in ({"low": 1}, {"high": np.inf}, {"low": -1e308, "high": 1e308}):
        with pytest.raises(ValueError, match="low"):
            made.number(0.5, **{"sensitivity": 0.1, "low": 0, "high": 1, **wrong})
    for sensitivity in (0, -1, np.nan, np.inf, 1e-300, 1e-11):
        with pytest.raises(ValueError, match="sensitivity"):
            made.number(0.5, sensitivity=sensitivity, low=0, high=1)


@pytest.mark.parametrize("noise", NOISES)
def test_releases_stay_within_their_range(noise):
    made = Releases(plan(noise, 0.5, 1e-3, 4))
    for value in (0.0, 0.3, 1.0):
        assert 0 <= made.number(value, sensitivity=0.3, low=0, high=1) <= 1
        assert -2 <= made.number(value, sensitivity=1e-3, low=-2, high=3) <= 3
    for value in (0, 3):
        assert 0 <= made.count(value, most=5) <= 5
        assert made.count(value) >= 0
    assert made.made == 10


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.slow
def test_with_a_large_budget_releases_are_accurate(noise):
    made = Releases(plan(noise, 8.0, 1e-3, 1))
    assert abs(made.number(0.3, sensitivity=0.01, low=0, high=1) - 0.3) < 0.1
    assert abs(made.count(100, most=1000) - 100) < 5


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.1), (0.1, 1e-6), (5.0, 0.25)])
def test_truncated_laplace_is_exactly_private_and_has_its_loss(epsilon, delta):
    table = truncated_table(epsilon, delta)
    table.verify()
    assert table.delta_at(epsilon) <= delta
    assert table.upper == pytest.approx(
        expected_loss("truncated_laplace", epsilon, delta), rel=5e-3
    )


def test_truncated_laplace_as_a_measurement():
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    made = make_truncated_laplace(*space, 2.0, (1.0, 0.1))
    assert made.map(2.0) == (1.0, 0.1)
    assert made.map(1.0)[0] < 1.0
    assert made.map(2.5)[0] == 2.0  # two steps of the distance it was made for
    radius = 2 * (truncated_table(1.0, 0.1).radius + 1) / truncated_table(1.0, 0.1).cells
    assert all(abs(made(0.0)) <= radius for _ in range(50))
    with pytest.raises(ValueError, match="delta"):
        truncated_table(1.0, 0.0)


def test_parts_of_ranges_never_exceed_the_range():
    for ratio in np.linspace(1, 40, 200):
        assert part_of_range(ratio) <= ratio

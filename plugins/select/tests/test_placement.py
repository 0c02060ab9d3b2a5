import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from opendp_optimal_select import (
    GaussianNoise,
    LaplaceNoise,
    LogConcaveNoise,
    lloyd_offsets,
    placement_cost,
    quantile_offsets,
)

NOISES = {
    "laplace": LaplaceNoise(0.7),
    "gaussian": GaussianNoise(1.3),
    "logistic": LogConcaveNoise(lambda x: -x - 2.0 * math.log1p(math.exp(-x))),
    "quartic": LogConcaveNoise(lambda x: -(x**4)),
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 20, 51])
def test_lloyd_halves_every_cell(name, k):
    noise = NOISES[name]
    points = np.array(lloyd_offsets(k, noise))
    edges = np.concatenate([[-60.0], 0.5 * (points[1:] + points[:-1]), [60.0]])

    def distribution(x):
        tail = 0.5 * noise.survival(np.abs(x))
        return np.where(x < 0.0, tail, 1.0 - tail)

    below, at, above = distribution(edges[:-1]), distribution(points), distribution(edges[1:])
    assert at - below == pytest.approx(above - at, abs=1e-12)
    assert points == pytest.approx(-points[::-1], abs=1e-15)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.slow
def test_lloyd_against_free_minimisation(name, k):
    noise = NOISES[name]
    ours = placement_cost(lloyd_offsets(k, noise), noise)
    start = np.linspace(-1.0, 1.3, k)
    found = minimize(
        lambda p: placement_cost(tuple(np.sort(p)), noise),
        start,
        method="Nelder-Mead",
        options={"maxfev": 2000, "xatol": 1e-9, "fatol": 1e-13},
    )
    assert ours == pytest.approx(found.fun, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(NOISES)), k=st.integers(1, 41))
def test_lloyd_is_never_worse_than_the_quantile_rule(name, k):
    noise = NOISES[name]
    optimal = placement_cost(lloyd_offsets(k, noise), noise)
    assert optimal <= placement_cost(quantile_offsets(k, noise), noise) + 1e-14


@pytest.mark.parametrize("name", NOISES)
def test_quantile_rule_keeps_its_bound(name):
    """The proof of appendix A.6 gives phi <= q/K + E|Y|/K with q exceeded with probability 1/K."""
    noise = NOISES[name]
    mean = float(noise.upper_moment(np.array([0.0]))[0])
    for big_k in (2, 3, 10, 40):
        points = quantile_offsets(2 * big_k - 1, noise)
        assert len(points) == 2 * big_k - 1
        q = points[-1]
        assert float(noise.survival(np.array([q]))[0]) == pytest.approx(1 / big_k, rel=1e-9)
        assert placement_cost(points, noise) <= q / big_k + mean / big_k


def test_user_given_noise_matches_the_built_in_one():
    own = LogConcaveNoise(lambda x: -0.5 * x * x + 3.0)
    for k in (1, 2, 3, 10, 31):
        assert lloyd_offsets(k, own) == pytest.approx(
            lloyd_offsets(k, GaussianNoise(1.0)), abs=1e-10
        )
    x = np.linspace(0.0, 8.0, 50)
    assert own.survival(x) == pytest.approx(GaussianNoise(1.0).survival(x), abs=1e-14)
    assert own.upper_moment(x) == pytest.approx(GaussianNoise(1.0).upper_moment(x), abs=1e-14)
    assert own.density(x) == pytest.approx(GaussianNoise(1.0).density(x), abs=1e-14)


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_uniform_noise_gets_evenly_spaced_answers(k):
    uniform = LogConcaveNoise(lambda x: 0.0 if x <= 3.0 else -math.inf)
    even = -3.0 + 3.0 * (2.0 * np.arange(k) + 1.0) / k
    assert lloyd_offsets(k, uniform) == pytest.approx(even, abs=1e-9)
    assert placement_cost(lloyd_offsets(k, uniform), uniform) == pytest.approx(1.5 / k, abs=1e-9)


def test_two_answers_to_gaussian_noise_sit_at_its_quartiles(golden):
    upper = golden["quartiles of a standard Gaussian"]["upper"]
    assert lloyd_offsets(2, GaussianNoise(2.0))[1] == pytest.approx(2 * upper, rel=1e-12)


@pytest.mark.parametrize(
    ("log_density", "message"),
    [
        (5, "must be a function"),
        (lambda x: x - x * x, "concave and must not increase"),
        (lambda x: -math.sqrt(x), "concave"),
        (lambda x: 0.0, "fall without bound"),
        (lambda x: math.nan, "finite at 0"),
    ],
)
def test_bad_noises(log_density, message):
    with pytest.raises(ValueError, match=message):
        LogConcaveNoise(log_density)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"scale \(0\.0\) must be positive"):
        GaussianNoise(0.0)
    with pytest.raises(ValueError, match=r"k \(0\) must be in \[1, 1000000\]"):
        lloyd_offsets(0, GaussianNoise(1.0))
    with pytest.raises(ValueError, match="ascending"):
        placement_cost((1.0, 0.0), GaussianNoise(1.0))

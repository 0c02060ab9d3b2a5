"""Every public function, from the smallest to the largest epsilon: right, or a named refusal."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from opendp_optimal_select import (
    Catalogue,
    Client,
    FeatureClient,
    FeatureSpace,
    GaussianNoise,
    GeographicPrivacy,
    LaplaceNoise,
    Request,
    RingNoise,
    Server,
    check_disutility,
    cost,
    design_ring,
    expected_cost,
    grid_cost,
    lloyd_offsets,
    make_ring_selection,
    minimise_cost,
    offsets,
    placement_cost,
    recursion,
)
from opendp_optimal_select.privacy import rate

EPSILONS = [1e-17, 1e-9, 1e-3, 1.0, 1e4, 1e9]
DISUTILITIES = [lambda t: t, lambda t: t * t, math.sqrt]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_answers_on_the_line_scale_with_the_noise(epsilon):
    for k in (1, 2, 3, 8):
        points, unit = np.array(offsets(k, epsilon=epsilon)), np.array(offsets(k, epsilon=1.0))
        assert points * epsilon == pytest.approx(unit, rel=1e-12)
        assert cost(k, epsilon=epsilon) * epsilon == pytest.approx(cost(k, epsilon=1.0))
        assert expected_cost(points, epsilon=epsilon) == pytest.approx(cost(k, epsilon=epsilon))
        noise = LaplaceNoise(epsilon)
        assert placement_cost(tuple(points), noise) == pytest.approx(cost(k, epsilon=epsilon))
        assert lloyd_offsets(k, noise) == pytest.approx(tuple(points), rel=1e-6)
        found = lloyd_offsets(k, GaussianNoise(1 / epsilon))
        assert np.array(found) * epsilon == pytest.approx(
            np.array(lloyd_offsets(k, GaussianNoise(1.0)))
        )
    found = minimise_cost(3, epsilon=epsilon)
    assert found.cost == pytest.approx(cost(3, epsilon=epsilon), rel=1e-9)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_powers_of_the_distance_scale_too(epsilon, power):
    def h(t):
        return t**power

    here, unit = (recursion(3, epsilon=e, disutility=h) for e in (epsilon, 1.0))
    assert here.cost * epsilon**power == pytest.approx(unit.cost, rel=1e-9)
    assert here.offsets[2] * epsilon == pytest.approx(unit.offsets[2], rel=1e-9)
    found = expected_cost(here.offsets, epsilon=epsilon, disutility=h)
    assert found == pytest.approx(here.cost, rel=1e-9)
    assert minimise_cost(2, epsilon=epsilon, disutility=h).cost == pytest.approx(
        cost(2, epsilon=epsilon, disutility=h), rel=1e-6
    )


def test_what_is_out_of_range_is_named():
    for epsilon in (1e-300, 5e-324, 1e300):
        with pytest.raises(ValueError, match="epsilon"):
            check_disutility(lambda t: t, epsilon=epsilon)
    for refused in (lambda: cost(1, epsilon=5e-324), lambda: offsets(3, epsilon=5e-324)):
        with pytest.raises(ValueError, match="epsilon"):
            refused()


@pytest.mark.parametrize("epsilon", [5e-324, 1e-50, 1e-17, 1e-6, 1.0, 50.0, 1e9])
def test_ring_clients_lose_no_more_than_they_are_asked_to(epsilon):
    if epsilon in (5e-324, 1e9):
        with pytest.raises(ValueError, match="epsilon"):
            design_ring(epsilon, 2, 24)
        return
    noise = design_ring(epsilon, 2, 24)
    per_radian = Fraction(noise.step_epsilon) * 24
    assert per_radian <= Fraction(epsilon) * 2 * Fraction("3.14159265358979323846")
    assert noise.cost == pytest.approx(grid_cost(epsilon, 2, 24), abs=0.3)
    if epsilon < 1e-16:
        assert len(set(noise.weights)) == 1


def test_nothing_a_client_sends_makes_the_server_raise():
    places = Catalogue([1.0, 2.0, 3.0, 1e300], ["a", "b", "c", "d"])
    scales = [5e-324, 1e-310, 1e-200, 1e-160, 1e-60, 1e-9, 1.0, 1e9, 1e60, 1e160, 1e200, 1.7e308]
    for h in (None, *DISUTILITIES, math.log1p):
        server = Server(places, disutility=h)
        for scale in scales:
            for k, signal in ((1, 0.0), (2, 1e308), (3, -1.7e308)):
                reply = server.handle(Request(signal, "laplace", scale, k).encode())
                assert b'"kind":"response"' in reply or b'"kind":"error"' in reply
    films = Server(FeatureSpace(np.random.default_rng(0).normal(size=(20, 2)), directions=1))
    for scale in scales:
        for signal in ((0.0, 0.0), (1.7e308, -1.7e308)):
            assert b'"kind":' in films.handle(Request(signal, "gaussian", scale, 3).encode())


def test_values_that_a_float_would_round_are_refused():
    """2**53 + 1 and 2**53 + 3 are 2 apart, the floats nearest to them 4."""
    dp.enable_features("contrib")
    client, features = Client(1.0, 1), FeatureClient(1.0, 3, 2)
    exact = (3, 2**60, 0.1, np.float32(0.1), np.int64(7), Fraction(1, 4), Decimal("0.5"))
    for value in exact:
        client.privatise(value)
        features.privatise([value, 0.0])
    for value in (2**53 + 1, np.uint64(2**64 - 1), Decimal("0.1"), Fraction(1, 3), 10**400, 1j):
        for send in (client.privatise, lambda v: features.privatise([v, 0.0])):
            with pytest.raises(ValueError, match="value must be a finite number") as refused:
                send(value)
            assert str(value) not in str(refused.value)


def test_a_ring_noise_is_what_was_checked():
    weights = [10, 10, 10]
    noise = RingNoise(0.5, weights, [0])
    weights[0] = 10**9
    assert noise.weights == (10, 10, 10)
    assert noise.loss(0.5) == noise.loss(1) > 0
    assert noise.loss(math.inf) == noise.loss(1)
    with pytest.raises(ValueError, match="distance"):
        noise.loss(math.nan)

    class Boaster(RingNoise):
        def loss(self, distance):
            return 0.0

    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    assert make_ring_selection(*space, Boaster(0.5, (10, 10, 10), (0,))).map(1) == 0.5


@pytest.mark.parametrize(("epsilon", "slope"), [(0.1, 3.0), (1e-300, 0.3), (1e300, 1e10)])
def test_a_rate_is_never_above_its_product(epsilon, slope):
    privacy = GeographicPrivacy(lambda d: slope * d, slope=slope)
    assert Fraction(rate(epsilon, privacy)) <= Fraction(epsilon) * Fraction(slope)

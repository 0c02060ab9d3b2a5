import math

import opendp.prelude as dp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opendp_optimal_select import (
    RingNoise,
    design_ring,
    grid_cost,
    laplace_ring,
    make_ring_selection,
)

SPACE = dp.atom_domain(T=int), dp.absolute_distance(T=int)


@settings(max_examples=25, deadline=None)
@example(epsilon=5.0, k=3, points=4)
@example(epsilon=40.0, k=2, points=9)
@given(epsilon=st.floats(0.05, 5.0), k=st.integers(1, 3), points=st.integers(4, 16))
def test_every_design_is_private_and_no_worse_than_laplace(epsilon, k, points):
    best = design_ring(epsilon, k, points)
    plain = design_ring(epsilon, k, points, client="laplace")
    assert best.cost <= plain.cost + 1e-9
    assert len(set(best.answers)) == k
    # RingNoise checks its weights when it is made; look again, in floats, from outside.
    for noise in (best, plain):
        pairs = zip(noise.weights, noise.weights[1:] + noise.weights[:1], strict=True)
        assert max(abs(math.log(a / b)) for a, b in pairs) <= noise.step_epsilon * (1 + 1e-12)


@pytest.mark.slow
def test_close_to_the_continuous_ring():
    step = 2 * math.pi / 120
    best = design_ring(0.375, 2, 120)
    assert best.cost == pytest.approx(0.7087, abs=step / 2)
    plain = design_ring(0.375, 2, 120, client="laplace")
    assert plain.cost == pytest.approx(laplace_ring(2, epsilon=0.375)[0], abs=step / 2)
    assert design_ring(1.0, 2, 120).cost == pytest.approx(
        design_ring(1.0, 2, 120, client="laplace").cost, rel=0.005
    )


def test_a_coarse_grid_reproduces_all_three_printed_statements(golden):
    """Ten points, answers half-way between them: 0.72 against 0.75, and equal at epsilon 1."""
    printed = golden["ring, k = 2, epsilon = 3/8"]
    both = [grid_cost(0.375, 2, 10, client=c, halfway=True) for c in ("optimal", "laplace")]
    assert [round(value, 2) for value in both] == [printed["optimal"], printed["laplace"]]
    equal = [grid_cost(1.0, 2, 10, client=c, halfway=True) for c in ("optimal", "laplace")]
    assert equal[0] == pytest.approx(equal[1], abs=1e-9)


@pytest.mark.parametrize("epsilon", [8.0, 20.0, 60.0])
def test_strong_signals_keep_their_utility(epsilon):
    """Tails far below the solver's accuracy must not spoil the weights."""
    best = design_ring(epsilon, 1, 60)
    plain = design_ring(epsilon, 1, 60, client="laplace")
    assert best.cost == pytest.approx(plain.cost, rel=1e-4, abs=1e-9)
    decay = math.exp(-best.step_epsilon)
    exact = 2 * math.pi / 60 * 2 * decay / ((1 - decay) * (1 + decay))
    assert best.cost == pytest.approx(exact, rel=1e-3)


def test_measurement():
    noise = design_ring(0.375, 2, 24)
    meas = make_ring_selection(*SPACE, noise)
    assert meas.map(1) == noise.step_epsilon
    assert meas.map(12) == meas.map(23) == pytest.approx(12 * noise.step_epsilon)
    for value in (-1, 0, 5, 10**6):
        answers = meas(value)
        assert len(set(answers)) == 2
        assert all(0 <= a < 24 for a in answers)


def test_draws_follow_the_weights():
    """Exact binomial bounds for each displacement, false alarm 1e-6 in all."""
    from opendp_optimal.testing import clopper_pearson

    noise = RingNoise(math.log(2.1), (4, 2, 1, 2), (0,))
    draws = [noise.draw() for _ in range(4000)]
    for i, weight in enumerate(noise.weights):
        low, high = clopper_pearson(draws.count(i), len(draws), 1e-6 / 8)
        assert low <= weight / 9 <= high


@pytest.mark.parametrize(
    ("weights", "answers", "message"),
    [
        ((4, 1, 1, 1), (0,), r"weights \(between 3 and 0\) must differ by a factor"),
        ((2, 1, 1, 3), (0,), "must differ by a factor"),
        ((1, 1), (0,), "three or more"),
        ((1, 0, 1), (0,), "integers above 0"),
        ((1, 1, 1), (), "distinct"),
        ((1, 1, 1), (0, 0), "distinct"),
        ((1, 1, 1), (3,), "from 0 to 2"),
    ],
)
def test_bad_noise_is_refused(weights, answers, message):
    with pytest.raises(ValueError, match=message):
        RingNoise(0.7, weights, answers)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"points \(2\) must be in \[3, 100000\]"):
        design_ring(1.0, 1, 2)
    with pytest.raises(ValueError, match=r"k \(9\) must be in \[1, 8\]"):
        design_ring(1.0, 9, 8)
    with pytest.raises(ValueError, match="at most 5000 shapes"):
        design_ring(1.0, 5, 100)
    with pytest.raises(ValueError, match="client"):
        design_ring(1.0, 1, 8, client="gauss")
    with pytest.raises(ValueError, match="atom_domain"):
        make_ring_selection(dp.atom_domain(T=float), SPACE[1], design_ring(1.0, 1, 8))
    with pytest.raises(ValueError, match="absolute_distance"):
        make_ring_selection(SPACE[0], dp.symmetric_distance(), design_ring(1.0, 1, 8))
    with pytest.raises(ValueError, match="RingNoise"):
        make_ring_selection(*SPACE, 3)


def test_a_loss_whose_exponential_is_no_float_is_refused():
    assert design_ring(500.0, 1, 6).answers == (0,)
    for design in (design_ring, grid_cost):
        for epsilon in (1e3, 2**62, 1e308):
            with pytest.raises(ValueError, match=r"^epsilon \("):
                design(epsilon, 1, 6)


@pytest.mark.parametrize(
    "changed", [{"answers": (0.5,)}, {"answers": (True,)}, {"weights": (1, True, 1)}]
)
def test_noise_on_a_ring_is_of_integers(changed):
    with pytest.raises(ValueError, match="must be"):
        RingNoise(**{"step_epsilon": 0.7, "weights": (1, 1, 1), "answers": (0,), **changed})

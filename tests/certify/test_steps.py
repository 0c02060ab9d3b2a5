"""Noise in steps: what is proved holds, by other means; what is wrong is not proved."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.steps import Steps, prove_steps, steps_delta_up, steps_loss_up
from opendp_optimal.errors import CertificateError
from opendp_optimal.known.radial import near_density
from opendp_optimal.round.radial import rounded_steps
from opendp_optimal.solvers.radial_steps import radial_steps

STEP = 1 << 10


def steps(radii: list[float], weights: list[float]) -> Steps:
    shares = [int(w / sum(weights) * TOTAL) for w in weights]
    shares[0] += TOTAL - sum(shares)
    return Steps(STEP, np.array(radii, np.float64).astype(np.int64), np.array(shares, np.int64))


LAW = steps([400, 900, 1600, 2500], [0.3, 0.4, 0.2, 0.1])


def brute_delta(law: Steps, size: int, epsilon: float, distance: float) -> float:
    """Over the plane of the move and the length across it, in small squares."""
    radii, weights = law.radii / law.step, law.weights / TOTAL
    levels = np.cumsum((weights / radii**size)[::-1])[::-1]
    levels = np.append(levels, 0.0)
    end, cell = float(radii[-1]) + 1, 1 / 256
    x, y = np.arange(-end, end, cell) + cell / 2, np.arange(0, end, cell) + cell / 2
    along, across = np.meshgrid(x, y, indexing="ij")
    near = levels[np.searchsorted(radii, np.hypot(along, across))]
    far = levels[np.searchsorted(radii, np.hypot(along - distance, across))]
    lost = np.maximum(near - math.exp(epsilon) * far, 0) * across ** (size - 2)
    # A sphere across the plane, in units of the unit ball.
    unit = (
        math.exp(math.lgamma(size / 2 + 1) - math.lgamma((size - 1) / 2)) * 2 / math.sqrt(math.pi)
    )
    return float(lost.sum()) * cell * cell * unit


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize(("epsilon", "distance"), [(1.0, 1), (0.0, 1), (2.5, 1), (0.7, 0.375)])
def test_delta_is_that_of_the_plane(size, epsilon, distance):
    proved = float(steps_delta_up(LAW, size, epsilon, Fraction(distance)))
    assert proved == pytest.approx(brute_delta(LAW, size, epsilon, distance), rel=1e-2)


def exact_delta(law: Steps, odds: Fraction, distance: Fraction) -> Fraction:
    """On the line, in fractions: the density is constant between ends of intervals."""
    radii = [Fraction(int(r), law.step) for r in law.radii]

    def density(x: Fraction) -> Fraction:
        held = (w / (2 * r) for r, w in zip(radii, law.weights.tolist(), strict=True) if abs(x) < r)
        return sum(held, Fraction(0)) / TOTAL

    ends = sorted({s * r + d for r in radii for s in (-1, 1) for d in (0, distance)})
    total = Fraction(0)
    for low, high in itertools.pairwise(ends):
        middle = (low + high) / 2
        total += (high - low) * max(
            Fraction(0), density(middle) - odds * density(middle - distance)
        )
    return total


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("distance", [Fraction(1), Fraction(2, 7)])
def test_delta_on_a_line_is_exact(epsilon, distance):
    proved = steps_delta_up(LAW, 1, epsilon, distance)
    true = exact_delta(LAW, Fraction(math.exp(epsilon)), distance)
    assert float(proved) == pytest.approx(float(true), rel=1e-12, abs=1e-15)


def test_a_shorter_move_and_a_larger_epsilon_spend_less():
    moves = [steps_delta_up(LAW, 4, 1.0, Fraction(i, 9)) for i in range(1, 10)]
    assert moves == sorted(moves)
    curve = [steps_delta_up(LAW, 4, e) for e in (0.0, 0.1, 1.0, 5.0, 60.0)]
    assert curve == sorted(curve, reverse=True)


@pytest.mark.parametrize(
    ("epsilon", "delta", "size", "power"),
    [(1.0, 0.1, 2, 2), (4.0, 1e-3, 5, 1), (12.0, 1e-9, 20, 2), (30.0, 1e-3, 10, 2)],
)
def test_solved_steps_are_proved_at_their_delta_and_not_far_below(epsilon, delta, size, power):
    near = near_density(epsilon, delta, size, power)
    found = radial_steps(size, epsilon * (1 - 2.0**-36), delta, power, near)
    assert found is not None
    law = rounded_steps(size, *found, 1 << 20, (1 << 20) - 16)
    prove_steps(law, size, epsilon, delta)
    with pytest.raises(CertificateError):
        prove_steps(law, size, epsilon, delta * 0.9)
    mean = float(found[1] @ found[0] ** 2) * size / (size + 2)
    assert float(steps_loss_up(law, size, 2)) == pytest.approx(mean, rel=3e-3)


def test_losses_are_those_of_balls():
    ball = steps([STEP], [1.0])
    assert float(steps_loss_up(ball, 3, 2)) == pytest.approx(3 / 5, rel=1e-5)
    assert float(steps_loss_up(ball, 1, 1)) == pytest.approx(1 / 2, rel=1e-5)
    assert float(steps_loss_up(ball, 3, 1)) == pytest.approx(3 * 3 / 8, rel=1e-5)


def test_steps_that_are_none_are_refused():
    for wrong in (
        replace(LAW, step=0),
        replace(LAW, radii=LAW.radii[::-1]),
        replace(LAW, radii=LAW.radii[:2]),
        replace(LAW, weights=LAW.weights + 1),
        replace(LAW, weights=np.array([TOTAL + 1, -1, 0, 0])),
        replace(LAW, radii=LAW.radii.astype(np.float64)),
        steps([10 + i for i in range(300)], [1.0] * 300),
    ):
        with pytest.raises(CertificateError):
            steps_delta_up(wrong, 3, 1.0)
        with pytest.raises(CertificateError):
            steps_loss_up(wrong, 3, 2)
    for epsilon in (-0.1, math.nan, 64.0):
        with pytest.raises(CertificateError):
            steps_delta_up(LAW, 3, epsilon)


@pytest.mark.parametrize("apart", [Fraction(1, 9), Fraction(1), Fraction(3), Fraction(40)])
def test_volumes_outside_of_a_ball(apart):
    from opendp_optimal.certify.balls import ball, precision
    from opendp_optimal.certify.steps import _Volume

    radii = [1, 2, 4, 7]
    with precision(128):
        for size in (1, 3):
            units = [ball(Fraction(r, 7) ** size) for r in radii]
            found = _Volume(size, radii, units, apart)
            x = (np.arange(200_000) + 0.5) / 200_000
            for near, one in enumerate(radii):
                assert float(found.outside(near, -1)) == pytest.approx((one / 7) ** size)
                for far, other in enumerate(radii):
                    along = one * (2 * x - 1)
                    if size == 1:
                        kept = (np.abs(along - float(apart)) > other).mean() * one / 7
                    else:  # discs across the line between the centres
                        mine = one**2 - along**2
                        theirs = np.maximum(other**2 - (along - float(apart)) ** 2, 0)
                        kept = np.maximum(mine - theirs, 0).mean() * 2 * one * 3 / 4 / 7**3
                    volume = float(found.outside(near, far))
                    assert volume >= kept * (1 - 1e-4) - 1e-6
                    if other + apart > one:
                        assert volume == pytest.approx(kept, rel=1e-4, abs=1e-5)


def test_the_least_and_the_largest_steps():
    many = steps([10 + i for i in range(256)], [1.0] * 256)
    one = np.array([TOTAL])
    two = np.array([TOTAL - 1, 1])
    top = (1 << 40) - 1
    for law, size in (
        (many, 1),
        (replace(LAW, step=1), 1),
        (replace(LAW, step=top), 1),
        (Steps(STEP, np.array([top - 1, top]), two), 1),
        (Steps(STEP, np.array([1, 2]), two), 1),
        (Steps(STEP, np.array([top]), one), 2048),
        (Steps(STEP, np.array([1, top]), two), 2048),
        (Steps(STEP, np.array([1]), one), 1),
    ):
        assert 0 <= steps_delta_up(law, size, 1.0) <= 1
        assert steps_loss_up(law, size, 1) > 0
    longer = steps([10 + i for i in range(257)], [1.0] * 257)
    for law, size in (
        (longer, 1),
        (replace(LAW, step=1 << 40), 1),
        (replace(LAW, step=0), 1),
        (replace(LAW, step=1024.0), 1),
        (Steps(STEP, np.array([top, top + 1]), two), 1),
        (Steps(STEP, np.array([0, 2]), two), 1),
        (Steps(STEP, np.array([7, 7]), two), 1),
        (Steps(STEP, np.array([7, 9]), np.array([TOTAL, 0])), 1),
        (Steps(STEP, np.array([7, 9]), np.array([TOTAL - 2, 1])), 1),
        (Steps(STEP, np.array([7, 9]), np.array([[TOTAL - 1, 1]])), 1),
        (Steps(STEP, np.array([7, 9], np.int32), two), 1),
        (Steps(STEP, np.zeros(0, np.int64), np.zeros(0, np.int64)), 1),
        (LAW, 0),
        (LAW, 2049),
        (LAW, 2.0),
    ):
        with pytest.raises(CertificateError, match="steps"):
            steps_delta_up(law, size, 1.0)
    for epsilon in (0.0, math.nextafter(64.0, 0)):
        assert 0 <= steps_delta_up(LAW, 1, epsilon) <= 1


def test_steps_are_proved_at_their_delta_to_the_last_digit():
    apart = steps([10, 20], [1.0, 1.0])  # ends within half a sensitivity
    prove_steps(apart, 3, 1.0, 1.0)
    assert steps_delta_up(apart, 3, 1.0) == 1
    spent = steps_delta_up(LAW, 3, 1.0)
    above = float(spent)
    above = above if Fraction(above) >= spent else math.nextafter(above, 1)
    prove_steps(LAW, 3, 1.0, above)
    with pytest.raises(CertificateError, match="more than delta"):
        prove_steps(LAW, 3, 1.0, math.nextafter(above, 0))


@pytest.mark.parametrize("power", [1, 2])
def test_losses_count_the_rounding_to_the_grid(power):
    coarse = Steps(1, np.array([2, 5]), np.array([TOTAL // 4, TOTAL - TOTAL // 4]))
    size, move = 3, 1 / 1024
    mean = (2**power + 3 * 5**power) / 4
    each = mean * size / (size + power) * (1 if power == 2 else 3 / 2)
    exact = each + size * move if power == 1 else (math.sqrt(each) + math.sqrt(size) * move) ** 2
    assert float(steps_loss_up(coarse, size, power)) == pytest.approx(exact, rel=1e-12)


def test_steps_are_equal_by_content():
    again = replace(LAW)
    assert again == LAW
    assert hash(LAW) == hash(again)
    assert replace(LAW, step=STEP + 1) != LAW
    assert replace(LAW, radii=LAW.radii + 1) != LAW
    assert replace(LAW, weights=LAW.weights[::-1]) != LAW
    assert replace(LAW, weights=LAW.weights.astype(np.float64)) != LAW
    assert LAW != 3

"""Radial noise: what is proved holds, by other means; what is wrong is not proved."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate

from opendp_optimal.certify.decay import Decay, decay_delta_up, decay_loss_up, prove_decay
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.radial import Staircase, prove_staircase, staircase_loss_up
from opendp_optimal.errors import CertificateError
from opendp_optimal.exact.numbers import float_down
from opendp_optimal.known.gaussian import gaussian_delta
from opendp_optimal.round.radial import rounded_staircase


def brute_delta(c: float, k: float, size: int, epsilon: float) -> float:
    """Delta of exp(-c r - k r^2) at distance 1 over the plane of the move and the length across."""
    norm = integrate.quad(lambda r: r ** (size - 1) * math.exp(-c * r - k * r * r), 0, 80)[0]
    spheres = math.exp(math.lgamma(size / 2) - math.lgamma((size - 1) / 2)) / math.sqrt(math.pi)
    x, y = np.linspace(-20, 20, 2001), np.linspace(0, 20, 1001)[1:] - 0.01
    along, across = np.meshgrid(x, y, indexing="ij")
    near, far = np.hypot(along, across), np.hypot(along - 1, across)
    density = np.exp(-c * near - k * near**2) - math.exp(epsilon) * np.exp(-c * far - k * far**2)
    lost = np.maximum(density, 0) * across ** (size - 2)
    return float(lost.sum()) * 4e-4 * spheres / norm


@pytest.mark.parametrize(
    ("c", "k", "size", "epsilon"),
    [(1.3, 0.0, 3, 1.0), (1.1, 0.02, 4, 1.0), (0.4, 0.2, 3, 0.5), (2.2, 0.1, 5, 2.0)],
)
def test_delta_of_a_decay_is_that_of_the_plane(c, k, size, epsilon):
    proved = float(decay_delta_up(Decay(c, k, 1 << 26), size, epsilon))
    assert proved == pytest.approx(brute_delta(c, k, size, epsilon), rel=8e-3)


@pytest.mark.parametrize("size", [2, 3, 40])
@pytest.mark.parametrize(("sigma", "epsilon"), [(1.0, 1.0), (0.4, 8.0), (4.2, 0.5)])
def test_delta_of_nearly_gaussian_noise_is_a_little_above_the_gaussian(size, sigma, epsilon):
    k = 0.5 / sigma**2
    true = gaussian_delta(sigma, epsilon)
    exact = float(decay_delta_up(Decay(0.0, k, 1 << 26), size, epsilon))
    general = float(decay_delta_up(Decay(1e-9, k, 1 << 26), size, epsilon))
    assert true * (1 - 1e-9) <= exact <= true * (1 + 1e-9)
    assert true * (1 - 1e-7) <= general <= true * 1.03


def test_a_shorter_move_is_that_of_wider_noise():
    law, wide = Decay(1.5, 0.05, 1 << 26), Decay(0.75, 0.0125, 1 << 25)
    short = decay_delta_up(law, 6, 1.0, Fraction(1, 2))
    assert short == decay_delta_up(wide, 6, 1.0)


def test_a_coarse_grid_costs_delta():
    spent = [decay_delta_up(Decay(1.2, 0.01, fine), 5, 1.0) for fine in (1 << 10, 1 << 16, 1 << 26)]
    assert spent[0] > spent[1] > spent[2]


def test_pure_decay_is_proved_by_its_rate():
    prove_decay(Decay(1.0, 0.0, 1 << 20), 5, 1.0, 0.0)
    for law in (Decay(1.0 + 2**-50, 0.0, 1 << 20), Decay(1.0, 1e-9, 1 << 20)):
        with pytest.raises(CertificateError):
            prove_decay(law, 5, 1.0, 0.0)


def test_decays_that_are_none_are_refused():
    for law in (Decay(-1.0, 0.0, 1 << 20), Decay(1.0, math.nan, 1 << 20), Decay(1.0, 0.0, 3)):
        with pytest.raises(CertificateError):
            decay_delta_up(law, 5, 1.0)
    with pytest.raises(CertificateError):
        decay_delta_up(Decay(1.0, 0.1, 1 << 20), 5, 0.0)


def density(law: Staircase, size: int, radius: float) -> float:
    """The density at a radius, up to a factor, from the list of balls and many of the tail."""
    beyond = law.tail * (1 - law.again / TOTAL) * (law.again / TOTAL) ** np.arange(4000.0)
    weights = np.concatenate([law.weights, beyond])
    ball = law.first + (law.start + np.arange(len(weights))) * float(law.step)
    return float((weights / ball**size)[ball >= radius].sum())


@pytest.mark.parametrize(("epsilon", "size"), [(1.0, 1), (1.0, 3), (4.0, 2), (0.7, 6)])
def test_a_staircase_falls_by_no_more_than_is_proved(epsilon, size):
    law = rounded_staircase(epsilon, size, 300, 1024)
    prove_staircase(law, size, epsilon)
    for place in range(1, law.end * 1024, 501):
        near, far = density(law, size, place), density(law, size, place + 1024)
        assert near <= math.exp(epsilon) * far * (1 + 1e-12)


def test_a_staircase_that_falls_faster_is_not_proved():
    law = rounded_staircase(1.0, 3, 300, 1024)
    with pytest.raises(CertificateError):
        prove_staircase(law, 3, float_down(Fraction(1) - Fraction(1, 1 << 30)))
    with pytest.raises(CertificateError):
        prove_staircase(law, 4, 1.0)
    weights = law.weights.copy()
    weights[3] += weights[3] >> 20
    for wrong in (
        replace(law, weights=weights, tail=TOTAL - int(weights.sum())),
        replace(law, again=law.again - (law.again >> 20)),
        replace(law, tail=law.tail - 1),
        replace(law, first=0),
        replace(law, first=2000),
    ):
        with pytest.raises(CertificateError):
            prove_staircase(wrong, 3, 1.0)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_whole_staircases_are_private_on_the_integers_by_brute_force(size):
    law = rounded_staircase(1.0, size, 3, 4)  # up to 1, 3, 5, ...: moves of up to 2
    prove_staircase(law, size, 1.0)
    widest = [density(law, size, 2 * r + 1) for r in range(12)]
    points = np.stack(np.meshgrid(*[range(-5, 6)] * size), -1).reshape(-1, size)
    moves = np.stack(np.meshgrid(*[range(-2, 3)] * size), -1).reshape(-1, size)
    limit = math.e * (1 + 1e-12)
    for move in moves:
        for one, other in zip(np.abs(points).max(1), np.abs(points + move).max(1), strict=True):
            assert widest[one] <= limit * widest[other]


def test_losses_are_those_of_closed_forms():
    law = rounded_staircase(1.0, 1, round(1024 / (1 + math.exp(0.5))), 1024)
    assert float(staircase_loss_up(law, "l2", 1, 1, whole=False)) == pytest.approx(
        math.exp(0.5) / (math.e - 1), rel=1e-5
    )
    for norm, square, absolute in (("l1", 2 * 4, 4.0), ("l2", 20.0, None), ("linf", 40.0, 10.0)):
        pure = Decay(1.0, 0.0, 1 << 30)
        assert float(decay_loss_up(pure, norm, 4, 2)) == pytest.approx(square, rel=1e-6)
        if absolute:
            assert float(decay_loss_up(pure, norm, 4, 1)) == pytest.approx(absolute, rel=1e-6)
    gauss = Decay(0.0, 0.125, 1 << 26)
    assert float(decay_loss_up(gauss, "l2", 7, 2)) == pytest.approx(28.0, rel=1e-6)
    each = 2 * math.sqrt(2 / math.pi)
    assert float(decay_loss_up(gauss, "l2", 7, 1)) == pytest.approx(7 * each, rel=1e-6)

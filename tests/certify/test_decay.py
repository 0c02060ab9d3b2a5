"""Decays: bounds against plain integrals from both sides, wherever a proof is told to look."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate

from opendp_optimal.certify import decay
from opendp_optimal.certify.decay import Decay, decay_delta_up, decay_loss_up, prove_decay
from opendp_optimal.certify.radial import MOST_SIZE, factor
from opendp_optimal.errors import CertificateError
from tests.certify.radial_integrals import plain_delta

FINE = 1 << 36


def mass(c: float, k: float, size: int, low: float = 0.0, high: float = 90.0, more: int = 0):
    at = lambda r: r ** (size - 1 + more) * math.exp(-c * r - k * r * r)  # noqa: E731
    cuts = [low, *(p for p in (4.0, 12.0, 30.0) if low < p < high), high]
    return sum(integrate.quad(at, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(cuts))


def tail(c: float, k: float, size: int, r: float) -> float:
    """Above the mass beyond r, by the rate at which it falls there."""
    value = r ** (size - 1) * math.exp(-c * r - k * r * r) / (c + 2 * k * r - (size - 1) / r)
    assert value >= mass(c, k, size, r)
    return value


def dense(c, k, size, epsilon, last):
    """Many cells, closest where they begin."""
    return (1 + (last - 1) * np.linspace(0, 1, 80)[1:-1] ** 2).tolist()


@pytest.mark.parametrize("fine", [256, 1000, FINE])
@pytest.mark.parametrize(("c", "size", "epsilon"), [(1.3, 3, 1.0), (2.5, 2, 2.0), (1.1, 6, 0.9)])
def test_the_grid_costs_what_noise_falls_within_a_step(c, size, epsilon, fine):
    slack = c / fine
    exact = math.exp(slack) * plain_delta(c, 0.0, size, epsilon - slack)
    found = float(decay_delta_up(Decay(c, 0.0, fine), size, epsilon))
    assert exact * (1 - 1e-7) <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("fine", [1 << 9, FINE])
@pytest.mark.parametrize("reach", [31])
@pytest.mark.parametrize(
    ("c", "k", "size", "epsilon"), [(1.1, 0.05, 4, 1.0), (0.4, 0.2, 2, 0.5), (1.6, 0.1, 3, 1.5)]
)
def test_many_cells_lose_hardly_anything(monkeypatch, c, k, size, epsilon, reach, fine):
    monkeypatch.setattr(decay, "far", lambda *_: reach)
    monkeypatch.setattr(decay, "edges", dense)
    slack = (c + k * (2 * reach + 1 / fine)) / fine
    exact = math.exp(slack) * plain_delta(c, k, size, epsilon - slack)
    found = float(decay_delta_up(Decay(c, k, fine), size, epsilon))
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-2)


@pytest.mark.parametrize("reach", [5, 9])
@pytest.mark.parametrize(("c", "k", "size"), [(1.9, 0.0, 3), (1.2, 0.1, 2), (1.0, 0.3, 4)])
def test_what_is_beyond_a_radius_counts_fully(monkeypatch, c, k, size, reach):
    monkeypatch.setattr(decay, "far", lambda *_: reach)
    monkeypatch.setattr(decay, "edges", dense)
    whole = mass(c, k, size, 0, reach)
    beyond = tail(c, k, size, reach - 1) / whole
    exact = plain_delta(c, k, size, 1.0)
    found = float(decay_delta_up(Decay(c, k, FINE), size, 1.0))
    # Neighbours that both are far out may be told apart, or not.
    lost = mass(c, k, size, reach - 0.5) / whole
    scale = mass(c, k, size) / whole
    assert found >= min(1, (exact * scale - lost + 2 * beyond) / (1 - beyond)) * (1 - 1e-6)
    assert found <= min(1, (exact * scale + 2 * beyond) / (1 - beyond)) * (1 + 1e-2)


def test_nothing_is_above_one(monkeypatch):
    assert decay_delta_up(Decay(0.0, 1e11, FINE), 1, 1.0) == 1
    assert decay_delta_up(Decay(40.0, 0.0, FINE), 2, 1e-3) <= 1
    monkeypatch.setattr(decay, "far", lambda *_: 4)
    assert decay_delta_up(Decay(1.3, 0.0, FINE), 3, 1.0) == 1


def test_hardly_any_delta_takes_no_time():
    started = time.process_time()
    found = decay_delta_up(Decay(0.0, 1.1e-9, FINE), 3, 1.0)  # about 2^-328,000,000
    assert found == Fraction(1, 1 << 2000)
    assert time.process_time() - started < 0.5


def test_a_tail_that_does_not_fall_is_not_bounded(monkeypatch):
    for reach, c in ((2, 1.3), (3, 1.0)):  # at 1 and at 2, noise of size 3 rises or is level
        monkeypatch.setattr(decay, "far", lambda *_, reach=reach: reach)
        with pytest.raises(CertificateError, match="tail"):
            decay_delta_up(Decay(c, 0.0, FINE), 3, 1.0)
    monkeypatch.setattr(decay, "far", lambda *_: 3)
    for c in (0.5, 1.0):
        with pytest.raises(CertificateError, match="tail"):
            decay_loss_up(Decay(c, 0.0, FINE), "l2", 3, 1)
    # It falls, but more of it is beyond than before.
    with pytest.raises(CertificateError, match="tail"):
        decay_delta_up(Decay(1.3, 0.0, FINE), 3, 1.0)


@pytest.mark.parametrize("fine", [256, FINE])
@pytest.mark.parametrize("reach", [9, 40])
@pytest.mark.parametrize(("c", "k", "size"), [(1.3, 0.0, 1), (1.4, 0.05, 3), (0.2, 0.3, 4)])
@pytest.mark.parametrize("power", [1, 2])
def test_losses_cost_the_grid_and_what_is_beyond(monkeypatch, c, k, size, power, reach, fine):
    monkeypatch.setattr(decay, "far", lambda *_: reach)
    whole = mass(c, k, size, 0, reach)
    beyond = tail(c, k, size + power, reach) / whole
    slack = (c + k * (2 * reach + 1 / fine)) / fine
    mean = mass(c, k, size, 0, reach, power) / whole + beyond
    mean *= math.exp(slack) / (1 - beyond) * float(factor("l2", size, power))
    expected = mean + size / fine
    if power == 2:
        expected = (math.sqrt(mean) + math.sqrt(size) / fine) ** 2
    found = float(decay_loss_up(Decay(c, k, fine), "l2", size, power))
    assert expected * (1 - 1e-9) <= found <= expected * (1 + 1e-8)
    true = mass(c, k, size, more=power) / mass(c, k, size) * float(factor("l2", size, power))
    assert true <= found * (1 + 1e-9)


@pytest.mark.parametrize("fine", [256, FINE])
def test_losses_of_gaussian_noise_are_those_of_its_coordinates(fine):
    law, size = Decay(0.0, 0.3, fine), 4
    each = math.sqrt(1 / 0.6)
    mean, square = size * each * math.sqrt(2 / math.pi), size * each**2
    moved = (math.sqrt(square) + math.sqrt(size) / fine) ** 2
    for power, expected in ((1, mean + size / fine), (2, moved)):
        found = float(decay_loss_up(law, "l2", size, power))
        assert expected * (1 - 1e-12) <= found <= expected * (1 + 1e-12)


@pytest.mark.parametrize("distance", [Fraction(1), Fraction(1, 3)])
def test_gaussian_noise_of_another_distance(distance):
    k, epsilon = 0.7, 1.5
    mu = math.sqrt(2 * k) * float(distance)
    normal = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    exact = normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)
    found = float(decay_delta_up(Decay(0.0, k, 256), 3, epsilon, distance))
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-12)


def test_the_least_and_the_largest_that_are_taken():
    assert decay.LEAST_GRID == 256
    assert MOST_SIZE == 1 << 20
    gauss = Decay(0.0, 1.0, 256)
    value = decay_delta_up(gauss, 1, 1.0)
    for law, size in (
        (replace(gauss, fine=(1 << 40) - 1), 1),
        (gauss, MOST_SIZE),
        (replace(gauss, k=math.nextafter(1e12, 0)), 1),
        (replace(gauss, k=math.nextafter(1e-9, 1)), 1),
    ):
        epsilon = 1.0 if law.k > 1e-6 else 1e-6  # where a delta is not absurdly small
        found = decay_delta_up(law, size, epsilon)
        assert 0 < found <= 1
        assert found == value or law.k != 1.0
    for law, size in (
        (replace(gauss, fine=255), 1), (replace(gauss, fine=1 << 40), 1), (gauss, MOST_SIZE + 1),
        (gauss, 0), (replace(gauss, k=1e12), 1), (replace(gauss, k=1e-9), 1),
        (replace(gauss, k=math.nan), 1), (replace(gauss, k=-0.5, c=1.0), 1),
    ):  # fmt: skip
        with pytest.raises(CertificateError, match="decay"):
            decay_delta_up(law, size, 1.0)
    steep = Decay(math.nextafter(1e6, 0), 0.0, (1 << 40) - 1)
    assert float(decay_loss_up(steep, "l2", 1, 1)) == pytest.approx(1e-6, rel=1e-3)
    with pytest.raises(CertificateError, match="decay"):
        decay_loss_up(replace(steep, c=1e6), "l2", 1, 1)
    for epsilon in (5e-324, math.nextafter(64.0, 0)):
        assert 0 <= decay_delta_up(gauss, 1, epsilon) <= 1
    for epsilon in (0.0, -1.0, 64.0, math.nan):
        with pytest.raises(CertificateError, match="epsilon"):
            decay_delta_up(gauss, 1, epsilon)
    # On the line only Gaussian noise and what is private without delta are proved.
    with pytest.raises(CertificateError, match="length 2"):
        decay_delta_up(Decay(1.0, 1.0, 256), 1, 1.0)
    assert decay_delta_up(Decay(1.0, 0.0, FINE), 2, 0.9) > 0


def test_a_grid_that_is_too_coarse_for_epsilon_is_refused():
    # All of epsilon 1 / 4 and no more, at the least grid.
    with pytest.raises(CertificateError, match="coarse"):
        decay_delta_up(Decay(64.0, 0.0, 256), 2, 0.25)
    assert decay_delta_up(Decay(63.0, 0.0, 256), 2, 0.25) <= 1


def test_what_is_proved_is_its_delta_to_the_last_digit():
    for law, size in ((Decay(1.3, 0.0, FINE), 3), (Decay(0.0, 0.7, FINE), 2)):
        spent = decay_delta_up(law, size, 1.0)
        above = float(spent)
        above = above if Fraction(above) >= spent else math.nextafter(above, 1)
        prove_decay(law, size, 1.0, above)
        with pytest.raises(CertificateError, match="spends more"):
            prove_decay(law, size, 1.0, math.nextafter(above, 0))
    assert decay_delta_up(Decay(0.0, 1e11, FINE), 1, 1.0) == 1
    prove_decay(Decay(0.0, 1e11, FINE), 1, 1.0, 1.0)  # all of a delta is enough


def test_without_delta_only_the_pure_decay_is_proved():
    prove_decay(Decay(1.0, 0.0, 256), 1, 1.0, 0.0)
    prove_decay(Decay(1.0, 0.0, 256), 1, 70.0, 0.0)
    for law in (
        Decay(math.nextafter(1.0, 2), 0.0, FINE), Decay(0.5, 1e-12, FINE), Decay(0.0, 0.01, FINE),
        Decay(0.5, 1.0, FINE),
    ):  # fmt: skip
        with pytest.raises(CertificateError):
            prove_decay(law, 2, 1.0, 0.0)

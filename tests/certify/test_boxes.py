"""Boxes that reach farther in some coordinates: private, drawn and priced as it is said."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from opendp_optimal import CertificateError, RadialTable, solve_radial
from opendp_optimal.certify.noise import TOTAL
from opendp_optimal.certify.radial import Staircase, prove_staircase, staircase_loss_up
from opendp_optimal.round.radial import rounded_staircase
from opendp_optimal.search.radial import even_weights
from opendp_optimal.table.files.radial import KIND

BALLS = 60


def chances(law: Staircase) -> list[Fraction]:
    """Of the balls from the first on; all that are left out are beyond."""
    again = Fraction(law.again, TOTAL)
    listed = [Fraction(int(w), TOTAL) for w in law.weights]
    beyond = [Fraction(law.tail, TOTAL) * (1 - again) * again**j for j in range(BALLS)]
    return [Fraction(0)] * law.start + listed + beyond


def density(law: Staircase, reach: int) -> np.ndarray:
    """By the definition, at integers up to a reach: of all boxes that a point lies in."""
    axes = np.meshgrid(*[np.arange(-reach, reach + 1)] * len(law.offsets), indexing="ij")
    total = np.zeros(axes[0].shape)
    for j, chance in enumerate(chances(law)):
        widths = [law.first + j * law.step + offset for offset in law.offsets]
        inside = [2 * np.abs(z) < width for z, width in zip(axes, widths, strict=True)]
        total += float(chance / math.prod(widths)) * np.logical_and.reduce(inside)
    return total


@pytest.mark.parametrize("offsets", [(0, 2), (4, 0), (0, 2, 6)])
def test_boxes_are_private_on_the_integers_by_brute_force(offsets):
    law = rounded_staircase(1.0, len(offsets), 1, 4, offsets)  # moves of up to 2
    prove_staircase(law, len(offsets), 1.0)
    reach = 9
    here = density(law, reach)
    middle = (slice(2, -2),) * len(offsets)
    worst = [
        np.max(here[middle] / np.roll(here, move, axis=range(len(offsets)))[middle])
        for move in itertools.product((-2, -1, 0, 1, 2), repeat=len(offsets))
    ]
    assert math.e * 0.999 < max(worst) <= math.e * (1 + 1e-9)


def test_other_offsets_need_their_own_proof():
    law = rounded_staircase(1.0, 3, 300, 1024, (0, 900, 900))
    prove_staircase(law, 3, 1.0)
    for wrong in (
        replace(law, offsets=(0, 900, 800)),  # volumes grow faster
        replace(law, offsets=()),
        replace(law, offsets=(0, 900)),
        replace(law, offsets=(-1, 900, 900)),
        replace(law, offsets=(0, 900.0, 900)),
        replace(law, offsets=(0, 1 << 40, 900)),
    ):
        with pytest.raises(CertificateError):
            prove_staircase(wrong, 3, 1.0)
    with pytest.raises(CertificateError, match="falls by more"):
        prove_staircase(law, 3, 1.0 - 2.0**-30)


@pytest.mark.parametrize("power", [1, 2])
def test_losses_are_sums(power):
    law = rounded_staircase(2.0, 3, 3, 8, (0, 4, 4))
    weights = (3.0, 1.0, 0.5)
    real = whole = 0.0
    for j, chance in enumerate(chances(law)):
        for offset, weight in zip(law.offsets, weights, strict=True):
            side = law.first + j * law.step + offset
            real += float(chance) * weight * (side / law.step) ** power / (power + 1)
            places = range(-(side // 2), side // 2 + 1)
            whole += float(chance) * weight * sum(abs(z) ** power for z in places) / side
    asked = {"norm": "linf", "size": 3, "power": power, "weights": weights}
    found = float(staircase_loss_up(law, **asked, whole=False))
    assert real * (1 - 1e-9) <= found <= real * (1 + 2e-3)
    found = float(staircase_loss_up(law, **asked, whole=True))
    assert whole * (1 - 1e-9) <= found <= whole * (1 + (1e-9 if power == 2 else 0.05))


def table(**asked) -> RadialTable:
    return solve_radial(1.0, 0.0, norm="linf", loss="l2", cache=False, **asked)


@pytest.mark.parametrize("columns", [1, 2, 4, 9, 15, 64])
def test_several_means_gain_by_a_count_that_weighs_more(columns):
    """The count's noise is in all means: a third as much as a doubled sum's for each."""
    weights = (columns / 3, *[1.0] * columns)
    box, cube = table(size=columns + 1, weights=weights), table(size=columns + 1)
    box.verify()
    before = cube.upper * sum(weights) / (columns + 1)
    gained = {1: 0.956, 2: 0.994, 4: 0.997, 9: 0.9586, 15: 0.9227, 64: 0.8322}
    assert box.upper < gained[columns] * before
    count, *sums = box.losses()
    assert len(set(sums)) == 1
    assert count * columns / 3 + sum(sums) == pytest.approx(box.upper, rel=1e-7)


@pytest.mark.parametrize("whole", [None, 1, 7])
def test_draws_have_the_law_and_the_loss_of_each_coordinate(whole):
    found = table(size=4, weights=(8.0, 1.0, 1.0, 0.25), integer_sensitivity=whole)
    assert len(set(found.law.offsets)) == 3
    drawn = found.sample(40_000)
    for at in range(4):
        square = drawn[:, at].astype(float) ** 2
        error = square.std() / math.sqrt(len(square))
        assert abs(square.mean() - found.losses()[at]) < 5 * error + 1e-9
        law = found.coordinate(at=at)
        for place in np.quantile(drawn[:, at], [0.05, 0.4, 0.8]):
            assert abs((drawn[:, at] <= place).mean() - law.cdf([place])[0]) < 0.02
        assert (drawn[:, at] <= found.quantile(0.9)).mean() > 0.89
    if whole is None:
        return
    assert np.abs(drawn).max() > 2 * whole
    assert all(offset % 2 == 0 for offset in found.law.offsets)
    uneven = replace(found.law, offsets=tuple(o + (o > 0) for o in found.law.offsets))
    with pytest.raises(CertificateError):
        replace(found, law=uneven).verify()


def test_parts_keep_their_norms():
    found = table(size=4, weights=(1.0, 0.1, 0.1, 0.1))
    drawn = found.draw_parts([("linf", 1), ("l1", 3)], 20_000)
    whole = found.draw(20_000)
    radius = np.quantile(np.abs(drawn[:, 1:]).sum(1), 0.9)
    assert np.quantile(np.abs(whole[:, 1:]).sum(1), 0.9) > 1.3 * radius
    with pytest.raises(ValueError, match="same offset"):
        found.draw_parts([("l2", 2), ("l1", 2)], 1)


def test_files_and_problems():
    weighed, plain = table(size=3, weights=[2.0, 1.0, 1.0]), table(size=3)
    assert KIND.decode(KIND.encode(weighed)) == weighed
    header, arrays = KIND.parts(plain)
    assert header["version"] == 1
    assert "weights" not in header["problem"]
    assert set(arrays) == {"weights"}
    assert KIND.parts(weighed)[0]["version"] == 3
    assert table(size=3, weights=[1.0] * 3) == plain
    assert weighed.mean_loss("l2") == weighed.upper
    for wrong in ([1.0], [1.0, 0.0, 1.0], [1.0, math.nan, 1.0], [1.0, 1e13, 1.0], 3):
        with pytest.raises((ValueError, TypeError), match=r"weights|iterable"):
            table(size=3, weights=wrong)
    with pytest.raises(ValueError, match="weights"):
        solve_radial(1.0, 0.0, 2, norm="l2", weights=[1.0, 2.0], cache=False)
    forged = replace(weighed, problem=replace(weighed.problem, norm="l1", weights=None))
    with pytest.raises(CertificateError, match="linf only"):
        forged.verify()


def test_decays_weigh_too():
    small = solve_radial(1e-3, 0.0, 40, norm="linf", weights=[20.0] + [1.0] * 39, cache=False)
    assert small.shape == "decay"
    assert small.upper == pytest.approx(59 * small.losses()[0], rel=1e-9)


def test_weights_that_hardly_differ_are_the_same():
    assert even_weights([3.0, 3.0 + 1e-9]) is None
    assert even_weights([0.0, 1.0]) == (1e-9, 1.0)

"""Integrals of losses: exact for the named ones, never below for a user's own."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendp_optimal.losses.base import Loss, loss_of

LOSSES = ["l1", "l2", "pinball:0.8"]
OWN = [Loss(lambda x: abs(x) ** 1.5, "convex"), Loss(lambda x: abs(x) ** 0.5, "monotone")]
places = st.fractions(-5, 5, max_denominator=64)
lengths = st.fractions(Fraction(1, 64), 3, max_denominator=64)


def plainly(loss, z, h, weigh):
    """The integral of weigh(s) c(z - s h), by the midpoint rule."""
    s = (np.arange(800) + 0.5) / 800
    return float(np.mean([weigh(t) * loss(float(z) - t * float(h)) for t in s]))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=40)
@given(z=places, h=lengths)
def test_named_losses_are_integrated_exactly(name, z, h):
    loss = loss_of(name)
    falling, rising = loss.halves(z, h)
    assert float(falling) == pytest.approx(plainly(loss, z, h, lambda s: 1 - s), abs=2e-4)
    assert float(rising) == pytest.approx(plainly(loss, z, h, lambda s: s), abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("loss", OWN, ids=lambda loss: loss.name)
@settings(max_examples=40)
@given(z=places, h=lengths)
def test_a_users_loss_is_never_underestimated(loss, z, h):
    falling, rising = loss.halves(z, h)
    assert float(falling) >= plainly(loss, z, h, lambda s: 1 - s) - 1e-4
    assert float(rising) >= plainly(loss, z, h, lambda s: s) - 1e-4
    for s in (0.0, 0.1, 0.37, 0.5, 0.93):
        piece = next(p for p in loss.pieces(z, h) if p.start <= s < p.end)
        assert float(piece.value(Fraction(s))) >= loss(float(z) - s * float(h)) - 1e-9


@settings(max_examples=40)
@given(z=places, h=lengths)
def test_the_two_halves_of_a_mirrored_loss_change_places(z, h):
    loss, mirrored = loss_of("pinball:0.75"), loss_of("pinball:0.25")
    assert loss.halves(z, h) == mirrored.halves(h - z, h)[::-1]
